"""What do intruders find in a register whose values are wrong here and there, and what was expected?

    python benchmarks/key_errors.py [--share 0.05] [--seed 0]

Draws a sample from a known population, corrupts the values of everybody in the register, and counts the correct links of the sample
uniques, by equal values and to the nearest person. Beside it: what is expected without errors and with ``--key-error``. Wrong values are
the next ones of an ordered key, as the program assumes, or any others.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.populations import KEY_SETS, population_of

from rarecell.intruder.key_errors import KeyErrors, links_with_errors
from rarecell.intruder.nearest import exact_links
from rarecell.intruder.register import Persons, Register, distance_of
from rarecell.release.release import Release
from rarecell.run import models
from rarecell.run.config import RunConfig
from rarecell.table.contingency import ContingencyTable
from rarecell.table.distance import yardsticks
from rarecell.table.level_order import with_meant_orders
from tests.reference import table_of

FILES = (("census-8", 0.035), ("adult-9", 0.1))


def trial(name: str, fraction: float, share: float, *, is_near: bool, seed: int) -> str:
    """One line: expected without errors, then expected and counted links of both intruders."""
    source, keys = KEY_SETS[name]
    everybody, _ = with_meant_orders(table_of(population_of(source).select(list(keys)), keys))
    codes = everybody.cells[everybody.record_cell]
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.choice(len(codes), round(len(codes) * fraction), replace=False))
    sample = ContingencyTable.from_codes(codes[rows], everybody.categories)
    config = RunConfig(input="", keys=keys, population=len(codes))
    table = models.with_resolutions(sample, config.resolution)
    model = models.risk_model(table, config)
    register = Register.modelled(models.risk_of(table, model, config), model, seed=1)
    shares, release = np.full(len(keys), share), Release.unchanged(table)
    exact, nearest = links_with_errors(release, register, KeyErrors(table, shares))

    wrong = _registered(codes, everybody, shares, rng, is_near=is_near)
    own = rows[release.unmoved_rows()]
    known = Persons(ContingencyTable.from_codes(wrong, everybody.categories))
    is_same = (codes[own] == wrong[own]).all(axis=1)
    counted = float((is_same / np.maximum(known.count_at(codes[own]), 1)).sum())
    near = []
    for yardstick in yardsticks(table, None):
        others = known.others(codes[own], distance_of(yardstick.near, codes[own], wrong[own]), yardstick.near)
        near.append(float(((others.n_nearer == 0) / np.maximum(others.n_tied, 1)).sum()))
    words = "next" if is_near else "any"
    plain = exact_links(release, register).total
    return (
        f"{name:10s} {fraction:8.3f} {words:>6s} {plain:12.1f} {exact.total:9.1f} {counted:9.1f} {exact.total / counted:6.3f} "
        f"{nearest.total:9.1f} {max(near):9.1f} {nearest.total / max(near):6.3f}"
    )


def _registered(
    codes: np.ndarray, table: ContingencyTable, shares: np.ndarray, rng: np.random.Generator, *, is_near: bool
) -> np.ndarray:
    if is_near:
        return KeyErrors(table, shares).registered(codes, rng)
    found = np.array(codes)
    for k, of_key in enumerate(table.categories):
        rows = np.flatnonzero(rng.random(len(codes)) < shares[k])
        found[rows, k] = (codes[rows, k] + rng.integers(1, of_key.n_levels, len(rows))) % of_key.n_levels
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("                             without     by equal values           to the nearest person")
    print("keys       fraction  wrong      errors  expected   counted  ratio  expected   counted  ratio")
    for name, fraction in FILES:
        for is_near in (True, False):
            print(trial(name, fraction, options.share, is_near=is_near, seed=options.seed), flush=True)


if __name__ == "__main__":
    main()
