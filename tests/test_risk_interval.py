"""The posterior of cell probabilities against Dirichlet moments, and the coverage of intervals by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

import rarecell as rc
from rarecell.errors import BadInput, UnknownChoice
from rarecell.model.average import AverageModel
from rarecell.model.decomposable import hyper_dirichlet_draws, most_probable_mass
from rarecell.model.protocol import Uncertainty
from rarecell.risk.interval import RiskInterval, dependence_on_rare_levels, model_error, risk_interval
from rarecell.risk.records import record_risk
from rarecell.search.score import HyperDirichlet
from tests.naive.search import graph_score
from tests.reference import census_table
from tests.strategies import categories, coarsened_tables, tables
from tests.test_risk_records import KnownModel

LEVELS = [8, 6, 10, 7, 5]
PARENT = [0, 0, 0, 1, 2]


def tree_world(
    seed: int, *, population: int = 20_000, n_records: int = 1000
) -> tuple[rc.ContingencyTable, np.ndarray, rc.DecomposableModel]:
    """A sample from a population that follows a tree, its cells' population counts, and the model with that tree."""
    rng = np.random.default_rng(seed)
    rows = np.empty((population, len(LEVELS)), dtype=np.int32)
    rows[:, 0] = rng.choice(LEVELS[0], population, p=rng.dirichlet(np.full(LEVELS[0], 2.0)))
    for v in range(1, len(LEVELS)):
        upper = np.cumsum(rng.dirichlet(np.full(LEVELS[v], 0.5), LEVELS[PARENT[v]]), axis=1)
        rows[:, v] = np.minimum((rng.random(population)[:, None] > upper[rows[:, PARENT[v]]]).sum(axis=1), LEVELS[v] - 1)
    everybody = rc.ContingencyTable.from_codes(rows, categories(LEVELS))
    chosen = rng.choice(population, n_records, replace=False)
    table = rc.ContingencyTable.from_codes(rows[chosen], categories(LEVELS))
    assert everybody.record_cell is not None
    population_count = np.zeros(table.n_cells, dtype=np.int64)
    population_count[table.record_cell] = everybody.counts[everybody.record_cell[chosen]]
    cliques = [(table.keys[v], table.keys[PARENT[v]]) for v in range(1, len(LEVELS))]
    return table, population_count, rc.DecomposableModel(table, cliques=cliques)


def test_intervals_cover_the_truth_when_the_model_is_true() -> None:
    covered = np.zeros(2)
    widths, n_worlds = [], 60
    for seed in range(n_worlds):
        table, population_count, model = tree_world(seed)
        risk = record_risk(table, model, population=20_000)
        found = risk_interval(risk, model, n_draws=150, centre="posterior", seed=seed)
        of_uniques = population_count[table.counts == 1]
        truth = (of_uniques == 1).sum(), (1 / of_uniques).sum()
        for k, (low, high) in enumerate((found.population_uniques, found.correct_matches)):
            covered[k] += low <= truth[k] <= high
        widths.append(found.population_uniques[1] - found.population_uniques[0])
    # 95 % nominal; fewer than 85 % of sixty would be five standard deviations off, and a band as wide as the truth is no help.
    assert (covered / n_worlds > 0.85).all()
    assert np.mean(widths) < 40


def test_the_posterior_mean_is_nearer_the_truth_than_the_plugged_in_estimate() -> None:
    truth = posterior = plugged_in = 0.0
    for seed in range(20):
        table, population_count, model = tree_world(seed)
        risk = record_risk(table, model, population=20_000)
        truth += (population_count[table.counts == 1] == 1).sum()
        posterior += risk_interval(risk, model, n_draws=60).posterior_population_uniques
        plugged_in += risk.expected_population_uniques
    assert abs(posterior - truth) < abs(plugged_in - truth)


@settings(max_examples=15)
@given(coarsened_tables(max_keys=3, max_records=30), st.floats(0.5, 20.0))
def test_posterior_mean_of_the_saturated_model(table: rc.ContingencyTable, mass: float) -> None:
    model = rc.DecomposableModel(table, cliques=[table.keys])
    draws = np.exp(hyper_dirichlet_draws(model.marginals, model.graph, table.cells, 4000, np.random.default_rng(0), mass))
    expected = (table.counts + mass / table.n_formal_cells) / (table.n_records + mass)
    assert (draws.sum(axis=1) <= 1 + 1e-9).all()
    error = np.sqrt(expected * (1 - expected) / (table.n_records + mass + 1) / 4000)
    assert (np.abs(draws.mean(axis=0) - expected) < 5 * error + 1e-12).all()


@settings(max_examples=10)
@given(tables(min_keys=3, max_keys=3, max_records=40))
def test_posterior_mean_along_the_clique_tree(table: rc.ContingencyTable) -> None:
    a, b, c = table.keys
    model = rc.DecomposableModel(table, cliques=[(a, b), (b, c)])
    draws = np.exp(hyper_dirichlet_draws(model.marginals, model.graph, table.cells, 4000, np.random.default_rng(1), 2.0))
    at, n = table.marginals.at_cells, table.n_records

    def parameter(names: tuple[str, ...]) -> np.ndarray:
        mask = table.mask_of(names)
        return at(mask) + 2.0 / table.n_possible_cells(mask)

    # Given b, the rows for a and for c are independent Dirichlet laws, so that the means multiply.
    expected = parameter((a, b)) / (n + 2.0) * parameter((b, c)) / parameter((b,))
    error = draws.std(axis=0) / np.sqrt(4000)
    assert (np.abs(draws.mean(axis=0) - expected) < 5 * error + 1e-12).all()


def test_cells_that_share_a_marginal_move_together() -> None:
    rng = np.random.default_rng(3)
    codes = np.stack([np.repeat([0, 1, 2], [2, 40, 40]), rng.integers(0, 2, 82)], axis=1).astype(np.int32)
    codes[:2, 1] = [0, 1]
    table = rc.ContingencyTable.from_codes(codes, categories([3, 2]))
    model = rc.DecomposableModel(table)
    draws = hyper_dirichlet_draws(model.marginals, model.graph, table.cells[:2], 2000, rng, 1.0)
    # Both have the rare first level, whose probability is the uncertain factor.
    assert np.corrcoef(draws.T)[0, 1] > 0.8


@settings(max_examples=10)
@given(tables(min_keys=3, max_keys=4))
def test_the_mass_maximises_the_marginal_likelihood(table: rc.ContingencyTable) -> None:
    a, b, c = table.keys[:3]
    model = rc.DecomposableModel(table, cliques=[(a, b), (b, c)])
    mass = most_probable_mass(model.marginals, model.graph)

    def likelihood(value: float) -> float:
        return graph_score(HyperDirichlet(table.marginals, value), model.graph)

    for factor in (0.5, 0.9, 1.1, 2.0):
        assert likelihood(mass) >= likelihood(min(max(mass * factor, 1e-2), table.n_records + 1)) - 1e-2


def test_the_mass_of_a_known_dirichlet_is_found() -> None:
    rng = np.random.default_rng(9)
    n_cells, each = 400, 0.25
    found = []
    for _ in range(10):
        counts = rng.multinomial(3000, rng.dirichlet(np.full(n_cells, each)))
        occupied = np.flatnonzero(counts)
        table = rc.ContingencyTable.from_counts(occupied[:, None], counts[occupied], [rc.Categories("a", tuple(range(n_cells)))])
        found.append(rc.DecomposableModel(table).prior_mass)
    assert np.mean(found) == pytest.approx(n_cells * each, rel=0.15)
    # The log marginal likelihood of the docstring, written out for one clique.
    value = gammaln(100.0) - gammaln(3100.0) + np.sum(gammaln(table.counts + each) - gammaln(each))
    assert graph_score(HyperDirichlet(table.marginals, 100.0), rc.DecomposableModel(table).graph) == pytest.approx(value)


def test_centres_and_nesting() -> None:
    table, _, model = tree_world(1)
    risk = record_risk(table, model, population=20_000)
    posterior, estimate, both = (risk_interval(risk, model, n_draws=100, centre=c) for c in ("posterior", "estimate", "both"))
    assert both.population_uniques == (
        min(posterior.population_uniques[0], estimate.population_uniques[0]),
        max(posterior.population_uniques[1], estimate.population_uniques[1]),
    )
    assert estimate.population_uniques[0] < risk.expected_population_uniques < estimate.population_uniques[1]
    narrow = risk_interval(risk, model, n_draws=100, level=0.5)
    assert (
        both.population_uniques[0] <= narrow.population_uniques[0] <= narrow.population_uniques[1] <= both.population_uniques[1]
    )
    assert risk_interval(risk, model, n_draws=100) == both
    assert "population uniques among the sample uniques (95 %)" in str(both)


def test_an_average_is_centred_on_its_estimate_and_wider_than_a_member() -> None:
    table, _, model = tree_world(2)
    average = AverageModel([model, rc.DecomposableModel(table)])
    risk = record_risk(table, average, population=20_000)
    found = risk_interval(risk, average, n_draws=100)
    assert found.centre == "estimate"
    low, high = found.population_uniques
    assert low < risk.expected_population_uniques < high
    alone = risk_interval(record_risk(table, model, population=20_000), model, n_draws=100, centre="estimate")
    assert high - low > alone.population_uniques[1] - alone.population_uniques[0]


def test_drawn_shares_of_nearly_nothing_do_not_overflow() -> None:
    table, _, model = tree_world(2)
    average = AverageModel([model, KnownModel(table, np.full(LEVELS, 1.0))], weights=[1.0, 1e-3])
    uniques = np.flatnonzero(table.counts == 1)
    drawn = average.draws(table.cells[uniques], 600, np.random.default_rng(0))
    # The second member is certain of every cell; its share is often so small that its reciprocal is not a number.
    assert (drawn <= 1e-12).all()


def test_a_model_without_posterior_still_has_chance() -> None:
    rng = np.random.default_rng(0)
    probability = rng.dirichlet(np.full(600, 0.5)).reshape(20, 30)
    covered = 0
    for _ in range(60):
        population_count = rng.multinomial(4000, probability.ravel())
        sample_count = rng.multivariate_hypergeometric(population_count, 300, method="marginals")
        occupied = np.flatnonzero(sample_count)
        cells = np.stack(np.unravel_index(occupied, (20, 30)), axis=1)
        table = rc.ContingencyTable.from_counts(cells, sample_count[occupied], categories([20, 30]))
        known = KnownModel(table, probability)
        found = risk_interval(record_risk(table, known, population=4000), known, n_draws=100)
        truth = ((population_count == 1) & (sample_count == 1)).sum()
        covered += found.population_uniques[0] <= truth <= found.population_uniques[1]
    assert "no posterior" in found.basis
    assert covered >= 52


def test_a_model_may_bring_its_own_posterior() -> None:
    table, _, model = tree_world(4)

    class Certain(KnownModel):
        @property
        def uncertainty(self) -> Uncertainty:
            return Uncertainty.FULL

        def draws(self, cells: np.ndarray, n_draws: int, rng: np.random.Generator) -> np.ndarray:
            return np.tile(np.log(1e-12), (n_draws, len(cells)))

    own = Certain(table, np.full(LEVELS, 1e-12))
    found = risk_interval(record_risk(table, own, population=20_000), own, n_draws=20)
    n_uniques = int((table.counts == 1).sum())
    assert found.population_uniques == (n_uniques, n_uniques)
    assert "uncertainty of the model's probabilities" in found.basis
    mixed = AverageModel([model, KnownModel(table, np.full(LEVELS, 1e-5))])
    assert "those members" in risk_interval(record_risk(table, mixed, population=20_000), mixed, n_draws=20).basis


@pytest.mark.parametrize("form", ["poisson", "poisson-gamma"])
def test_other_forms(form: str) -> None:
    table, _, model = tree_world(5)
    risk = record_risk(table, model, population=20_000, form=form, shape=1.0)
    found = risk_interval(risk, model, n_draws=60, centre="estimate")
    assert found.population_uniques[0] < risk.expected_population_uniques < found.population_uniques[1]
    assert found.correct_matches[0] < risk.expected_correct_matches < found.correct_matches[1]


def test_a_census_and_a_file_without_uniques() -> None:
    table, _, model = tree_world(6)
    census = risk_interval(record_risk(table, model, population=table.n_records), model, n_draws=10)
    n_uniques = int((table.counts == 1).sum())
    assert census.population_uniques == (n_uniques, n_uniques)
    pairs = rc.ContingencyTable.from_counts([[0, 0], [1, 1]], [2, 2], categories([2, 2]))
    nothing = rc.DecomposableModel(pairs)
    assert risk_interval(record_risk(pairs, nothing, population=40), nothing, n_draws=10).population_uniques == (0.0, 0.0)


def test_bad_options_are_refused() -> None:
    table, _, model = tree_world(7)
    risk = record_risk(table, model, population=20_000)
    with pytest.raises(UnknownChoice):
        risk_interval(risk, model, centre="middle")
    with pytest.raises(BadInput, match="between 0 and 1"):
        risk_interval(risk, model, level=95)


def test_a_part_of_the_uniques_gives_about_the_interval_of_all() -> None:
    table = census_table()
    model = rc.DecomposableModel(table, cliques=[("sex", "age"), ("age", "marital", "relationship"), ("relationship", "spouse")])
    risk = rc.record_risk(table, model, population=277_677)
    whole = risk_interval(risk, model, n_draws=1500)
    part = risk_interval(risk, model, n_draws=1500, most_uniques=400)
    assert "A random 400 of the 1,674 uniques" in part.basis
    for one, other in ((whole.population_uniques, part.population_uniques), (whole.correct_matches, part.correct_matches)):
        width = one[1] - one[0]
        assert other[1] - other[0] == pytest.approx(width, rel=0.25)
        assert sum(other) / 2 == pytest.approx(sum(one) / 2, abs=0.25 * width)


@pytest.mark.parametrize("n_orders", [4, 12])
def test_estimate_and_mean_of_the_posterior_are_one_number(n_orders: int) -> None:
    table = census_table()
    table = table.with_coarsenings(rc.automatic_coarsenings(table))
    model = rc.fit_backoff(table, n_orders=n_orders)
    risk = rc.record_risk(table, model, population=277_677)
    interval = risk_interval(risk, model, n_draws=1_000)
    assert interval.posterior_population_uniques == pytest.approx(risk.expected_population_uniques, rel=0.015)
    assert interval.posterior_correct_matches == pytest.approx(risk.expected_correct_matches, rel=0.01)


@given(st.floats(1.0, 1e4), st.floats(0.01, 0.9), st.floats(0.01, 2.0), st.floats(0.0, 1.0))
def test_an_interval_is_widened_as_independent_errors_add_up(estimate: float, below: float, above: float, error: float) -> None:
    ends = (estimate * (1.0 - below), estimate * (1.0 + above))
    plain = RiskInterval(0.95, ends, ends, estimate, estimate, "estimate", 1, "", 10**9)
    found = plain.widened(error, (estimate, estimate))
    expected = [np.log(end / estimate) ** 2 + (1.959964 * error) ** 2 for end in ends]
    if error > 0.0:
        assert found.correct_matches[0] == pytest.approx(
            estimate * np.exp(-np.sqrt(np.log(ends[0] / estimate) ** 2 + (0.5 * 1.959964 * error) ** 2)), rel=1e-6
        )
        assert np.log(found.population_uniques[1] / estimate) ** 2 >= expected[1] - 1e-3
        assert found.population_uniques[0] <= estimate * np.exp(-np.sqrt(expected[0])) + 1e-2
    assert found.population_uniques[0] <= plain.population_uniques[0] + 1e-2
    assert found.population_uniques[1] >= plain.population_uniques[1]
    assert plain.widened(0.0, (estimate, estimate)) is plain


def test_no_interval_exceeds_the_sample_uniques() -> None:
    plain = RiskInterval(0.95, (0.0, 9.0), (2.0, 9.5), 5.0, 6.0, "estimate", 1, "", 10)
    found = plain.widened(2.0, (5.0, 6.0))
    assert found.population_uniques == (0.0, 10.0)
    assert found.correct_matches[1] == 10.0
    assert "error of the model of 200 %" in found.basis


def test_rare_levels_widen_the_interval_as_far_as_the_estimate_depends_on_them() -> None:
    keys = [rc.Categories("postcode", tuple(range(90))), rc.Categories("sex", ("f", "m"))]
    cells = [[k, s] for k in range(90) for s in range(2)]
    table = rc.ContingencyTable.from_counts(cells, [1] * 178 + [400, 422], keys)
    model = rc.DecomposableModel(table, cliques=[("postcode",), ("sex",)])
    fit = rc.fit_diagnostics(table, model, population=1e6)
    near, far = (record_risk(table, model, population=population) for population in (1_010, 1e6))
    share = 178 / 1_000
    assert dependence_on_rare_levels(far) == pytest.approx(share * (1 - far.expected_population_uniques / 178))
    assert model_error(far, fit) > model_error(near, fit) > 0.0
