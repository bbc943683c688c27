"""How does a synthetic twin compare with files made by others?

    python benchmarks/synthesis.py [--records 5000] [--seed 0] [--populations adult census] [--households] [--million]
        [--only twin CART …]

A sample of each population is made anew by each method, and every file is measured alike: unique exact matches, the share of people
left out who stand in the file (what chance makes of these matches), replicated uniques,
the share of records nearer to the people of the sample than to people left out, the risk of linkability and the highest risk of
inference (rate above that of a control group), SDNist's score of tables of two columns, and the mean Hellinger distance of tables
of three. Times are ratios of processor time to drawing the twin, its search for a model included.

Methods: rarecell (uniform, tables without cells below 3, and ε = 8); CART, each column from those before it by a decision tree whose
leaves are resampled, as synthpop does it (scikit-learn); the Gaussian copula that SDV is built on (``copulas``); CTGAN, SDV's
network (``ctgan``); MST and AIM, which measure tables with noise and have ordinary differential privacy (``dpmm``; it needs Python 3.11
or older). AIM takes a long time. A method whose package is not installed is left out and named.

``--households`` draws whole households of the census, and prints how many of those that are unique by all columns stand in the twin,
how many break a rule of the original, and the correlation of the ages of couples. ``--million`` times a twin of a million records and
ten columns, as a ratio to counting them once with DuckDB.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.populations import population_of

import rarecell as rc
from rarecell import datasets
from rarecell.intruder.unpaired import UnpairedFiles
from rarecell.release.utility import BothFiles, hellinger_distances
from rarecell.search import select_model
from rarecell.swap.twin import exchanged_twin, k_marginal_score, synthetic_twin
from rarecell.table.coarsening import automatic_coarsenings

COLUMNS = {
    "adult": ("age", "workclass", "education", "marital_status", "occupation", "relationship", "race", "sex", "native_country"),
    "census": ("relationship", "sex", "age", "marital", "citizenship", "education", "race", "employed"),
}
Codes = NDArray[np.int32]
Maker = Callable[[rc.ContingencyTable, np.random.Generator], Codes]


def twin(
    least_count: int = 0,
    epsilon: float | None = None,
    penalty: float | str = "aic",
    max_copies: float | None = None,
    near_pairs: bool = False,
) -> Maker:
    def make(table: rc.ContingencyTable, rng: np.random.Generator) -> Codes:
        fine = table.with_coarsenings(automatic_coarsenings(table))
        model = select_model(fine, penalty, least_count=least_count, max_seconds=60).best
        drawn = synthetic_twin(fine, model, epsilon=epsilon, seed=int(rng.integers(2**31)))
        if max_copies is not None or near_pairs:
            drawn = exchanged_twin(drawn, max_copies=max_copies, near_pairs=near_pairs, seed=int(rng.integers(2**31))).twin
        assert not any(drawn.n_changed_cells.values())
        return drawn.codes

    return make


def cart(table: rc.ContingencyTable, rng: np.random.Generator) -> Codes:
    """Each column from those already made: the records of the original in the same leaf, one of them at random."""
    from sklearn.tree import DecisionTreeClassifier

    original = table.cells[table.cell_of_record]
    made = np.empty_like(original)
    made[:, 0] = rng.choice(original[:, 0], len(original))
    for k in range(1, table.n_keys):
        tree = DecisionTreeClassifier(min_samples_leaf=5, random_state=int(rng.integers(2**31)))
        tree.fit(original[:, :k], original[:, k])
        leaf_of_original, leaf_of_made = tree.apply(original[:, :k]), tree.apply(made[:, :k])
        for leaf in np.unique(leaf_of_made):
            places = np.flatnonzero(leaf_of_made == leaf)
            made[places, k] = rng.choice(original[leaf_of_original == leaf, k], len(places))
    return made


def gaussian_copula(table: rc.ContingencyTable, rng: np.random.Generator) -> Codes:
    import pandas as pd
    from copulas.multivariate import GaussianMultivariate

    original = table.cells[table.cell_of_record]
    # SDV fits beta marginals unless told otherwise.
    model = GaussianMultivariate(distribution="copulas.univariate.beta.BetaUnivariate", random_state=int(rng.integers(2**31)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(pd.DataFrame(original, columns=list(table.keys)))
        drawn = model.sample(len(original)).to_numpy()
    highest = [categories.n_levels - 1 for categories in table.categories]
    return np.clip(np.rint(drawn), 0, highest).astype(np.int32)


def ctgan(table: rc.ContingencyTable, rng: np.random.Generator) -> Codes:
    import pandas as pd
    import torch
    from ctgan import CTGAN

    torch.manual_seed(int(rng.integers(2**31)))
    original = pd.DataFrame(table.cells[table.cell_of_record], columns=list(table.keys))
    model = CTGAN(epochs=100, verbose=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(original, list(table.keys))
        return model.sample(len(original)).to_numpy().astype(np.int32)


def marginal_based(mechanism: str, epsilon: float) -> Maker:
    """MST or AIM with ordinary differential privacy, as ``dpmm`` has them, with its default settings."""

    def make(table: rc.ContingencyTable, rng: np.random.Generator) -> Codes:
        import pandas as pd
        from dpmm import pipelines

        original = pd.DataFrame(table.cells[table.cell_of_record], columns=list(table.keys))
        pipeline = getattr(pipelines, f"{mechanism}Pipeline")(
            epsilon=epsilon, delta=1 / len(original) ** 2, disable_processing=True, n_jobs=1, max_model_size=80
        )
        domain = {categories.key: categories.n_levels for categories in table.categories}
        pipeline.fit(original, domain=domain, random_state=int(rng.integers(2**31)))
        made = pipeline.generate(n_records=len(original), random_state=int(rng.integers(2**31)))
        return made[list(table.keys)].to_numpy().astype(np.int32)

    return make


METHODS: dict[str, Maker] = {
    "twin": twin(),
    "twin, penalty 0.5": twin(penalty=0.5),
    "twin, no cell below 3": twin(least_count=3),
    "twin, ε = 8": twin(epsilon=8.0),
    "twin, near pairs": twin(near_pairs=True),
    "twin, n. p., 12 % copies": twin(near_pairs=True, max_copies=0.12),
    "CART": cart,
    "Gaussian copula": gaussian_copula,
    "CTGAN": ctgan,
    "MST, ε = 1": marginal_based("MST", 1.0),
    "MST, ε = 10": marginal_based("MST", 10.0),
    "AIM, ε = 1": marginal_based("AIM", 1.0),
    "the sample itself": lambda table, rng: table.cells[table.cell_of_record],
}


def households(seed: int, fraction: float = 0.035) -> None:
    """Draw a twin of a sample of whole households, and say what is left of the families."""
    sample = datasets.census_household_sample(fraction, seed)
    began = time.process_time()
    done = rc.synthesise(sample, columns=COLUMNS["census"], household="household", seed=seed)
    spent = time.process_time() - began
    summary = done.summary
    assert summary.households is not None
    assert summary.family_measures is not None
    print(
        f"\ncensus, {summary.households.households:,} households with {summary.records:,} persons; {spent:.0f} s of processor time"
    )
    print(f"kept tables: {len(summary.tables)}, cells that differ: {sum(table.differing for table in summary.tables)}")
    print(f"households that break a rule: {summary.households.breaking}")
    print(f"households unique on all columns that stand in a twin: {summary.family_measures.unique_exact_matches:.1%}")
    print(f"k-marginal score of persons: {summary.utility.k_marginal:.1f}")
    couples = {}
    for name, file in (("original", sample), ("twin", done.frame())):
        columns = {column: np.asarray(file[column]) for column in ("household", "relationship", "age")}
        ages = []
        for level in (0, 1):
            chosen = columns["relationship"] == level
            ages.append(dict(zip(columns["household"][chosen].tolist(), columns["age"][chosen].tolist(), strict=True)))
        both = sorted(ages[0].keys() & ages[1].keys())
        couples[name] = np.corrcoef([ages[0][home] for home in both], [ages[1][home] for home in both])[0, 1]
    print(f"correlation of the ages of couples: original {couples['original']:.3f}, twin {couples['twin']:.3f}")


def million(seed: int) -> None:
    """Time a twin of a million records and ten columns."""
    import duckdb

    columns = [*COLUMNS["census"], "spouse", "own_child"]
    census = datasets.census_population().select(columns)
    records = census.take(np.random.default_rng(seed).integers(0, len(census), 1_000_000))
    began = time.process_time()
    duckdb.connect().execute(f"SELECT {', '.join(columns)}, count(*) FROM records GROUP BY ALL").fetchall()
    unit = time.process_time() - began
    for measure in (False, True):
        began, began_cpu = time.perf_counter(), time.process_time()
        done = rc.synthesise(records, columns=columns, seed=seed, measure=measure)
        spent, cpu = time.perf_counter() - began, time.process_time() - began_cpu
        assert not any(table.differing for table in done.summary.tables)
        what = "drawn and attacked" if measure else "drawn"
        print(
            f"a million records, ten columns, {what}: {spent:.0f} s, {cpu:.0f} s of processor time, {cpu / unit:.0f} times a GROUP BY"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--populations", nargs="+", default=["adult", "census"], choices=list(COLUMNS))
    parser.add_argument("--only", nargs="+", help="only methods whose names begin with one of these")
    parser.add_argument("--households", action="store_true", help="draw whole households instead")
    parser.add_argument("--million", action="store_true", help="time a twin of a million records instead")
    arguments = parser.parse_args()
    if arguments.households:
        households(arguments.seed)
    if arguments.million:
        million(arguments.seed)
    for name in [] if arguments.households or arguments.million else arguments.populations:
        rng = np.random.default_rng(arguments.seed)
        population = population_of(name)
        codes, categories = rc.Microdata(population.select(list(COLUMNS[name])), keys=COLUMNS[name]).column_codes(COLUMNS[name])
        chosen = rng.permutation(len(codes))[: 2 * arguments.records]
        people, control = (np.ascontiguousarray(part) for part in np.array_split(codes[chosen], 2))
        table = rc.ContingencyTable.from_codes(people, categories)
        # Loops are compiled on first use, which is not to be timed.
        twin(near_pairs=True)(rc.ContingencyTable.from_codes(people[:300], categories), np.random.default_rng(0))
        unit = None
        print(f"\n{name}: {len(people):,} records, {len(categories)} columns; {len(control):,} people left out")
        print(
            f"{'':24}{'exact':>8}{'chance':>8}{'repl.':>8}{'nearer':>8}{'link':>8}{'infer':>8}{'k-marg.':>9}{'three':>8}{'time':>7}"
        )
        for method, make in METHODS.items():
            if arguments.only and not any(method.startswith(name) for name in arguments.only):
                continue
            began = time.process_time()
            try:
                made = np.ascontiguousarray(make(table, rng))
            except ImportError as problem:
                print(f"{method:24}left out: {problem.name} is not installed")
                continue
            spent = time.process_time() - began
            unit = unit or spent
            files = UnpairedFiles(tuple(categories), people, made, control)
            copies = files.copies(rng, table.keys)
            both = BothFiles.of(table, rc.ContingencyTable.from_codes(made, categories))
            three = np.mean([one.hellinger for one in hellinger_distances(both, orders=(3,))[3]])
            inferred = max(files.inference(rng, key).risk for key in table.keys)
            print(
                f"{method:24}{copies.unique_exact_matches:>8.1%}{copies.left_out_matches:>8.1%}{copies.replicated_uniques:>8.1%}{copies.nearer_to_people:>8.2f}"
                f"{files.linkability(rng).risk:>8.3f}{inferred:>8.2f}{k_marginal_score(both):>9.1f}{three:>8.3f}{spent / unit:>7.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
