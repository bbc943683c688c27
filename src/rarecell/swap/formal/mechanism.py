"""What does a file look like after every kernel has run, leaves first?

The kernel of an edge rearranges the parts on its side among rows that agree on its separator, so every clique margin stays.
Each kernel works on the output of the kernels below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rarecell.progress import SILENT, Progress, checkpoint
from rarecell.swap.formal.edges import RootedTree, TreeEdge
from rarecell.swap.formal.strata import strata_of_edge
from rarecell.table.contingency import ContingencyTable


@dataclass(frozen=True, eq=False)
class Rearranged:
    """A file after the kernels.

    Attributes
    ----------
    codes : array of int
        Key codes of each row.
    n_changed : tuple of int
        Number of rows whose part changed, for each edge of the tree.
    """

    codes: NDArray[np.int32]
    n_changed: tuple[int, ...]


def rearranged(
    table: ContingencyTable,
    codes: NDArray[np.int32],
    tree: RootedTree,
    thetas: Sequence[float],
    rng: np.random.Generator,
    *,
    rare: int = 0,
    progress: Progress = SILENT,
) -> Rearranged:
    """Run the kernels of ``tree`` on a file of key codes.

    ``table`` supplies the vertices and clique margins. Rows whose value of the parent clique occurs at most ``rare`` times are
    always shuffled: they have a θ of 1, which depends only on an invariant of the row.
    """
    new = np.array(codes, order="F")
    n_changed = []
    for edge, theta in zip(tree.edges, thetas, strict=True):
        checkpoint(progress, "shuffling along the edges")
        is_always = always_shuffled(table, new, edge, rare)
        source = strata_of_edge(table, new, edge, is_always).shuffled(theta, rng)
        changed = np.zeros(len(new), dtype=bool)
        for k in edge.keys_moved(table):
            moved = new[source, k]
            changed |= moved != new[:, k]
            new[:, k] = moved
        n_changed.append(int(changed.sum()))
    return Rearranged(new, tuple(n_changed))


def always_shuffled(table: ContingencyTable, codes: NDArray[np.int32], edge: TreeEdge, rare: int) -> NDArray[np.bool_] | None:
    """Return which rows have a value of the parent clique that occurs at most ``rare`` times; None if there are none."""
    if rare < 1:
        return None
    is_rare = np.asarray(table.marginals.lookup(edge.parent, codes) <= rare)
    return is_rare if is_rare.any() else None
