"""How are random chordal graphs drawn?

By Algorithm 2 of Takemura and Endo: joining a new vertex to a subset of a clique of a chordal graph gives a chordal graph
again, and every chordal graph can be built in this way because it has a perfect elimination order.

The paper leaves the random choices open. Here, for each new vertex,

1. a clique of the graph so far is drawn, all cliques being equally likely;
2. the new vertex is joined to each member of the clique independently with probability ``inclusion``;
3. if the clique size is bounded, joined members are dropped, all being equally likely, until the new clique is within it;

and at the end the vertices are renamed by a uniform permutation. For ``0 < inclusion < 1`` every labelled chordal graph
(within the bound) has positive probability; the graphs are not equally likely.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rarecell._kernels import enumeration as kernels
from rarecell.errors import BadInput
from rarecell.graph.chordal import ChordalGraph
from rarecell.graph.masks import MAX_VERTICES


def random_chordal_graph(
    n_vertices: int,
    rng: np.random.Generator,
    *,
    inclusion: float = 0.5,
    max_clique: int | None = None,
) -> ChordalGraph:
    """One random labelled chordal graph; see :func:`random_chordal_adjacency`."""
    rows = random_chordal_adjacency(n_vertices, 1, rng, inclusion=inclusion, max_clique=max_clique)
    return ChordalGraph.from_neighbours(rows[0])


def random_chordal_adjacency(
    n_vertices: int,
    n_graphs: int,
    rng: np.random.Generator,
    *,
    inclusion: float = 0.5,
    max_clique: int | None = None,
) -> NDArray[np.uint64]:
    """Random labelled chordal graphs by Algorithm 2, as rows of neighbour masks.

    Parameters
    ----------
    n_vertices : int
        Number of vertices, from 1 to 64.
    n_graphs : int
        Number of graphs, drawn independently.
    rng : numpy.random.Generator
        Source of all random numbers.
    inclusion : float
        Probability that a new vertex is joined to a member of the clique drawn for it; larger values give denser graphs.
    max_clique : int, optional
        Size of the largest clique allowed.

    Returns
    -------
    numpy.ndarray
        ``uint64`` array of shape ``(n_graphs, n_vertices)``.

    References
    ----------
    Takemura and Endo (2006). Evaluation of per-record identification risk and swappability of records in a microdata
    set via decomposable models. arXiv:math/0603609, Algorithm 2.
    """
    if not 1 <= n_vertices <= MAX_VERTICES:
        raise BadInput(f"Random graphs were asked for on {n_vertices} vertices; they can have from 1 to {MAX_VERTICES}.")
    if not 0 <= inclusion <= 1:
        raise BadInput(f"inclusion was given as {inclusion}; it must be a probability from 0 to 1.")
    if max_clique is not None and max_clique < 1:
        raise BadInput(f"max_clique was given as {max_clique}; a clique has at least one vertex.")

    clique_draws = rng.random((n_graphs, n_vertices))
    member_draws = rng.random((n_graphs, n_vertices, n_vertices))
    bound = n_vertices if max_clique is None else max_clique
    return random_labelling(kernels.grow_chordal(clique_draws, member_draws, float(inclusion), bound), rng)


def random_labelling(adjacency: NDArray[np.uint64], rng: np.random.Generator) -> NDArray[np.uint64]:
    """The graph of each row with its vertices renamed by a uniform permutation, drawn anew for each row."""
    n_graphs, n_vertices = adjacency.shape
    identity = np.tile(np.arange(n_vertices, dtype=np.int64), (n_graphs, 1))
    relabelled: NDArray[np.uint64] = kernels.relabel(np.ascontiguousarray(adjacency), rng.permuted(identity, axis=1))
    return relabelled
