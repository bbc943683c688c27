"""Does it work? The bundled census sample, assessed and protected, and compared with the truth in its population."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rarecell import datasets
from rarecell.intruder.register import Register
from rarecell.intruder.residual_risk import risk_after
from rarecell.intruder.trial import try_intruders
from rarecell.outcome.summary import FamilyTruth
from rarecell.outcome.verdict import judged
from rarecell.outcome.words import listed, number, span
from rarecell.progress import SILENT, OnlyCancelled, Progress, Stage, Stages
from rarecell.run import assess, files
from rarecell.run.assess import assessed
from rarecell.run.config import Frames, ProtectConfig, RunConfig
from rarecell.run.protect import choosing, protected
from rarecell.run.results import Assessment, Protection
from rarecell.swap.plan import SwapPlan
from rarecell.table.contingency import ContingencyTable

if TYPE_CHECKING:
    import pyarrow as pa


FAMILY_KEYS = ("relationship", "sex", "age", "marital", "citizenship")
"""What is taken to be known of every member of a family."""


def demo(*, out: str | Path | None = None, overwrite: bool = False, progress: Progress = SILENT) -> Protection:
    """Assess and protect the bundled census sample, and compare the estimate with its population."""
    config = RunConfig(
        input=str(datasets.census_sample_path()),
        keys=datasets.CENSUS_KEYS,
        population=datasets.CENSUS_POPULATION,
        household="household",
        protect=ProtectConfig(risk_above=0.2),
    )
    request = choosing(config)
    stages = Stages(progress)
    with files.run_folder(out, overwrite) as folder:
        assessment = assessed(config, stages, request=request)
        with stages.stage(Stage.TRUTH):
            people = datasets.census_households()
            everybody = _population(people, assessment.table)
            assessment = _with_truth(assessment, everybody, _families(people, progress))
        result = protected(request, assessment, stages)
        result = _with_truth_after(_with_true_links(result, everybody), everybody)
        if folder is not None:
            files.write_protection(folder, result, stages)
            files.publish(folder, "protect", assessment, stages)
    return result


def _families(people: pa.Table, progress: Progress) -> FamilyTruth:
    """Assess a sample of whole households of the population, and count its families there."""
    sample = datasets.census_household_sample(people=people)
    config = RunConfig(
        input="census households",
        keys=FAMILY_KEYS,
        population=datasets.CENSUS_POPULATION,
        household="household",
        register="census population",
    )
    assessment = assessed(config, Stages(OnlyCancelled(progress)), Frames(sample, people))
    families = assessment.summary.risk.families
    assert families is not None, "the sample has whole households"
    assert families.register is not None, "the population names its households"
    true, persons, estimate = (
        families.register.population_uniques,
        families.register.persons,
        families.expected_population_uniques,
    )
    assert isinstance(true, int)
    assert isinstance(persons, int)
    assert isinstance(families.households, int)
    inside = "inside" if families.register.is_inside_interval else "outside"
    return FamilyTruth(
        households=families.households,
        persons=sample.num_rows,
        keys=FAMILY_KEYS,
        estimate=estimate,
        interval=families.interval,
        population_uniques=true,
        persons_in_them=persons,
        sentence=(
            f"Families are easier to recognise than persons. In a sample of {number(families.households)} whole households of the same "
            f"population, with {number(sample.num_rows)} persons, {number(true)} are the only ones of their kind by {listed(FAMILY_KEYS)} of "
            f"all members, with {number(persons)} persons. The estimate was {number(estimate)}, {estimate / true:.2f} "
            f"times the truth, which lies {inside} the interval of {span(families.interval)}."
        ),
    )


def _with_truth(assessment: Assessment, everybody: ContingencyTable, families: FamilyTruth) -> Assessment:
    counts = everybody.counts_of(assessment.table.cells[assessment.table.unique_cells])
    truth = replace(assess.against_truth(assessment.summary, counts), families=families)
    return replace(assessment, summary=judged(replace(assessment.summary, truth=truth)))


def _with_truth_after(result: Protection, everybody: ContingencyTable) -> Protection:
    """Add what an intruder with the whole population finds in the protected file by linking each record to the nearest person."""
    truth, assessment = result.summary.truth, result.assessment
    plan = result.plan
    assert truth is not None
    assert isinstance(plan, SwapPlan), "the demo does not release formally"
    after = risk_after(assessment.risk, plan.release, plan.links(Register.counted(everybody)))
    alone = everybody.counts_of(assessment.table.cells[after.match_probability > 0.0])
    truth_after = replace(
        truth,
        population_uniques_after=int((alone == 1).sum()) + round(float(after.swapped_unique.sum())),
        correct_matches_after=float((1.0 / alone).sum() + after.swapped_link.sum()),
    )
    return replace(result, summary=replace(result.summary, truth=truth_after))


def _with_true_links(result: Protection, everybody: ContingencyTable) -> Protection:
    """Add what each intruder really finds to what was expected."""
    true = {intruder.name: intruder for intruder in try_intruders(result.release, Register.counted(everybody))}
    swap = result.summary.swap
    assert swap is not None, "a protection has swaps"
    intruders = tuple(
        replace(intruder, true_before=true[intruder.name].before.total, true_after=true[intruder.name].after.total)
        for intruder in swap.intruders
    )
    return replace(result, summary=judged(replace(result.summary, swap=replace(swap, intruders=intruders))))


def _population(population: pa.Table, table: ContingencyTable) -> ContingencyTable:
    """The bundled population, coded by the categories of the sample."""
    codes = np.empty((population.num_rows, table.n_keys), dtype=np.int32)
    for k, categories in enumerate(table.categories):
        code_of = {level: code for code, level in enumerate(categories.levels)}
        levels = np.arange(-1, max(code_of) + 1)
        lookup = np.array([code_of.get(int(level), -1) for level in levels], dtype=np.int32)
        values = population[categories.key].to_numpy()
        codes[:, k] = lookup[np.minimum(values, len(levels) - 2) + 1]
    return ContingencyTable.from_codes(codes, table.categories)
