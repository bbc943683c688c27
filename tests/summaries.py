"""Summaries as a run writes them, for tests of what shows them: the census sample, assessed and protected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rarecell.outcome.records import RiskyRecord
from rarecell.outcome.summary import RunSummary

AGE = ["age/3", "age/10", "age/31"]


def typed(summary: Mapping[str, Any]) -> RunSummary:
    """A summary as a run has it in memory."""
    return RunSummary.from_dict(summary)


def typed_records(records: Sequence[Mapping[str, Any]] | None = None) -> tuple[RiskyRecord, ...]:
    return tuple(RiskyRecord.from_dict(one) for one in (riskiest_records() if records is None else records))


def census_summary() -> dict[str, Any]:
    """The census sample at several resolutions."""
    return {
        "rarecell": "0.1.0",
        "records": 9809,
        "population": 277677,
        "sampling_fraction": 9809 / 277677,
        "records_dropped": 0,
        "missing": {"policy": "level", "records": {"age": 3, "citizenship": 1}},
        "notes": ["age is a whole number and was taken as ordered."],
        "keys": [
            {
                "name": "relationship",
                "levels": 14,
                "ordered": False,
                "missing_records": 0,
                "coarsenings": [{"name": "relationship/6", "levels": 6}],
            },
            {"name": "sex", "levels": 2, "ordered": False, "missing_records": 0, "coarsenings": []},
            {
                "name": "age",
                "levels": 91,
                "ordered": True,
                "missing_records": 3,
                "coarsenings": [{"name": f"age/{n}", "levels": n} for n in (31, 10, 3)],
            },
            {"name": "marital", "levels": 5, "ordered": False, "missing_records": 0, "coarsenings": []},
            {"name": "citizenship", "levels": 5, "ordered": False, "missing_records": 1, "coarsenings": []},
            {"name": "spouse", "levels": 7, "ordered": False, "missing_records": 0, "coarsenings": []},
            {"name": "own_child", "levels": 2, "ordered": False, "missing_records": 0, "coarsenings": []},
            {"name": "child_age", "levels": 5, "ordered": False, "missing_records": 0, "coarsenings": []},
        ],
        "cells": {
            "formal": 4459000,
            "occupied": 2879,
            "size_indices": {"1": 1674, "2": 490, "3": 215, "4": 120, "5": 83, "6": 60, "7": 41, "8": 33, "57": 2, "83": 1},
        },
        "structure": {
            "combinations": 309,
            "dependencies": ["spouse determines marital in all records"],
            "strongest": ["No record has sex '1' with child_age '0', although 2,450 would be expected."],
        },
        "model": {
            "vertices": [
                {"name": "relationship", "key": "relationship", "levels": 14},
                {"name": "sex", "key": "sex", "levels": 2},
                {"name": "age", "key": "age", "levels": 91},
                {"name": "marital", "key": "marital", "levels": 5},
                {"name": "citizenship", "key": "citizenship", "levels": 5},
                {"name": "spouse", "key": "spouse", "levels": 7},
                {"name": "own_child", "key": "own_child", "levels": 2},
                {"name": "child_age", "key": "child_age", "levels": 5},
                {"name": "relationship/6", "key": "relationship", "levels": 6},
                {"name": "age/31", "key": "age", "levels": 31},
                {"name": "age/10", "key": "age", "levels": 10},
                {"name": "age/3", "key": "age", "levels": 3},
            ],
            "cliques": [
                ["relationship", "relationship/6", "spouse", "age/10", "age/3"],
                ["relationship", "relationship/6", "citizenship"],
                ["age", "own_child", *AGE],
                ["age/31", "age/10", "age/3", "spouse"],
                ["marital", "spouse"],
                ["sex", "child_age"],
                ["age/10", "age/3", "spouse", "child_age", "relationship/6"],
                [*AGE, "own_child", "spouse"],
            ],
            "separators": [
                {"variables": ["relationship", "relationship/6"], "multiplicity": 1},
                {"variables": ["relationship/6", "spouse", "age/10", "age/3"], "multiplicity": 1},
                {"variables": ["age/10", "age/3", "spouse"], "multiplicity": 1},
                {"variables": ["child_age"], "multiplicity": 1},
                {"variables": ["spouse"], "multiplicity": 1},
                {"variables": [*AGE, "own_child"], "multiplicity": 1},
            ],
            "degrees_of_freedom": 1502,
            "log_likelihood": -9511.284,
            "log_likelihood_kernel": -76386.42,
            "aic": 22026.57,
            "bic": 32828.4,
            "criterion": "aic",
            "describe": "decomposable model with 8 cliques; 1,502 degrees of freedom, AIC 22,026.570",
            "search": {
                "method": "exact",
                "certified_optimal": True,
                "starts": 0,
                "times_met": 1,
                "sentence": "Exact search: no decomposable model of these vertices has a better AIC.",
                "conclusion": "Exact search: no decomposable model of these vertices has a better AIC.",
            },
        },
        "risk": {
            "sample_uniques": 1674,
            "expected_population_uniques": 201.9,
            "expected_correct_matches": 431.2,
            "interval": [178.3, 227.0],
            "estimators": {
                "average": 201.9,
                "decomposable": 210.2,
                "ewens": 67.069,
                "ewens_moment": 70.781,
                "pitman": 312.59,
                "additive": 158.4,
            },
            "cell_probability_decades": {"-3": 3, "-4": 231, "-5": 854, "-6": 471, "-7": 98, "-8": 16, "-9": 1},
            "swappable_uniques": 1674,
            "threshold": 0.2,
            "records_above_threshold": 383,
            "histogram": {
                "edges": [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1],
                "counts": [1035, 256, 120, 74, 51, 36, 29, 25, 28, 20],
            },
            "estimator_details": [
                {
                    "name": "average",
                    "expected_population_uniques": 201.9,
                    "converged": True,
                    "assumes": "the keys interact as in the average of four models; every record has its own risk.",
                    "message": "",
                },
                {
                    "name": "ewens",
                    "expected_population_uniques": 67.069,
                    "converged": True,
                    "assumes": "cell probabilities follow one Dirichlet process; every unique has the same risk.",
                    "message": "θ = 1,305.8 by maximum likelihood",
                },
                {
                    "name": "pitman",
                    "expected_population_uniques": 312.59,
                    "converged": True,
                    "assumes": "cell probabilities follow a two-parameter Dirichlet process; every unique has the same risk.",
                    "message": "α = 0.4935, θ = 309.49",
                },
                {
                    "name": "snb",
                    "expected_population_uniques": None,
                    "converged": False,
                    "assumes": "population counts follow a slide negative binomial.",
                    "message": "The equations have no solution for these size indices.",
                },
            ],
            "diagnostics": {
                "sentence": "The model fits about right: neither over- nor understatement of risk stands out.",
                "conclusion": "The model fits about right: neither over- nor understatement of risk stands out.",
                "statistics": [
                    {"name": "B1", "value": 12.4, "standard_error": 15.1, "z": 0.82},
                    {"name": "B2", "value": 20.9, "standard_error": 24.7, "z": 0.85},
                ],
                "size_indices": [
                    {"size": 1, "observed": 1674, "expected": 1733.0},
                    {"size": 2, "observed": 490, "expected": 458.1},
                    {"size": 3, "observed": 215, "expected": 222.4},
                    {"size": 4, "observed": 120, "expected": 117.7},
                    {"size": 5, "observed": 83, "expected": 84.0},
                ],
            },
            "k_anonymity": {"2": 1674, "3": 2654, "5": 3779},
            "key_costs": [
                {
                    "key": "age",
                    "without": 9.1,
                    "coarsened": [
                        {"name": "age/31", "levels": 31, "expected_population_uniques": 104.0},
                        {"name": "age/10", "levels": 10, "expected_population_uniques": 46.2},
                        {"name": "age/3", "levels": 3, "expected_population_uniques": 18.8},
                    ],
                },
                {
                    "key": "relationship",
                    "without": 52.3,
                    "coarsened": [{"name": "relationship/6", "levels": 6, "expected_population_uniques": 91.0}],
                },
                {"key": "citizenship", "without": 80.5, "coarsened": []},
                {"key": "spouse", "without": 171.5, "coarsened": []},
                {"key": "marital", "without": 188.0, "coarsened": []},
                {"key": "sex", "without": 160.4, "coarsened": []},
                {"key": "own_child", "without": 190.9, "coarsened": []},
                {"key": "child_age", "without": 170.2, "coarsened": []},
            ],
            "unsafe_combinations": [
                {"variables": ["age", "relationship", "citizenship"], "records": 301},
                {"variables": ["age", "relationship", "spouse"], "records": 211},
                {"variables": ["age", "citizenship", "spouse"], "records": 120},
                {"variables": ["age", "citizenship"], "records": 18},
                {"variables": ["relationship", "child_age", "sex"], "records": 2},
            ],
            "model_describe": "average of back-off networks over four orders of the keys",
            "fixed_records": 0,
            "interval_correct_matches": [399.0, 466.5],
            "interval_basis": "It accounts for sampling variation and for the uncertainty of the probabilities, not for an interaction that the model misses.",
            "key_contributions": {"age": 0.93, "relationship": 0.58, "citizenship": 0.41},
            "household": {"households": 9480, "expected_with_an_identified_member": 197.2, "above_threshold": 377},
        },
    }


def demo_summary() -> dict[str, Any]:
    """The same with the truth, as the demo knows it."""
    return census_summary() | {"truth": {"population_uniques": 179, "correct_matches": 414.58}}


def _risk(uniques: float, matches: float, sample_uniques: float, highest: float) -> dict[str, float]:
    return {
        "expected_population_uniques": uniques,
        "expected_correct_matches": matches,
        "sample_uniques": sample_uniques,
        "highest": highest,
    }


def families_summary() -> dict[str, Any]:
    """Families of the census sample, whose risk is higher than that of its persons."""
    return {
        "households": 4000,
        "sample_uniques": 900,
        "expected_population_uniques": 700.0,
        "expected_correct_matches": 800.0,
        "expected_persons": 2000.0,
        "interval": [650.0, 750.0],
        "highest": 1.0,
        "above_threshold": 900,
        "records_above_threshold": 3000,
        "expected_records": 2100.0,
        "places": 4,
    }


def protected_summary() -> dict[str, Any]:
    """The same after the 50 riskiest records were swapped."""
    return census_summary() | {
        "swap": {
            "requested": 50,
            "swapped": 48,
            "not_swapped": [{"reason": "no partner within the constraints", "records": 2}],
            "values_changed": 131,
            "share_changed": 131 / (9809 * 8),
            "mean_distance": 0.412,
            "uniques_vacated": 48,
            "uniques_created": 61,
            "risk_before": _risk(201.9, 431.2, 1674.0, 0.99),
            "risk_after": _risk(158.1, 381.6, 1687.0, 0.88),
            "margins_identical": True,
            "margins": [{"variables": ["marital", "spouse"], "cells": 12}, {"variables": ["age/10", "spouse"], "cells": 41}],
            "first_found_mean_distance": 0.871,
            "hellinger": {
                "1": {"mean": 0.0, "max": 0.0},
                "2": {"mean": 0.0021, "max": 0.0083},
                "3": {"mean": 0.0112, "max": 0.0291},
            },
            "pmse": 1.2e-6,
            "associations": [
                {"key": "age", "column": "education", "before": 0.512, "after": 0.511},
                {"key": "citizenship", "column": "race", "before": 0.301, "after": 0.301},
            ],
            "frontier": [
                {"values_changed": 0, "expected_population_uniques": 201.9},
                {"values_changed": 31, "expected_population_uniques": 190.2},
                {"values_changed": 70, "expected_population_uniques": 176.5},
                {"values_changed": 131, "expected_population_uniques": 158.1},
            ],
        }
    }


def riskiest_records() -> list[dict[str, Any]]:
    """The riskiest records, with their values: for the internal report alone."""
    values = {
        "relationship": "7",
        "sex": "1",
        "age": "90",
        "marital": "2",
        "citizenship": "4",
        "spouse": "4",
        "own_child": "0",
        "child_age": "4",
    }
    return [
        {
            "record": 100 + 37 * k,
            "values": values | {"age": str(61 + k)},
            "unique_probability": 0.99 - 0.004 * k,
            "match_probability": 0.995 - 0.004 * k,
            "why": ["age 90 with relationship 7 occurs once in the file", "citizenship 4 with relationship 7: 3 records"],
            "unsafe_combinations": [["age", "relationship"], ["age", "citizenship", "spouse"]],
        }
        for k in range(25)
    ]
