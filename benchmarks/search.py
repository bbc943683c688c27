"""Search for the best decomposable model: how long, and how often is greedy search right?

``exact`` compares the dynamic programme over all sets with the plain single-threaded loop of the same recurrences (the
formulas as they are printed, in one compiled function), on random scores. ``restarts`` times Algorithm 1. ``greedy``
draws key sets of files whose optimum is then found by exact search. ``large`` makes 40 keys and a million records.

    python benchmarks/search.py exact [--vertices 8 12 14 15 16] [--plain-up-to 14]
    python benchmarks/search.py restarts
    python benchmarks/search.py greedy [--files one.csv.gz two.csv.gz] [--key-sets 20]
    python benchmarks/search.py large [--keys 40] [--records 1000000]
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import duckdb
import numpy as np
from numba import njit
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.timing import timed

import rarecell as rc
from rarecell import datasets
from rarecell.search import estimate_exact, select_model
from rarecell.search.exact import best_cliques
from rarecell.search.local import local_search
from rarecell.search.score import KnownScores, make_score
from rarecell.search.set_family import Family, closed_levels

MOST_LEVELS = 200


@njit(cache=True)
def plain_optimum(n: int, q: NDArray[np.float64]) -> float:
    """The best score by f, g and h as printed, two tables indexed by base-3 numbers of pairs of sets, one thread."""
    ternary = np.zeros(1 << n, dtype=np.int64)
    for mask in range(1, 1 << n):
        ternary[mask] = ternary[mask >> 1] * 3 + (mask & 1)
    n_states = 3**n
    g, h = np.empty(n_states), np.empty(n_states)
    everything = (1 << n) - 1
    best_of_all = -np.inf
    for c in range(1 << n):
        g[ternary[c]] = 0.0
    # In this order of R every proper subset comes before.
    for rest in range(1, 1 << n):
        others = everything ^ rest
        first = rest & -rest
        c = 0
        while True:
            best = -np.inf
            x = rest
            while x:
                best = max(best, q[c | x] + g[ternary[c | x] + 2 * ternary[rest ^ x]])
                x = (x - 1) & rest
            if rest == everything:
                best_of_all = best
            best -= q[c]
            members = c
            while members:
                v = members & -members
                best = max(best, h[ternary[c ^ v] + 2 * ternary[rest]])
                members ^= v
            h[ternary[c] + 2 * ternary[rest]] = best
            free = rest ^ first
            part = free
            best = -np.inf
            while True:
                best = max(best, h[ternary[c] + 2 * ternary[part | first]] + g[ternary[c] + 2 * ternary[free ^ part]])
                if part == 0:
                    break
                part = (part - 1) & free
            g[ternary[c] + 2 * ternary[rest]] = best
            if c == others:
                break
            c = (c - others) & others
    return best_of_all


def exact(vertices: list[int], plain_up_to: int) -> None:
    print("vertices   programme s   estimate s   MB   plain loop s   ratio")
    for n in sorted({3, *vertices}):
        family = Family.of_levels(closed_levels([1] * n, n), [(v,) for v in range(n)])
        q = np.random.default_rng(n).normal(0, 10, family.n_sets)
        by_mask = q[np.argsort(family.masks)]
        took, found = timed(lambda f=family, q=q: best_cliques(f, q), repeats=3 if n < 15 else 1)
        table = rc.ContingencyTable.from_counts([[0] * n], [1], [rc.Categories(f"k{k}", (0, 1)) for k in range(n)])
        estimate = estimate_exact(table)
        if n > plain_up_to:
            print(f"{n:8} {took:13.4f} {estimate.seconds:12.4f} {estimate.n_bytes / 1e6:6.0f}")
            continue
        plain, score = timed(lambda n=n, q=by_mask: plain_optimum(n, q), repeats=3 if n < 13 else 1)
        assert np.isclose(score, found[0]), "the two disagree"
        if n > 3:  # the first is there to compile
            print(f"{n:8} {took:13.4f} {estimate.seconds:12.4f} {estimate.n_bytes / 1e6:6.0f} {plain:12.3f} {plain / took:9.1f}")


def table_of(relation: duckdb.DuckDBPyRelation, keys: list[str]) -> rc.ContingencyTable:
    columns = relation.project(", ".join(f'"{key}"' for key in keys)).fetchnumpy()
    categories, codes = [], []
    for key in keys:
        levels, code = np.unique(np.ma.filled(columns[key].astype(object), None).astype(str), return_inverse=True)
        categories.append(rc.Categories(key, tuple(levels.tolist())))
        codes.append(code.astype(np.int32))
    return rc.ContingencyTable.from_codes(np.stack(codes, axis=1), categories)


def census_table() -> rc.ContingencyTable:
    relation = duckdb.read_csv(str(datasets.census_sample_path()))
    return table_of(relation, ["relationship", "sex", "age", "marital", "citizenship", "spouse", "own_child", "child_age"])


def restarts() -> None:
    table = census_table()
    known = KnownScores(make_score(table, "aic"))
    known.fill_all()
    local_search(known, restarts=2)
    took, _ = timed(lambda: local_search(known, restarts=100))
    print(f"100 restarts of Algorithm 1 at {table.n_keys} keys: {took:.4f} s once margins are counted")
    select_model(table, search="exact")
    took, _ = timed(lambda: select_model(table, search="exact"))
    print(f"exact search at {table.n_keys} keys: {took:.4f} s once margins are counted")


def greedy(files: list[str], n_key_sets: int) -> None:
    rng = np.random.default_rng(5)
    relations = [duckdb.read_csv(path) for path in files] or [duckdb.read_csv(str(datasets.census_sample_path()))]
    n_right, worst = 0, 0.0
    print("keys   records   exact s   greedy s   shortfall of the score")
    for i in range(n_key_sets):
        relation = relations[i % len(relations)]
        n_distinct = relation.aggregate(", ".join(f'count(distinct "{c}") as "{c}"' for c in relation.columns)).fetchnumpy()
        usable = [c for c in relation.columns if 1 < int(n_distinct[c][0]) <= MOST_LEVELS]
        n_keys = int(rng.integers(min(8, len(usable)), min(14, len(usable)) + 1))
        keys = [usable[k] for k in np.sort(rng.permutation(len(usable))[:n_keys])]
        n_records = int(rng.choice([3_000, 10_000, 40_000]))
        sample = relation.query("everything", f"from everything using sample reservoir({n_records} rows) repeatable ({i})")
        table = table_of(sample, keys)
        best = select_model(table, search="exact")
        met = select_model(table, search="greedy", seed=i)
        shortfall = (best.score - met.score) / abs(best.score)
        n_right += shortfall < 1e-9
        worst = max(worst, shortfall)
        print(f"{n_keys:4} {table.n_records:9} {best.seconds:9.3f} {met.seconds:10.3f} {100 * shortfall:12.4f} %", flush=True)
    print(f"greedy search met the certified optimum in {n_right} of {n_key_sets}; largest shortfall {100 * worst:.4f} %")


def large(n_keys: int, n_records: int) -> None:
    """Keys in a random order, each depending on up to three of the earlier ones."""
    rng = np.random.default_rng(0)
    levels: list[int] = []
    columns: list[np.ndarray] = []
    for j in range(n_keys):
        levels.append(int(rng.choice([2, 2, 3, 4, 5, 6, 8, 10, 15, 20])))
        state, n_states = np.zeros(n_records, dtype=np.int64), 1
        for parent in rng.choice(j, min(j, int(rng.integers(0, 4))), replace=False) if j else ():
            if n_states * levels[parent] <= 400:
                state, n_states = state * levels[parent] + columns[parent], n_states * levels[parent]
        upper = rng.dirichlet(np.full(levels[j], 0.7), size=n_states).cumsum(axis=1)
        columns.append((rng.random(n_records)[:, None] > upper[state]).sum(axis=1).clip(0, levels[j] - 1).astype(np.int32))
    categories = [rc.Categories(f"k{j}", tuple(range(n)), True) for j, n in enumerate(levels)]
    start = time.perf_counter()
    table = rc.ContingencyTable.from_codes(np.stack(columns, axis=1), categories)
    print(f"{n_records:,} records of {n_keys} keys counted in {time.perf_counter() - start:.1f} s: {table.n_cells:,} cells")
    start = time.perf_counter()
    found = select_model(table, search="greedy", restarts=100)
    print(f"{time.perf_counter() - start:.1f} s, {found.starts} climbs, {found.n_sets:,} sets counted, score {found.score:,.1f}")
    print(f"first climb reached {min(o.score for o in found.optima):,.1f} at worst, {len(found.optima)} local optima met")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["exact", "restarts", "greedy", "large"])
    parser.add_argument("--vertices", type=int, nargs="+", default=[8, 10, 12, 14])
    parser.add_argument("--plain-up-to", type=int, default=14)
    parser.add_argument("--files", nargs="*", default=[])
    parser.add_argument("--key-sets", type=int, default=20)
    parser.add_argument("--keys", type=int, default=40)
    parser.add_argument("--records", type=int, default=1_000_000)
    options = parser.parse_args()
    if options.what == "exact":
        exact(options.vertices, options.plain_up_to)
    elif options.what == "restarts":
        restarts()
    elif options.what == "greedy":
        greedy(options.files, options.key_sets)
    else:
        large(options.keys, options.records)


if __name__ == "__main__":
    main()
