"""How long does a formal release take, and how does the time grow with the file?

Records are drawn from a decomposable model with the dimensions of Takemura and Endo's census file. Prints the time of the
kernels alone and of a whole release, which also chooses root and θ and works out what is expected to change, as ratios to the
time of one count of all cells; then how they grow.

    python benchmarks/formal.py              1e4, 1e5 and 1e6 records
    python benchmarks/formal.py 20000 40000  these numbers of records
"""

from __future__ import annotations

import sys
import time

import numpy as np
from swap import CLIQUES, LEVELS, records_of_the_model

import rarecell as rc
from rarecell.swap.formal.mechanism import rearranged, rooted_tree

EPSILON = 25.0


def measured(n_records: int) -> tuple[float, float]:
    rng = np.random.default_rng(1)
    n_parts = -(-n_records // 100_000)
    codes = np.concatenate([records_of_the_model(min(100_000, n_records), rng) for _ in range(n_parts)])[:n_records]
    categories = [rc.Categories(f"key{k}", tuple(range(n)), n > 20) for k, n in enumerate(LEVELS)]
    begun = time.perf_counter()
    table = rc.ContingencyTable.from_codes(codes, categories)
    counted = time.perf_counter() - begun
    model = rc.DecomposableModel(table, cliques=[tuple(f"key{v}" for v in clique) for clique in CLIQUES])
    begun = time.perf_counter()
    release = rc.formal_swaps(table, model, epsilon=EPSILON, seed=1)
    whole = time.perf_counter() - begun
    statement = release.statement
    tree = rooted_tree(model.graph, table.mask_of(statement.root))
    begun = time.perf_counter()
    rearranged(table, codes, tree, [edge.theta for edge in statement.edges], rng)
    kernels = time.perf_counter() - begun
    after = release.table_after
    assert all(np.array_equal(table.marginals.counts(c), after.marginals.counts(c)) for c in model.generator_masks)
    print(
        f"{n_records:>9,} records {table.n_cells:>9,} cells: count {counted:6.3f} s, kernels {kernels / counted:6.1f} times that "
        f"({kernels:6.2f} s), whole release {whole / counted:6.1f} times ({whole:6.2f} s); {len(release) / n_records:.1%} of the records "
        f"changed, {statement.expected_records_changed:.1%} expected, at ε {statement.epsilon:.1f}",
        flush=True,
    )
    return kernels, whole


def main() -> None:
    sizes = [int(float(size)) for size in sys.argv[1:]] or [10_000, 100_000, 1_000_000]
    measured(2_000)  # compiles the kernels
    times = [measured(size) for size in sizes]
    for place in range(1, len(sizes)):
        ratios = [later / earlier for later, earlier in zip(times[place], times[place - 1], strict=True)]
        print(
            f"from {sizes[place - 1]:,} to {sizes[place]:,} records: kernels × {ratios[0]:.1f}, whole release × {ratios[1]:.1f}"
        )


if __name__ == "__main__":
    main()
