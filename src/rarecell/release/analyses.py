"""Would users of the protected file come to the same conclusions?

The user names analyses: a regression, means of a column by group, a table with its totals. Each is run on both files, and every
coefficient, mean or total is shown side by side with the overlap of its confidence intervals and its signed relative bias.
Survey weights are used as in a survey package: weighted estimates with robust standard errors.

References
----------
Karr, A., Kohnen, C., Oganian, A., Reiter, J. and Sanil, A. (2006). A framework for evaluating the utility of data altered to
protect confidentiality. The American Statistician 60, 224–232 (overlap of confidence intervals).
"""

from __future__ import annotations

import ast
import importlib.util
import io
import re
import token
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.errors import BadInput, MissingExtra, UnknownColumns
from rarecell.outcome.swap import AnalysisTerm

if TYPE_CHECKING:
    from rarecell.edges import Array, Columns, ReadJson


MOST_RECORDS = 200_000
"""Analyses of longer files use a random sample of this many records, the same ones in both files."""

Z = 1.959963984540054
"""Half the width of a 95 % interval, in standard errors."""

KINDS = ("regression", "means", "table")

Floats = NDArray[np.float64]
Estimates = dict[str, tuple[float, float]]
"""An estimate and its standard error for each name."""


@dataclass(frozen=True)
class Analysis:
    """What a user wants to know from the file.

    Attributes
    ----------
    name : str
        Name given by the user.
    kind : str
        ``regression``, ``means`` or ``table``.
    formula : str
        ``"income ~ age + sex"`` for a regression, ``"income by region"`` for means, ``"region, sex"`` for a table.
    family : str
        ``linear`` or ``logistic``; used by a regression only.
    """

    name: str
    kind: str
    formula: str
    family: str = "linear"

    @classmethod
    def of(cls, name: str, given: ReadJson) -> Analysis:
        """Read ``[analysis.NAME]`` of a configuration."""
        kinds = [kind for kind in KINDS if kind in given]
        unknown = [option for option in given if option not in (*KINDS, "family")]
        if len(kinds) != 1 or unknown:
            raise BadInput(
                f'Analysis \'{name}\' needs one of regression = "income ~ age + sex", means = "income by region" or table = "region, sex"'
                + (f"; it has no option '{unknown[0]}'." if unknown else ".")
            )
        family = str(given.get("family", "linear"))
        if family not in ("linear", "logistic"):
            raise BadInput(f"The family of analysis '{name}' was given as '{family}'; it must be 'linear' or 'logistic'.")
        text = str(given[kinds[0]])
        is_odd = {"regression": "~" not in text, "means": " by " not in text, "table": not text.strip(" ,")}
        if is_odd[kinds[0]]:
            raise BadInput(f"Analysis '{name}' was given as '{text}', which is not of the form of its kind, {kinds[0]}.")
        return cls(name, kinds[0], text, family)

    def columns(self, available: Sequence[str]) -> list[str]:
        """Return the columns that the formula names."""
        if self.kind == "regression":
            return columns_of(self.formula, available)
        unknown = [part for part in self._parts() if part not in available]
        if unknown:
            raise UnknownColumns.among(unknown, list(available))
        return [name for name in available if name in self._parts()]

    def _parts(self) -> list[str]:
        return [part.strip() for part in re.split(r",| by ", self.formula) if part.strip()]


def compared(name: str, before: float, after: float, error_before: float, error_after: float) -> AnalysisTerm:
    """One number of an analysis in both files, with the overlap of its intervals: 1 for equal, 0 or less for disjoint ones."""
    low = max(before - Z * error_before, after - Z * error_after)
    high = min(before + Z * error_before, after + Z * error_after)
    lengths = (2 * Z * error_before, 2 * Z * error_after)
    if min(lengths) <= 0.0:
        overlap = 1.0 if before == after else 0.0
    else:
        overlap = 0.5 * sum((high - low) / length for length in lengths)
    return AnalysisTerm(
        name=name,
        before=before,
        after=after,
        error_before=error_before,
        error_after=error_after,
        overlap=overlap,
        relative_bias=None if before == 0.0 else (after - before) / abs(before),
    )


def compare(
    analysis: Analysis, before: Columns, after: Columns, weights: Floats | None = None, *, weights_after: Floats | None = None
) -> tuple[AnalysisTerm, ...]:
    """Run an analysis on both files, given as columns of values; the weights of the second are those of the first unless given.

    A cell of a table that is empty in one file has a total of 0 there; other numbers found in only one file are left out.
    """
    first = _estimates(analysis, before, weights)
    second = _estimates(analysis, after, weights if weights_after is None else weights_after)
    if analysis.kind == "table":
        first, second = (
            {name: estimates.get(name, (0.0, 0.0)) for name in sorted({*first, *second})} for estimates in (first, second)
        )
    return tuple(
        compared(name, first[name][0], second[name][0], first[name][1], second[name][1]) for name in first if name in second
    )


def _estimates(analysis: Analysis, columns: Columns, weights: Floats | None) -> Estimates:
    n_records = len(next(iter(columns.values())))
    of_records = np.ones(n_records) if weights is None else weights
    if analysis.kind == "regression":
        return _regression(analysis, columns, weights)
    if analysis.kind == "means":
        value, *groups = analysis._parts()
        return _means(_numbers(analysis, value, columns[value]), _labels(columns, groups), of_records)
    return _totals(_labels(columns, analysis._parts()), of_records)


def _numbers(analysis: Analysis, name: str, values: Sequence[object]) -> Floats:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise BadInput(f"Analysis '{analysis.name}' takes means of '{name}', whose values are not numbers.") from None


def _labels(columns: Columns, names: Sequence[str]) -> Array:
    parts = [[("missing" if value is None else str(value)) for value in columns[name]] for name in names]
    return np.array([", ".join(values) for values in zip(*parts, strict=True)], dtype=object)


def _totals(labels: Array, weights: Floats) -> Estimates:
    """Weighted total of each cell, with the standard error of a sum of n independent draws."""
    n = len(weights)
    totals = {}
    for label in sorted(set(labels.tolist())):
        drawn = np.where(labels == label, weights, 0.0)
        totals[label] = (float(drawn.sum()), float(np.sqrt(n / max(1, n - 1) * ((drawn - drawn.mean()) ** 2).sum())))
    return totals


def _means(values: Floats, labels: Array, weights: Floats) -> Estimates:
    """Weighted mean of each group, with the linearised standard error of a ratio; records without a value are left out."""
    means = {}
    for label in sorted(set(labels.tolist())):
        among = (labels == label) & np.isfinite(values)
        w, y = weights[among], values[among]
        if len(y) > 1:
            mean = float((w * y).sum() / w.sum())
            error = np.sqrt(len(y) / (len(y) - 1) * ((w * (y - mean)) ** 2).sum()) / w.sum()
            means[label] = (mean, float(error))
    return means


def check_regressions(analyses: Iterable[Analysis]) -> None:
    """Refuse, before anything is computed, regressions where the part that fits them is not installed."""
    needed = [analysis for analysis in analyses if analysis.kind == "regression"]
    if needed and any(importlib.util.find_spec(library) is None for library in ("pandas", "statsmodels")):
        raise MissingExtra.needed(f"The regression '{needed[0].name}'", "analysis")


def _regression(analysis: Analysis, columns: Columns, weights: Floats | None) -> Estimates:
    check_regressions([analysis])
    import pandas as pd
    import statsmodels.api as sm
    import statsmodels.formula.api as smf

    frame = pd.DataFrame({name: pd.Series(list(values)) for name, values in columns.items()})
    kept = frame.notna().all(axis=1)
    frame, options = frame[kept], {}
    if weights is not None:
        # Survey weights are not frequency weights; treating them as such would make the errors too small.
        options = {"weights" if analysis.family == "linear" else "var_weights": weights[kept.to_numpy()]}
    try:
        if analysis.family == "linear":
            fitted = smf.wls(analysis.formula, frame, **options).fit(cov_type="HC0")
        else:
            fitted = smf.glm(analysis.formula, frame, family=sm.families.Binomial(), **options).fit(cov_type="HC0")
    except Exception as problem:
        reason = next(iter(str(problem).splitlines()), "") or type(problem).__name__
        raise BadInput(
            f"Analysis '{analysis.name}' ({analysis.formula}) could not be run: {reason}. Check the names and the "
            "values of its columns."
        ) from None
    n_terms = len(fitted.params)
    # Apply the same small-sample correction in both families; statsmodels applies it to one of them only.
    correction = float(np.sqrt(len(frame) / max(1, len(frame) - n_terms)))
    return {str(name): (float(fitted.params[name]), correction * float(fitted.bse[name])) for name in fitted.params.index}


# Which columns does the formula of a regression name, and is it only a formula?
#
# Formulas are evaluated as Python. A configuration may come from somebody else, so a formula may use columns, numbers and a few
# functions, and nothing by which other code could run.


FUNCTIONS = ("C", "I", "Q", "Sum", "Treatment", "bs", "center", "cr", "scale", "standardize")
"""Functions of formulas: categories, arithmetic, odd names, contrasts, splines and scaling."""

NUMERICAL = ("abs", "exp", "log", "log10", "log1p", "log2", "maximum", "minimum", "power", "sqrt", "where")
"""Functions of NumPy, written as ``np.log(income)``."""

_NO_PLACE = ("[", "]", "{", "}", ";", "@", ":=", "!")

_LAYOUT = (token.NEWLINE, token.NL, token.ENDMARKER, tokenize.COMMENT)


def columns_of(formula: str, available: Sequence[str]) -> list[str]:
    """The columns that a formula names, in the order of the data.

    Raises
    ------
    UnknownColumns
        If it names something that is neither a column nor a function.
    BadInput
        If it is not a formula.

    Examples
    --------
    >>> columns_of("np.log(income) ~ C(sex) * age", ["age", "sex", "income", "pets"])
    ['age', 'sex', 'income']
    """
    try:
        read = [word for word in tokenize.generate_tokens(io.StringIO(formula).readline) if word.type not in _LAYOUT]
    except (tokenize.TokenError, SyntaxError) as problem:
        raise BadInput(f"The formula '{formula}' cannot be read: {problem.args[0]}.") from None
    named = set()
    for place, word in enumerate(read):
        before, after = (read[k].string if 0 <= k < len(read) else "" for k in (place - 1, place + 1))
        # Text with a prefix may hold code, as in f"{…}".
        if token.tok_name[word.type].startswith("FSTRING") or (word.type == token.STRING and word.string[0] not in "'\""):
            raise BadInput(f"The formula '{formula}' may use columns, {_listed()}, and no other code.")
        if word.type == token.NAME and word.string in available and before != ".":
            named.add(word.string)
        elif word.type == token.STRING and before == "(" and place > 1 and read[place - 2].string == "Q":
            named.add(_quoted(word.string, available))
        elif word.type == token.NAME and not _is_word(word.string, before, after):
            raise UnknownColumns.among([word.string], list(available))
        elif word.string == "." and (before != "np" or after not in NUMERICAL):
            raise BadInput(f"The formula '{formula}' may use columns, {_listed()}, and no other code.")
        elif (word.type == token.ERRORTOKEN and word.string.strip()) or (word.type == token.OP and word.string in _NO_PLACE):
            raise BadInput(f"The formula '{formula}' has {word.string}, which has no place in a formula.")
    return [name for name in available if name in named]


def _is_word(name: str, before: str, after: str) -> bool:
    """Whether a name that is not a column is a function, a function of NumPy, or the name of a function's option."""
    return (
        (name in FUNCTIONS and after in ("(", ",", ")"))
        or (name == "np" and after == ".")
        or (before == "." and name in NUMERICAL)
        or (after == "=" and before in ("(", ","))
        or name in ("True", "False")
    )


def _quoted(text: str, available: Sequence[str]) -> str:
    name = str(ast.literal_eval(text))
    if name not in available:
        raise UnknownColumns.among([name], list(available))
    return name


def _listed() -> str:
    return f"the functions {', '.join(FUNCTIONS)} and those of NumPy such as np.{NUMERICAL[2]}"
