"""What R asks of rarecell: a table from columns, the keywords of a run, and columns back.

R has a missing value in every type and no vectors of length one apart from single values, so values and what is missing travel
apart. R counts rows from 1; whatever is a row number is changed here.
"""

import secrets

import numpy as np
import pyarrow as pa

import rarecell as rc
from rarecell import datasets
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.options import Names, Rows, Sets, options_of


def table(columns, missing):
    """A pyarrow table of columns; ``missing`` says for each which values are."""
    arrays = {}
    for name, values in columns.items():
        arrays[name] = pa.array(_listed(values), mask=np.array(_listed(missing[name]), dtype=bool))
    return pa.table(arrays)


def _listed(values):
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _options_of_kind(*kinds):
    return {option.name for owner in (RunConfig, ProtectConfig) for option in options_of(owner) if isinstance(option.kind, kinds)}


_LISTS = {"columns", "keys", *_options_of_kind(Names, Rows)}
_SETS = _options_of_kind(Sets)


def run(what, frame, options):
    """``assess``, ``protect`` or ``synthesise`` with the options of R: single names for lists of one, row numbers from 1.

    Protected data are a release, so partners are chosen by a secret number unless a seed, or an earlier release, is given.
    """
    given = {name: value for name, value in options.items() if value is not None}
    for name in _LISTS & given.keys():
        given[name] = _listed(given[name])
    for name in _SETS & given.keys():
        given[name] = [_listed(members) for members in _listed(given[name])]
    if "records" in given:
        given["records"] = [int(number) - 1 for number in given["records"]]
    # R writes whole numbers without a type of their own.
    given = {name: int(value) if isinstance(value, float) and value.is_integer() else value for name, value in given.items()}
    if what == "protect" and not given.keys() & {"seed", "swap_seed", "released", "formal"}:
        given["swap_seed"] = secrets.randbits(63)
    return getattr(rc, what)(frame, **given)


def risk_columns(result):
    """The risk of every record, with row numbers from 1."""
    frame = getattr(result, "assessment", result).to_frame()
    columns = {name: frame.column(name).to_numpy(zero_copy_only=False) for name in frame.column_names}
    columns["record"] = columns["record"] + 1
    return {name: values.tolist() for name, values in columns.items()}


def released(result):
    """The names of the columns of the protected data, and those of them that are not as they were."""
    before, after = result.assessment.data.native_frame, result.frame
    names = after.column_names
    return {"names": names, "changed": [name for name in names if not after.column(name).equals(before.column(name))]}


def column_back(result, name):
    """A column of the protected data: its values, and which of them are missing."""
    return _for_r(result.frame.column(name).combine_chunks())


def twin_columns(result, number):
    """The columns of a twin, counted from 1."""
    return {name: _for_r(column) for name, column in result.columns(int(number) - 1).items()}


def _for_r(column):
    missing = np.asarray(column.is_null())
    # Text comes as any of Arrow's three types for it, a recoded key as a dictionary.
    values = column.to_pylist()
    empty = 0 if all(isinstance(value, (int, float, type(None))) for value in values) else ""
    return {"values": [empty if value is None else value for value in values], "missing": missing.tolist()}


def numbers(result):
    """The figures that ``summary()`` shows in R."""
    if isinstance(result, rc.Synthesis):
        return result.summary.to_dict()
    risk = result.summary.risk
    found = {
        "records": result.summary.records,
        "population": result.summary.population,
        "sample_uniques": risk.sample_uniques,
        "expected_population_uniques": risk.expected_population_uniques,
        "interval": list(risk.interval),
        "expected_correct_matches": risk.expected_correct_matches,
    }
    if result.summary.swap is not None:
        found["after"] = result.summary.swap.risk_after.expected_population_uniques
    return found


def census_sample():
    """The columns of the sample that ships with the package."""
    return datasets.census_sample().to_pydict()


def explain(result):
    return str(rc.explain(result))


def save(result, folder, overwrite):
    return str(result.save(folder, overwrite=overwrite))


def attack(released, original, options):
    """What each intruder finds in a released file, as columns."""
    given = {name: value for name, value in options.items() if value is not None}
    given["keys"] = _listed(given["keys"])
    done = rc.attack(released, original=original, **given).summary
    return {
        "intruder": [intruder.name for intruder in done.intruders],
        "before": [float(intruder.before) for intruder in done.intruders],
        "after": [float(intruder.after) for intruder in done.intruders],
    }
