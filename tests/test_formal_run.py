"""Formal releases through the command and the library: what is printed, written, hidden and refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import rarecell as rc
from rarecell.cli.commands import main
from rarecell.intruder.informed import informed_links
from rarecell.intruder.nearest import exact_links, nearest_links
from rarecell.intruder.participant import participant_links
from rarecell.intruder.register import Register
from rarecell.release.release import Release
from rarecell.report.edition import external as external_edition
from rarecell.run.config import FormalConfig, ProtectConfig, RunConfig, options_on

CLIQUES = [["area", "age"], ["age", "job"], ["job", "house"]]


def small_frame() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    area = rng.integers(0, 5, 600)
    age = (area + rng.integers(0, 6, 600)) % 8
    job = (age + rng.integers(0, 4, 600)) % 6
    house = (job + rng.integers(0, 3, 600)) % 5
    return pd.DataFrame({"area": area, "age": age, "job": job, "house": house, "income": rng.integers(0, 900, 600)})


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("formal") / "small.csv"
    small_frame().to_csv(path, index=False)
    return path


def command(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def options(file: Path) -> list[object]:
    named = ";".join(",".join(clique) for clique in CLIQUES)
    return [
        file,
        "--keys",
        "area,age,job,house",
        "--population",
        "9000",
        "--model",
        "single",
        "--resolution",
        "full",
        "--cliques",
        named,
    ]


@pytest.fixture(scope="module")
def done(file: Path) -> tuple[Path, str]:
    out = file.parent / "run"
    result = command("protect", *options(file), "--formal", "epsilon=5", "--formal", "root=age,job", "--details", "--out", out)
    assert result.exit_code == 0, result.output
    return out, result.output


def test_the_sentence_is_printed_with_its_invariants_and_cautions(done: tuple[Path, str]) -> None:
    text = " ".join(done[1].split())
    assert "ε = 5 for each record" in text
    assert "age and job of every record" in text
    assert "ε, edge by edge" in text
    assert text.count("Mind: ") >= 6
    assert "chosen on these data" not in text  # the model was named


def test_the_file_keeps_its_cliques_and_everything_else(file: Path, done: tuple[Path, str]) -> None:
    before, after = pd.read_csv(file), pd.read_csv(done[0] / "protected.csv")
    for clique in CLIQUES:
        assert before.value_counts(clique).to_dict() == after.value_counts(clique).to_dict()
    for column in ("age", "job", "income"):
        assert before[column].tolist() == after[column].tolist()
    summary = json.loads((done[0] / "summary.json").read_text())
    n_changed = int((before != after).any(axis=1).sum())
    assert summary["swap"]["formal"]["records_changed"] == n_changed > 0
    assert pd.read_parquet(done[0] / "swaps.parquet")["record"].nunique() == n_changed


def test_the_summary_and_the_configuration_come_back(done: tuple[Path, str]) -> None:
    stored = json.loads((done[0] / "summary.json").read_text())
    summary = rc.RunSummary.from_dict(stored)
    assert summary.swap is not None
    assert summary.swap.formal is not None
    statement = summary.swap.formal.statement
    assert statement.epsilon == pytest.approx(5)
    assert statement.sentence == summary.swap.formal.sentence
    assert summary.to_dict() == stored
    config = RunConfig.read(done[0] / "run.toml")
    assert config.protect is not None
    assert FormalConfig.of(config.protect.formal) == FormalConfig(epsilon=5.0, root=("age", "job"))


def test_two_runs_of_the_same_configuration_differ(file: Path, done: tuple[Path, str]) -> None:
    """Random numbers come from the operating system: a seed in a run's files would give everything away."""
    again = command("protect", "--config", done[0] / "run.toml", "--out", file.parent / "again")
    assert again.exit_code == 0, again.output
    one, other = (pd.read_csv(folder / "protected.csv") for folder in (done[0], file.parent / "again"))
    assert not one.equals(other)


def test_a_seed_has_no_part_in_it(file: Path, tmp_path: Path, done: tuple[Path, str]) -> None:
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        result = command("protect", *options(file), "--formal", "epsilon=5", "--seed", "3", "--out", folder)
        assert result.exit_code == 0, result.output
        assert "seed has no effect" in json.loads((folder / "summary.json").read_text())["notes"][-1]
    one, other = (pd.read_csv(folder / "protected.csv") for folder in folders)
    assert not one.equals(other)
    assert "swap_seed" not in (done[0] / "run.toml").read_text()


def test_the_external_edition_shows_no_more_than_invariants(done: tuple[Path, str]) -> None:
    stored = json.loads((done[0] / "summary.json").read_text())
    internal = (done[0] / "report.html").read_text()
    external = (done[0] / "report-external.html").read_text()
    assert "What did change" in internal
    assert "What did change" not in external
    for text in (internal, external):
        assert "Subject to its invariants" in text
        assert "ε, edge by edge" in text
    hidden = external_edition(rc.RunSummary.from_dict(stored)).swap
    assert hidden is not None
    assert hidden.formal is not None
    assert hidden.formal.records_changed is None
    assert hidden.formal.uniques_changed is None
    assert hidden.share_changed is None
    assert hidden.swapped == hidden.values_changed == "not shown"


def test_from_python(file: Path) -> None:
    result = rc.protect(
        small_frame(),
        keys=["area", "age", "job", "house"],
        population=9000,
        model="single",
        resolution="full",
        cliques=CLIQUES,
        formal={"rate": 0.2},
    )
    assert isinstance(result.plan, rc.FormalRelease)
    assert result.plan.statement.expected_records_changed == pytest.approx(0.2, rel=0.2)
    assert result.frame["income"].tolist() == small_frame()["income"].tolist()
    assert "rearranged at random" in str(result)


def test_every_intruder_is_tried_on_a_formal_release() -> None:
    table = rc.Microdata(small_frame(), keys=["area", "age", "job", "house"]).table()
    model = rc.DecomposableModel(table, cliques=CLIQUES)
    register = Register.modelled(rc.record_risk(table, model, population=9000), model)
    before = exact_links(Release.unchanged(table), register).link.sum()
    for attack in (exact_links, nearest_links, informed_links):
        found = [
            attack(rc.formal_swaps(table, model, epsilon=epsilon, seed=2).release, register).link.sum() for epsilon in (0, 4, 15)
        ]
        assert 0 <= found[0] < found[1] < found[2] <= before + 1e-9
    participants = [
        participant_links(rc.formal_swaps(table, model, epsilon=epsilon, seed=2).release).link.sum() for epsilon in (0, 15)
    ]
    assert participants[0] < participants[1]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--top", "5"], "no finite ε"),
        (["--risk-above", "0.1"], "no finite ε"),
        (["--households"], "households"),
        (["--keep", "area,house"], "lies in no clique"),
        (["--within", "area"], "further invariant"),
        (["--never-swap", "house", "--formal", "root=area,age"], "root clique"),
        (["--zeros", "list.json"], "impossible"),
        (["--formal", "epsilonn=3"], "Did you mean 'epsilon'"),
        (["--formal", "rate=0.1"], "either epsilon or rate"),
        (["--formal", "root=area,job"], "not a clique"),
        (["--formal", "rare=often"], "number"),
        (["--formal", "epsilon"], "it takes NAME=VALUE"),
    ],
)
def test_what_would_void_the_guarantee_is_refused(file: Path, tmp_path: Path, extra: list[str], message: str) -> None:
    (tmp_path / "list.json").write_text('{"combinations": [{"levels": {"area": "0", "age": "7"}}]}')
    given = [str(tmp_path / word) if word == "list.json" else word for word in extra]
    result = command("protect", *options(file), "--formal", "epsilon=3", *given, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert message in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "voided",
    [
        {"suppress_rest": True, "max_record_risk": 0.1},
        {"decoys": 0.5},
        {"rules": ({"area": "1"},)},
        {"untouched": ({"area": "1"},)},
        {"distances": {"age": "ordinal"}},
        {"weights": {"age": 2.0}},
    ],
)
def test_rules_and_near_partners_are_refused(voided: dict[str, object]) -> None:
    config = RunConfig(
        input="",
        keys=("area", "age", "job", "house"),
        population=9000,
        protect=ProtectConfig(formal={"epsilon": 3}, **voided),  # type: ignore[arg-type]
    )
    with pytest.raises(rc.RarecellError, match="leave out"):
        rc.protect(config, frame=small_frame())


def test_a_margin_inside_a_clique_may_be_kept(file: Path) -> None:
    result = command("protect", *options(file), "--formal", "epsilon=3", "--keep", "area,age")
    assert result.exit_code == 0, result.output


def test_words_of_the_command_line() -> None:
    formal = next(declared for _, declared in options_on("protect") if declared.name == "formal")
    assert formal.kind.read(["epsilon=4,5", "root=a, b", "rare=3"], formal.flag) == {
        "epsilon": [4, 5],
        "root": ["a", "b"],
        "rare": 3,
    }
    assert FormalConfig.of({"epsilon": [4, 5]}).epsilon == (4.0, 5.0)
    for wrong in ({"epsilon": True}, {"rate": "x"}, {"epsilon": 1, "rare": 1.5}, {"epsilon": 1, "root": 3}):
        with pytest.raises(rc.RarecellError):
            FormalConfig.of(wrong)
