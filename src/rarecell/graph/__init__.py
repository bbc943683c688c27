"""Chordal graphs on bit masks: the graphs of decomposable models.

A graph on at most 64 vertices is a tuple of neighbour masks (:class:`ChordalGraph`). Many graphs at once are the rows of
a ``uint64`` array (``…_adjacency``), the form that kernels take.
"""

from rarecell.graph.chordal import ChordalGraph, edge_change, edge_obstacle, is_chordal
from rarecell.graph.enumerate import GraphCounts, ListedGraph, chordal_adjacency, chordal_graphs, graph_counts
from rarecell.graph.interchange import from_graph6, from_networkx, to_graph6, to_networkx
from rarecell.graph.junction import PerfectSequence
from rarecell.graph.masks import mask_of, members
from rarecell.graph.random import random_chordal_adjacency, random_chordal_graph, random_labelling
from rarecell.graph.witness import chordless_cycle

__all__ = [
    "ChordalGraph",
    "GraphCounts",
    "ListedGraph",
    "PerfectSequence",
    "chordal_adjacency",
    "chordal_graphs",
    "chordless_cycle",
    "edge_change",
    "edge_obstacle",
    "from_graph6",
    "from_networkx",
    "graph_counts",
    "is_chordal",
    "mask_of",
    "members",
    "random_chordal_adjacency",
    "random_chordal_graph",
    "random_labelling",
    "to_graph6",
    "to_networkx",
]
