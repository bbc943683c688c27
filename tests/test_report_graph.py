"""Pictures of models: every vertex, clique and separator is there, and nothing covers anything else."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rarecell.outcome.summary import ModelSummary, Vertex
from rarecell.report.graph_picture import (
    ModelPicture,
    crossings,
    graph_description,
    graph_svg,
    hull,
    junction_tree_svg,
    overlaps,
    place_vertices,
)
from tests.summaries import census_summary, typed


@st.composite
def chordal_models(draw: st.DrawFn, max_vertices: int = 12) -> dict[str, list[list[str]]]:
    """Cliques grown as in Algorithm 2: each vertex is joined to a subset of one clique."""
    n = draw(st.integers(1, max_vertices))
    cliques: list[set[int]] = [{0}]
    for vertex in range(1, n):
        clique = draw(st.sampled_from(cliques))
        shared = {v for v in sorted(clique) if draw(st.booleans())}
        if shared == clique:
            cliques.remove(clique)
        cliques.append(shared | {vertex})
    return {"cliques": [[f"v{v}" for v in sorted(clique)] for clique in cliques]}


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter("text")]


@settings(max_examples=25, deadline=None)
@given(chordal_models())
def test_the_tree_has_the_running_intersection_property(model: dict[str, list[list[str]]]) -> None:
    picture = ModelPicture.of(_model(model["cliques"]))
    seen: set[str] = set()
    for clique in picture.order:
        members, parent = set(picture.cliques[clique]), picture.parents[clique]
        if parent >= 0:
            assert members & seen == set(picture.separators[clique]) == members & set(picture.cliques[parent])
        seen |= members


@settings(max_examples=15, deadline=None)
@given(chordal_models())
def test_every_vertex_and_clique_is_drawn_and_no_boxes_overlap(model: dict[str, list[list[str]]]) -> None:
    picture = ModelPicture.of(_model(model["cliques"]))
    drawn = texts(graph_svg(picture))
    assert {v for clique in model["cliques"] for v in clique} <= set(drawn)
    assert {str(k + 1) for k in range(len(model["cliques"]))} <= set(drawn)
    sizes = np.tile([[80.0, 40.0]], (len(picture.names), 1))
    index = {v: k for k, v in enumerate(picture.names)}
    edges = [(index[a], index[b]) for a, b in picture.edges]
    assert overlaps(place_vertices(sizes, edges), sizes) == 0


@settings(max_examples=15, deadline=None)
@given(chordal_models())
def test_the_outline_lists_every_clique_with_its_separator(model: dict[str, list[list[str]]]) -> None:
    picture = ModelPicture.of(_model(model["cliques"]))
    lines = texts(junction_tree_svg(picture))
    for number, clique in enumerate(picture.cliques):
        assert any(sorted(line.split(" · ")) == sorted(clique) for line in lines), (number, clique)
        if picture.parents[number] >= 0:
            assert (" · ".join(picture.separators[number]) or "nothing") in lines


def test_a_tree_is_drawn_without_crossings() -> None:
    edges = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (5, 6)]
    assert crossings(place_vertices(np.tile([[90.0, 40.0]], (7, 1)), edges), edges) == 0


def test_parts_that_are_not_connected_lie_side_by_side() -> None:
    centres = place_vertices(np.tile([[50.0, 30.0]], (5, 1)), [(0, 1), (2, 3)])
    for first, second in combinations([[0, 1], [2, 3], [4]], 2):
        left, right = sorted(([centres[v, 0] for v in first], [centres[v, 0] for v in second]))
        assert max(left) < min(right)


def test_crossings_and_hull_on_a_square() -> None:
    square = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    assert crossings(square, [(0, 1), (2, 3)]) == 1
    assert crossings(square, [(0, 2), (1, 3)]) == 0
    assert len(hull(np.vstack([square, [[0.5, 0.5]]]))) == 4


def _model(cliques: list[list[str]]) -> ModelSummary:
    """A model whose vertices are the variables of its cliques."""
    names = dict.fromkeys(name for clique in cliques for name in clique)
    vertices = tuple(Vertex(name=name, key=name, levels=0) for name in names)
    named = tuple(tuple(clique) for clique in cliques)
    return replace(typed(census_summary()).model, vertices=vertices, cliques=named, separators=())


def test_only_the_finest_member_of_a_key_is_shown() -> None:
    picture = ModelPicture.of(typed(census_summary()).model)
    assert ("relationship", "spouse", "age/10") in picture.cliques
    assert "age/3" not in picture.names
    assert ("age", "age/31") in picture.resolutions
    words = graph_description(picture)
    assert "clique 5: marital, spouse" in words.lower()


def test_the_same_model_is_drawn_the_same_way() -> None:
    model = typed(census_summary()).model
    assert graph_svg(ModelPicture.of(model)) == graph_svg(ModelPicture.of(model))


@pytest.mark.parametrize("name", ["<b>", "a&b", '"quoted"', "ключ"])
def test_names_cannot_break_the_picture(name: str) -> None:
    picture = ModelPicture.of(_model([[name, "other"]]))
    assert name in texts(graph_svg(picture))
