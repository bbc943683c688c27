"""How long does a plan of swaps take, and how does the time grow with the file?

Records are drawn from a decomposable model with the dimensions of Takemura and Endo's census file. One record in twenty,
the riskiest, is to be protected, once with the nearest partners and once with partners against an intruder who looks nearby. Prints
processor time, peak memory, and the ratios between successive sizes; beside the plans the time of one count of all cells, as a
measure of the machine.

    python benchmarks/swap.py              1e4, 1e5 and 1e6 records
    python benchmarks/swap.py 20000 40000  these numbers of records
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np

import rarecell as rc
from rarecell.swap.plan import plan_swaps
from rarecell.swap.task import LINK_WEIGHT

LEVELS = (14, 2, 91, 5, 14, 7, 2, 5)
CLIQUES = ((0, 1, 5), (0, 5, 6), (1, 5, 7), (2, 5, 6), (3, 5), (4, 5))
SHARE = 0.05


def records_of_the_model(n_records: int, rng: np.random.Generator) -> np.ndarray:
    """Each clique is drawn given what was drawn before, from lumpy conditional distributions that do not depend on n."""
    fixed = np.random.default_rng(2006)
    codes = np.zeros((n_records, len(LEVELS)), dtype=np.int32)
    drawn: list[int] = []
    for clique in CLIQUES:
        given = [v for v in clique if v in drawn]
        for v in [v for v in clique if v not in drawn]:
            group = np.zeros(n_records, dtype=np.int64)
            n_groups = 1
            for g in given:
                group = group * LEVELS[g] + codes[:, g]
                n_groups *= LEVELS[g]
            share = fixed.dirichlet(np.full(LEVELS[v], 0.4), size=n_groups).cumsum(axis=1)
            codes[:, v] = np.minimum((rng.random(n_records)[:, None] > share[group]).sum(axis=1), LEVELS[v] - 1)
            drawn.append(v)
            given.append(v)
    return codes


def measured(n_records: int) -> tuple[float, float]:
    rng = np.random.default_rng(1)
    codes = np.concatenate([records_of_the_model(min(100_000, n_records), rng) for _ in range(-(-n_records // 100_000))])[
        :n_records
    ]
    categories = [rc.Categories(f"key{k}", tuple(range(n)), n > 20) for k, n in enumerate(LEVELS)]
    begun = time.process_time()
    table = rc.ContingencyTable.from_codes(codes, categories)
    counted = time.process_time() - begun
    model = rc.DecomposableModel(table, cliques=[tuple(f"key{v}" for v in clique) for clique in CLIQUES])
    risk = rc.record_risk(table, model, population=50 * n_records)
    records = risk.riskiest(int(SHARE * n_records))
    spent = []
    for weight in (0.0, LINK_WEIGHT):
        begun = time.process_time()
        plan = plan_swaps(table, model, records=records, risk=risk, link_weight=weight, seed=0)
        spent.append(time.process_time() - begun)
    nearest, planned = spent
    after = plan.table_after
    assert all(np.array_equal(table.marginals.counts(c), after.marginals.counts(c)) for c in model.generator_masks)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{n_records:>9,} records {table.n_cells:>9,} cells {risk.n_sample_uniques:>8,} uniques {len(records):>7,} risky: "
        f"plan {planned:7.2f} s, nearest partners {nearest:7.2f} s, count {counted:6.3f} s, peak {peak:6.0f} MB; "
        f"{plan.n_protected:,} protected by {len(plan):,} swaps, mean distance {plan.distance.mean():.3f}, "
        f"cost at most {plan.penalised_cost / max(plan.cost_at_least, 1e-12):.3f} times the least",
        flush=True,
    )
    return planned, counted


def main() -> None:
    sizes = [int(float(size)) for size in sys.argv[1:]] or [10_000, 100_000, 1_000_000]
    measured(5_000)  # compiles the kernels
    times = [measured(size)[0] for size in sizes]
    for (smaller, quick), (larger, slow) in zip(
        zip(sizes, times, strict=True), list(zip(sizes, times, strict=True))[1:], strict=False
    ):
        exponent = np.log(slow / quick) / np.log(larger / smaller)
        print(f"from {smaller:,} to {larger:,} records: time × {slow / quick:.1f}, exponent {exponent:.2f}")


if __name__ == "__main__":
    main()
