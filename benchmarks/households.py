"""How well is the risk of families estimated, and what is left of it after protection? Held against a population that is known.

Draws whole households from the shipped census population, estimates how many are unique in it, and counts how many are. With
``--protect`` the sample is protected with and without a register, and what an intruder links is counted in the population, too;
also by persons alone, for the two-way tables, and unlinked.

    python benchmarks/households.py                          # estimates at 1, 3.5 and 10 %
    python benchmarks/households.py --protect 0.035          # one protected sample
    python benchmarks/households.py --rings 0.035            # the same swaps in rings and in pairs, and who undoes them
    python benchmarks/households.py --keys age,sex,marital,education,race --fractions 0.035
    python benchmarks/households.py --speed 1000000          # household rows against persons, in processor time
    python benchmarks/households.py --cps cps.csv.gz         # another population: adults of the Current Population Survey

The last one is the file ``taxcalc/cps.csv.gz`` of the package Tax-Calculator on PyPI: tax units of the Current Population Survey of three
years with the number of their household. Filers and their spouses are the members; state, number of children and whether somebody has
wages are known of them beside the age.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
from pyarrow import csv

import rarecell as rc
from rarecell import datasets
from rarecell.intruder.household import household_links, household_release
from rarecell.intruder.register import Register
from rarecell.intruder.shadow import shadow_links
from rarecell.run.households import modelled
from rarecell.table.household_rows import find_layout

KEYS = "relationship,sex,age,marital,citizenship"
EDGES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)


CPS_KEYS = "state,age,filing,children,wages"


def cps_population(path: str) -> pa.Table:
    """Filers and spouses of the tax units of the Current Population Survey, household by household."""
    units = csv.read_csv(path)
    column = {name: units[name].to_numpy() for name in units.column_names}
    home = np.unique(np.stack([column["FLPDYR"], column["h_seq"]], axis=1), axis=0, return_inverse=True)[1].ravel()
    has_spouse = column["age_spouse"] > 0
    both = [np.ones(len(home), dtype=bool), has_spouse]

    def stacked(of_filer: str, of_spouse: str) -> np.ndarray:
        return np.concatenate([column[of_filer][both[0]], column[of_spouse][both[1]]])

    return pa.table(
        {
            "household": np.concatenate([home, home[has_spouse]]),
            "state": stacked("fips", "fips"),
            "age": np.minimum(stacked("age_head", "age_spouse"), 85),
            "filing": stacked("MARS", "MARS"),
            "children": np.minimum(stacked("nu18", "nu18"), 4),
            "wages": (stacked("e00200p", "e00200s") > 0).astype(np.int64),
        }
    ).sort_by("household")


def estimates(population: pa.Table, keys: list[str], fractions: list[float], n_samples: int) -> None:
    codes, categories = rc.Microdata(population, keys=keys).column_codes(keys)
    home = population["household"].to_numpy()
    whole = find_layout(codes, categories, home).rows(codes, home)
    alone = whole.table.counts[whole.table.record_cell] == 1
    print(
        f"In the population {alone.sum():,} of {whole.members.n_households:,} households are the only ones of their kind, with "
        f"{whole.members.size[alone].sum():,} of {population.num_rows:,} persons.\n"
    )
    print(
        "| sample | places | unique | estimated | truth | ratio | interval | Σ1/F estimated, true | light | processor time against persons alone |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    bands = np.zeros((len(EDGES) - 1, 3))
    for fraction in fractions:
        for seed in range(1, n_samples + 1):
            sample = datasets.census_household_sample(fraction, seed, people=population)
            started = time.process_time()
            rc.assess(sample, keys=keys, population=population.num_rows, register=population)
            alone = time.process_time() - started
            started = time.process_time()
            found = rc.assess(sample, keys=keys, population=population.num_rows, household="household", register=population)
            seconds = time.process_time() - started
            told = found.summary.risk.families
            true = told.register.population_uniques
            estimated = told.expected_population_uniques
            holds = "held" if told.register.is_inside_interval else "missed"
            print(
                f"| {fraction:.1%} ({told.households:,}) | {told.places} | {told.sample_uniques:,} | {estimated:,.0f} | {true:,} "
                f"| {estimated / true:.3f} | {told.interval[0]:,.0f}–{told.interval[1]:,.0f} {holds} "
                f"| {told.expected_correct_matches:,.0f}, {told.register.correct_matches:,.0f} | {told.reliability.light} "
                f"| {seconds / alone:.1f} times |"
            )
            uniques = found.families.risk.table.unique_cells
            probability = found.families.risk.unique_probability[uniques]
            is_true = found.families.register.population_count[uniques] == 1
            band = np.clip(np.searchsorted(EDGES, probability, side="right") - 1, 0, len(EDGES) - 2)
            np.add.at(bands, band, np.stack([np.ones(len(band)), probability, is_true], axis=1))
    print("\n| stated risk of a household | households | estimated | true |\n|---|---|---|---|")
    for (low, high), (n, estimated, true) in zip(pairwise(EDGES), bands, strict=True):
        if n:
            print(f"| {low:g}–{high:g} | {n:,.0f} | {estimated / n:.3f} | {true / n:.3f} |")


def protections(population: pa.Table, keys: list[str], fraction: float, seed: int) -> None:
    sample = datasets.census_household_sample(fraction, seed, people=population)
    options = {"keys": keys, "population": population.num_rows, "risk_above": 0.2, "seed": seed}
    known = rc.assess(sample, keys=keys, population=population.num_rows, household="household", register=population)
    rows = known.families.rows
    register = Register.counted(known.families.register.people, known.families.register.place)
    codes, _ = known.data.column_codes(keys)
    print(
        "| protected | households changed | values changed | links before, true | after, claimed | after, true | of swapped | "
        "persons after | Hellinger, 2-way | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    distances: dict[str, float] = {}
    changed_values = 0
    for name, more in (
        ("between households", {"household": "household"}),
        ("persons alone", {"household": "household", "households_known": "no"}),
        ("persons, as many values", {"household": "household", "households_known": "no"}),
    ):
        asked = dict(options)
        if name.endswith("values"):
            # Two values change with every record that is asked for, by and large.
            asked |= {"risk_above": None, "top": round(changed_values / 2)}
        started = time.process_time()
        done = rc.protect(sample, **asked, **more)
        seconds = time.process_time() - started
        changed_values = changed_values or done.summary.swap.values_changed
        distances[name] = done.summary.swap.hellinger["2"].mean
        after = np.array(codes)
        after[done.plan.rows] = done.plan.release.released
        links = household_links(rows, household_release(rows, after), register)
        claimed = done.summary.swap.intruder("household")
        if name == "between households":
            of_moved, before, claimed_share = links.after.of_moved, links.before.total, claimed.after / links.after.total
        changed = (rows.layout.placed(after, rows.members) != rows.codes).any(axis=1).sum()
        print(
            f"| {name} | {changed:,} | {done.summary.swap.values_changed:,} | {links.before.total:,.1f} | {claimed.after:,.1f} "
            f"| {links.after.total:,.1f} | {links.after.of_moved:,.1f} | {links.persons_after:,.0f} "
            f"| {done.summary.swap.hellinger['2'].mean:.4f} | {seconds:.0f} |"
        )
    ratio = distances["between households"] / distances["persons, as many values"]
    print(
        f"\nTwo-way tables: {ratio:.2f} times the Hellinger distance of the largest plan for persons, which moves fewer values."
    )
    print(
        f"Links of swapped households after, as a share of all links before: {of_moved / before:.1%}; claimed {claimed_share:.2f} of the truth."
    )
    unlinked = rc.protect(sample, **options, household="household", unlink=True, accept_leak=list(sample.column_names))
    print(f"Unlinked: {unlinked.summary.notes[-1]}")
    found = {
        one.name: one.after
        for one in rc.attack(unlinked.frame, original=sample, keys=keys, register=population).summary.intruders
    }
    for name in ("exact", "nearest"):
        claimed = unlinked.summary.swap.intruder(name)
        if claimed is not None and name in found:
            print(
                f"Persons of the unlinked file that the {name} intruder links: {claimed.after:,.1f} claimed, {found[name]:,.1f} true."
            )


def rings(population: pa.Table, keys: list[str], fraction: float, seed: int) -> None:
    """The swaps between households of one sample as they are made, in rings, and the same in pairs, held against the population.

    The shadow intruder compares a household with all of the register that differ from it on columns that were moved together, and looks for
    a mate whose values undo the exchange; it knows of the mechanism what could at best be learned.
    """
    sample = datasets.census_household_sample(fraction, seed, people=population)
    options = {"keys": keys, "population": population.num_rows, "household": "household"}
    known = rc.assess(sample, register=population, **options)
    families = known.families
    register = Register.counted(families.register.people, families.register.place)
    codes, _ = known.data.column_codes(keys)
    plan = rc.protect(sample, risk_above=0.2, seed=seed, **options).plan
    in_rings = np.bincount(plan.of_households.ring)[plan.of_households.ring] > 1
    print(f"{in_rings.sum():,} of {len(in_rings):,} pairs of households are in rings.\n")
    print(
        "| exchanged | values changed | links before | after, claimed | after, true | of swapped | shadow, true | of swapped | sure above 0.95 (right) |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name, way in (("in pairs", replace(plan, givers=None)), ("in rings", plan)):
        after = np.array(codes)
        after[way.rows] = way.release.released
        release = household_release(families.rows, after)
        true = household_links(families.rows, release, register)
        claimed = household_links(families.rows, release, modelled(families, known))
        shadow = shadow_links(register.seen(release), register)
        print(
            f"| {name} | {way.n_values_changed:,} | {true.before.total:,.1f} | {claimed.after.total:,.1f} | {true.after.total:,.1f} "
            f"| {true.after.of_moved:,.1f} | {shadow.total:,.1f} | {shadow.of_moved:,.1f} | {shadow.sure[-1].claimed:,.0f} ({shadow.sure[-1].right:,.0f}) |"
        )


def speed(population: pa.Table, keys: list[str], n_records: int) -> None:
    """Households copied until there are as many records, with a little noise in the ages, so that they are no copies."""
    rng = np.random.default_rng(0)
    parts = []
    while sum(part.num_rows for part in parts) < n_records:
        age = np.clip(population["age"].to_numpy() + rng.integers(-2, 3, population.num_rows), 0, 90)
        part = population.set_column(population.column_names.index("age"), "age", pa.array(age))
        home = part["household"].to_numpy() + len(parts) * 10_000_000
        parts.append(part.set_column(part.column_names.index("household"), "household", pa.array(home)))
    whole = pa.concat_tables(parts).slice(0, n_records)
    seconds = []
    # Whatever is compiled at its first use is compiled now.
    rc.assess(whole.slice(0, n_records // 20), keys=keys, population=n_records, household="household")
    for more in ({}, {"household": "household"}):
        started = time.process_time()
        done = rc.assess(whole, keys=keys, population=20 * n_records, **more)
        seconds.append(time.process_time() - started)
    told = done.summary.risk.families
    print(
        f"{n_records:,} persons in {told.households:,} households of {len(done.families.rows.layout.columns)} columns: persons alone "
        f"{seconds[0]:.0f} s, with families {seconds[1]:.0f} s, {seconds[1] / seconds[0]:.1f} times."
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", default=KEYS)
    parser.add_argument("--fractions", default="0.01,0.035,0.1")
    parser.add_argument("--samples", type=int, default=1)
    parser.add_argument("--protect", type=float)
    parser.add_argument("--rings", type=float)
    parser.add_argument("--speed", type=int)
    parser.add_argument("--cps", help="The file of Tax-Calculator with the Current Population Survey.")
    given = parser.parse_args()
    people = cps_population(given.cps) if given.cps else datasets.census_households()
    if given.cps and given.keys == KEYS:
        given.keys = CPS_KEYS
    if given.speed:
        speed(people, given.keys.split(","), given.speed)
    elif given.rings:
        rings(people, given.keys.split(","), given.rings, 1)
    elif given.protect:
        protections(people, given.keys.split(","), given.protect, 1)
    else:
        estimates(people, given.keys.split(","), [float(text) for text in given.fractions.split(",")], given.samples)
