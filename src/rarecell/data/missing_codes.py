"""Which codes of a column mean "missing", although the file does not say so?

Surveys write −9, 99 or 998 where there is no answer, and read as they stand they make ages of 99 and incomes of 998. A user names
such codes, ``"age=-9,99; income=998"``, or accepts what is proposed here. A code is proposed where

1. its label says so ("don't know", "keine Angabe"), or it is such a word itself;
2. it is one of the numbers that are used for it, above all other values and apart from them (98 and 99 beside 0 to 20);
3. it is negative among numbers that are not, and apart from them or beside many of them;
4. it is a number such as 9999 that occurs far more often than the amounts around it.

A code with a label that says something else is never proposed.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rarecell.errors import BadInput, UnknownColumns

if TYPE_CHECKING:
    from rarecell.edges import Level
    from rarecell.engine.source import Column

PROPOSED = "proposed"
"""Stands for every code that is proposed."""

EVERY_COLUMN = ""
"""In place of a column's name: codes that mean "missing" wherever they occur."""

_WORDS = re.compile(
    r"^(missing|n/?a|nan|dk|dk/?na|ns/?nc|nr|k\.? ?a\.?|inap|iap|unknown|unspecified|refused|refusal|blank|inconsistent|not (known|stated|"
    r"applicable|available|reported|ascertained|asked|specified)|no (answer|response|data|information|data)|non ?-?(response|reponse)|"
    r"(do(es)? ?n[o']?t|do not|don.?t) know.*|(refused|refuses) ?(to answer)?|inapplicable|unbekannt|keine (angabe|antwort)|weiss? (es )?nicht|"
    r"verweigert|trifft nicht zu|entfallt|fehlt|ne sait pas.*|refus|sans (objet|reponse)|manquant|non (renseigne|declare|concerne)|"
    r"no (sabe|contesta|responde|aplica)|ns|nc|sin (dato|respuesta|informacion)|ignorado|perdido|missing/?dk|dk/?missing)$"
)
"""Words for "no answer" in English, German, French and Spanish, in lower case and without accents."""

_FEW = 6
"""A column with at most this many other values is a short list, in which codes of one digit can stand apart."""

_MANY = 20
"""Numbers of a column with more values than this are amounts or counts, not codes of a list."""

_SPIKE, _FEWEST = 20, 10
"""An amount that stands for "missing" occurs this many times as often as the median amount, and in so many records."""


@dataclass(frozen=True)
class MissingCode:
    """A code that probably means "missing", how many records have it, and why it is proposed."""

    code: str
    records: int
    why: str


def says_missing(label: object) -> bool:
    """Whether a label, or a value that is a word, says that there is no answer.

    Examples
    --------
    >>> [says_missing(label) for label in ("Don't know", "Keine Angabe", "Unknown", "Never married")]
    [True, True, True, False]
    """
    text = unicodedata.normalize("NFKD", str(label)).replace("ß", "ss").replace("’", "'")
    plain = "".join(letter for letter in text if not unicodedata.combining(letter)).lower()
    parts = [part.strip(" .:;()-") for part in re.split(r"[,/(]| or | oder | ou | o ", plain)]
    whole = plain.strip(" .:;()")
    return _WORDS.fullmatch(whole) is not None or (len(parts) > 1 and all(_WORDS.fullmatch(part) for part in parts if part))


def proposed_codes(column: Column, counts: Mapping[Level, int], numbers: Sequence[float] | None) -> tuple[MissingCode, ...]:
    """The codes of a column that probably mean "missing".

    Parameters
    ----------
    column : Column
        The column; codes that it declares to be missing are not among ``counts``.
    counts : mapping of level to int
        Its values, with the number of records that have each.
    numbers : sequence of float or None
        The values as numbers, in the same order, if all of them are.
    """
    codes: dict[Level, str] = {}
    labels = {value: str(label) for value, label in column.value_labels.items()}
    for value in counts:
        said = labels.get(value, value if isinstance(value, str) and numbers is None else None)
        if said is not None and says_missing(said):
            codes[value] = f"its label says “{said}”" if value in labels else "the word says so"
    if numbers is not None:
        whole = {number: value for number, value in zip(numbers, counts, strict=True) if float(number).is_integer()}
        plain = {whole[number]: why for number, why in _apart(dict(zip(numbers, counts.values(), strict=True))).items()}
        codes = {value: why for value, why in plain.items() if value not in labels} | codes
    if len(codes) == len(counts):
        return ()
    order = {value: place for place, value in enumerate(counts)} if numbers is None else dict(zip(counts, numbers, strict=True))
    return tuple(
        MissingCode(written(value), counts[value], codes[value]) for value in sorted(codes, key=lambda code: order[code])
    )


def written(value: Level) -> str:
    """A value as people write it: 99 for 99.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def shown_codes(code: Level) -> str:
    """A code for "missing", or a range of such codes, as people write it."""
    low, high = code if isinstance(code, tuple) else (code, code)
    return written(low) if low == high else f"{written(low)} to {written(high)}"


def _apart(counts: Mapping[float, int]) -> dict[float, str]:
    """Numbers that are used for "missing" and stand apart from the others."""
    reasons: dict[float, str] = {}
    ordered = sorted(counts)
    below = [number for number in ordered if number < 0]
    rest = [number for number in ordered if number >= 0]
    if below and len(rest) > 1 and all(_is_negative_code(number) for number in below):
        gap = rest[0] - below[-1]
        if len(rest) > _MANY or (gap >= 2 and (rest[0] > 0 or below[-1] <= -7)):
            reasons |= dict.fromkeys(below, "it is negative, and no other value is")
    for digits in range(1, 10):
        top = _top_codes(rest, digits)
        others = [number for number in rest if number < (top[0] if top else 0)]
        if top and len(others) > 1 and _stand_apart(top, others, counts, digits):
            reasons |= dict.fromkeys(top, f"it stands apart: the next value below is {others[-1]:g}")
    if len(rest) > 10 * _MANY:
        median = sorted(counts.values())[len(counts) // 2]
        for number in rest:
            if _is_top_code(number, len(str(int(number)))) and number >= 90 and counts[number] >= max(_FEWEST, _SPIKE * median):
                reasons.setdefault(number, f"{counts[number]:,} records have it, far more than other amounts")
    return reasons


def _is_negative_code(number: float) -> bool:
    return number.is_integer() and (number > -10 or re.fullmatch(r"([1-9])\1+|9+[0-9]", str(int(-number))) is not None)


def _is_top_code(number: float, digits: int) -> bool:
    """Whether a number is one of 7, 8, 9; 77, 88, 96 to 99; 777, 888, 996 to 999; …"""
    if not float(number).is_integer() or len(str(int(number))) != digits:
        return False
    text = str(int(number))
    return text in ("7", "8", "9") if digits == 1 else re.fullmatch(r"7+|8+|9+[6-9]", text) is not None


def _top_codes(rest: Sequence[float], digits: int) -> list[float]:
    """The largest numbers of a column, as far as they are codes of so many digits."""
    codes: list[float] = []
    for number in reversed(rest):
        if not _is_top_code(number, digits):
            break
        codes.insert(0, number)
    return codes


def _stand_apart(top: Sequence[float], others: Sequence[float], counts: Mapping[float, int], digits: int) -> bool:
    gap = top[0] - others[-1]
    if digits == 1:
        # 1 to 5 and 9, or 1 to 5, 7 and 9; but not the sizes of households.
        has_nine = top[-1] >= 8
        return has_nine and len(others) <= _FEW and (gap >= 3 or (gap >= 2 and len(top) > 1))
    if len(others) <= _MANY + 1:
        return gap > max(5.0, 2.0 * max(later - earlier for earlier, later in itertools.pairwise(others)))
    # A few very old people may stand apart by chance; a code is commoner than the values next to it.
    nearest = max(counts[number] for number in others[-5:])
    steps = [later - earlier for earlier, later in itertools.pairwise(others)]
    usual = sorted(steps)[len(steps) // 2]
    return gap > max(3.0 * usual, 2.0) and sum(counts[number] for number in top) >= max(3, 2 * nearest)


# ---------------------------------------------------------------------- what a user says


def code_forms(code: str) -> tuple[str | int | float, ...]:
    """A code as text and, where it is a number, as the number: files differ in how they hold it."""
    for made in (int, float):
        try:
            value = made(code)
        except ValueError:
            continue
        if str(value) == code:
            return (code, value)
    return (code,)


def parse_missing_codes(text: str) -> dict[str, tuple[str, ...]] | None:
    """Read ``"age=-9,99; income=998"``; codes without a column are for every column. None for :data:`PROPOSED`.

    Examples
    --------
    >>> parse_missing_codes("age=-9,99; income=998")
    {'age': ('-9', '99'), 'income': ('998',)}
    >>> parse_missing_codes("-9, 99")
    {'': ('-9', '99')}
    """
    if text.strip() == PROPOSED:
        return None
    by_column: dict[str, tuple[str, ...]] = {}
    for part in text.split(";") if text.strip() else ():
        name, sign, codes = part.rpartition("=")
        listed = tuple(code.strip().replace("−", "-") for code in codes.split(","))
        if not all(listed) or (sign and not name.strip()):
            raise BadInput(
                f"The codes for missing values were given as '{text}'; name the column and its codes, as in \"age=-9,99; income=998\", or "
                f'say "{PROPOSED}" for those that rarecell describe proposes.'
            )
        by_column[name.strip()] = (*by_column.get(name.strip(), ()), *listed)
    return by_column


def joined_codes(codes: Mapping[str, Sequence[str]]) -> str:
    """The text that :func:`parse_missing_codes` reads."""
    return "; ".join(f"{name}={','.join(of_column)}" if name else ", ".join(of_column) for name, of_column in codes.items())


def with_missing_codes(columns: Mapping[str, Column], codes: Mapping[str, Sequence[str]]) -> dict[str, Column]:
    """The columns with further codes that mean "missing"."""
    unknown = [name for name in codes if name != EVERY_COLUMN and name not in columns]
    if unknown:
        raise UnknownColumns.among(unknown, list(columns))
    made = {}
    for name, column in columns.items():
        forms = [form for code in (*codes.get(EVERY_COLUMN, ()), *codes.get(name, ())) for form in code_forms(code)]
        made[name] = replace(column, user_missing=(*column.user_missing, *forms)) if forms else column
    return made
