"""Does a column name persons: by what stands in it, whatever it is called?

Names, e-mail addresses, telephone numbers, account numbers and national numbers have forms and check digits that chance does not
produce; coordinates, dates with a day and free text single people out without naming them. A column is judged by its distinct values,
so that nothing depends on how often a person occurs. Each finding says what it looks like.

National numbers are recognised by their check digits: a column of numbers of one length passes a test with one check digit by chance
in about one of ten values, and all of them in none of the columns that are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

FEWEST_VALUES = 20
"""Columns with fewer distinct values are not judged by their content."""

NEARLY_ALL = 0.9
"""Share of the distinct values that must have a form."""

MOST_DAYS = 60
"""Dates with more distinct days than this single people out; fewer are those of the fieldwork."""

FREE_TEXT = 25.0
"""Mean number of characters from which text is free text."""

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[A-Za-z]{2,}")
_PHONE = re.compile(r"(\+|0)[0-9 ()/.\-]{6,20}|\(?[0-9]{3}\)?[ .\-][0-9]{3}[ .\-][0-9]{4}")
_PAIR = re.compile(r"-?[0-9]{1,2}\.[0-9]{3,}\s*[,; ]\s*-?[0-9]{1,3}\.[0-9]{3,}")
_DECIMALS = re.compile(r"-?[0-9]{1,3}\.[0-9]{4,}")
_DAY = re.compile(r"\d{4}-\d{1,2}-\d{1,2}.*|\d{1,2}[./]\d{1,2}[./]\d{2,4}.*")
_LETTERS = r"[^\W\d_](?:[^\W\d_]|['’.\-])*"
_FULL_NAME = re.compile(rf"{_LETTERS},?( {_LETTERS})+|[\u4e00-\u9fff\u3040-\u30ff\uac00-\ud7a3]{{2,5}}")
_WORDS = re.compile(_LETTERS)


_NAME_SAYS = re.compile(
    r"(^|_)(name|surname|firstname|lastname|first_name|last_name|vorname|nachname|familienname|nom|prenom|prénom|apellidos?|nombres?|cognome|nome|"
    r"naam|achternaam|voornaam|efternamn|förnamn|etternavn|nazwisko|imie|imię|jmeno|příjmení|sukunimi|sobrenome|ad|soyad|имя|фамилия)($|_)",
    re.IGNORECASE,
)
_PLACE_SAYS = re.compile(
    r"(^|_)(lat|latitude|lon|lng|long|longitude|coord|coordinate|gps|easting|northing|geo|x|y)($|_|\d)", re.IGNORECASE
)
_BIRTH_SAYS = re.compile(r"birth|born|dob|geburt|naiss|nacim|nascita", re.IGNORECASE)


# ---------------------------------------------------------------------- check digits


def _digits(text: str) -> list[int]:
    return [int(c) for c in text if c.isdigit()]


def is_iban(text: str) -> bool:
    """Whether a text is an international bank account number: moved and read as a number, it leaves 1 modulo 97.

    Examples
    --------
    >>> is_iban("DE89 3704 0044 0532 0130 00")
    True
    """
    plain = re.sub(r"\s", "", text).upper()
    if not re.fullmatch(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}", plain):
        return False
    return int("".join(str(int(c, 36)) for c in plain[4:] + plain[:4])) % 97 == 1


def is_luhn(text: str) -> bool:
    """Whether the last digit is that of Luhn's formula: Canadian and Swedish numbers, payment cards.

    Examples
    --------
    >>> is_luhn("046 454 286")
    True
    """
    digits = _digits(text)[::-1]
    doubled = [sum(divmod(2 * d, 10)) for d in digits[1::2]]
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def _is_iso_11_10(text: str) -> bool:
    """German tax identifiers: ISO 7064, MOD 11,10."""
    product = 10
    digits = _digits(text)
    for digit in digits[:-1]:
        total = (digit + product) % 10 or 10
        product = 2 * total % 11
    return (11 - product) % 10 == digits[-1]


def _weighted(text: str, weights: Sequence[int]) -> int:
    return sum(d * w for d, w in zip(_digits(text), weights, strict=False))


def _is_cpf(text: str) -> bool:
    digits = _digits(text)
    for n in (9, 10):
        check = sum(d * (n + 1 - k) for k, d in enumerate(digits[:n])) * 10 % 11 % 10
        if check != digits[n]:
            return False
    return True


def _is_ahv(text: str) -> bool:
    digits = _digits(text)
    return digits[:3] == [7, 5, 6] and (sum(digits[::2]) + 3 * sum(digits[1::2])) % 10 == 0


def _is_norwegian(text: str) -> bool:
    first = _weighted(text, (3, 7, 6, 1, 8, 9, 4, 5, 2, 1)) % 11 == 0
    return first and _weighted(text, (5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1)) % 11 == 0


def _is_nhs(text: str) -> bool:
    check = 11 - _weighted(_plain(text)[:9], (10, 9, 8, 7, 6, 5, 4, 3, 2)) % 11
    return check % 11 == _digits(text)[9] and check != 10


def _is_turkish(text: str) -> bool:
    d = _digits(text)
    return (7 * sum(d[0:9:2]) - sum(d[1:8:2])) % 10 == d[9] and sum(d[:10]) % 10 == d[10]


def _is_chinese(text: str) -> bool:
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    return "10X98765432"[_weighted(text[:17], weights) % 11] == text[17].upper()


def _is_baltic(text: str) -> bool:
    """Estonian and Lithuanian codes: a second row of weights where the first leaves 10."""
    digits = _plain(text)
    left = _weighted(digits[:10], (1, 2, 3, 4, 5, 6, 7, 8, 9, 1)) % 11
    left = _weighted(digits[:10], (3, 4, 5, 6, 7, 8, 9, 1, 2, 3)) % 11 % 10 if left == 10 else left
    return left == int(digits[10])


_MULTIPLY = (
    *("0123456789", "1234067895", "2340178956", "3401289567", "4012395678"),
    *("5987604321", "6598710432", "7659821043", "8765932104", "9876543210"),
)
_PERMUTE = ("0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415", "7046913258")


def is_verhoeff(text: str) -> bool:
    """Whether the last digit is that of Verhoeff's dihedral check, as in Indian Aadhaar numbers.

    Examples
    --------
    >>> is_verhoeff("2363")
    True
    """
    check = 0
    for place, digit in enumerate(reversed(_digits(text))):
        check = int(_MULTIPLY[check][int(_PERMUTE[place % 8][digit])])
    return check == 0


def _is_italian(text: str) -> bool:
    odd = dict(zip("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ", _ITALIAN_ODD, strict=True))
    total = sum(odd[c] if place % 2 == 0 else int(c) if c.isdigit() else ord(c) - 65 for place, c in enumerate(text[:15]))
    return chr(65 + total % 26) == text[15]


_ITALIAN_ODD = (
    *(
        1,
        0,
        5,
        7,
        9,
        13,
        15,
        17,
        19,
        21,
        1,
        0,
        5,
        7,
        9,
        13,
        15,
        17,
        19,
        21,
        2,
        4,
        18,
        20,
        11,
        3,
        6,
        8,
        12,
        14,
        16,
        10,
        22,
        25,
        24,
        23,
    ),
)


def _plain(text: str) -> str:
    return "".join(c for c in text if c.isdigit())


NATIONAL_NUMBERS: dict[str, tuple[re.Pattern[str], Callable[[str], bool]]] = {
    name: (re.compile(pattern), check)
    for name, pattern, check in (
        ("Spanish identity numbers", r"[0-9]{8}-?[A-Z]", lambda t: "TRWAGMYFPDXBNJZSQVHLCKE"[int(t[:8]) % 23] == t[-1]),
        ("Italian tax codes", r"[A-Z]{6}[0-9]{2}[A-EHLMPRST][0-9]{2}[A-Z][0-9]{3}[A-Z]", _is_italian),
        (
            "British insurance numbers",
            r"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?[0-9]{2} ?[0-9]{2} ?[0-9]{2} ?[A-D]",
            lambda _: True,
        ),
        ("US social security numbers", r"[0-8][0-9]{2}-[0-9]{2}-[0-9]{4}", lambda _: True),
        (
            "Finnish identity numbers",
            r"[0-9]{6}[-+A][0-9]{3}[0-9A-Y]",
            lambda t: "0123456789ABCDEFHJKLMNPRSTUVWXY"[int(t[:6] + t[7:10]) % 31] == t[-1],
        ),
        (
            "French social security numbers",
            r"[12][0-9]{2}(0[1-9]|1[0-2]|[2-9][0-9])[0-9]{10}",
            lambda t: 97 - int(t[:13]) % 97 == int(t[13:]),
        ),
        ("Swiss social insurance numbers", r"756\.?[0-9]{4}\.?[0-9]{4}\.?[0-9]{2}", _is_ahv),
        ("Norwegian birth numbers", r"[0-9]{11}", _is_norwegian),
        ("Brazilian tax numbers", r"[0-9]{3}\.?[0-9]{3}\.?[0-9]{3}-?[0-9]{2}", _is_cpf),
        ("Belgian national numbers", r"[0-9]{11}", lambda t: int(t[9:]) in (97 - int(t[:9]) % 97, 97 - int("2" + t[:9]) % 97)),
        ("Polish PESEL numbers", r"[0-9]{11}", lambda t: _weighted(t, (1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1)) % 10 == 0),
        ("German tax identifiers", r"[1-9][0-9]{10}", _is_iso_11_10),
        ("Dutch service numbers", r"[0-9]{9}", lambda t: _weighted(t, (9, 8, 7, 6, 5, 4, 3, 2, -1)) % 11 == 0),
        (
            "Portuguese tax numbers",
            r"[1-35689][0-9]{8}",
            lambda t: (11 - _weighted(t[:8], (9, 8, 7, 6, 5, 4, 3, 2)) % 11) % 11 % 10 == int(t[8]),
        ),
        ("Swedish or Canadian person numbers", r"[0-9]{9,10}|[0-9]{6}[-+][0-9]{4}", is_luhn),
        ("Swedish person numbers", r"(19|20)[0-9]{6}-?[0-9]{4}", lambda t: is_luhn(_plain(t)[2:])),
        ("Chinese identity numbers", r"[1-9][0-9]{16}[0-9Xx]", _is_chinese),
        ("Estonian or Lithuanian codes", r"[1-6][0-9]{10}", _is_baltic),
        ("Turkish identity numbers", r"[1-9][0-9]{10}", _is_turkish),
        ("Czech or Slovak birth numbers", r"[0-9]{6}/?[0-9]{4}", lambda t: int(_plain(t)) % 11 == 0),
        (
            "Bulgarian uniform civil numbers",
            r"[0-9]{10}",
            lambda t: _weighted(t[:9], (2, 4, 8, 5, 10, 9, 7, 3, 6)) % 11 % 10 == int(t[9]),
        ),
        (
            "Romanian personal codes",
            r"[1-9][0-9]{12}",
            lambda t: (
                min(_weighted(t[:12], (2, 7, 9, 1, 4, 6, 3, 5, 8, 2, 7, 9)) % 11, 10) in (int(t[12]), 10 if t[12] == "1" else -1)
            ),
        ),
        ("British health service numbers", r"[0-9]{3} ?[0-9]{3} ?[0-9]{4}", _is_nhs),
        ("Indian Aadhaar numbers", r"[2-9][0-9]{3} ?[0-9]{4} ?[0-9]{4}", is_verhoeff),
        ("South African identity numbers", r"[0-9]{13}", is_luhn),
        ("payment card numbers", r"[3-6][0-9]{12,18}", is_luhn),
    )
}
"""What each is called, its form and its check digits."""


# ---------------------------------------------------------------------- a column


def direct_identifier(name: str, values: Sequence[object], n_records: int, *, is_date: bool = False) -> str | None:
    """What a column looks like if it names or singles out persons; None if it does not.

    Parameters
    ----------
    name : str
        The column.
    values : sequence
        Its distinct values, without missing ones.
    n_records : int
        Number of records with a value.
    is_date : bool
        Whether the column has the type of dates.

    Examples
    --------
    >>> direct_identifier("contact", [f"p{k}@example.org" for k in range(30)], 30)
    'e-mail addresses'
    >>> direct_identifier("sex", ["f", "m"], 30) is None
    True
    """
    if is_date:
        days = {str(value)[:10] for value in values}
        # Dates that were cut to the month are the first of it.
        return None if all(day.endswith("-01") for day in days) else _of_days(name, len(days))
    # Statistics packages store whole numbers as decimals.
    values = [int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value for value in values]
    is_text = any(isinstance(value, str) for value in values)
    texts = [str(value).strip() for value in values if isinstance(value, str | int) and not isinstance(value, bool)]
    if len(values) < FEWEST_VALUES or not values:
        return None
    if len(texts) < len(values):
        return _of_numbers(name, values)
    for what, has_form in (("e-mail addresses", _EMAIL.fullmatch), ("bank account numbers (IBAN)", is_iban)):
        if _share(texts, has_form) >= 0.5:
            return what
    if is_text and sum(1 for text in texts if _EMAIL.search(text)) >= max(3, 0.01 * len(texts)):
        return "e-mail addresses among other text"
    # A number that was stored as one has lost its leading zeros.
    longest = max(map(len, texts))
    padded = texts if is_text or not 9 <= longest <= 18 else [text.zfill(longest) for text in texts]
    for what, (pattern, check) in NATIONAL_NUMBERS.items():
        passed = sum(1 for text in padded if pattern.fullmatch(text) and check(text))
        if passed >= NEARLY_ALL * len(texts):
            return what
    if is_text and _share(texts, _DAY.fullmatch) >= NEARLY_ALL:
        return _of_days(name, len(values))
    if is_text and _share(texts, _PAIR.fullmatch) >= NEARLY_ALL:
        return "coordinates"
    is_rare = len(values) > 0.3 * n_records
    if is_text and is_rare and _share(texts, lambda text: _PHONE.fullmatch(text) and 7 <= len(_digits(text)) <= 15) >= NEARLY_ALL:
        return "telephone numbers"
    if not is_text:
        numbers = [int(text) for text in texts]
        if len(values) == n_records and max(numbers) - min(numbers) + 1 == n_records:
            return "a number of its own for every record"
        return _of_numbers(name, values)
    if _share(texts, _DECIMALS.fullmatch) >= NEARLY_ALL:
        return _of_numbers(name, [float(text) for text in texts if _DECIMALS.fullmatch(text)])
    if _share(texts, lambda text: re.fullmatch(r"[-+]?[0-9]*[.,]?[0-9]+", text)) >= NEARLY_ALL:
        whole = [int(text) for text in texts if text.isdigit()]
        is_counted = len(whole) == len(values) == n_records and max(whole) - min(whole) + 1 == n_records
        return "a number of its own for every record" if is_counted else None
    return _of_words(name, texts, len(values), n_records)


def _share(texts: Sequence[str], has_form: Callable[[str], object]) -> float:
    return sum(bool(has_form(text)) for text in texts) / len(texts)


def _of_days(name: str, n_days: int) -> str | None:
    if n_days > MOST_DAYS or (n_days > 1 and _BIRTH_SAYS.search(name)):
        return "dates with a day"
    return None


def _of_numbers(name: str, values: Sequence[object]) -> str | None:
    """Coordinates: numbers with many decimals in the range of degrees, in a column that says so."""
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    in_range = all(-180.0 <= number <= 180.0 for number in numbers)
    fine = sum(abs(number * 1_000 - round(number * 1_000)) > 1e-6 for number in numbers) > 0.5 * len(numbers)
    return "coordinates" if numbers and in_range and fine and _PLACE_SAYS.search(name) else None


def _of_words(name: str, texts: Sequence[str], n_values: int, n_records: int) -> str | None:
    is_rare = n_values > 0.3 * n_records
    says_name = _NAME_SAYS.search(name) is not None
    if says_name and n_values > 0.05 * n_records and _share(texts, _WORDS.match) >= NEARLY_ALL:
        return "names of persons"
    if (
        is_rare
        and _share(texts, _FULL_NAME.fullmatch) >= NEARLY_ALL
        and sum(len(text) for text in texts) / len(texts) < FREE_TEXT
    ):
        return "names of persons"
    if sum(len(text) for text in texts) / len(texts) >= FREE_TEXT and n_values > 0.1 * n_records:
        return "free text"
    return "words of their own for nearly every record" if n_values > 0.8 * n_records and n_values >= 100 else None
