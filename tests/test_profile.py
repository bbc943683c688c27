"""A profile judges a run by its rule, and whatever it advises has not been done before."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rarecell as rc
from rarecell.data.names import names_in
from rarecell.errors import BadInput
from rarecell.outcome.decision import decided, with_decision
from rarecell.outcome.profile import DO_NOT_RELEASE, LOOK, PROFILES, RELEASE, Profile, Reason
from rarecell.outcome.summary import RunSummary
from rarecell.outcome.words import people
from rarecell.report.form import Form
from tests.summaries import demo_summary, protected_summary, typed


def safe(**risk: Any) -> dict[str, Any]:
    """An assessed file that every profile lets go."""
    summary = demo_summary()
    summary["risk"] |= {
        "expected_correct_matches": 0.4,
        "interval_correct_matches": [0.1, 0.9],
        "highest": 0.01,
        "highest_match": 0.02,
        "records_above_threshold": 0,
        "reliability": {"light": "green"},
        **risk,
    }
    return summary


def verdict_of(summary: dict[str, Any], name: str = "scientific", **limits: Any) -> tuple[str, list[str]]:
    profile = Profile.from_dict({**PROFILES[name].to_dict(), **limits})
    judged = decided(typed(summary), profile)
    return judged.verdict, [reason.limit for reason in judged.reasons]


def test_a_safe_file_is_released_by_every_profile() -> None:
    for name in PROFILES:
        assert verdict_of(safe(), name) == (RELEASE, [])


ILLNESS = {
    "column": "illness",
    "groups": 40,
    "records": 1000,
    "l_diversity": 1,
    "entropy_l_diversity": 1.0,
    "t_closeness": 0.4,
    "distance": "nominal",
    "right_from_groups": 700,
    "right_from_file": 600,
    "homogeneous_groups": 2,
    "records_in_homogeneous_groups": 5,
    "records_alone": 0,
}


@pytest.mark.parametrize(
    ("risk", "limits", "verdict", "limit"),
    [
        ({"highest": 0.21}, {}, DO_NOT_RELEASE, "max_record_risk"),
        ({"highest": 0.2}, {}, RELEASE, None),
        ({"highest_match": 0.1}, {"max_match_risk": 0.09}, DO_NOT_RELEASE, "max_match_risk"),
        ({"highest_match": 0.09}, {"max_match_risk": 0.09}, RELEASE, None),
        ({"expected_correct_matches": 99.0}, {}, DO_NOT_RELEASE, "max_correct_links_share"),
        ({"expected_correct_matches": 98.0}, {}, RELEASE, None),
        ({"expected_correct_matches": 6.0}, {"max_correct_links": 5.0}, DO_NOT_RELEASE, "max_correct_links"),
        ({"expected_correct_matches": 5.0}, {"max_correct_links": 5.0}, RELEASE, None),
        ({"interval_correct_matches": [0.1, 120.0]}, {}, LOOK, "max_correct_links_share"),
        ({"reliability": {"light": "amber", "sentence": "Why."}}, {}, LOOK, "worst_light"),
        ({"reliability": {"light": "amber"}}, {"worst_light": "green"}, DO_NOT_RELEASE, "worst_light"),
        ({"reliability": {"light": "red"}}, {}, DO_NOT_RELEASE, "worst_light"),
        ({}, {"least_k": 2}, DO_NOT_RELEASE, "least_k"),
        ({"attributes": [ILLNESS]}, {"least_l_diversity": 2}, DO_NOT_RELEASE, "least_l_diversity"),
        ({"attributes": [ILLNESS]}, {"least_l_diversity": 1}, RELEASE, None),
        ({"attributes": [ILLNESS]}, {"max_t_closeness": 0.39}, DO_NOT_RELEASE, "max_t_closeness"),
        ({"attributes": [ILLNESS]}, {"max_t_closeness": 0.4}, RELEASE, None),
        ({"attributes": [ILLNESS]}, {"max_guess_gain": 0.09}, DO_NOT_RELEASE, "max_guess_gain"),
        ({"attributes": [ILLNESS]}, {"max_guess_gain": 0.1}, RELEASE, None),
        ({"attributes": [ILLNESS | {"records": 0, "l_diversity": 0}]}, {"least_l_diversity": 2}, RELEASE, None),
        ({"attributes": []}, {"least_l_diversity": 2}, LOOK, "least_l_diversity"),
    ],
)
def test_each_limit_refuses_what_is_beyond_it_and_nothing_else(
    risk: dict[str, Any], limits: dict[str, Any], verdict: str, limit: str | None
) -> None:
    found, reasons = verdict_of(safe(**risk), **limits)
    assert found == verdict
    assert reasons == ([] if limit is None else [limit])


@given(st.floats(0, 1), st.floats(0, 20_000), st.floats(0, 1), st.floats(0, 1))
def test_a_stricter_profile_never_lets_more_go(risk: float, links: float, first: float, second: float) -> None:
    summary = safe(highest=risk, expected_correct_matches=links)
    order = [RELEASE, LOOK, DO_NOT_RELEASE]
    strict, loose = (
        order.index(verdict_of(summary, max_record_risk=limit, max_correct_links_share=limit)[0])
        for limit in sorted((first, second))
    )
    assert strict >= loose


def _stages() -> list[RunSummary]:
    """The same risky file assessed; swapped; with the rest blanked; with coarser keys as well, none of which is enough."""
    assessed, swapped = demo_summary(), protected_summary()
    assessed["risk"]["highest"] = 0.9
    swapped["swap"]["risk_after"]["highest"] = 0.7
    blanked = {**swapped, "swap": {**swapped["swap"], "suppression": {"records": 3, "values": 4, "sentence": "Some."}}}
    swapped["risk"]["key_costs"] = [
        {
            "key": "age",
            "without": 12.0,
            "coarsened": [{"name": "age/10", "levels": 10, "recode": "age=bands of 10", "expected_population_uniques": 30.0}],
        }
    ]
    bare = {**blanked["risk"], "key_costs": [{"key": "age", "without": 12.0}]}
    return [typed(assessed), typed(swapped), typed(blanked), typed({**blanked, "risk": bare})]


def test_no_advice_loops() -> None:
    advice = [[(reason.remedy, reason.command) for reason in decided(run, PROFILES["public"]).refusals] for run in _stages()]
    about_records = [given[0] for given in advice]
    assert len(set(about_records)) == len(about_records)
    assert "--max-record-risk 0.05" in about_records[0][1], "and the links are limited with it"
    assert "--max-correct-links" in about_records[0][1]
    assert "--suppress-rest" in about_records[1][1]
    assert "--recode" in about_records[2][1]
    assert "Leave age out" in about_records[3][0]
    assert all(remedy for stage in advice for remedy, _ in stage)


def test_too_many_links_are_planned_for_then_swapped_towards_then_recoded() -> None:
    limits = {"max_correct_links": 2.5, "max_record_risk": 1.0}

    def advice(summary: dict[str, Any]) -> Reason:
        return next(one for one in decided(typed(summary), Profile(name="own", **limits)).refusals if "links" in one.limit)

    swapped = protected_summary()
    swapped["swap"]["risk_after"]["expected_correct_matches"] = 40.0
    swapped["swap"]["intruders"] = [{"name": "nearest", "knows": "has a register", "before": 90.0, "after": 40.0}]
    first, second = advice(demo_summary()), advice(swapped)
    assert first.command.endswith("--max-correct-links 2")
    assert (first.page, first.choices) == ("plan", {"max_correct_links": "2"})
    assert "--max-correct-links 2 " in second.command
    assert second.choices == {"way": "target", "max_correct_links": "2"}
    # What is kept stays kept: another choice of records could bring the risk of a record back.
    limits["max_record_risk"] = 0.99
    swapped["swap"]["risk_after"]["highest"] = 0.5
    assert "--max-correct-links 2 --max-record-risk 0.99 " in advice(swapped).command
    swapped["swap"]["risk_after"]["highest"] = 0.995
    assert "--max-record-risk" not in advice(swapped).command
    swapped["swap"]["target"] = {"met": False, "sentence": "Not reached.", "max_correct_links": 2.0}
    assert "--max-correct-links" not in advice(swapped).command


@pytest.mark.parametrize("name", ["a,b", 'say "a"', " a ", "two\nlines", "a;b"])
def test_a_key_in_a_command_is_the_key_whatever_its_name(name: str) -> None:
    summary = protected_summary()
    summary["keys"] = [{"name": name, "levels": 3}, {"name": "age", "levels": 9}]
    summary["risk"]["key_costs"] = []
    summary["swap"] |= {
        "target": {"met": True, "sentence": "Met.", "max_correct_links": 1.0},
        "intruders": [{"name": "nearest", "knows": "has a register", "before": 90.0, "after": 40.0}],
    }
    (reason,) = (reason for reason in decided(typed(summary), Profile(name="own", max_correct_links=2.0)).refusals)
    words = shlex.split(reason.command)
    assert names_in(words[words.index("--leave-out") + 1]) == (name,)


def test_tables_that_changed_are_never_released() -> None:
    summary = protected_summary()
    anything = Profile(name="anything")
    assert "margins" not in [reason.limit for reason in decided(typed(summary), anything).reasons]
    summary["swap"]["margins_identical"] = False
    judged = decided(typed(summary), anything)
    assert judged.verdict == DO_NOT_RELEASE
    assert [reason.is_refusal for reason in judged.reasons if reason.limit == "margins"] == [True]


def test_the_worst_of_the_named_intruders_counts() -> None:
    summary = protected_summary()
    summary["swap"]["intruders"] = [
        {"name": "nearest", "knows": "has a register", "before": 9.0, "after": 4.0},
        {"name": "informed", "knows": "knows the method", "before": 9.0, "after": 8.0},
    ]
    limits = {"max_correct_links": 5.0, "max_correct_links_share": 1.0, "max_record_risk": 1.0}
    assert verdict_of(summary, intruders=["nearest"], **limits)[0] == RELEASE
    assert verdict_of(summary, intruders=["nearest", "informed"], **limits)[0] == DO_NOT_RELEASE


def released(swap: dict[str, Any] | None = None, risk: dict[str, Any] | None = None, **parts: Any) -> dict[str, Any]:
    """A protected file with some parts of its summary replaced."""
    summary = protected_summary()
    summary["swap"] |= swap or {}
    summary["risk"] |= {"reliability": {"light": "green"}, **(risk or {})}
    return summary | parts


def own_verdict(summary: dict[str, Any], **limits: Any) -> tuple[str, list[str]]:
    judged = decided(typed(summary), Profile(name="own", **limits))
    return judged.verdict, [reason.limit for reason in judged.reasons]


def household(after: float, *, name: str = "household", **more: float) -> dict[str, Any]:
    return {"name": name, "knows": "knows families", "before": 50.0, "after": after, **more}


FAMILIES = {
    "households": 1000,
    "sample_uniques": 9,
    "expected_population_uniques": 2.0,
    "expected_correct_matches": 30.0,
    "expected_persons": 4.0,
    "interval": [1.0, 3.0],
    "highest": 0.7,
    "above_threshold": 0,
    "records_above_threshold": 0,
    "expected_records": 5.0,
    "places": 4,
}


def test_who_knows_families_or_what_the_user_named_counts_whatever_the_profile_names() -> None:
    both = [household(9.0), household(40.0, name="household-shadow")]
    summary = released({"intruders": both}, {"families": FAMILIES})
    assert own_verdict(summary, max_household_links_share=0.01) == (RELEASE, [])
    refused = DO_NOT_RELEASE, ["max_household_links_share"]
    assert own_verdict(summary, max_household_links_share=0.01, intruders=("shadow",)) == refused
    assert own_verdict(summary, max_household_links_share=0.008) == refused
    unknown = released({"intruders": both}, {"families": FAMILIES | {"known": False}})
    assert own_verdict(unknown, max_household_links_share=0.0) == (RELEASE, [])
    for name in ("also-known", "assignment"):
        found = [
            {"name": "nearest", "knows": "a", "before": 9.0, "after": 4.0},
            {"name": name, "knows": "b", "before": 9.0, "after": 8.0},
        ]
        assert own_verdict(released({"intruders": found}), max_correct_links=5.0) == (DO_NOT_RELEASE, ["max_correct_links"])


def test_the_highest_risk_is_the_larger_of_a_person_and_a_family() -> None:
    after = {"expected_population_uniques": 1.0, "expected_correct_matches": 1.0, "highest": 0.3}
    summary = released(
        {"risk_after": after, "intruders": [household(1.0, highest=0.9, highest_risk=0.6)]}, {"families": FAMILIES}
    )
    assert typed(summary).highest_risk == 0.6
    summary["swap"]["intruders"] = [household(1.0, highest=0.9)]
    assert typed(summary).highest_risk == 0.9
    summary["risk"]["families"] = FAMILIES | {"known": False}
    assert typed(summary).highest_risk == 0.3
    counted = {
        "people": 9,
        "population_uniques": 0,
        "correct_matches": 0.0,
        "records_not_covered": 0,
        "estimated_population_uniques": 0.0,
        "estimated_correct_matches": 0.0,
        "is_inside_interval": True,
    }
    assert typed(safe(families=FAMILIES, register=counted)).highest_risk == 0.7
    assert typed(safe(register=counted)).highest_risk == 0.0
    assert typed(safe(register=counted | {"population_uniques": 1})).highest_risk == 1.0


def test_a_group_of_the_size_asked_for_is_large_enough() -> None:
    summary = safe()
    summary["cells"]["size_indices"] = {"3": 7, "4": 1}
    assert own_verdict(summary, least_k=3) == (RELEASE, [])
    assert own_verdict(summary, least_k=4) == (DO_NOT_RELEASE, ["least_k"])


def test_a_column_that_undoes_a_treatment_is_refused_unless_it_was_accepted() -> None:
    leak = {"column": "born", "key": "age", "treated": "recoded", "determines": 0.1, "restores": True}
    assert own_verdict(released(release={"leaks": [leak]}), max_leak=0.5) == (DO_NOT_RELEASE, ["max_leak"])
    assert own_verdict(released(release={"leaks": [leak | {"accepted": True}]}), max_leak=0.5) == (LOOK, ["max_leak"])
    assert own_verdict(released(release={"leaks": [leak | {"restores": False}]}), max_leak=0.5) == (RELEASE, [])


def test_a_statistic_may_move_too_far_in_either_direction() -> None:
    for bias, verdict in ((0.06, DO_NOT_RELEASE), (-0.06, DO_NOT_RELEASE), (0.05, RELEASE), (None, RELEASE)):
        term = {"name": "pay", "before": 1.0, "after": 1.0, "error_before": 1.0, "error_after": 1.0, "overlap": 1.0}
        analysis = {"name": "wage", "kind": "means", "formula": "", "weighted": False, "records": 9}
        terms = [term | ({} if bias is None else {"relative_bias": bias})]
        assert own_verdict(released({"analyses": [analysis | {"terms": terms}]}), max_change=0.05)[0] == verdict


def test_blanks_reach_a_target_only_if_they_reach_all_of_it() -> None:
    target = {"met": False, "sentence": "Not reached.", "max_record_risk": 0.2, "max_correct_links": 5.0}
    after = {"expected_population_uniques": 1.0, "expected_correct_matches": 5.0, "highest": 0.2}
    blanked = {"target": target, "suppression": {"records": 3, "values": 4}, "risk_after": after}
    assert own_verdict(released(blanked)) == (RELEASE, [])
    missed = DO_NOT_RELEASE, ["target"]
    assert own_verdict(released(blanked | {"risk_after": after | {"highest": 0.21}})) == missed
    assert own_verdict(released({"target": target, "risk_after": after})) == missed
    assert own_verdict(released(blanked | {"target": target | {"against": "participant"}})) == missed
    assert own_verdict(released({"target": target | {"met": True}})) == (RELEASE, [])


def test_blanks_reach_no_target_that_families_miss() -> None:
    target = {"met": False, "sentence": "Not reached.", "max_record_risk": 0.2, "max_correct_links": 5.0}
    after = {"expected_population_uniques": 1.0, "expected_correct_matches": 5.0, "highest": 0.2}
    blanked = {"target": target, "suppression": {"records": 3, "values": 4}, "risk_after": after}
    for found in (household(6.0, highest_risk=0.1), household(5.0, highest_risk=0.3)):
        summary = released(blanked | {"intruders": [found]}, {"families": FAMILIES})
        assert own_verdict(summary) == (DO_NOT_RELEASE, ["target"])
        summary["risk"]["families"] = FAMILIES | {"known": False}
        assert own_verdict(summary) == (RELEASE, [])
    assert (
        own_verdict(released(blanked | {"intruders": [household(5.0, highest_risk=0.2)]}, {"families": FAMILIES}))[0] == RELEASE
    )


def test_blanks_are_not_advised_for_the_risk_of_families() -> None:
    after = {"expected_population_uniques": 1.0, "expected_correct_matches": 5.0, "highest": 0.4}
    target = {"met": False, "sentence": "Not reached.", "max_record_risk": 0.2}
    for asked in ({}, {"target": target}):
        swap = {"risk_after": after, "intruders": [household(6.0, highest_risk=0.9)], **asked}
        for families, advice in (({"families": FAMILIES}, "--unlink"), ({}, "--suppress-rest")):
            refusals = decided(typed(released(swap, families)), Profile(name="own", max_record_risk=0.2)).refusals
            assert refusals
            assert all(advice in reason.command for reason in refusals)


def test_a_file_that_is_unlinked_first_aims_at_the_limits_of_the_profile() -> None:
    families = FAMILIES | {"expected_correct_matches": 300.0}
    judged = decided(typed(safe(families=families)), PROFILES["scientific"])
    ways = [reason for reason in judged.refusals if reason.limit == "max_household_links_share"]
    assert [way.command.split(" --unlink ")[1].split(" --out ")[0] for way in ways] == [
        "--max-correct-links 98 --max-record-risk 0.2"
    ]
    assert ways[0].choices == {"unlink": "1", "way": "target", "max_correct_links": "98", "max_record_risk": "0.2"}


def test_a_profile_that_nobody_named_sets_the_exit_code_only_for_what_the_run_was_asked() -> None:
    asked = typed(released({"target": {"met": False, "sentence": "Not reached."}}))
    risky = typed(safe(highest=0.9))
    for summary, is_default, sets in ((asked, True, True), (asked, False, True), (risky, True, False), (risky, False, True)):
        assert decided(summary, PROFILES["scientific"], is_default=is_default).sets_exit_code is sets
    assert not decided(typed(safe()), PROFILES["scientific"]).sets_exit_code


def test_the_verdict_is_stored_and_read_back() -> None:
    judged = with_decision(typed(demo_summary()), PROFILES["public"], is_default=False)
    assert judged.release is not None
    assert RunSummary.from_dict(judged.to_dict()) == judged
    stored = judged.to_dict()["release"]["profile"]
    assert {"name", "verdict", "reasons"} <= set(stored)
    assert stored["verdict"] == DO_NOT_RELEASE


def test_a_profile_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "office.toml"
    path.write_text('max_record_risk = 0.1\nintruders = ["exact"]\n', encoding="utf-8")
    profile = Profile.named(str(path))
    assert (profile.name, profile.max_record_risk, profile.intruders) == ("office", 0.1, ("exact",))
    path.write_text("max_record_rsik = 0.1\n", encoding="utf-8")
    with pytest.raises(BadInput, match="Did you mean max_record_risk"):
        Profile.named(str(path))
    path.write_text("max_record_risk = 2\n", encoding="utf-8")
    with pytest.raises(BadInput, match="from 0 to 1"):
        Profile.named(str(path))
    with pytest.raises(BadInput, match="Did you mean scientific"):
        Profile.named("scientifc")
    with pytest.raises(BadInput, match="cannot be read"):
        Profile.named(str(tmp_path / "none.toml"))
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(BadInput, match="a pipe"):
        Profile.named(str(tmp_path / "pipe.toml"))
    with pytest.raises(BadInput, match="a pipe"):
        Form.named(str(tmp_path / "pipe.toml"))


def test_every_shipped_profile_says_where_it_comes_from_and_that_it_was_not_verified() -> None:
    for name in ("public", "scientific", "safe-centre"):
        assert "a choice of this program" in PROFILES[name].source
    assert "0.09" in PROFILES["clinical"].source
    assert "not compared" in PROFILES["clinical"].source


@given(st.floats(0, 1e9))
def test_nobody_is_halved(value: float) -> None:
    assert "." not in people(value)


def test_the_profile_of_a_run_judges_what_it_releases() -> None:
    draw = np.random.default_rng(4)
    frame = pa.table({"age": draw.integers(18, 60, 300), "sex": draw.choice(["f", "m"], 300), "pay": draw.integers(0, 99, 300)})
    done = rc.protect(frame, keys=["age", "sex"], population=500, top=5, model="independence", swap_seed=1, profile="public")
    for summary in (done.assessment.summary, done.summary):
        assert summary.release is not None
        assert summary.release.profile is not None
        assert (summary.release.profile.name, summary.release.profile.is_default) == ("public", False)


# What a run was asked to reach is judged with it, whatever the profile.

PEOPLE = {"age": list(range(40)) * 5, "sex": ["f", "m"] * 100, "ill": ["no", "no", "no", "yes"] * 50}
ALONE = [place // 2 for place in range(200)]
SMALL = {"population": 1_000, "model": "independence", "swap_seed": 3}


@pytest.mark.parametrize(
    ("asked", "limit", "advice"),
    [
        ({"k": 30, "never_swap": ["age"]}, "k", "--blank age,sex"),
        ({"max_correct_links": 1, "against": "participant", "never_swap": ["age"]}, "target", "--k 2"),
        ({"max_record_risk": 0.0, "never_swap": ["age", "sex"]}, "target", "--suppress-rest"),
        ({"sensitive": ["ill"], "l_diversity": 3, "top": 1}, "attributes", "rarecell plan"),
    ],
)
def test_what_was_asked_for_and_not_reached_is_refused(asked: dict[str, Any], limit: str, advice: str, tmp_path: Path) -> None:
    frame = pa.table({**PEOPLE, "age": ALONE if limit == "target" else PEOPLE["age"]})
    judged = rc.protect(frame, keys=["age", "sex"], **asked, **SMALL).summary.release.profile
    assert judged.is_default
    assert judged.verdict == DO_NOT_RELEASE
    asked_for = [reason for reason in judged.refusals if reason.is_requested]
    assert [reason.limit for reason in asked_for] == [limit]
    assert advice in asked_for[0].command
    assert judged.sets_exit_code


def test_blanks_for_the_limit_of_a_run_and_of_its_profile_are_advised_once() -> None:
    frame = pa.table({**PEOPLE, "age": ALONE})
    protected = rc.protect(frame, keys=["age", "sex"], max_record_risk=0.0, never_swap=["age", "sex"], **SMALL)
    strict = Profile(name="strict", max_record_risk=0.0, worst_light="red")
    refusals = decided(protected.summary, strict, is_default=True).refusals
    assert [reason.limit for reason in refusals] == ["target", "max_record_risk"]
    assert len({reason.command for reason in refusals}) == 1
    assert "--suppress-rest" in refusals[0].command


def test_the_exit_code_says_that_a_request_was_not_reached(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from rarecell.cli.commands import main

    path = tmp_path / "people.csv"
    rows = zip(*PEOPLE.values(), strict=True)
    path.write_text("\n".join([",".join(PEOPLE), *(",".join(map(str, row)) for row in rows)]))
    words = ["protect", str(path), "--keys", "age,sex", "--population", "2000", "--model", "independence", "--sensitive", "ill"]
    reached = CliRunner().invoke(main, [*words, "--top", "1", "--max-guess-gain", "0.9", "--quiet"])
    assert reached.exit_code == 0, reached.output
    missed = CliRunner().invoke(main, [*words, "--top", "1", "--l-diversity", "3", "--quiet"])
    assert missed.exit_code == 3, missed.output
    assert "Do not release" in missed.output
    assert "NOT reached" in missed.output


def test_blanks_may_reach_what_swaps_did_not() -> None:
    frame = pa.table({**PEOPLE, "age": ALONE})
    wish = {"keys": ["age", "sex"], "max_record_risk": 0.2, "never_swap": ["age", "sex"], **SMALL, "population": 250}
    assert not rc.protect(frame, **wish).summary.swap.target.met
    done = rc.protect(frame, suppress_rest=True, blank=["age"], **wish).summary
    assert done.swap.risk_after.highest <= 0.2
    assert not [reason for reason in done.release.profile.refusals if reason.is_requested]


def test_every_refusal_has_a_button_that_leads_to_a_page_of_the_app() -> None:
    """Limits that a steward can do something about; a fault of the program has none."""
    risky = {
        "highest": 0.9,
        "expected_correct_matches": 900.0,
        "reliability": {"light": "red"},
        "attributes": [ILLNESS],
    }
    profile = Profile(name="strict", max_record_risk=0.1, max_correct_links=5.0, least_k=3, least_l_diversity=2)
    refusals = [reason for run in (typed(safe(**risky)), *_stages()) for reason in decided(run, profile).refusals]
    assert {reason.limit for reason in refusals} >= {"max_record_risk", "max_correct_links", "least_k", "worst_light"}
    for reason in refusals:
        if reason.limit != "margins" and "stricter conditions" not in reason.remedy:
            assert reason.page in ("protect", "plan", "recode", "keys"), reason
            assert reason.button, reason
