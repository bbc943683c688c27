"""Columns that name persons are recognised by what stands in them."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from rarecell.data.identifiers import NATIONAL_NUMBERS, direct_identifier, is_iban, is_luhn

RNG = np.random.default_rng(0)
N = 300
FIRST = ["Anna", "Bert", "Carla", "Dirk", "Eva", "Franz", "Gül", "Hans", "Inés", "Jörg", "Käthe", "Lars", "Mona", "Nils", "Olga"]
LAST = ["Müller", "O'Brien", "Schmidt-Lang", "Weber", "Sørensen", "da Silva", "Rossi", "Nováková", "Papas", "Ito", "Kaya", "Lund"]


def passing(name: str, n: int = 60) -> list[str]:
    """Random numbers of the form of a national number that pass its check."""
    pattern, check = NATIONAL_NUMBERS[name]
    forms = {"Spanish identity numbers": 8, "Dutch service numbers": 9, "German tax identifiers": 11, "Polish PESEL numbers": 11}
    found: set[str] = set()
    while len(found) < n:
        text = "".join(str(d) for d in RNG.integers(0, 10, forms[name]))
        text += "TRWAGMYFPDXBNJZSQVHLCKE"[int(text) % 23] if name.startswith("Spanish") else ""
        if pattern.fullmatch(text) and check(text):
            found.add(text)
    return sorted(found)


COLUMNS: dict[str, tuple[str, list[object], str]] = {
    "contact": ("contact", [f"person{k}@example.org" for k in range(N)], "e-mail addresses"),
    "phone": ("v17", [f"+49 30 {k:07d}" for k in RNG.choice(10**7, N, replace=False)], "telephone numbers"),
    "names": ("v3", sorted({f"{a} {b}" for a in FIRST for b in LAST})[:170], "names of persons"),
    "surname": ("surname", LAST * 2 + [f"{a}{b.lower()}" for a in FIRST for b in LAST[:4]], "names of persons"),
    "birth": ("birth_date", [datetime.date(1950, 1, 1) + datetime.timedelta(int(d)) for d in RNG.choice(20_000, N, replace=False)], "dates with a day"),
    "text": ("remark", [f"The respondent {k} said that nothing more was to be told about it." for k in range(N)], "free text"),
    "place": ("gps_lat", [float(x) for x in np.round(RNG.uniform(47, 55, N), 6)], "coordinates"),
    "pair": ("where", [f"{x:.5f}, {y:.5f}" for x, y in zip(RNG.uniform(47, 55, N), RNG.uniform(6, 15, N), strict=True)], "coordinates"),
    "serial": ("v1", list(range(1_000, 1_000 + N)), "a number of its own for every record"),
}  # fmt: skip


@pytest.mark.parametrize("column", list(COLUMNS))
def test_what_names_persons_is_recognised(column: str) -> None:
    name, values, what = COLUMNS[column]
    distinct = list(dict.fromkeys(values))
    is_date = isinstance(distinct[0], datetime.date)
    assert direct_identifier(name, distinct, len(distinct), is_date=is_date) == what


@pytest.mark.parametrize(
    "name", ["Spanish identity numbers", "Dutch service numbers", "German tax identifiers", "Polish PESEL numbers"]
)
def test_national_numbers_are_known_by_their_check_digits(name: str) -> None:
    values = passing(name)
    assert direct_identifier("v5", values, len(values)) == name
    # One digit changed: no check digit fits, and what is left is not a number of its own for every record either.
    spoilt = sorted({value[:3] + str((int(value[3]) + 1) % 10) + value[4:] for value in values})
    assert direct_identifier("v5", spoilt, len(spoilt)) not in NATIONAL_NUMBERS


def test_known_numbers_pass_their_checks() -> None:
    for number in ("DE89 3704 0044 0532 0130 00", "GB82 WEST 1234 5698 7654 32", "FR14 2004 1010 0505 0001 3M02 606"):
        assert is_iban(number)
        assert not is_iban(number[:-1] + ("1" if number[-1] != "1" else "2"))
    assert is_luhn("811228-9874")
    checks = {
        "Dutch service numbers": "111222333",
        "Polish PESEL numbers": "44051401359",
        "Spanish identity numbers": "12345678Z",
        "Finnish identity numbers": "131052-308T",
        "Brazilian tax numbers": "529.982.247-25",
        "Norwegian birth numbers": "01010750160",
        "Swiss social insurance numbers": "756.9217.0769.85",
        "Belgian national numbers": "85073003328",
        "German tax identifiers": "36574261809",
        "Portuguese tax numbers": "501964843",
        "Italian tax codes": "RSSMRA85T10A562S",
        "Swedish person numbers": "19811228-9874",
        "Chinese identity numbers": "11010519491231002X",
        "Estonian or Lithuanian codes": "37605030299",
        "Turkish identity numbers": "10000000146",
        "Czech or Slovak birth numbers": "7103192745",
        "Bulgarian uniform civil numbers": "7523169263",
        "Romanian personal codes": "1630615123457",
        "British health service numbers": "943 476 5919",
        "Indian Aadhaar numbers": "234123412346",
        "South African identity numbers": "8001015009087",
    }
    for name, number in checks.items():
        pattern, check = NATIONAL_NUMBERS[name]
        assert pattern.fullmatch(number), name
        assert check(number), name


def test_numbers_of_a_statistics_package_are_looked_at_like_any_other() -> None:
    for name in ("Dutch service numbers", "Polish PESEL numbers"):
        values: list[object] = [float(value) for value in passing(name)]
        assert direct_identifier("v5", values, len(values)) == name
    serial = [float(k) for k in range(93_703, 93_703 + N)]
    assert direct_identifier("seqn", serial, N) == "a number of its own for every record"
    assert direct_identifier(
        "remark", [*(f"no answer {k}" for k in range(90)), *(f"write to a{k}@b.org" for k in range(9))], 400
    ) == ("e-mail addresses among other text")
    names = [f"{a}{b}" for a in "王李张刘陈杨" for b in ("伟", "芳", "娜", "秀英", "敏", "静", "丽", "强", "磊", "军")]
    assert direct_identifier("v2", names, 150) == "names of persons"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("pay", [float(x) for x in sorted({int(x) for x in RNG.lognormal(9, 1, N)})]),
        ("isco", [float(k) for k in range(1_000, 9_900, 37)]),
        ("turnover", sorted({int(x) for x in RNG.lognormal(22, 1, N)})),
        ("year_of_birth", [float(k) for k in range(1_930, 2_010)]),
        ("wealth", sorted({float(int(x)) for x in RNG.lognormal(21, 2, N)})),
        ("postcode", [f"{k:05d}" for k in range(1_000, 99_000, 431)]),
        ("nace", [f"{a}.{b:02d}" for a in range(10, 40) for b in range(4)]),
        ("income", sorted({int(x) for x in RNG.lognormal(9, 1, N)})),
        ("height", sorted({float(x) for x in np.round(RNG.normal(170, 9, N), 1)})),
        ("score", sorted({float(x) for x in RNG.normal(0, 1, N)})),
        ("weight", sorted({float(x) for x in RNG.gamma(20, 5, N)})),
        ("town", [f"Town {k}" for k in range(40)]),
        ("occupation", [f"{k:04d}" for k in range(0, 5_000, 50)]),
        ("country", ["Austria", "Belgium", "Chile", "Denmark", "Estonia"] * 1),
        ("interview", [datetime.date(2_024, 3, 1) + datetime.timedelta(k) for k in range(40)]),
        ("birth_month", [datetime.date(1_950 + k // 12, 1 + k % 12, 1) for k in range(200)]),
        ("region", ["north", "south"]),
        ("money", [f"{x:.2f}" for x in RNG.lognormal(5, 1, N)]),
        ("phone_owned", ["yes", "no"]),
    ],
)
def test_ordinary_columns_are_not(name: str, values: list[object]) -> None:
    is_date = bool(values) and isinstance(values[0], datetime.date)
    assert direct_identifier(name, values, N if len(values) < N else 2 * N, is_date=is_date) is None
