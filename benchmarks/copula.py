"""How does the estimate that newspapers quote compare: the Gaussian copula of Rocher, Hendrickx and de Montjoye (2019)?

    python benchmarks/copula.py [--sets 12] [--least 3] [--most 8] [--seed 0] [--json FILE] [--from FILE]

Random sets of keys of Adult and of the census file, samples of 0.1, 1 and 10 per cent, and four numbers for each method: the mean and
the median absolute error of uniqueness (the share of the population that is unique on the keys); the area under the curve and the
log-loss of the risk of sample uniques; and how many of the records whose stated risk is above 0.95 are not unique in the population.

The copula is written from the description in the paper (Nature Communications 10:3069), not from the authors' program:

1. The marginal of each key is the likeliest of a categorical, a negative binomial and a logarithmic law, by the Bayesian information
   criterion. The last two are laws of the rank of a level, so levels are ordered from the commonest to the rarest.
2. The correlation of each pair of keys is the one whose Gaussian copula, cut into the levels of both, has the mutual information that
   was observed, less what independent keys of this sample size show. It is not negative. The matrix is made positive definite.
3. p(x) is the probability of the box of x under the copula; a record is unique among N with probability (1 − p(x))^(N − 1).
   Uniqueness is that of a population of N drawn from the copula.

A copula needs an order of the levels, and the paper gives none, so three are compared. *Ranked*: marginals and records both from the
commonest level to the rarest. *Sorted*: both as the levels are sorted, with categorical marginals. *Mixed*: marginals ranked, records
sorted, which is what the authors' program does and what the other two correct.

A probability is cut to between 0.001 and 0.999 for the log-loss, so that no record costs more than 6.9.

References: L. Rocher, J. M. Hendrickx, Y.-A. de Montjoye (2019), "Estimating the success of re-identifications in incomplete datasets
using generative models".
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy import optimize, special, stats

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.populations import population_of

import rarecell as rc

COLUMNS = {
    "adult": (
        "age",
        "workclass",
        "education",
        "marital_status",
        "occupation",
        "relationship",
        "race",
        "sex",
        "hours_per_week",
        "native_country",
    ),
    "census": (
        "relationship",
        "sex",
        "age",
        "marital",
        "citizenship",
        "spouse",
        "own_child",
        "child_age",
        "education",
        "race",
        "employed",
    ),
}
FRACTIONS = {"adult": (0.01, 0.1), "census": (0.001, 0.01, 0.1)}
"""A sample of 0.1 % of Adult has 49 records, too few for either method."""

OURS = "rarecell"
ORDERS = ("ranked", "sorted", "mixed")
CERTAIN = 0.95

Floats = np.ndarray
Codes = np.ndarray


def marginal_of(counts: Codes) -> Floats:
    """Shares of the levels of a key, commonest first, by the likeliest of three laws of the rank."""
    counts = np.sort(counts)[::-1]
    n, n_levels = counts.sum(), len(counts)
    rank = np.arange(n_levels)

    def negative_binomial(parameters: Floats) -> Floats:
        size, share = np.exp(parameters[0]), special.expit(parameters[1])
        return stats.nbinom.logpmf(rank, size, share)

    def logarithmic(parameters: Floats) -> Floats:
        return stats.logser.logpmf(rank + 1, special.expit(parameters[0]))

    laws = [(n_levels - 1, np.log(counts / n))]
    for law, start in ((negative_binomial, [0.0, 0.0]), (logarithmic, [0.0])):
        # A law of all ranks is cut at the number of levels that were seen.
        def minus_log_likelihood(parameters: Floats, law=law) -> float:
            log_share = law(parameters)
            return float(-(counts * (log_share - special.logsumexp(log_share))).sum())

        fitted = optimize.minimize(minus_log_likelihood, start, method="Nelder-Mead")
        log_share = law(fitted.x)
        laws.append((len(start), log_share - special.logsumexp(log_share)))
    criterion = [n_parameters * np.log(n) - 2.0 * (counts * log_share).sum() for n_parameters, log_share in laws]
    return np.exp(laws[int(np.argmin(criterion))][1])


def edges_of(shares: Floats) -> Floats:
    """Where a standard normal variable is cut so that its parts have these shares."""
    return special.ndtri(np.clip(np.append(0.0, shares.cumsum()), 0.0, 1.0)).clip(-12.0, 12.0)


def mutual_information(joint: Floats) -> float:
    outside = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    present = joint > 0
    return float((joint[present] * np.log(joint[present] / outside[present])).sum())


def cut_copula(first: Floats, second: Floats, correlation: float, n_nodes: int = 12) -> Floats:
    """Joint shares of two keys under a Gaussian copula: quadrature over the first, exact in the second."""
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    upper = first.cumsum()
    # Points within each level of the first key, on the scale of probabilities.
    points = (upper - first)[:, None] + first[:, None] * (nodes + 1.0) / 2.0
    height = special.ndtri(np.clip(points, 1e-15, 1.0 - 1e-15))
    spread = np.sqrt(1.0 - correlation**2)
    below = special.ndtr((edges_of(second) - correlation * height[:, :, None]) / spread)
    return first[:, None] * np.einsum("q,iqj->ij", weights / 2.0, np.diff(below, axis=2))


def correlation_of(first: Codes, second: Codes, marginals: tuple[Floats, Floats], rng: np.random.Generator) -> float:
    """Correlation whose copula has the mutual information that was observed, less that of independent keys."""
    shape = tuple(map(len, marginals))

    def observed(other: Codes) -> float:
        return mutual_information(
            np.bincount(first * shape[1] + other, minlength=shape[0] * shape[1]).reshape(shape) / len(first)
        )

    by_chance = float(np.mean([observed(rng.permutation(second)) for _ in range(5)]))
    target = observed(second) - by_chance

    def excess(correlation: float) -> float:
        return mutual_information(cut_copula(*marginals, correlation)) - target

    if target <= 0.0:
        return 0.0
    most = 0.999
    return most if excess(most) <= 0.0 else float(optimize.brentq(excess, 0.0, most, xtol=1e-3))


@dataclass(frozen=True)
class Copula:
    """A Gaussian copula with the shares of each key's levels."""

    marginals: tuple[Floats, ...]
    correlation: Floats

    @classmethod
    def fitted(cls, codes: Codes, marginals: tuple[Floats, ...], *, seed: int) -> Copula:
        rng = np.random.default_rng(seed)
        n_keys = codes.shape[1]
        matrix = np.eye(n_keys)
        for i in range(n_keys):
            for j in range(i):
                pair = correlation_of(codes[:, i], codes[:, j], (marginals[i], marginals[j]), rng)
                matrix[i, j] = matrix[j, i] = pair
        values, vectors = np.linalg.eigh(matrix)
        matrix = (vectors * values.clip(1e-3)) @ vectors.T
        scale = np.sqrt(np.diag(matrix))
        return cls(marginals, matrix / np.outer(scale, scale))

    def probability(self, codes: Codes, *, n_points: int = 256, seed: int = 0) -> Floats:
        """Probability of the box of each row, by Genz's separation of variables on a Sobol sequence."""
        lower = np.linalg.cholesky(self.correlation)
        n_keys = codes.shape[1]
        edges = [edges_of(shares) for shares in self.marginals]
        points = stats.qmc.Sobol(max(n_keys - 1, 1), seed=seed).random(n_points)
        result = np.empty(len(codes))
        for start in range(0, len(codes), 500):
            part = codes[start : start + 500]
            height = np.zeros((len(part), n_points, n_keys))
            product = np.ones((len(part), n_points))
            for k in range(n_keys):
                shift = height[:, :, :k] @ lower[k, :k]
                low, high = (special.ndtr((edges[k][part[:, k] + side, None] - shift) / lower[k, k]) for side in (0, 1))
                product *= high - low
                if k < n_keys - 1:
                    height[:, :, k] = special.ndtri(np.clip(low + points[:, k] * (high - low), 1e-15, 1 - 1e-15))
            result[start : start + 500] = product.mean(axis=1)
        return result

    def uniqueness(self, population: int, *, seed: int) -> float:
        """Share of unique records in a population drawn from the copula."""
        rng = np.random.default_rng(seed)
        heights = rng.standard_normal((population, len(self.marginals))) @ np.linalg.cholesky(self.correlation).T
        drawn = [np.searchsorted(edges_of(shares)[1:-1], heights[:, k]) for k, shares in enumerate(self.marginals)]
        return uniqueness(np.stack(drawn, axis=1))


def uniqueness(codes: Codes) -> float:
    """Share of rows that no other row equals."""
    _, counts = np.unique(codes, axis=0, return_counts=True)
    return float((counts == 1).sum() / len(codes))


def ranked(column: Codes) -> Codes:
    """Codes by frequency, the commonest level first."""
    counts = np.bincount(column)
    rank = np.empty(len(counts), dtype=np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return rank[column]


def copula_of(codes: Codes, order: str, *, seed: int) -> tuple[Copula, Codes]:
    """The copula of a sample whose levels are put into an order, and the codes that its probabilities are asked for."""
    counts = [np.bincount(codes[:, k]) for k in range(codes.shape[1])]
    marginals = tuple(count / len(codes) if order == "sorted" else marginal_of(count) for count in counts)
    if order == "ranked":
        codes = np.stack([ranked(codes[:, k]) for k in range(codes.shape[1])], axis=1)
    return Copula.fitted(codes, marginals, seed=seed), codes


def one_sample(source: str, keys: tuple[str, ...], fraction: float, seed: int) -> list[dict[str, object]]:
    """What each method says of one sample, and the truth."""
    population = population_of(source).select(list(keys))
    everybody = np.stack(
        [np.unique(population[key].to_numpy().astype(str), return_inverse=True)[1] for key in keys], axis=1
    ).astype(np.int64)
    n = len(everybody)
    rows = np.sort(np.random.default_rng(seed).choice(n, round(n * fraction), replace=False))
    _, cell, counts = np.unique(everybody, axis=0, return_inverse=True, return_counts=True)
    sample: pa.Table = population.take(rows)
    codes = np.stack([np.unique(everybody[rows, k], return_inverse=True)[1] for k in range(len(keys))], axis=1)
    _, sample_cell, sample_counts = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    alone = sample_counts[sample_cell.ravel()] == 1
    truth = counts[cell.ravel()[rows]][alone] == 1
    results = []

    def record(method: str, estimate: float, risk: Floats, seconds: float) -> None:
        p = np.clip(risk, 0.001, 0.999)
        place = stats.rankdata(risk)
        n_true, n_false = int(truth.sum()), int((~truth).sum())
        auc = (place[truth].sum() - n_true * (n_true + 1) / 2) / (n_true * n_false) if n_true and n_false else None
        results.append(
            {
                "population": source,
                "fraction": fraction,
                "keys": list(keys),
                "method": method,
                "error": abs(estimate - float((counts == 1).sum() / n)),
                "auc": auc,
                "log_loss": float(-np.mean(np.where(truth, np.log(p), np.log1p(-p)))),
                "certain": int((risk > CERTAIN).sum()),
                "false": int(((risk > CERTAIN) & ~truth).sum()),
                "seconds": seconds,
            }
        )

    started = time.perf_counter()
    frame = rc.assess(sample, keys=list(keys), population=n, seed=0).to_frame()
    risk = np.asarray(frame["unique_probability"])
    record(OURS, float(risk.sum() / len(rows)), risk[alone], time.perf_counter() - started)
    for order in ORDERS:
        started = time.perf_counter()
        copula, asked = copula_of(codes, order, seed=seed)
        p = copula.probability(asked[alone])
        unique = np.exp((n - 1) * np.log1p(-np.minimum(p, 1 - 1e-12)))
        record(f"copula, {order}", copula.uniqueness(n, seed=seed), unique, time.perf_counter() - started)
    return results


def report(rows: list[dict[str, object]]) -> None:
    """One line for each population, fraction and method."""
    print(
        "| population, sample | method | mean error | median error | nearer than rarecell | AUC | log-loss | false of those above 0.95 |"
    )
    print("|---|---|---|---|---|---|---|---|")
    ours = {_sample(row): row["error"] for row in rows if row["method"] == OURS}
    groups = sorted({(str(row["population"]), float(row["fraction"])) for row in rows})
    for source, fraction in groups:
        for method in (OURS, *(f"copula, {order}" for order in ORDERS)):
            of = [r for r in rows if (r["population"], r["fraction"], r["method"]) == (source, fraction, method)]
            errors = np.array([r["error"] for r in of])
            nearer = "" if method == OURS else f"{sum(r['error'] < ours[_sample(r)] for r in of)} of {len(of)} sets"
            areas = [r["auc"] for r in of if r["auc"] is not None]
            print(
                f"| {source}, {fraction:.1%} | {method} | {errors.mean():.4f} | {np.median(errors):.4f} | {nearer} | "
                f"{np.mean(areas) if areas else float('nan'):.3f} | {np.mean([r['log_loss'] for r in of]):.3f} | "
                f"{sum(r['false'] for r in of):,} of {sum(r['certain'] for r in of):,} |"
            )


def _sample(row: dict[str, object]) -> tuple[object, ...]:
    return row["population"], row["fraction"], tuple(row["keys"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=12, help="random sets of keys for each population and fraction")
    parser.add_argument("--least", type=int, default=3)
    parser.add_argument("--most", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write every sample's numbers, too")
    parser.add_argument("--from", dest="earlier", type=Path, help="print the table of an earlier run's numbers")
    options = parser.parse_args()
    if options.earlier:
        report(json.loads(options.earlier.read_text(encoding="utf-8")))
        return
    rng = np.random.default_rng(options.seed)
    rows: list[dict[str, object]] = []
    for source, columns in COLUMNS.items():
        chosen = []
        for _ in range(options.sets):
            size = int(rng.integers(options.least, options.most + 1))
            chosen.append(tuple(columns[k] for k in np.sort(rng.choice(len(columns), size, replace=False))))
        for fraction in FRACTIONS[source]:
            for number, keys in enumerate(chosen):
                rows.extend(one_sample(source, keys, fraction, options.seed + number))
                print(f"\r{source}, {fraction:.1%}: {number + 1} of {options.sets}", end="", file=sys.stderr)
    print(file=sys.stderr)
    print(f"rarecell {rc.__version__}, {options.sets} random sets of {options.least} to {options.most} keys for each line\n")
    report(rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
