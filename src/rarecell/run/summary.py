"""What does a run say, in numbers and sentences?

The parts of ``summary.json``: plain dictionaries without any record or its values, so that the file may be passed on
inside an office. Every function takes finished results and computes nothing that takes time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rarecell.model.decomposable import DecomposableModel
from rarecell.risk.diagnostics import FitDiagnostics
from rarecell.risk.population_uniques import UniquesEstimate
from rarecell.risk.records import RecordRisk
from rarecell.risk.unsafe import UnsafeCombinations
from rarecell.table.contingency import ContingencyTable
from rarecell.table.structural_zeros import StructuralZeros


def of_keys(table: ContingencyTable) -> list[dict[str, Any]]:
    """Each key with its levels, its missing values and the resolutions it was offered at."""
    keys = []
    for k, categories in enumerate(table.categories):
        n_missing = int(table.counts[table.cells[:, k] == categories.n_levels - 1].sum()) if categories.has_missing else 0
        keys.append(
            {
                "name": categories.key,
                "levels": categories.n_levels,
                "ordered": categories.is_ordered,
                "missing_records": n_missing,
                "coarsenings": [
                    {"name": table.vertex_names[v], "levels": int(table.vertex_levels[v])} for v in reversed(table.chains[k][:-1])
                ],
            }
        )
    return keys


def of_cells(table: ContingencyTable) -> dict[str, Any]:
    return {
        "formal": table.n_formal_cells,
        "occupied": table.n_cells,
        "size_indices": {str(size): number for size, number in table.size_indices.items()},
    }


def of_structure(zeros: StructuralZeros, n_listed: int = 40) -> dict[str, Any]:
    """Combinations that look impossible and keys that determine others, with the evidence for a person to judge."""
    strongest = sorted(zeros.combinations, key=lambda one: -(one.expected or 0.0))
    return {
        "combinations": len(zeros.combinations),
        "dependencies": [rule.evidence for rule in zeros.dependencies],
        "strongest": [one.evidence for one in strongest[:n_listed]],
        "sets_not_searched": len(zeros.not_searched),
    }


def of_model(model: DecomposableModel, *, criterion: str, search: Mapping[str, Any]) -> dict[str, Any]:
    """Structure and fit of the best model, and what its search proves."""
    structure = model.to_dict()
    return {
        "vertices": structure["vertices"],
        "cliques": structure["cliques"],
        "separators": structure["separators"],
        "degrees_of_freedom": model.degrees_of_freedom,
        "log_likelihood": model.log_likelihood,
        "log_likelihood_kernel": model.log_likelihood_kernel,
        "aic": model.aic,
        "bic": model.bic,
        "deviance": model.deviance,
        "criterion": criterion,
        "describe": model.describe(),
        "search": dict(search),
    }


def of_estimates(estimates: Sequence[UniquesEstimate]) -> list[dict[str, Any]]:
    return [
        {
            "name": e.name,
            "expected_population_uniques": e.expected_population_uniques,
            "parameters": dict(e.parameters),
            "converged": e.converged,
            "assumes": e.assumption,
            "message": e.message,
        }
        for e in estimates
    ]


def of_risk(risk: RecordRisk, *, threshold: float, interval: tuple[float, float]) -> dict[str, Any]:
    """The file-level numbers and the distribution of record risk."""
    unique = risk.sample_count == 1
    probability = risk.unique_probability[unique]
    edges = np.linspace(0.0, 1.0, 11)
    return {
        "sample_uniques": risk.n_sample_uniques,
        "expected_population_uniques": risk.expected_population_uniques,
        "expected_correct_matches": risk.expected_correct_matches,
        "interval": [float(end) for end in interval],
        "highest": float(probability.max()) if len(probability) else 0.0,
        "threshold": threshold,
        "records_above_threshold": int((probability >= threshold).sum()),
        "histogram": {"edges": edges.round(1).tolist(), "counts": np.histogram(probability, edges)[0].tolist()},
        "cell_probability_decades": {str(decade): number for decade, number in risk.decades().items()},
    }


def verdict(summary: Mapping[str, Any]) -> str:
    """Two sentences a data steward can read aloud."""
    risk = summary["risk"]
    expected, n_risky = risk["expected_population_uniques"], risk["records_above_threshold"]
    share = expected / summary["records"]
    low, high = risk["interval"]
    first = (
        f"About {expected:,.0f} of the {summary['records']:,} records ({share:.2%}) are expected to be the only ones of their kind "
        f"in the population of {summary['population']:,.0f} (95 % interval {low:,.0f} to {high:,.0f})."
    )
    if n_risky == 0:
        return f"{first} No record has a risk of {risk['threshold']:g} or more."
    return f"{first} {n_risky:,} records have a risk of {risk['threshold']:g} or more: protect them, or release the keys in coarser form."


def against_truth(summary: Mapping[str, Any], population_counts: NDArray[np.int64]) -> dict[str, Any]:
    """Estimate and truth side by side, for a sample whose population is known.

    ``population_counts`` is F of each sample unique's cell.
    """
    true_uniques = int((population_counts == 1).sum())
    estimate = summary["risk"]["expected_population_uniques"]
    low, high = summary["risk"]["interval"]
    inside = "inside" if low <= true_uniques <= high else "outside"
    return {
        "population_uniques": true_uniques,
        "correct_matches": float((1.0 / population_counts).sum()),
        "sentence": (
            f"The population is known here: {true_uniques:,} of the {len(population_counts):,} sample uniques are population uniques. "
            f"The estimate was {estimate:,.1f}, {estimate / true_uniques:.2f} times the truth, which lies {inside} the interval."
        ),
    }


def of_fit(fit: FitDiagnostics) -> dict[str, Any]:
    """Whether the risk is likely over- or understated, and the numbers behind it."""
    return {
        "sentence": fit.verdict,
        "statistics": [
            {"name": name, "value": test.statistic, "standard_error": float(np.sqrt(test.variance)), "z": test.z}
            for name, test in (("B1, population uniques", fit.unique_test), ("B2, correct matches", fit.match_test))
            if test is not None
        ],
        "size_indices": [
            {"size": size, "observed": fit.observed_sizes[size], "expected": n} for size, n in fit.expected_sizes.items()
        ],
    }


def commonest_unsafe(unsafe: UnsafeCombinations, n_listed: int = 20) -> list[dict[str, Any]]:
    """The combinations of keys that make most records unique."""
    masks, numbers = np.unique(unsafe.mask, return_counts=True)
    order = np.lexsort((masks, -numbers))[:n_listed]
    return [{"variables": list(unsafe.table.names_of(int(masks[i]))), "records": int(numbers[i])} for i in order]


def whole(number: float) -> float | int:
    """A number without a fraction as an integer."""
    return int(number) if float(number).is_integer() else float(number)
