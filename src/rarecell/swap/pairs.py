"""Why can or can't two records exchange values, and what does the paper's condition say about a model?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from rarecell.errors import BadInput
from rarecell.graph.masks import all_below, components, each_member
from rarecell.model.decomposable import DecomposableModel
from rarecell.model.protocol import CellModel
from rarecell.swap.interactions import Interactions
from rarecell.swap.units import ColumnValues, Units
from rarecell.table.contingency import ContingencyTable


@dataclass(frozen=True)
class PairExplanation:
    """Why two records can or cannot be exchanged.

    Attributes
    ----------
    differs : tuple of str
        Names of the vertices on which they differ, at the finest resolution.
    parts : tuple of tuples of str
        Names of the vertices that move as one.
    swaps : tuple of tuples of str
        The distinct exchanges, as the keys that move.
    can_swap : bool
        Whether there is an exchange.
    sentence : str
        The reason in words.
    """

    differs: tuple[str, ...]
    parts: tuple[tuple[str, ...], ...]
    swaps: tuple[tuple[str, ...], ...]
    can_swap: bool
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def explain_pair(
    table: ContingencyTable,
    model: CellModel,
    record: int,
    partner: int,
    *,
    keep: Sequence[Sequence[str]] = (),
    never_swap: Sequence[str] = (),
    columns: Mapping[str, ColumnValues] | None = None,
) -> PairExplanation:
    """Explain in words why two records (row numbers) can or cannot be exchanged.

    ``keep`` lists further margins that must stay, ``never_swap`` keys that stay with their record, and ``columns`` holds the
    values of the columns outside the keys that ``keep`` names.
    """
    graph = Interactions.of_model(table, model, keep=keep, never_swap=never_swap)
    difference = _difference_of(graph, Units.of(table, graph.columns, columns or {}), record, partner)
    parts = [part for part in graph.components(difference) if part & graph.keys]
    swaps = tuple(_key_names(graph, moved) for moved in graph.swaps(difference))
    who = f"Records {record + 1} and {partner + 1} (counted from 1)"
    if not difference & graph.keys:
        sentence = f"{who} agree on every key: there is nothing to exchange."
    elif len(parts) == 1:
        keys = _and(_key_names(graph, difference))
        sentence = f"{who} cannot be swapped: they differ on {keys}, {_held_together(graph, parts[0])}."
    elif not swaps:
        stuck = _and(sorted({name for part in parts for name in graph.names_of(part & graph.fixed)}))
        sentence = f"{who} cannot be swapped: every part of their difference holds {stuck}, which stays with its record."
    else:
        listed = "; ".join(_and(names) for names in swaps)
        keys, ways = _and(_key_names(graph, difference)), "1 way" if len(swaps) == 1 else f"{len(swaps):,} ways"
        sentence = f"{who} differ on {keys}. They can be swapped in {ways}, by exchanging {listed}: {_parted(graph, difference)}."
    names = tuple(graph.names_of(part) for part in parts)
    return PairExplanation(graph.names_of(difference), names, swaps, bool(swaps), sentence)


def _difference_of(interactions: Interactions, units: Units, record: int, partner: int) -> int:
    rows = []
    for number in (record, partner):
        if not 0 <= number < len(units.record_unit):
            raise BadInput(f"There is no record {number + 1:,}; the records are counted from 1 to {len(units.record_unit):,}.")
        if units.record_unit[number] < 0:
            raise BadInput(f"Record {number + 1:,} was left out for a missing key, so it cannot be swapped.")
        rows.append(units.codes[units.record_unit[number]].tolist())
    return interactions.difference(*rows)


def _key_names(graph: Interactions, mask: int) -> tuple[str, ...]:
    return tuple(graph.table.keys[k] for k in each_member(mask & graph.keys))


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _held_together(graph: Interactions, part: int) -> str:
    keys = _key_names(graph, part)
    if len(keys) == 1:
        return "and an exchange of one key alone gives both records the cell of the other"
    margins = [graph.names_of(kept) for kept in graph.kept if (kept & part & all_below(graph.n_vertices)).bit_count() > 1]
    linking = [f"{{{', '.join(names)}}}" for names in dict.fromkeys(margins)]
    if len(linking) == 1:
        return f"and the kept margin {linking[0]} joins all of these, so that they only move together"
    return f"and the kept margins {_and(linking)} join all of these, so that they only move together"


def _parted(graph: Interactions, difference: int) -> str:
    between = graph.separator_between(difference)
    if between is None:
        return "no kept margin joins the parts"
    separator, one, other = between
    agreed = f"they agree on {_and(graph.names_of(separator))}, which parts" if separator else "no kept margin joins"
    return f"{agreed} {_and(_key_names(graph, one))} from {_and(_key_names(graph, other))}"


# ---------------------------------------------------------------------- the paper's condition


@dataclass(frozen=True)
class PaperTriple:
    """Two cliques and what they share; the paper swaps records that agree on ``shared`` and differ on both cliques.

    ``separates`` is False if the shared set does not separate the two cliques; then the paper's condition is wrong.
    """

    clique: tuple[str, ...]
    other: tuple[str, ...]
    shared: tuple[str, ...]
    separates: bool

    def __str__(self) -> str:
        def braced(names: tuple[str, ...]) -> str:
            return "{" + ", ".join(names) + "}"

        mark = "" if self.separates else "  does not separate"
        return f"{braced(self.clique)} {braced(self.other)} {braced(self.shared)}{mark}"


def paper_triples(model: DecomposableModel) -> tuple[PaperTriple, ...]:
    """List the triples (C, C′, S = C∩C′) of Takemura and Endo's condition, and mark those whose S does not separate.

    Their S is a separator of the graph, so the empty set counts only if the graph is disconnected.
    """
    table: ContingencyTable = model.table
    graph = Interactions.of_model(table, model)
    everything = all_below(graph.n_vertices)
    is_connected = len(components(graph.neighbours, everything)) == 1
    found = []
    for one, other in combinations(model.generator_masks, 2):
        shared = one & other
        if not shared and is_connected:
            continue
        sides = components(graph.neighbours, everything & ~shared)
        separates = all(not (side & one and side & other) for side in sides)
        found.append(PaperTriple(graph.names_of(one), graph.names_of(other), graph.names_of(shared), separates))
    return tuple(found)
