"""Simple swaps suffice: they connect all files with the same margins, if and only if the model is decomposable (Dobra 2000, 2003)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, combinations_with_replacement, product

import pytest

Record = tuple[int, ...]
File = tuple[Record, ...]


def margins(file: Sequence[Record], cliques: Sequence[tuple[int, ...]]) -> tuple[frozenset[tuple[Record, int]], ...]:
    return tuple(frozenset(Counter(tuple(r[v] for v in clique) for r in file).items()) for clique in cliques)


def fibres(n_records: int, levels: tuple[int, ...], cliques: Sequence[tuple[int, ...]]) -> list[list[File]]:
    """Every file of this size, by its margins."""
    cells = list(product(*(range(n) for n in levels)))
    by_margins: dict[object, list[File]] = {}
    for file in combinations_with_replacement(cells, n_records):
        by_margins.setdefault(margins(file, cliques), []).append(file)
    return [files for files in by_margins.values() if len(files) > 1]


def swapped(file: File, cliques: Sequence[tuple[int, ...]]) -> Iterator[File]:
    """Files that one exchange between two records leads to, with the same margins."""
    before, n_keys = margins(file, cliques), len(file[0])
    for (i, first), (j, second) in combinations(enumerate(file), 2):
        for moved in product((False, True), repeat=n_keys):
            new_first = tuple(b if m else a for a, b, m in zip(first, second, moved, strict=True))
            new_second = tuple(a if m else b for a, b, m in zip(first, second, moved, strict=True))
            rest = [r for k, r in enumerate(file) if k not in (i, j)]
            after = tuple(sorted([*rest, new_first, new_second]))
            if margins(after, cliques) == before:
                yield after


def is_connected(files: list[File], cliques: Sequence[tuple[int, ...]]) -> bool:
    reached, border = {files[0]}, [files[0]]
    while border:
        for after in swapped(border.pop(), cliques):
            if after not in reached:
                reached.add(after)
                border.append(after)
    return reached == set(files)


@pytest.mark.parametrize(
    ("levels", "cliques"),
    [
        ((3, 3), [(0,), (1,)]),
        ((2, 2, 2), [(0, 1), (1, 2)]),
        ((3, 2, 2), [(0, 1), (2,)]),
        ((2, 2, 2, 2), [(0, 1), (1, 2), (2, 3)]),
        ((2, 2, 2, 2), [(0, 1, 2), (1, 2, 3)]),
    ],
)
def test_swaps_connect_all_files_with_the_margins_of_a_decomposable_model(
    levels: tuple[int, ...], cliques: list[tuple[int, ...]]
) -> None:
    files = fibres(3 if len(levels) > 3 else 4, levels, cliques)
    assert files
    assert all(is_connected(fibre, cliques) for fibre in files)


def test_swaps_of_two_records_are_not_enough_for_all_pairs_of_three_keys() -> None:
    cliques = [(0, 1), (1, 2), (0, 2)]
    assert any(not is_connected(fibre, cliques) for fibre in fibres(4, (2, 2, 2), cliques))
