"""How are chordal graphs exchanged with other programs? As graph6 text and as networkx graphs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from rarecell.errors import BadInput, MissingExtra
from rarecell.graph.chordal import ChordalGraph, neighbours_of_edges

if TYPE_CHECKING:
    import networkx

HEADER = ">>graph6<<"


def to_graph6(graph: ChordalGraph) -> str:
    """The graph as one line of graph6, without header or line end.

    The format stores the number of vertices, then the upper triangle of the adjacency matrix column by column, six
    bits per printable character [1]_.

    References
    ----------
    .. [1] McKay. Description of graph6, sparse6 and digraph6 encodings. https://users.cecs.anu.edu.au/~bdm/data/formats.txt

    Examples
    --------
    >>> to_graph6(ChordalGraph.from_edges(4, [(0, 1), (1, 2), (0, 2)]))
    'Cw'
    """
    n = graph.n_vertices
    # Up to 62 vertices one character holds the size; beyond that, a tilde and eighteen bits do.
    sizes = [n] if n <= 62 else [63, n >> 12, n >> 6 & 63, n & 63]
    bits = [int(graph.has_edge(u, v)) for v in range(n) for u in range(v)]
    bits += [0] * (-len(bits) % 6)
    sextets = [int("".join(map(str, bits[start : start + 6])), 2) for start in range(0, len(bits), 6)]
    return "".join(chr(63 + value) for value in sizes + sextets)


def from_graph6(text: str) -> ChordalGraph:
    """The chordal graph described by a line of graph6; the optional header is skipped.

    Raises
    ------
    BadInput
        When the text is not graph6, or the graph has more than 64 vertices.
    NotChordal
        When the graph is not chordal.
    """
    body = text.strip().removeprefix(HEADER)
    values = [ord(character) - 63 for character in body]
    if not values or not all(0 <= value < 64 for value in values):
        raise _not_graph6(text, "graph6 consists of the characters from ? to ~")
    if values[0] < 63:
        n, values = values[0], values[1:]
    else:
        if len(values) < 4 or values[1] == 63:
            raise _not_graph6(text, "its size is cut short or far beyond 64 vertices")
        n, values = values[1] << 12 | values[2] << 6 | values[3], values[4:]
    n_bits = n * (n - 1) // 2
    if len(values) != -(-n_bits // 6):
        raise _not_graph6(text, f"{n} vertices need {-(-n_bits // 6)} characters after the size, not {len(values)}")

    bits = [value >> shift & 1 for value in values for shift in range(5, -1, -1)]
    pairs = [(u, v) for v in range(n) for u in range(v)]
    return ChordalGraph.from_edges(n, [pair for pair, is_edge in zip(pairs, bits, strict=False) if is_edge])


def to_networkx(graph: ChordalGraph, names: Sequence[Hashable] | None = None) -> networkx.Graph[Any]:
    """The graph as a networkx graph whose nodes are the vertices, or their ``names``, in the same order."""
    nx = _networkx()
    nodes = list(range(graph.n_vertices)) if names is None else list(names)
    if len(nodes) != graph.n_vertices or len(set(nodes)) != len(nodes):
        raise BadInput(f"Give {graph.n_vertices} different names, one for each vertex; {len(nodes)} were given: {nodes}.")
    exported = nx.Graph()
    exported.add_nodes_from(nodes)
    exported.add_edges_from((nodes[u], nodes[v]) for u, v in graph.edges)
    return exported


def from_networkx(
    nx_graph: networkx.Graph[Any], names: Sequence[Hashable] | None = None
) -> tuple[ChordalGraph, tuple[Hashable, ...]]:
    """A networkx graph as a chordal graph, and the node that each vertex stands for.

    Parameters
    ----------
    nx_graph : networkx.Graph
        An undirected graph without loops; attributes are ignored, and parallel edges count once.
    names : sequence of hashable, optional
        All nodes, in the order the vertices should have; by default the order of the graph.
    """
    nodes = tuple(nx_graph.nodes) if names is None else tuple(names)
    if nx_graph.is_directed():
        raise BadInput("The networkx graph is directed. Convert it first with to_undirected().")
    if set(nodes) != set(nx_graph.nodes) or len(nodes) != len(nx_graph):
        raise BadInput(f"The names {list(nodes)} are not the nodes of the graph, {list(nx_graph.nodes)}. Name each once.")
    vertex = {node: v for v, node in enumerate(nodes)}
    edges = [(vertex[a], vertex[b]) for a, b in nx_graph.edges()]
    return ChordalGraph(len(nodes), neighbours_of_edges(len(nodes), edges)), nodes


def _networkx() -> Any:
    try:
        import networkx
    except ImportError:
        raise MissingExtra("A graph for networkx needs networkx itself. Install it with: pip install networkx.") from None
    return networkx


def _not_graph6(text: str, reason: str) -> BadInput:
    shown = text if len(text) <= 40 else text[:40] + "…"
    return BadInput(f"'{shown}' is not a graph in graph6: {reason}.")
