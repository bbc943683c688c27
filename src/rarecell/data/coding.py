"""How do the values of a key become the levels of a table?

Levels are the observed values, sorted, with missing last. A :class:`Coding` changes that for one key: a declared list
of levels, bins of numbers, one level for all values above or below a bound, or further values that mean "missing". A
level that is declared but not observed is left out, so that it cannot change a model. Codes are worked out from the
distinct values of the column, never record by record.
"""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from rarecell.data.levels import MISSING_WORDS, RawLevels
from rarecell.errors import BadInput, nearest_names
from rarecell.outcome.words import between

if TYPE_CHECKING:
    from rarecell.edges import Level, ReadJson

Missing = Literal["level", "drop", "refuse"]

DATE_PARTS = ("month", "quarter", "year")
"""What may be left of a date."""


@dataclass(frozen=True)
class Coding:
    """How the values of one key become levels.

    Parameters
    ----------
    levels : tuple of level, optional
        Every value that the key may take, in order; any other value in the data is an error.
    ordered : bool, optional
        Whether neighbouring levels are alike, so that bands of them make sense. The default is True for numbers, dates,
        bins and declared levels, and False for other text.
    edges : tuple of float, optional
        Bounds of bins, ascending. Each bin includes its lower bound but not its upper; the outer bins are open.
    width : float, optional
        Width of bins, which begin at multiples of it.
    quantiles : int, optional
        Number of bins that hold about equal numbers of records.
    top, bottom : float, optional
        Values of ``top`` and above, and of ``bottom`` and below, become one level each.
    merge : mapping of str to tuple of level, optional
        For each new level, the values that become it; other values stay as they are.
    groups : int, optional
        Number of groups to put the levels into: those that are alike in the other columns of the file.
    hierarchy : int, optional
        Column of the key's hierarchy whose groups the levels are put into; 1 is the first after the levels.
    date : str, optional
        What is left of a date: ``"month"``, ``"quarter"`` or ``"year"``.
    first : int, optional
        Number of characters at the beginning of a code that are left of it: 3 makes 123 of the postcode 12345.
    missing : tuple of level
        Values that mean "missing", such as 99.
    """

    levels: tuple[Level, ...] | None = None
    ordered: bool | None = None
    edges: tuple[float, ...] | None = None
    width: float | None = None
    quantiles: int | None = None
    top: float | None = None
    bottom: float | None = None
    merge: Mapping[str, tuple[Level, ...]] | None = None
    groups: int | None = None
    hierarchy: int | None = None
    date: str | None = None
    first: int | None = None
    missing: tuple[Level, ...] = ()

    def __post_init__(self) -> None:
        for name in ("levels", "edges", "missing"):
            value = getattr(self, name)
            if value is not None or name == "missing":
                if isinstance(value, str) or not isinstance(value, Sequence):
                    raise BadInput(f"'{name}' of a coding was given as {value!r}; it must be a list.")
                object.__setattr__(self, name, tuple(value))
        for ways in (
            ("levels", "edges", "width", "quantiles", "merge", "date", "first"),
            ("edges", "width", "quantiles", "merge", "groups", "hierarchy", "date", "first"),
        ):
            given = [name for name in ways if getattr(self, name) is not None]
            if len(given) > 1:
                raise BadInput(f"A coding was given {' and '.join(given)}; choose one way of making levels.")
        if self.merge is not None:
            object.__setattr__(self, "merge", _checked_merge(self.merge))
        for name, least in (("quantiles", 2), ("groups", 2), ("hierarchy", 1), ("first", 1)):
            number = getattr(self, name)
            if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < least):
                raise BadInput(f"'{name}' of a coding was given as {number!r}; it must be a whole number of {least} or more.")
        if (self.top is not None or self.bottom is not None) and (
            self.levels or self.edges or self.merge or self.date or self.first
        ):
            raise BadInput(
                "A coding was given a top or bottom together with levels, edges, merged values, dates or first characters. Declared levels need no bounds, and the "
                "outer bins of edges are open already: leave out top and bottom."
            )
        if self.levels is not None and len({str(level) for level in self.levels}) != len(self.levels):
            raise BadInput("A coding lists a level twice; each level is given once.")
        if self.date is not None and self.date not in DATE_PARTS:
            raise BadInput(f"'date' of a coding was given as {self.date!r}; it must be one of {', '.join(DATE_PARTS)}.")
        for name in ("width", "top", "bottom"):
            value = getattr(self, name)
            if value is not None and not _is_finite_number(value):
                raise BadInput(f"'{name}' of a coding was given as {value!r}; it must be a number.")
        if self.width is not None and self.width <= 0:
            raise BadInput(f"The width of bins was given as {self.width}; it must be above 0.")
        if self.edges is not None:
            if not self.edges or not all(_is_finite_number(edge) for edge in self.edges):
                raise BadInput(f"The edges of bins were given as {list(self.edges)}; they must be one or more numbers.")
            if any(upper <= lower for lower, upper in zip(self.edges, self.edges[1:], strict=False)):
                raise BadInput(f"The edges of bins were given as {list(self.edges)}; each must be larger than the one before.")
        if self.top is not None and self.bottom is not None and self.bottom >= self.top:
            raise BadInput(f"A coding was given bottom {self.bottom} and top {self.top}; the bottom must be below the top.")

    @classmethod
    def of(cls, given: Coding | ReadJson | str, *, key: str) -> Coding:
        """Make a coding from a coding, a table of options, or words such as ``"5-year bands"``."""
        if isinstance(given, Coding):
            return given
        if isinstance(given, str):
            from rarecell.data.recoding_text import parse_recoding

            return parse_recoding(given, key=key)
        if not isinstance(given, Mapping):
            raise BadInput(f"The coding of key '{key}' was given as {given!r}; it must be a table of options such as width = 5.")
        known = [part.name for part in fields(cls)]
        for name in given:
            if name not in known:
                near = nearest_names(str(name), known, limit=1)
                hint = f" Did you mean '{near[0]}'?" if near else ""
                raise BadInput(f"The coding of key '{key}' has no option '{name}'.{hint} It takes {', '.join(known)}.")
        try:
            return cls(**given)
        except BadInput as problem:
            raise BadInput(f"Key '{key}': {problem}") from None

    @property
    def is_binned(self) -> bool:
        return self.edges is not None or self.width is not None or self.quantiles is not None

    @property
    def groups_levels(self) -> bool:
        """Whether the levels are put into groups after counting."""
        return self.groups is not None or self.hierarchy is not None

    @property
    def changes_values(self) -> bool:
        """Whether a value may be released as something other than itself."""
        return self.cuts_values or self.groups_levels or bool(self.merge) or bool(self.missing)

    @property
    def as_read(self) -> Coding:
        """The part that says what values mean, without what makes them coarser."""
        return Coding(levels=self.levels, ordered=self.ordered, missing=self.missing)

    def in_words(self) -> str:
        """Describe what is done with the values, in the words of the recoding option."""
        from rarecell.data.recoding_text import words_of

        return words_of(self)

    def joined(self, other: Coding) -> Coding:
        """Combine the options of both codings; contradictory options are refused."""
        given = {part.name: getattr(other, part.name) for part in fields(other) if getattr(other, part.name) not in (None, ())}
        return replace(self, **given)

    @property
    def makes_levels(self) -> bool:
        """Whether the levels were declared or made from numbers or dates, so that their order is known."""
        return self.levels is not None or self.bounds_numbers or self.date is not None

    @property
    def bounds_numbers(self) -> bool:
        return self.is_binned or self.top is not None or self.bottom is not None

    @property
    def cuts_values(self) -> bool:
        """Whether each value becomes a level by itself, numbers as bands or dates as months, whatever other values there are."""
        return self.bounds_numbers or self.date is not None or self.first is not None


def joined_codings(
    coding: Mapping[str, Coding | ReadJson | str], recode: Mapping[str, str]
) -> dict[str, Coding | ReadJson | str]:
    """Combine how values become levels with how the levels are to be released."""
    codings: dict[str, Coding | ReadJson | str] = dict(coding)
    for key, words in recode.items():
        try:
            codings[key] = Coding.of(coding.get(key, Coding()), key=key).joined(Coding.of(words, key=key))
        except BadInput as problem:
            raise problem if f"'{key}'" in str(problem) else BadInput(f"Key '{key}': {problem}") from None
    return codings


@dataclass(frozen=True, eq=False)
class CodedLevels:
    """The levels of a key, and the code of each distinct value; -1 drops the records that have that value."""

    levels: tuple[Level, ...]
    is_ordered: bool
    code_of_value: NDArray[np.int32]
    n_missing: int


def code_levels(
    key: str,
    raw: RawLevels,
    counts: NDArray[np.int64],
    coding: Coding,
    *,
    missing: Missing = "level",
    level_order: Sequence[Level] | None = None,
) -> CodedLevels:
    """Give each distinct value of a key its level.

    Parameters
    ----------
    raw : RawLevels
        The distinct values of the column.
    counts : ndarray of int64
        How many records have each value.
    level_order : sequence of level, optional
        The order of values that the source itself declares.
    """
    declared_missing = {str(value) for value in coding.missing}
    values = [None if value is None or str(value) in declared_missing else value for value in raw.values]
    n_missing = sum(int(count) for value, count in zip(values, counts, strict=True) if value is None)
    observed = [value for value, count in zip(values, counts, strict=True) if value is not None and count]
    is_ordered = raw.is_ordered
    if coding.bounds_numbers:
        level_of_value, levels = _bounded(key, values, counts, coding, raw.is_numeric)
        is_ordered = True
    elif coding.date is not None:
        level_of_value = {value: coarse_date(value, key, coding.date) for value in observed}
        levels = sorted(set(level_of_value.values()))
        is_ordered = True
    elif coding.first is not None:
        level_of_value = dict(zip(observed, leading(observed, coding.first), strict=True))
        levels = sorted(set(level_of_value.values()))
        is_ordered = False
    elif coding.merge is not None:
        level_of_value, levels, stays_ordered = _merged(key, observed, coding.merge, level_order)
        is_ordered = is_ordered and stays_ordered
    elif coding.levels is not None:
        level_of_value, levels = _declared(key, observed, coding.levels)
        is_ordered = True
    else:
        level_of_value = {value: value for value in observed}
        order = [value for value in level_order or () if value in level_of_value]
        levels = order if len(order) == len(level_of_value) else sorted(level_of_value)
        is_ordered = is_ordered or (level_order is not None and len(order) == len(level_of_value))
    if coding.ordered is not None:
        is_ordered = coding.ordered

    code_of_level = {level: code for code, level in enumerate(levels)}
    missing_code = len(levels) if missing == "level" else -1
    codes = [
        missing_code if value is None else code_of_level[level_of_value[value]] if count else -1
        for value, count in zip(values, counts, strict=True)
    ]
    if n_missing and missing == "level":
        levels = [*levels, None]
    return CodedLevels(tuple(levels), is_ordered, np.array(codes, dtype=np.int32), n_missing)


_ISO = re.compile(r"(\d{4})-(\d{2})-\d{2}.*", re.DOTALL)
_DOTTED = re.compile(r"\d{1,2}([./])(\d{1,2})[./](\d{4})")


def coarse_date(value: object, name: str, part: str) -> str:
    """A date without its day: 2021-03, 2021-Q1 or 2021. Text is read as 2021-03-28 or, day first, as 28.3.2021.

    Examples
    --------
    >>> [coarse_date("28.3.2021", "birth", part) for part in DATE_PARTS]
    ['2021-03', '2021-Q1', '2021']
    """
    iso, dotted = _ISO.fullmatch(str(value).strip()), _DOTTED.fullmatch(str(value).strip())
    year, month = (iso[1], iso[2]) if iso is not None else (dotted[3], dotted[2].zfill(2)) if dotted is not None else ("", "")
    if not month or not 1 <= int(month) <= 12:
        raise BadInput(f"Column '{name}' is to be cut to the {part}, but it holds values that are no dates, such as {value!r}.")
    return {"month": f"{year}-{month}", "quarter": f"{year}-Q{(int(month) + 2) // 3}", "year": year}[part]


_CODE = re.compile(r"[A-Za-z]{0,3}[0-9][0-9A-Za-z./ -]{0,12}")
_NUMBER = re.compile(r"[-+]?[0-9]+([.,][0-9]+)?")

LEAST_CODES = 20
"""A column with fewer values is not taken for one of codes."""


def leading(values: Sequence[Level], n_characters: int) -> list[str]:
    """The first characters of each value; whole numbers get back the zeros that codes such as 01234 lose when read as numbers.

    Examples
    --------
    >>> leading(["E11.9", "I10"], 3), leading([1234, 99501], 2)
    (['E11', 'I10'], ['01', '99'])
    """
    texts = [str(value) for value in values]
    if all(text.isdigit() for text in texts):
        longest = max(map(len, texts), default=0)
        texts = [text.zfill(longest) for text in texts]
    return [text[:n_characters].rstrip(" ./-") or text[:n_characters] for text in texts]


def code_lengths(values: Sequence[Level]) -> tuple[int, ...]:
    """Numbers of leading characters that make larger groups of codes, such as postcodes, diagnoses or occupations; longest first.

    Empty where the values do not look like codes; numbers do only if all have the same number of digits, at least four, and are not years.
    Each length has at most half as many groups as the one before.

    Examples
    --------
    >>> code_lengths([f"{area}{place:02d}" for area in range(10, 20) for place in range(30)])
    (3, 2)
    >>> code_lengths(["red", "green", "blue"]), code_lengths([60 + k / 10 for k in range(300)])
    ((), ())
    """
    texts = [str(value).removesuffix(".0") for value in values]
    if len(texts) < LEAST_CODES or sum(1 for text in texts if _CODE.fullmatch(text)) < 0.95 * len(texts):
        return ()
    if all(_NUMBER.fullmatch(text) for text in texts) and not all(text.isdigit() for text in texts):
        return ()
    if all(text.isdigit() for text in texts) and (
        len(texts[0]) < 4 or len(set(map(len, texts))) > 1 or all(1800 <= int(text) <= 2100 for text in texts)
    ):
        return ()
    lengths, fewest = [], len(texts)
    for length in range(max(map(len, texts)) - 1, 0, -1):
        n_groups = len(set(leading(values, length)))
        if 2 <= n_groups <= fewest / 2:
            lengths.append(length)
            fewest = n_groups
    return tuple(lengths)


def _declared(key: str, observed: Sequence[Level], declared: Sequence[Level]) -> tuple[dict[Level, Level], list[Level]]:
    """Match observed values to the declared levels by their text, so that ``1`` and ``"1"`` are the same."""
    by_text = {str(level): position for position, level in enumerate(declared)}
    strangers = sorted({str(value) for value in observed if str(value) not in by_text})
    if strangers:
        more = f" and {len(strangers) - 1} more" if len(strangers) > 1 else ""
        raise BadInput(
            f"Key '{key}' has the value '{strangers[0]}'{more}, which is not among its {len(declared)} declared levels. Add it to "
            "the levels, name it as missing, or correct the data."
        )
    in_order = sorted(set(observed), key=lambda value: by_text[str(value)])
    return {value: value for value in in_order}, in_order


def _checked_merge(merge: Any) -> dict[str, tuple[Level, ...]]:
    if not isinstance(merge, Mapping) or not merge:
        raise BadInput(f"'merge' of a coding was given as {merge!r}; it must be a table of new levels with the values of each.")
    merged: dict[str, tuple[Level, ...]] = {}
    seen: set[str] = set()
    for label, values in merge.items():
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise BadInput(f"The values to be merged as '{label}' were given as {values!r}; they must be a list of one or more.")
        if not str(label).strip() or str(label) in MISSING_WORDS:
            raise BadInput(f"The name '{label}' of merged values would be read as missing. Give it another name.")
        twice = sorted(seen & {str(value) for value in values})
        if twice:
            raise BadInput(f"The value '{twice[0]}' is merged into two levels; each value belongs to one.")
        seen |= {str(value) for value in values}
        merged[str(label)] = tuple(values)
    return merged


def _merged(
    key: str, observed: Sequence[Level], merge: Mapping[str, Sequence[Level]], level_order: Sequence[Level] | None
) -> tuple[dict[Level, Level], list[Level], bool]:
    """Values under their new levels, each at the place of its first value, and whether only neighbours were merged."""
    order = [value for value in level_order or () if value in set(observed)]
    in_order = order if len(order) == len(set(observed)) else sorted(set(observed))
    texts = {str(value) for value in in_order}
    label_of = {str(value): label for label, values in merge.items() for value in values}
    strangers = sorted(set(label_of) - texts)
    if strangers:
        raise BadInput(
            f"Key '{key}' has no value '{strangers[0]}', which is to be merged as '{label_of[strangers[0]]}'. Check its spelling."
        )
    clash = sorted(label for label in merge if label in texts and label_of.get(label) != label)
    if clash:
        raise BadInput(
            f"Merged values of key '{key}' are named '{clash[0]}', which is another value of it. Give them another name."
        )
    level_of_value = {value: label_of.get(str(value), value) for value in in_order}
    levels = list(dict.fromkeys(level_of_value.values()))
    sequence = [level_of_value[value] for value in in_order]
    n_runs = sum(1 for before, after in pairwise(sequence) if before != after) + 1
    return level_of_value, levels, n_runs == len(levels)


def _bounded(
    key: str, values: Sequence[Level], counts: NDArray[np.int64], coding: Coding, is_numeric: bool
) -> tuple[dict[Level, Level], list[Level]]:
    """Levels of binned or bounded numbers: a number for a single value, text for a range."""
    numbers = {value: int(count) for value, count in zip(values, counts, strict=True) if value is not None and count}
    if not is_numeric:
        example = next(iter(numbers), "")
        raise BadInput(
            f"Key '{key}' is to be binned or bounded, but its values are not numbers; one is '{example}'. Bins, top and bottom need "
            "numbers: correct the values, name such words as missing, or declare the levels instead."
        )
    if not all(_is_finite_number(value) and abs(value / (coding.width or 1.0)) < 1e300 for value in numbers):
        raise BadInput(
            f"Key '{key}' is to be binned or bounded, but it has an infinite value, or one too large for bins of this width. Correct the "
            "value or name it as missing."
        )
    top, bottom = coding.top, coding.bottom
    middle = {v: n for v, n in numbers.items() if (top is None or v < top) and (bottom is None or v > bottom)}
    is_whole = all(float(value).is_integer() for value in numbers) and not any(
        edge is not None and not float(edge).is_integer() for edge in (*(coding.edges or ()), coding.width)
    )
    level_of_value, levels = _binned(middle, coding, is_whole)
    if bottom is not None and any(value <= bottom for value in numbers):
        label = f"≤{_text(bottom)}"
        levels.insert(0, label)
        level_of_value.update({value: label for value in numbers if value <= bottom})
    if top is not None and any(value >= top for value in numbers):
        label = f"{_text(top)}+"
        levels.append(label)
        level_of_value.update({value: label for value in numbers if value >= top})
    return level_of_value, levels


def _binned(numbers: Mapping[Level, int], coding: Coding, is_whole: bool) -> tuple[dict[Level, Level], list[Level]]:
    in_order = sorted(numbers)
    if not coding.is_binned:
        return {value: value for value in in_order}, in_order
    if coding.quantiles is not None:
        bin_of_value = _quantile_bins(in_order, [numbers[value] for value in in_order], coding.quantiles)
        labels = {}
        for position in sorted(set(bin_of_value)):
            members = [value for value, bin_ in zip(in_order, bin_of_value, strict=True) if bin_ == position]
            first, last = _text(members[0]), _text(members[-1])
            labels[position] = first if first == last else between(first, last)
    elif coding.edges is not None:
        edges = coding.edges
        bin_of_value = [bisect.bisect_right(edges, value) for value in in_order]
        labels = {
            position: f"<{_text(edges[0])}" if position == 0
            else f"{_text(edges[-1])}+" if position == len(edges)
            else _range(edges[position - 1], edges[position], is_whole)
            for position in set(bin_of_value)
        }  # fmt: skip
    else:
        width = coding.width or 1.0
        bin_of_value = [_floor_quotient(value, width) for value in in_order]
        labels = {bin_: _range(bin_ * width, (bin_ + 1) * width, is_whole) for bin_ in set(bin_of_value)}
    level_of_value = {value: labels[bin_] for value, bin_ in zip(in_order, bin_of_value, strict=True)}
    return level_of_value, [labels[bin_] for bin_ in sorted(set(bin_of_value))]


def _quantile_bins(in_order: Sequence[Level], counts: Sequence[int], n_bins: int) -> list[int]:
    """Put each value into the bin of the middle one of its records, so that equal values stay together."""
    total = sum(counts)
    bins, before = [], 0
    for _, count in zip(in_order, counts, strict=True):
        # In whole numbers only: (before + count / 2) / total * n_bins, rounded down.
        bins.append((2 * before + count) * n_bins // (2 * total))
        before += count
    return bins


def _floor_quotient(value: float, width: float) -> int:
    """``value / width`` rounded down; 0.3 / 0.1 gives 3 although the floating-point quotient is slightly less."""
    quotient = value / width
    nearest = round(quotient)
    return nearest if abs(quotient - nearest) <= 1e-9 * max(1.0, abs(quotient)) else math.floor(quotient)


def _range(lower: float, upper: float, is_whole: bool) -> str:
    if not is_whole:
        return f"{_text(lower)} to <{_text(upper)}"
    return _text(lower) if upper - lower == 1 else between(_text(lower), _text(upper - 1))


def _text(number: Any) -> str:
    return str(int(number)) if float(number).is_integer() else f"{float(number):.12g}"


def _is_finite_number(value: Level) -> bool:
    # Compare instead of converting: a whole number may be too large for a float.
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= 1e300
