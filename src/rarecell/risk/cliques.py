"""What is the risk when there are more cells than one machine can hold?

Under a decomposable model the probability of a cell depends only on the counts of cliques and separators. So where the cells
stay on Spark, the user names the cliques, their counts are joined to the records, and only totals come to the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rarecell.errors import NotChordal, PopulationTooSmall, UnknownColumns
from rarecell.graph.chordal import ChordalGraph

if TYPE_CHECKING:
    from rarecell.data.microdata import Microdata
    from rarecell.edges import Frame


@dataclass(frozen=True, eq=False)
class CliqueRisk:
    """Identification risk of the records of a Spark frame.

    Attributes
    ----------
    frame : Spark frame
        Has the columns ``cell_count``, ``cell_probability``, ``unique_probability`` (0 where the cell has more than one record)
        and ``match_probability`` (null there); records dropped for a missing key are left out.
    population : float
        Population size.
    n_records, n_sample_uniques : int
        Number of records, and number of those that are alone in their cell.
    expected_population_uniques, expected_correct_matches : float
        As in :class:`~rarecell.RecordRisk`.
    """

    frame: Frame = field(repr=False)
    population: float
    n_records: int
    n_sample_uniques: int
    expected_population_uniques: float
    expected_correct_matches: float

    def __str__(self) -> str:
        return (
            f"{self.n_sample_uniques:,} of {self.n_records:,} records are alone with their combination of values; "
            f"{self.expected_population_uniques:,.1f} of them are expected to be unique in the population of "
            f"{self.population:,.0f}, and {self.expected_correct_matches:,.1f} to be matched correctly."
        )


def clique_risk(data: Microdata, cliques: Sequence[Sequence[str]], *, population: float) -> CliqueRisk:
    """Risk of the records of a Spark frame under a given decomposable model, from the counts of its cliques.

    The numbers are those of ``record_risk(table, DecomposableModel(table, cliques), population=population)``, for tables with
    any number of cells.

    Parameters
    ----------
    data : Microdata
        A Spark frame with its keys.
    cliques : sequence of sequences of str
        Groups of keys that interact, as found by a run on a part of the data or on coarser keys; their graph must be chordal.
    population : float
        Number of units that the sample was drawn from.

    Returns
    -------
    CliqueRisk
        The frame with its risks, and the totals.
    """
    unknown = [key for clique in cliques for key in clique if key not in data.keys]
    if unknown:
        raise UnknownColumns.among(unknown, data.keys, role="key")
    position = {key: k for k, key in enumerate(data.keys)}
    named = [[position[key] for key in clique] for clique in cliques]
    try:
        graph = ChordalGraph.from_cliques(len(position), [*named, *([k] for k in position.values())])
    except NotChordal as problem:
        raise NotChordal.with_cycle([data.keys[v] for v in problem.cycle if isinstance(v, int)]) from None
    factors = [(clique, 1) for clique in graph.cliques]
    factors += [(separator, -times) for separator, times in graph.separators if separator]

    def risk_columns(functions: Any, n_records: int, log_product: Any, count: Any) -> Iterator[tuple[str, Any]]:
        """(1 − p)^(N − n) and the mean of 1 / F for records that are alone: see :mod:`rarecell.risk.formulas`."""
        unseen = float(population - n_records)
        p = functions.col("cell_probability")
        nobody = functions.exp(unseen * functions.log1p(-p))
        match = -functions.expm1((unseen + 1.0) * functions.log1p(-p)) / ((unseen + 1.0) * p)
        yield "cell_probability", functions.least(functions.exp(log_product), functions.lit(1.0))
        yield "unique_probability", functions.when(count == 1, nobody).otherwise(0.0)
        yield "match_probability", functions.when(count == 1, match)

    frame, counts, sums = data.with_products_of_margins(factors, risk_columns, ("unique_probability", "match_probability"))
    if population < counts[0]:
        raise PopulationTooSmall.given(population, n_records=counts[0])
    return CliqueRisk(frame, population, *counts, *sums)
