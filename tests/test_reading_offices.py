"""Files as offices have them: labels, several columns that number a household or a person, households that cannot be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rarecell as rc
from rarecell.data.describe import profile_file
from rarecell.errors import BadInput
from rarecell.outcome.words import titled, with_labels
from rarecell.report import render_report
from rarecell.report.page import labelled_page
from rarecell.run.handover import handover
from tests.whole_files import FILES

pytest.importorskip("pyreadstat")

QUICK = {"model": "single", "resolution": "full", "search": "greedy", "restarts": 1, "seed": 1}


@pytest.fixture
def listing(tmp_path: Path) -> Path:
    """Persons in households whose numbers start anew in every cluster."""
    rng = np.random.default_rng(3)
    sizes = 1 + rng.poisson(2.5, 200)
    household = np.repeat(np.arange(200), sizes)
    n = len(household)
    line = np.concatenate([np.arange(1, size + 1) for size in sizes])
    frame = pd.DataFrame(
        {
            "cluster": 1 + household // 20,
            "hhno": 1 + household % 20,
            "line": line,
            "age": rng.integers(0, 90, n) // 5 * 5,
            "sex": rng.choice(["m", "f"], n),
            "region": (household // 40) + 1,
        }
    )
    frame.to_csv(tmp_path / "listing.csv", index=False)
    return tmp_path / "listing.csv"


def test_a_crowd_is_no_household(listing: Path) -> None:
    asked = {"keys": ["age", "sex"], "population": 60_000, **QUICK}
    with pytest.raises(BadInput, match=r"20 households of .* people, the largest of .*household='hhno,cluster'"):
        rc.assess(listing, household="hhno", **asked)  # type: ignore[arg-type]
    assert rc.assess(listing, household="hhno", households_known="no", **asked).summary.records > 500  # type: ignore[arg-type]
    families = rc.assess(listing, household="cluster,hhno", **asked).summary.risk.families  # type: ignore[arg-type]
    assert families is not None
    assert families.households == 200


def test_describe_suggests_two_columns_for_a_household(listing: Path) -> None:
    roles = {column.name: column.role for column in profile_file(listing).columns}
    assert [name for name, role in roles.items() if role == "household"] == ["cluster", "hhno"]


def test_several_columns_name_a_record(listing: Path, tmp_path: Path) -> None:
    options = {
        "keys": ["age", "sex", "region"],
        "population": 60_000,
        "household": "cluster,hhno",
        "id": "cluster,hhno,line",
        **QUICK,
    }
    rc.protect(listing, top=4, out=tmp_path / "run", **options)  # type: ignore[arg-type]
    made = handover(tmp_path / "run", reason="a test of several columns")
    released = pd.read_csv(made / "data.csv")
    assert list(released.columns) == ["hhno", "age", "sex", "region"]
    assert released["hhno"].nunique() == 200
    key = pd.read_parquet(tmp_path / "run" / "release-key.parquet")
    assert {"id:cluster", "id:hhno", "id:line"} <= set(key.columns)
    shuffled = pd.read_csv(tmp_path / "run" / "protected.csv").sample(frac=1.0, random_state=1)
    shuffled.to_csv(tmp_path / "shuffled.csv", index=False)
    attacked = rc.attack(
        tmp_path / "shuffled.csv", original=listing, keys=["age", "sex", "region"], population=60_000, id="cluster,hhno,line"
    )
    in_order = rc.attack(tmp_path / "run" / "protected.csv", original=listing, keys=["age", "sex", "region"], population=60_000)
    assert [one.after for one in attacked.summary.intruders] == [one.after for one in in_order.summary.intruders]


def test_an_area_that_is_a_key_is_handed_over_although_it_numbers_households(listing: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(listing)
    frame["hhno"] = 1 + (20 * (frame["cluster"] - 1) + frame["hhno"] - 1) % 40
    frame.drop(columns="cluster").to_csv(listing, index=False)
    options = {"keys": ["age", "sex", "region"], "population": 60_000, "household": "region,hhno", **QUICK}
    rc.protect(listing, top=4, accept_leak=["hhno", "region"], out=tmp_path / "run", **options)  # type: ignore[arg-type]
    made = handover(tmp_path / "run", reason="a test of an area", drop=["line"])
    released = pd.read_csv(made / "data.csv")
    assert sorted(released["region"].unique()) == [1, 2, 3, 4, 5]
    assert released["hhno"].nunique() == 200


def test_labels_stand_beside_codes_wherever_levels_and_columns_are_named(tmp_path: Path) -> None:
    survey = FILES["mics"](tmp_path, leaks=False)
    done = rc.assess(survey.path, **{**survey.options, "households_known": "no"}, **QUICK)
    assert done.summary.labels["HL6"] == "Age"
    assert {group.level for group in done.summary.groups if group.key == "HL4"} == {"Male (1)", "Female (2)"}
    assert all(record.values["HL4"] in ("Male (1)", "Female (2)") for record in done.riskiest)
    page = render_report(done.summary, done.riskiest)
    for shown in ("Sex (HL4)", "Age (HL6)", "Region (HH7)", "Female (2)"):
        assert shown in page
    assert "Sex (Sex (HL4))" not in page


def test_labels_do_not_change_what_a_command_says() -> None:
    labels = {"HL4": "Sex", "HL6": "Age", "age": "Age of respondent", "NAME": "name"}
    assert titled("NAME", labels) == "NAME"
    assert with_labels('Give --treat "HL4=drop" or --carry HL4,HL6.', labels) == 'Give --treat "HL4=drop" or --carry HL4,HL6.'
    assert with_labels("by HL4 and HL66", labels) == "by Sex (HL4) and HL66"
    assert with_labels("people of every age", labels) == "people of every age"
    assert with_labels("age", labels) == "Age of respondent (age)"
    assert with_labels(with_labels("HL4", labels), labels) == "Sex (HL4)"
    page = '<p title="HL4">HL4 &amp; <code>HL4</code></p><td>age</td>'
    assert labelled_page(page, labels) == '<p title="HL4">Sex (HL4) &amp; <code>HL4</code></p><td>Age of respondent (age)</td>'  # type: ignore[arg-type]
    assert labelled_page("<td>HL4</td>", {"HL4": "<b>"}) == "<td>&lt;b&gt; (HL4)</td>"  # type: ignore[arg-type]
