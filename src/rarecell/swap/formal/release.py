"""A file released with a stated ε, subject to its invariants.

Unlike a plan of swaps, it serves no chosen records: which records it touches is left to chance, because a choice that depends on
the records has no finite ε (Bailie, Gong and Meng 2026). As with a plan, every margin of the model stays.

References
----------
Bailie, J., Gong, R. and Meng, X.-L. (2026). Can swapping be differentially private? A refreshment stirred, not shaken.
arXiv 2501.08449.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels.counting import collapse_records
from rarecell.data.names import joined_names
from rarecell.errors import BadInput, KeyMismatch
from rarecell.graph.masks import all_below, members
from rarecell.model.decomposable import DecomposableModel
from rarecell.outcome.formal import EdgeStatement, FormalStatement
from rarecell.outcome.plain import in_library_of
from rarecell.progress import SILENT, Progress
from rarecell.release.release import Release
from rarecell.swap.apply import Exchange, apply_plan
from rarecell.swap.formal.mechanism import (
    Calibrated,
    Calibration,
    Rearranged,
    RootedTree,
    rearranged,
    reference_file,
    rooted_tree,
)
from rarecell.swap.interactions import Interactions
from rarecell.swap.units import Units
from rarecell.table.contingency import ContingencyTable

if TYPE_CHECKING:
    from rarecell.data.microdata import Microdata
    from rarecell.edges import Frame, Level, Places
    from rarecell.swap.apply import SwapResult

LARGEST_EPSILON = 300.0
"""Largest ε for which θ = e^−ε can still be computed with."""

_ENOUGH_RECORDS = 200_000
"""Expected shares are averages over files with at least this many records in total, but over no more than 20 files."""


@dataclass(frozen=True, eq=False)
class FormalRelease(Exchange):
    """Values rearranged at random, and what this guarantees.

    Attributes
    ----------
    release : Release
        What was done to the records; keys of a clique come from the same row.
    model : DecomposableModel
        The model whose margins stay.
    interactions, units : Interactions, Units
        The kept margins, and the units of the file.
    statement : FormalStatement
        The ε of each edge, with the invariants.
    n_changed : tuple of int
        Number of rows that changed at each edge; for internal use, because it depends on the file.
    """

    release: Release
    model: DecomposableModel
    interactions: Interactions
    units: Units
    statement: FormalStatement
    n_changed: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.release)

    def apply(self, data: Microdata) -> SwapResult:
        """Rearrange the values in ``data``; see :func:`rarecell.swap.apply.apply_plan`."""
        expect_records_at_hand(data)
        return apply_plan(self, data)

    def audit(self, places: Places = None) -> dict[str, list[Level]]:
        """Return one row for each changed record and each record that its values come from, with the keys. Internal use only.

        ``places`` names the rows, as :func:`rarecell.swap.apply.write_plan` returns them; row numbers by default.
        """
        names = (self.rows if places is None else places).tolist()
        moved: dict[tuple[int, int], list[str]] = {}
        for key in self.table.keys:
            for row in np.flatnonzero(self.moves(key)).tolist():
                moved.setdefault((row, int(self.release.taken[key][row])), []).append(key)
        pairs = sorted(moved)
        return {
            "record": [names[row] for row, _ in pairs],
            "partner": [names[source] for _, source in pairs],
            "variables": [joined_names(moved[pair]) for pair in pairs],
        }

    def to_frame(self, like: Frame = None, *, places: Places = None) -> Frame:
        """Return :meth:`audit` in the dataframe library of ``like``; anything else, or nothing, gives a pyarrow table."""
        return in_library_of(like, self.audit(places), {"record": "Int64", "partner": "Int64", "variables": "String"})

    def __str__(self) -> str:
        return str(self.statement)


def formal_swaps(
    table: ContingencyTable,
    model: DecomposableModel,
    *,
    epsilon: float | Sequence[float] | None = None,
    rate: float | None = None,
    root: Sequence[str] | None = None,
    rare: int = 0,
    is_model_chosen: bool = True,
    seed: int | None = None,
    progress: Progress = SILENT,
) -> FormalRelease:
    """Rearrange values at random along the junction tree of ``model``, with a stated ε.

    In each stratum of records that agree on a separator, the parts on its far side are rearranged with probability
    ∝ θ^(records whose part changes), leaves of the tree first. The ε = −ln θ of the edges add up.

    Parameters
    ----------
    table : ContingencyTable
        The contingency table.
    model : DecomposableModel
        A decomposable model; its clique margins stay.
    epsilon : float or sequence of float, optional
        The ε of the whole release, divided among the edges so that each changes the same share of records; or one ε for each
        edge, in the order in which a release lists them, together with ``root``.
    rate : float, optional
        Share of records to change, instead of ``epsilon``.
    root : sequence of str, optional
        The clique whose values stay with each record; by default the one that changes least for its ε.
    rare : int, optional
        Records whose value of the parent clique occurs at most this often are always shuffled; ε stays the same.
    is_model_chosen : bool, optional
        Whether the model was chosen on these data and so counts as an invariant.
    seed : int, optional
        For tests only; the guarantee needs random numbers that nobody knows, which is the default.
    progress : Progress, optional
        Receiver of progress reports.

    Returns
    -------
    FormalRelease
        The rearranged values, and the statement of ε.

    Examples
    --------
    >>> import numpy as np, rarecell as rc
    >>> keys = [rc.Categories(name, tuple(range(4))) for name in ("area", "age", "job")]
    >>> codes = np.random.default_rng(0).integers(0, 4, (500, 3)).astype(np.int32)
    >>> table = rc.ContingencyTable.from_codes(codes, keys)
    >>> model = rc.DecomposableModel(table, cliques=[("area", "age"), ("age", "job")])
    >>> release = rc.formal_swaps(table, model, epsilon=4, seed=1)
    >>> round(release.statement.epsilon, 6)
    4.0
    >>> after = release.table_after
    >>> bool((after.marginals.counts(0b011) == table.marginals.counts(0b011)).all())
    True
    """
    _check_arguments(table, model, epsilon, rate, rare)
    for_reference, for_release = np.random.default_rng(seed).spawn(2)
    kept = np.flatnonzero(table.cell_of(np.arange(table.n_rows)) >= 0)
    codes = np.asfortranarray(table.cells[table.cell_of_record[kept]])
    calibration = Calibration(table, model.graph, reference_file(table, codes, model.graph, for_reference), rare=rare)
    calibrated = _calibrated(calibration, model, epsilon, rate, root)
    expected = _expected_shares(table, calibration.reference, calibrated, rare, for_reference)
    result = rearranged(table, codes, calibrated.tree, calibrated.thetas, for_release, rare=rare, progress=progress)
    statement = _statement(table, model, calibrated, rare, is_model_chosen, expected)
    return _release(table, model, kept, codes, calibrated.tree, result, statement)


def expect_records_at_hand(data: Microdata) -> None:
    """Refuse data whose records stay on other machines."""
    if not data.source.keeps_rows:
        raise BadInput(
            f"The records of {data.source.name} stay on its machines; a formal release needs them here. Write the data to Parquet "
            "files and name these instead."
        )


# ---------------------------------------------------------------------- parts


def _check_arguments(
    table: ContingencyTable, model: DecomposableModel, epsilon: float | Sequence[float] | None, rate: float | None, rare: int
) -> None:
    if not isinstance(model, DecomposableModel):
        raise BadInput(
            "A formal release needs a decomposable model, because it moves values along a junction tree; the model given has none. "
            "Name its cliques, or choose a model with select_model."
        )
    if model.table.vertex_names != table.vertex_names:
        raise KeyMismatch.between(table.vertex_names, model.table.vertex_names)
    if (epsilon is None) == (rate is None):
        raise BadInput("A formal release takes either epsilon or rate, and one of them is needed.")
    if rate is not None and not 0 < rate < 1:
        raise BadInput(f"The rate was given as {rate}; it must be a share of records above 0 and below 1.")
    given = [] if epsilon is None else list(np.atleast_1d(np.asarray(epsilon, dtype=np.float64)))
    if any(not 0 <= value <= LARGEST_EPSILON for value in given):
        raise BadInput(
            f"epsilon was given as {epsilon}; it must be a number from 0 to {LARGEST_EPSILON:g}. With more, nothing would ever change."
        )
    if rare < 0:
        raise BadInput(f"rare was given as {rare}; it must be a number of records, 0 or more.")


def _calibrated(
    calibration: Calibration,
    model: DecomposableModel,
    epsilon: float | Sequence[float] | None,
    rate: float | None,
    root: Sequence[str] | None,
) -> Calibrated:
    named = None if root is None else rooted_tree(model.graph, _root_clique(model, root))
    if rate is not None:
        share = rate
        return calibration.at_rate(named, share) if named else calibration.best(lambda t: calibration.at_rate(t, share))
    if isinstance(epsilon, int | float):
        total = float(epsilon)
        return calibration.at_epsilon(named, total) if named else calibration.best(lambda t: calibration.at_epsilon(t, total))
    assert epsilon is not None
    if named is None:
        raise BadInput(
            "One ε for each edge was given without a root. Name the root clique, because it decides what the edges are."
        )
    if len(epsilon) != len(named.edges):
        raise BadInput(f"{len(epsilon)} values of ε were given; the tree has {len(named.edges)} edges, and each needs one.")
    return calibration.with_epsilons(named, epsilon)


def _root_clique(model: DecomposableModel, root: Sequence[str]) -> int:
    table = model.table
    closed = table.close(table.mask_of(root))
    for clique in model.graph.clique_masks:
        if table.close(clique) == closed:
            return clique
    listed = "; ".join(", ".join(table.names_of(table.reduce(clique))) for clique in model.graph.clique_masks)
    raise BadInput(f"The root was given as {', '.join(root)}, which is not a clique of the model. Its cliques are: {listed}.")


def _expected_shares(
    table: ContingencyTable, reference: NDArray[np.int32], calibrated: Calibrated, rare: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Shares of records and of sample uniques that change in a random file with the same invariants."""
    n_files = int(np.clip(_ENOUGH_RECORDS // len(reference), 1, 20))
    sizes = [category.n_levels for category in table.categories]
    plain = [1.0] * len(calibrated.tree.edges)
    n_changed, n_uniques, n_uniques_changed, file = 0, 0, 0, reference
    for _ in range(n_files):
        after = rearranged(table, file, calibrated.tree, calibrated.thetas, rng, rare=rare).codes
        changed = (after != file).any(axis=1)
        _, counts, cell = collapse_records([file[:, k] for k in range(table.n_keys)], sizes)
        is_unique = counts[cell] == 1
        n_changed += int(changed.sum())
        n_uniques += int(is_unique.sum())
        n_uniques_changed += int((changed & is_unique).sum())
        file = rearranged(table, file, calibrated.tree, plain, rng).codes
    return n_changed / (n_files * len(reference)), n_uniques_changed / max(n_uniques, 1)


def _statement(
    table: ContingencyTable,
    model: DecomposableModel,
    calibrated: Calibrated,
    rare: int,
    is_model_chosen: bool,
    expected: tuple[float, float],
) -> FormalStatement:
    def names(mask: int) -> tuple[str, ...]:
        return table.names_of(table.reduce(mask))

    edges = tuple(
        EdgeStatement(
            separator=names(edge.separator),
            moved=tuple(table.keys[k] for k in edge.keys_moved(table)),
            parent=names(edge.parent),
            epsilon=epsilon,
            is_free=is_free,
        )
        for edge, epsilon, is_free in zip(calibrated.tree.edges, calibrated.epsilons, calibrated.is_free, strict=True)
    )
    return FormalStatement(
        epsilon=calibrated.epsilon,
        edges=edges,
        root=names(calibrated.tree.root),
        cliques=tuple(names(clique) for clique in model.graph.clique_masks),
        rare=rare,
        is_model_chosen=is_model_chosen,
        expected_records_changed=expected[0],
        expected_uniques_changed=expected[1],
    )


def _release(
    table: ContingencyTable,
    model: DecomposableModel,
    kept: NDArray[np.int64],
    codes: NDArray[np.int32],
    tree: RootedTree,
    result: Rearranged,
    statement: FormalStatement,
) -> FormalRelease:
    chosen = np.flatnonzero((result.codes != codes).any(axis=1))
    old, new = codes[chosen], result.codes[chosen]
    places = {key: np.arange(len(chosen)) for key in table.keys}
    for edge in tree.edges:
        together = members(edge.child & ~edge.separator & all_below(table.n_keys))
        if together:  # a clique may add no key but only a coarsening of one
            places.update(dict.fromkeys((table.keys[k] for k in together), _places(old[:, together], new[:, together])))
    return FormalRelease(
        Release(table, kept[chosen], old, new, places),
        model,
        Interactions.of_model(table, model),
        Units.of(table, (), {}),
        statement,
        result.n_changed,
    )


def _places(old: NDArray[np.int32], new: NDArray[np.int32]) -> NDArray[np.int64]:
    """For each row, a row whose old codes are its new ones, using each row once; the row itself if its codes stay.

    Every combination occurs equally often before and after, so the changed rows can be matched among themselves.
    """
    source = np.arange(len(old))
    changed = np.flatnonzero((old != new).any(axis=1))
    by_old, by_new = (changed[np.lexsort(codes[changed].T)] for codes in (old, new))
    source[by_new] = by_old
    return source
