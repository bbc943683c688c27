"""Whole runs: the contract of commands and files, reference numbers, reruns, interruptions and bad input."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import rarecell as rc
from rarecell import datasets
from rarecell.cli.commands import main
from rarecell.errors import Cancelled, RarecellError
from rarecell.progress import SilentProgress
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.protect import with_choice
from tests.naive import families as naive_families

CENSUS = str(datasets.census_sample_path())
KEYS = ",".join(datasets.CENSUS_KEYS)
FULL = ["--keys", KEYS, "--population", "277677", "--resolution", "full"]


def command(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def assessed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("assess") / "run"
    done = command("assess", CENSUS, *FULL, "--model", "single", "--out", out)
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("demo") / "demo"
    load, loads = datasets.census_population, []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(datasets, "census_population", lambda: loads.append(1) or load())
        done = command("demo", "--out", out)
    assert done.exit_code == 0, done.output
    assert len(loads) == 1, "the population is loaded once"
    return out, done.output


def read_summary(folder: Path) -> dict:
    return json.loads((folder / "summary.json").read_text())


def test_assess_gives_the_reference_numbers_at_full_resolution(assessed: Path) -> None:
    found = read_summary(assessed)
    assert found["records"] == 9809
    assert found["population"] == 277677
    assert [key["levels"] for key in found["keys"]] == [14, 2, 91, 5, 5, 7, 2, 5]
    assert found["cells"]["formal"] == 4459000
    assert found["cells"]["occupied"] == 2879
    assert found["cells"]["size_indices"]["1"] == 1674
    model = found["model"]
    keys = list(datasets.CENSUS_KEYS)
    numbered = sorted("".join(sorted(str(keys.index(v) + 1) for v in clique)) for clique in model["cliques"])
    assert numbered == sorted(["15", "16", "36", "46", "37", "28", "38"])
    assert {(tuple(s["variables"]), s["multiplicity"]) for s in model["separators"]} == {
        (("relationship",), 1),
        (("age",), 2),
        (("spouse",), 2),
        (("child_age",), 1),
    }
    assert model["degrees_of_freedom"] == 1271
    assert model["log_likelihood_kernel"] == pytest.approx(-76893.731, abs=5e-4)
    assert model["log_likelihood"] == pytest.approx(-10018.593, abs=5e-4)
    assert model["aic"] == pytest.approx(22579.187, abs=5e-4)
    assert model["search"]["certified_optimal"] is True
    risk = found["risk"]
    assert risk["expected_population_uniques"] == pytest.approx(265.787, abs=5e-4)
    assert risk["sample_uniques"] == risk["swappable_uniques"] == 1674
    assert risk["estimators"]["ewens"] == pytest.approx(67.069, abs=5e-4)
    assert risk["estimators"]["pitman"] == pytest.approx(312.59, abs=5e-3)
    assert risk["cell_probability_decades"] == {"-3": 3, "-4": 231, "-5": 854, "-6": 471, "-7": 98, "-8": 16, "-9": 1}


def test_the_average_over_penalties_gives_the_reference_number(tmp_path: Path) -> None:
    done = command("assess", CENSUS, *FULL, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["risk"]["expected_population_uniques"] == pytest.approx(242.584, abs=5e-4)


def test_the_risk_file_has_a_row_for_each_record(assessed: Path) -> None:
    risk = pq.read_table(assessed / "risk.parquet")
    assert risk.column_names[:6] == [
        "record",
        "cell_count",
        "cell_probability",
        "unique_probability",
        "match_probability",
        "swappable",
    ]
    assert risk["record"].to_pylist() == list(range(9809))
    unique = risk["unique_probability"].to_numpy()
    counts = risk["cell_count"].to_numpy()
    assert (unique[counts > 1] == 0).all()
    assert unique.sum() == pytest.approx(265.787, abs=5e-4)
    assert ((unique >= 0) & (unique <= 1)).all()


def test_files_are_for_their_owner_and_complete(assessed: Path) -> None:
    names = {p.name for p in assessed.iterdir()}
    assert {"run.toml", "run.json", "summary.json", "model.json", "risk.parquet", "report.html"} <= names
    for path in assessed.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_rerunning_the_configuration_gives_the_same_bytes(assessed: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    done = command("assess", "--config", assessed / "run.toml", "--out", again)
    assert done.exit_code == 0, done.output
    for name in ("summary.json", "model.json", "risk.parquet", "run.toml", "report.html"):
        # The command that the report suggests names the folder of its run.
        one, other = ((folder / name).read_text("latin-1").replace(str(folder), "RUN") for folder in (again, assessed))
        assert one.replace(str(again.parent), "") == other.replace(str(assessed.parent), ""), name


def test_nothing_is_overwritten_unless_allowed(assessed: Path) -> None:
    before = (assessed / "summary.json").read_bytes()
    done = command("assess", CENSUS, *FULL, "--model", "single", "--out", assessed)
    assert done.exit_code == 1
    assert "--overwrite" in done.output
    assert (assessed / "summary.json").read_bytes() == before


def test_the_demo_holds_the_estimate_against_the_truth(demo: tuple[Path, str]) -> None:
    out, printed = demo
    found = read_summary(out)
    assert found["truth"]["population_uniques"] == 179
    assert found["truth"]["correct_matches"] == pytest.approx(414.58, abs=0.005)
    assert "179" in printed
    assert found["risk"]["expected_population_uniques"] == pytest.approx(179, rel=0.12)
    low, high = found["risk"]["interval"]
    assert low <= 179 <= high
    assert (out / "report.html").exists()


def test_the_demo_holds_families_against_the_truth(demo: tuple[Path, str]) -> None:
    out, printed = demo
    families = read_summary(out)["truth"]["families"]
    people = datasets.census_households()
    rows = [tuple(row) for row in zip(*(people[key].to_pylist() for key in families["keys"]), strict=True)]
    unique = naive_families.unique_households(rows, people["household"].to_pylist(), 12)
    drawn = set(datasets.census_household_sample(people=people)["household"].to_pylist())
    # Four places tell apart all but a few of the households that all members do.
    assert families["population_uniques"] == pytest.approx(len(unique & drawn), rel=0.01)
    assert families["estimate"] == pytest.approx(families["population_uniques"], rel=0.06)
    low, high = families["interval"]
    assert low <= families["population_uniques"] <= high
    assert f"{families['population_uniques']:,} are the only ones of their kind" in " ".join(printed.split())


def test_the_protected_file_differs_in_swapped_values_only(demo: tuple[Path, str]) -> None:
    out, _ = demo
    before = gzip.decompress(Path(CENSUS).read_bytes()).decode().splitlines()
    after = gzip.decompress((out / "protected.csv.gz").read_bytes()).decode().splitlines()
    assert len(before) == len(after)
    assert before[0] == after[0]
    header = before[0].split(",")
    swaps = pq.read_table(out / "swaps.parquet").to_pydict()
    allowed = {}
    for record, partner, variables in zip(swaps["record"], swaps["partner"], swaps["variables"], strict=True):
        for row in (record, partner):
            allowed.setdefault(row, set()).update(variables if isinstance(variables, list) else variables.split(","))
    for row, (old, new) in enumerate(zip(before[1:], after[1:], strict=True)):
        changed = {name for name, a, b in zip(header, old.split(","), new.split(","), strict=True) if a != b}
        assert changed <= {name.strip() for name in allowed.get(row, set())}
    swap = read_summary(out)["swap"]
    assert swap["margins_identical"] is True
    assert swap["risk_after"]["expected_population_uniques"] < swap["risk_before"]["expected_population_uniques"] / 4


def test_clique_margins_of_the_protected_file_are_identical(demo: tuple[Path, str]) -> None:
    from collections import Counter

    out, _ = demo
    model = json.loads((out / "model.json").read_text())["best"]
    keys = set(model["keys"])
    rows = {}
    for name, data in (("before", Path(CENSUS).read_bytes()), ("after", (out / "protected.csv.gz").read_bytes())):
        lines = gzip.decompress(data).decode().splitlines()
        header = lines[0].split(",")
        rows[name] = [dict(zip(header, line.split(","), strict=True)) for line in lines[1:]]
    for clique in model["cliques"]:
        members = [v for v in clique if v in keys]
        if len(members) == len({v.split("/")[0] for v in clique}):
            counts = [Counter(tuple(r[m] for m in members) for r in rows[name]) for name in ("before", "after")]
            assert counts[0] == counts[1], clique


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["assess", "nowhere.csv", "--keys", "a", "--population", "5"], 1, "nowhere.csv"),
        (["assess", CENSUS, "--keys", "agee", "--population", "277677"], 1, "Did you mean 'age'"),
        (["assess", CENSUS, "--keys", "age,sex", "--population", "5"], 1, "9,809 records"),
        (["assess", CENSUS, "--keys", "age,sex"], 1, "--population"),
        (["assess", CENSUS, "--keys", "age,age", "--population", "277677"], 1, "once"),
        (["assess", CENSUS, "--population", "277677"], 2, "--keys"),
        (["assess", "--keys", "age", "--population", "277677"], 2, "microdata file"),
        (["assess", CENSUS, "--keys", "age", "--population", "many"], 2, "not a valid integer"),
        (["assess", CENSUS, "--keys", "age,sex", "--population", "277677", "--cliques", "age,region"], 1, "region"),
        (["graphs", "0"], 2, "0"),
    ],
)
def test_bad_requests_get_one_paragraph(arguments: list[str], code: int, says: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = command(*arguments, *(["--out", out] if arguments[0] != "graphs" else []))
    assert done.exit_code == code, done.output
    assert says in done.output
    assert "Traceback" not in done.output
    assert not out.exists()


def test_fail_above_gives_exit_code_three() -> None:
    done = command("assess", CENSUS, *FULL, "--model", "single", "--fail-above", "0.5", "--json")
    assert done.exit_code == 3


def test_dry_run_says_cells_memory_and_time_and_writes_nothing(tmp_path: Path) -> None:
    done = command("assess", CENSUS, *FULL, "--dry-run", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "4,459,000 cells" in done.output
    assert "MB" in done.output
    assert "seconds" in done.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("gate", "code", "said"),
    [
        (["--fail-above-match", "0.09"], 3, "above the 0.09 of --fail-above-match"),
        (["--fail-above-match", "1"], 0, ""),
        (["--fail-below", "3"], 3, "the 3 records of --fail-below: the smallest number is 1"),
        (["--fail-below", "1"], 0, ""),
        (["--fail-below", "11", "--fail-above", "0", "--fail-above-match", "0"], 3, "of --fail-below"),
    ],
)
def test_every_published_rule_is_an_option(gate: list[str], code: int, said: str) -> None:
    done = command(
        "assess", CENSUS, "--keys", "sex,marital,citizenship,age", "--population", "277677", "--model", "single", *gate
    )
    assert done.exit_code == code, done.output
    assert said in done.stderr
    assert done.stderr.count("--fail") == (0 if code == 0 else len(gate) // 2)


def test_a_record_at_the_threshold_counts_as_risky() -> None:
    options = {"keys": ["sex", "marital", "citizenship", "age"], "population": 277_677, "model": "single"}
    highest = rc.assess(CENSUS, **options).summary.risk.highest
    at, above = (rc.assess(CENSUS, **options, threshold=limit).summary.risk for limit in (highest, np.nextafter(highest, 1.0)))
    assert at.records_above_threshold > 0 == above.records_above_threshold


def test_the_highest_match_is_that_of_any_record() -> None:
    found = rc.assess(CENSUS, keys=["sex", "marital", "citizenship", "age"], population=277_677, model="single")
    risk = found.to_frame()
    assert found.summary.risk.highest_match == pytest.approx(max(risk.column("match_probability").to_pylist()))
    people = pa.concat_tables([datasets.census_sample().select(found.config.keys)] * 3)
    counted = rc.assess(CENSUS, keys=list(found.config.keys), population=277_677, model="single", register=people)
    assert counted.summary.risk.highest_match == pytest.approx(1 / 3)
    assert found.summary.smallest_group == min(risk.column("cell_count").to_pylist())


def test_a_comparison_replaces_no_file_unless_allowed(assessed: Path, demo: tuple[Path, str], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("mine", encoding="utf-8")
    refused = command("compare", assessed, demo[0], "--html", page)
    assert refused.exit_code == 1
    assert "already exists" in refused.output
    assert page.read_text(encoding="utf-8") == "mine"
    assert command("compare", assessed, demo[0], "--html", page, "--overwrite").exit_code == 0
    assert "<html" in page.read_text(encoding="utf-8")


def test_a_page_replaces_neither_data_nor_results_whatever_is_allowed(
    assessed: Path, demo: tuple[Path, str], tmp_path: Path
) -> None:
    survey, link = tmp_path / "survey.csv", tmp_path / "link.html"
    survey.write_text("age,sex\n", encoding="utf-8")
    link.symlink_to(survey)
    for place, why in ((survey, "ends in .html"), (assessed / "report.html", "is a result"), (link, "is a link")):
        before = place.read_bytes()
        for words in (("compare", assessed, demo[0], "--html"), ("report", assessed, "--template", "ema", "--output")):
            refused = command(*words, place, "--overwrite")
            assert refused.exit_code == 1
            assert why in refused.output
        assert place.read_bytes() == before


def test_compare_shows_two_runs(assessed: Path, demo: tuple[Path, str]) -> None:
    done = command("compare", assessed, demo[0])
    assert done.exit_code == 0, done.output
    assert "266" in done.output
    assert "≠" in done.output


def test_explain_pair_says_why(assessed: Path) -> None:
    done = command("explain-pair", assessed, 3, 77)
    assert done.exit_code == 0, done.output
    assert "swap" in done.output


class StopsAfter(SilentProgress):
    """Cancels at the n-th question."""

    def __init__(self, n: int) -> None:
        self.left = n

    def cancelled(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.mark.parametrize("n", [0, 2, 5, 8])
def test_a_cancelled_run_leaves_nothing(n: int, tmp_path: Path) -> None:
    config = RunConfig(
        input=CENSUS,
        keys=("sex", "age", "marital"),
        population=277_677,
        resolution="full",
        model="single",
        protect=ProtectConfig(top=5),
    )
    with pytest.raises(Cancelled, match="Nothing was written"):
        rc.protect(config, out=tmp_path / "out", progress=StopsAfter(n))
    assert not (tmp_path / "out").exists()


class HasEnough(SilentProgress):
    """Does not wait for advice once the verdict is known."""

    def __init__(self, *, waits: bool = False) -> None:
        self.waits = waits
        self.answers: list[str] = []
        self.has_verdict = False

    def answer(self, sentence: str, *, is_verdict: bool = False) -> None:
        self.answers.append(sentence)
        self.has_verdict |= is_verdict

    def ends_early(self) -> bool:
        return self.has_verdict and not self.waits


@pytest.mark.parametrize("model", ["average", "single"])
def test_whoever_has_the_verdict_need_not_wait_for_advice(model: str, tmp_path: Path) -> None:
    config = RunConfig(input=CENSUS, keys=("sex", "age", "marital", "education"), population=277_677, model=model)
    early, whole = HasEnough(), HasEnough(waits=True)
    ended = rc.assess(config, out=tmp_path / "ended", progress=early)
    waited = rc.assess(config, out=tmp_path / "waited", progress=whole)
    assert early.answers == whole.answers
    first, last = whole.answers
    assert first.startswith("First estimate: about ")
    assert f"{waited.summary.risk.sample_uniques:,} are alone" in first
    profile = waited.summary.release and waited.summary.release.profile
    assert profile is not None
    assert last == f"{profile.headline}. {waited.verdict.headline}."
    # The verdict and all that it rests on are the same; what was not waited for is missing, and the run says so.
    assert ended.verdict == waited.verdict
    assert ended.summary.risk.interval == waited.summary.risk.interval
    assert ended.summary.model == waited.summary.model
    assert waited.summary.risk.key_costs
    assert ended.summary.risk.key_costs == ()
    assert "does not say what each key costs" in ended.summary.notes[-1]
    assert pq.read_table(tmp_path / "ended/risk.parquet").equals(pq.read_table(tmp_path / "waited/risk.parquet"))
    assert (tmp_path / "ended/report.html").exists()


def test_a_protection_tells_its_first_number_and_waits_for_its_own_verdict() -> None:
    progress = HasEnough()
    rc.protect(CENSUS, keys=["sex", "age", "marital"], population=277_677, top=5, progress=progress)
    assert len(progress.answers) == 1
    assert not progress.has_verdict


def test_a_run_notes_what_the_processor_did_and_the_memory(tmp_path: Path) -> None:
    rc.assess(CENSUS, keys=["sex", "age", "marital"], population=277_677, out=tmp_path / "run")
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert record["peak_memory"] > 50e6
    assert set(record["processor_seconds"]) < set(record["seconds"])
    assert {"reading", "models", "judgement", "advice"} <= set(record["processor_seconds"])


def test_weights_give_the_population_and_named_models_are_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "survey.csv"
    rows = [
        f"{a},{b},{c},{w}"
        for a, b, c, w in zip(
            rng.integers(0, 9, 400), rng.integers(0, 3, 400), rng.integers(0, 4, 400), rng.integers(5, 30, 400), strict=True
        )
    ]
    path.write_text("age,sex,region,weight\n" + "\n".join(rows) + "\n")
    config = RunConfig(input=str(path), keys=("age", "sex", "region"), weight="weight", cliques=(("age", "sex"),), model="single")
    found = rc.assess(config)
    assert found.summary.population == sum(int(row.rsplit(",", 1)[1]) for row in rows)
    assert found.summary.model.search.method == "given"
    assert ["age", "sex"] in [[v for v in clique if "/" not in v] for clique in found.summary.model.cliques]


def test_a_run_that_is_killed_leaves_no_result_and_a_rerun_completes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = [sys.executable, "-m", "rarecell", "assess", CENSUS, "--keys", KEYS, "--population", "277677", "--out", str(out)]
    for delay in (1.0, 3.0):
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        assert not (out / "summary.json").exists() or (out / "run.json").exists()
        shutil.rmtree(out, ignore_errors=True) if (out / "run.json").exists() else None
    done = subprocess.run([*arguments, "--overwrite"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {".rarecell.lock"}.isdisjoint(os.listdir(out))
    assert not [p for p in os.listdir(out) if p.startswith(".")]


@pytest.mark.parametrize(("profile", "limit"), [(None, 0.2), ("public", 0.05)])
def test_without_a_choice_records_above_the_limit_of_the_profile_are_protected(profile: str | None, limit: float) -> None:
    config = RunConfig(input=CENSUS, keys=("sex", "age"), population=277_677, profile=profile)
    assert with_choice(config).protect == ProtectConfig(risk_above=limit)
    chosen = replace(config, protect=ProtectConfig(top=3))
    assert with_choice(chosen) is chosen


@pytest.mark.parametrize(
    "options",
    [
        {"model": "bayes"},
        {"model": "regularised"},
        {"model": "stacked"},
        {"model": "hierarchical", "criterion": "0.7"},
        {"model": "single", "criterion": "skinner-shlomo"},
        {"model": "single", "criterion": "bayes", "zeros": "detect"},
        {"model": "independence", "zeros": "off"},
        {"model": "saturated"},
    ],
    ids=str,
)
def test_every_choice_of_model_gives_a_risk(options: dict[str, str]) -> None:
    config = RunConfig(input=CENSUS, keys=("relationship", "sex", "marital", "citizenship"), population=277_677, **options)
    found = rc.assess(config)
    risk = found.summary.risk
    assert 0 <= risk.expected_population_uniques <= risk.sample_uniques
    low, high = risk.interval
    assert 0 <= low <= high <= risk.sample_uniques


def test_strata_have_their_own_populations() -> None:
    config = RunConfig(
        input=CENSUS,
        keys=("relationship", "age", "marital"),
        strata="sex",
        populations={"0": 133_000, "1": 144_677},
        model="single",
    )
    assert rc.assess(config).summary.population == 277_677
    with pytest.raises(RarecellError, match="stratum '1'"):
        rc.assess(replace(config, populations={"0": 277_677}))
