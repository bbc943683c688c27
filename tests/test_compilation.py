"""Who watches is told of a compilation, and of nothing that comes from the cache."""

from __future__ import annotations

from numba import njit

from rarecell._kernels.compilation import when_compiling


def test_the_first_compilation_is_told_once_and_the_cache_is_not() -> None:
    @njit
    def one_more(number):  # type: ignore[no-untyped-def]
        return number + 1

    told: list[str] = []
    with when_compiling(lambda: told.append("compiling")):
        assert one_more(1) == 2
        assert one_more(1.5) == 2.5
    assert told == ["compiling"]
    with when_compiling(lambda: told.append("again")):
        one_more(2)
    assert told == ["compiling"]
