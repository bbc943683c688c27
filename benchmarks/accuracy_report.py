"""How are the results of ``accuracy.py`` printed?

Per combination of keys and fraction, over combinations, over single samples, by class of risk; and what the interval would have to allow
for the error of the model, measured with one population left out at a time.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from rarecell.model.backoff import RELATIVE_ERROR

Row = dict[str, object]

LEAST_TRUTH = 50
DEFAULT = "default"
_NORMAL = 1.959964


def share(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.0%}"


def mean(found: list[Row], name: str) -> float:
    values = [row[name] for row in found if row[name] is not None]
    return float(np.mean(values)) if values else float("nan")


def report(rows: list[Row]) -> None:
    by_combination: dict[tuple[str, str, float], dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        by_combination[row["design"], row["set"], row["fraction"]][row["estimator"]].append(row)
    print(
        f"{'design':<10} {'keys':<11} {'fraction':>8} {'true τ1':>8}  {'estimator':<34} {'τ1/true':>8} {'τ2/true':>8} {'log-loss':>8} "
        f"{'Brier':>7} {'AUC':>6} {'held':>5} {'width':>6} {'s':>6}"
    )
    for (design, name, fraction), of_estimator in sorted(by_combination.items()):
        for label, found in of_estimator.items():
            truth = mean(found, "truth")
            ratio = mean(found, "estimate") / truth if truth else float("nan")
            print(
                f"{design:<10} {name:<11} {fraction:>8.3f} {truth:>8.1f}  {label:<34} {ratio:>8.3f} "
                f"{mean(found, 'matches') / mean(found, 'true_matches'):>8.3f} "
                f"{mean(found, 'log_loss'):>8.4f} {mean(found, 'brier'):>7.4f} {mean(found, 'auc'):>6.3f} "
                f"{share(mean(found, 'covered')):>5} {share(mean(found, 'width')):>6} {mean(found, 'seconds'):>6.2f}"
            )
    for design in dict.fromkeys(design for design, _, _ in sorted(by_combination)):
        report_errors(design, {key[1:]: found for key, found in by_combination.items() if key[0] == design})
    of_default = [row for row in rows if row["estimator"] == DEFAULT]
    report_calibration(of_default)
    report_fractions(of_default)
    report_light(of_default)
    report_allowance(of_default)


def report_errors(design: str, combinations: dict[tuple[str, float], dict[str, list[Row]]]) -> None:
    """Errors of means over the samples of a combination, and of single samples."""
    labels = list(dict.fromkeys(label for found in combinations.values() for label in found))
    print(f"\nDesign {design}; combinations with at least {LEAST_TRUTH} true population uniques, then all single samples:")
    print(
        f"{'estimator':<34} {'number':>6} {'median':>7} {'90 %':>7} {'worst':>7} {'log-loss':>9} {'τ1 held':>8} {'τ2 held':>8} {'width':>6}   "
        f"{'samples':>7} {'median':>7} {'90 %':>7} {'worst':>7} {'slope':>6}"
    )
    for label in labels:
        every = [found[label] for found in combinations.values() if label in found]
        large = [found for found in every if mean(found, "truth") >= LEAST_TRUTH]
        errors = [abs(mean(found, "estimate") / mean(found, "truth") - 1) for found in large] or [float("nan")]
        singles = [row for found in every for row in found if row["truth"]]
        single = [abs(row["estimate"] / row["truth"] - 1) for row in singles] or [float("nan")]
        print(
            f"{label:<34} {len(large):>6} {np.median(errors):>7.1%} {np.quantile(errors, 0.9):>7.1%} {max(errors):>7.1%} "
            f"{np.mean([mean(found, 'log_loss') for found in large]) if large else np.nan:>9.4f} "
            f"{share(np.mean([mean(found, 'covered') for found in large]) if large else np.nan):>8} "
            f"{share(np.mean([mean(found, 'covered_matches') for found in large]) if large else np.nan):>8} "
            f"{share(np.mean([mean(found, 'width') for found in large]) if large else np.nan):>6}   "
            f"{len(singles):>7} {np.median(single):>7.1%} {np.quantile(single, 0.9):>7.1%} {max(single):>7.1%} {mean(singles, 'slope'):>6.3f}"
        )


def report_calibration(rows: list[Row]) -> None:
    print("\nCalibration of the default: records with an estimated risk in each band")
    print(f"{'risk':<10} {'records':>9} {'expected uniques':>17} {'true uniques':>13} {'expected/true':>14} {'chance':>7}")
    bands = np.sum([row["calibration"] for row in rows], axis=0)
    for k, (n, expected, true) in enumerate(bands):
        print(
            f"{k / 10:.1f}–{(k + 1) / 10:.1f}    {n:>9,.0f} {expected:>17,.1f} {true:>13,.0f} {expected / max(true, 1):>14.3f} "
            f"{1 / np.sqrt(max(true, 1)):>7.1%}"
        )


def report_fractions(rows: list[Row]) -> None:
    print(f"\nThe default by fraction, samples with at least {LEAST_TRUTH} population uniques")
    print(f"{'fraction':>8} {'samples':>8} {'median':>7} {'90 %':>7} {'worst':>7} {'held':>6}")
    usable = [row for row in rows if row["truth"] >= LEAST_TRUTH]
    fractions = sorted({row["fraction"] for row in usable})
    for label, chosen in [*((f"{fraction:.3f}", {fraction}) for fraction in fractions), ("all", set(fractions))]:
        found = [row for row in usable if row["fraction"] in chosen]
        if not found:
            continue
        errors = np.abs([row["estimate"] / row["truth"] - 1.0 for row in found])
        print(
            f"{label:>8} {len(found):>8} {np.median(errors):>7.1%} {np.quantile(errors, 0.9):>7.1%} {errors.max():>7.1%} "
            f"{share(mean(found, 'covered')):>6}"
        )


def report_light(rows: list[Row]) -> None:
    """How often an estimate that is off by more than a tenth was not green, and one that is not was."""
    print(f"\nThe light of the default, samples with at least {LEAST_TRUTH} population uniques")
    print(f"{'off by':<18} {'samples':>8} {'green':>7} {'amber':>7} {'red':>7}")
    usable = [row for row in rows if row["truth"] >= LEAST_TRUTH and row["light"] is not None]
    for words, low, high in (("a tenth or less", 0.0, 0.1), ("a tenth to a fifth", 0.1, 0.2), ("more than a fifth", 0.2, np.inf)):
        found = [row["light"] for row in usable if low <= abs(row["estimate"] / row["truth"] - 1.0) < high]
        shares = [found.count(light) / len(found) if found else float("nan") for light in ("green", "amber", "red")]
        print(f"{words:<18} {len(found):>8} {share(shares[0]):>7} {share(shares[1]):>7} {share(shares[2]):>7}")


def report_pooled(rows: list[Row]) -> None:
    """Errors by fraction and the light over the samples of several runs, read from what they wrote."""
    usable = [row for row in rows if row["estimator"] == DEFAULT]
    for row in usable:
        row.update(
            {name: float(row[name]) for name in ("fraction", "truth", "estimate")}, covered=float(row["covered"] == "True")
        )
    report_fractions(usable)
    report_light(usable)


def report_allowance(rows: list[Row]) -> None:
    """What the interval has to allow for the error of the model to hold the truth in 95 %, each population judged by the others."""
    usable = [row for row in rows if row["truth"] >= LEAST_TRUTH and row["width"] is not None]
    print(
        f"\nAllowance for the error of the model that makes 95 % of the intervals of τ1 hold (today {RELATIVE_ERROR[0]:.1%}); samples with"
    )
    print(f"at least {LEAST_TRUTH} population uniques. Each population is judged by what the others ask for:")
    print(
        f"{'population':<11} {'samples':>7} {'allowance of the others':>24} {'held':>6} {'width':>6}   {'held today':>10} {'width':>6}"
    )
    for name in sorted({row["population"] for row in usable}):
        own, others = ([row for row in usable if (row["population"] == name) == is_own] for is_own in (True, False))
        if not others:
            continue
        allowance = allowance_for(others)
        print(
            f"{name:<11} {len(own):>7} {allowance:>24.1%} {share(held(own, allowance)):>6} {share(width(own, allowance)):>6}   "
            f"{share(mean(own, 'covered')):>10} {share(mean(own, 'width')):>6}"
        )
    if usable:
        allowance = allowance_for(usable)
        print(
            f"{'all':<11} {len(usable):>7} {allowance:>24.1%} {share(held(usable, allowance)):>6} {share(width(usable, allowance)):>6}   "
            f"{share(mean(usable, 'covered')):>10} {share(mean(usable, 'width')):>6}"
        )


def chance_of(row: Row) -> float:
    """Relative standard deviation of the interval without today's allowance."""
    half = row["width"] * row["truth"] / (2.0 * _NORMAL * row["estimate"])
    return float(np.sqrt(max(half**2 - RELATIVE_ERROR[0] ** 2, 0.0)))


def held(rows: list[Row], allowance: float) -> float:
    """Share of the samples whose truth lies within the normal interval with this allowance."""
    errors = np.array([abs(row["truth"] / row["estimate"] - 1.0) for row in rows])
    deviation = np.sqrt(np.array([chance_of(row) for row in rows]) ** 2 + allowance**2)
    return float((errors <= _NORMAL * deviation).mean())


def width(rows: list[Row], allowance: float) -> float:
    deviation = np.sqrt(np.array([chance_of(row) for row in rows]) ** 2 + allowance**2)
    ratio = np.array([row["estimate"] / row["truth"] for row in rows])
    return float((2.0 * _NORMAL * deviation * ratio).mean())


def allowance_for(rows: list[Row]) -> float:
    """The smallest allowance, in steps of a tenth of a per cent, that holds the truth in 95 %."""
    return next((step for step in np.arange(0.0, 0.3, 0.001) if held(rows, step) >= 0.95), 0.3)
