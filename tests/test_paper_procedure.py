"""The procedure of the paper as an option, its table, and its estimate beside the default."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import rarecell as rc
from rarecell import datasets
from rarecell.cli import main
from rarecell.run.config import PAPER, RunConfig, follows_the_paper

KEYS = ("age", "sex", "marital", "citizenship")


def test_the_option_runs_the_procedure_and_prints_its_table() -> None:
    command = ["assess", str(datasets.census_sample_path()), "--keys", ",".join(KEYS), "--population", "277677", "--quiet"]
    done = CliRunner().invoke(main, [*command, "--paper", "--restarts", "20", "--json"])
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    models = summary["paper"]["models"]
    assert summary["paper"]["starts"] == 20
    assert sum(model["times_met"] for model in models) <= 20
    assert [model["aic"] for model in models] == sorted(model["aic"] for model in models)
    best = models[0]
    assert best["riskiest_shared_with_best"] == min(50, summary["risk"]["sample_uniques"])
    assert best["expected_population_uniques"] == pytest.approx(summary["risk"]["expected_population_uniques"])
    assert best["decades"] == summary["risk"]["cell_probability_decades"]
    assert best["aic"] == pytest.approx(2 * best["degrees_of_freedom"] - 2 * best["log_likelihood"])
    words = CliRunner().invoke(main, [*command, "--paper", "--restarts", "5"])
    assert "The best models of 5 climbs" in words.stdout
    refused = CliRunner().invoke(main, [*command, "--paper", "--model", "average"])
    assert refused.exit_code == 2
    assert "--paper" in refused.output


def test_only_the_procedure_itself_counts() -> None:
    config = RunConfig(input="x", keys=KEYS, population=1000, **PAPER)
    assert follows_the_paper(config)
    assert not follows_the_paper(RunConfig(input="x", keys=KEYS, population=1000))


def test_the_paper_s_estimate_stands_beside_the_default() -> None:
    found = rc.assess(datasets.census_sample(), keys=KEYS, population=277_677)
    single = rc.assess(datasets.census_sample(), keys=KEYS, population=277_677, model="single", resolution="full")
    assert found.summary.paper is None
    assert found.summary.risk.estimators["paper"] == pytest.approx(single.summary.risk.expected_population_uniques)
