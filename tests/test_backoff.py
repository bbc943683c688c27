"""Back-off networks against their definition, and the coarsenings they are built on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import special, stats

import rarecell as rc
from rarecell._kernels import agglomeration
from rarecell._kernels import backoff as kernels
from rarecell.intruder.residual_risk import risk_after
from rarecell.model.backoff import BackoffModel, BackoffNetwork, fit_backoff, random_orders
from rarecell.model.backoff_coarser import CoarserNetworks
from rarecell.model.backoff_conditionals import Betas, Conditional, Households
from rarecell.model.backoff_contexts import DISCOUNTS, POWERS, STRENGTHS, Context, Tally
from rarecell.model.random_draws import log_beta_draws
from rarecell.swap.target import risk_after_pairs
from rarecell.table.coarsening import automatic_coarsenings, with_answered
from tests.naive import backoff as naive
from tests.reference import census_table
from tests.strategies import coarsened_tables
from tests.test_model import all_cells


@given(coarsened_tables(max_records=30), st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_probabilities_follow_the_definition(table: rc.ContingencyTable, random: object) -> None:
    order = list(range(table.n_keys))
    random.shuffle(order)
    network = BackoffNetwork(table, order)
    records = naive.records_of(table)
    cells = all_cells(table)[:: max(1, table.n_formal_cells // 7)]
    expected = [sum(np.log(naive.probability(network, c, records, cell)) for c in network.conditionals) for cell in cells]
    np.testing.assert_allclose(network.log_cell_probability(cells), expected, rtol=1e-9)
    np.testing.assert_allclose(network.log_cell_probability(), network.log_cell_probability(table.cells))


@given(coarsened_tables(max_records=40), st.data())
@settings(max_examples=25)
def test_refined_groups_are_the_distinct_pairs_by_either_way(table: rc.ContingencyTable, data: st.DataObject) -> None:
    groups, n_groups = np.zeros(table.n_cells, dtype=np.int32), 1
    vertices = data.draw(st.lists(st.integers(0, table.n_vertices - 1), min_size=1, max_size=4))
    for vertex in vertices:
        codes = np.ascontiguousarray(table.vertex_codes(vertex))
        n_levels = int(table.vertex_levels[vertex])
        expected = naive.distinct_pairs(groups, codes)
        for n_places in (1 << 4, 1 << 12):
            size = max(n_places, 1 << int(2 * table.n_cells).bit_length())
            refined = np.empty(table.n_cells, dtype=np.int32)
            # A number of groups that is too large for the scratch makes the kernel hash.
            told = n_groups if n_places == 1 << 12 else 10**9
            scratch = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int32)
            n_found = kernels.refine(groups, told, codes, n_levels, *scratch, refined)
            assert refined.tolist() == expected
            assert n_found == len(set(expected))
        groups, n_groups = refined, n_found
    counts = table.counts.astype(float)
    of_pair, of_context, n_values, first = kernels.tally(groups, n_groups, np.zeros_like(groups), 1, counts)
    assert (n_values == n_groups).all()
    assert of_pair.tolist() == [counts[groups == g].sum() for g in range(n_groups)]
    assert (of_context == counts.sum()).all()
    assert first.tolist() == [int(np.flatnonzero(groups == g)[0]) for g in range(n_groups)]


@given(coarsened_tables(max_records=80))
@settings(max_examples=25)
def test_probabilities_sum_to_one_less_what_is_left_to_unseen_values(table: rc.ContingencyTable) -> None:
    total = np.exp(fit_backoff(table, n_orders=3).log_cell_probability(all_cells(table))).sum()
    at_most_once = any((table.marginals.counts(1 << v) == 1).sum() > 1 for v in range(table.n_vertices))
    if at_most_once:
        assert 0.0 < total <= 1.0 + 1e-12
    else:
        assert total == pytest.approx(1.0)


@given(st.integers(0, 2**32), st.integers(1, 60), st.sampled_from([1.0, 5.0, 1e4]), st.sampled_from([0.0, -30.0, -70.0]))
def test_all_strengths_at_once_are_each_of_them_alone(seed: int, n_pairs: int, records: float, smallest: float) -> None:
    rng = np.random.default_rng(seed)
    of_pair = np.maximum(1.0, rng.poisson(rng.gamma(0.3, records, n_pairs)))
    context = rng.integers(0, n_pairs, n_pairs)
    of_context = np.bincount(context, weights=of_pair)[context]
    shorter = 10.0 ** rng.uniform(smallest, 0.0, n_pairs)
    n_values = np.bincount(context)[context].astype(float)
    best, *weight = kernels.best_weight(of_pair, of_context, n_values, shorter, STRENGTHS, POWERS, DISCOUNTS)
    alone = {
        (float(s), float(p), float(d)): kernels.leave_one_out(of_pair, of_context, n_values, shorter, s, p, d, np.empty(n_pairs))
        for p in POWERS
        for d in DISCOUNTS
        for s in STRENGTHS
        if p == 0.0 or d == 0.0
    }
    assert best == pytest.approx(max(alone.values()), rel=1e-11, abs=1e-9)
    assert alone[tuple(weight)] == pytest.approx(best, rel=1e-11, abs=1e-9)


@given(coarsened_tables(max_records=25))
@settings(max_examples=15)
def test_strengths_have_the_best_leave_one_out_likelihood(table: rc.ContingencyTable) -> None:
    network = BackoffNetwork(table, range(table.n_keys))
    records = naive.records_of(table)
    for conditional in network.conditionals:
        if not conditional.contexts or len(records) < 2:
            continue
        shorter = np.array([naive.probability(network, conditional, records[:0], cell) for cell in table.cells])
        for context in conditional.contexts:
            mask = context.mask | 1 << conditional.vertex
            pair, position = table.marginals.counts(mask).astype(float), table.marginals.cell_index(mask)
            cell = np.zeros(len(pair), dtype=np.int64)
            cell[position] = np.arange(table.n_cells)
            given = table.marginals.at_cells(context.mask).astype(float)[cell]
            n_values = np.bincount(table.marginals.cell_index(context.mask)[cell])[table.marginals.cell_index(context.mask)[cell]]
            counts = pair, given, n_values.astype(float), shorter[cell]
            found = np.empty(len(pair))
            value = kernels.leave_one_out(*counts, context.strength, context.power, context.discount, found)
            for other in (context.strength / 2, context.strength, context.strength * 2):
                for power, discount in [(0.5, 0.0), *((0.0, d) for d in DISCOUNTS)]:
                    tried = kernels.leave_one_out(*counts, other, power, discount, np.empty(len(pair)))
                    assert tried <= value + 1e-9 or not 2**-4 <= other <= 2**9
            shorter = found[position]
        assert value == pytest.approx(naive.leave_one_out(network, conditional, records), rel=1e-9)


def test_samples_have_the_network_s_probabilities() -> None:
    rng = np.random.default_rng(4)
    codes = np.stack([np.minimum(rng.geometric(0.3, 300) - 1, 8), rng.integers(0, 3, 300), rng.integers(0, 4, 300)], axis=1)
    codes[:, 2] = (codes[:, 0] + codes[:, 2] // 2) % 4
    categories = [rc.Categories(key, tuple(range(n)), True) for key, n in zip("abc", (9, 3, 4), strict=True)]
    table = rc.ContingencyTable.from_codes(codes.astype(np.int32), categories)
    table = table.with_coarsenings(automatic_coarsenings(table))
    model = fit_backoff(table, n_orders=2)
    cells = all_cells(table)
    p = np.exp(model.log_cell_probability(cells))
    drawn = model.sample(300_000, rng)
    share = np.bincount(np.ravel_multi_index(tuple(drawn.T), (9, 3, 4)), minlength=len(cells)) / len(drawn)
    assert abs((share - p) / np.sqrt(p / len(drawn))).max() < 5
    counted, counts = model.sample_counts(300_000, rng)
    share = np.bincount(np.ravel_multi_index(tuple(counted.T), (9, 3, 4)), counts, minlength=len(cells)) / len(drawn)
    assert counts.sum() == 300_000
    assert abs((share - p) / np.sqrt(p / len(drawn))).max() < 5
    assert all(network.sample_counts(0, rng)[1].sum() == 0 for network in model.networks)


def test_log_moments_are_those_of_simulated_betas() -> None:
    table = census_table()
    network = BackoffNetwork(table, range(8))
    cells = table.unique_cells[:3]
    mean_log, variance_log, _ = network.posterior(table.cells[cells])
    rng = np.random.default_rng(0)
    logs = np.zeros((20_000, 3))
    for betas, pair_of_cell in network._conditional_betas(table.cells[cells]):
        mean, rest, variance = betas.at(pair_of_cell)
        mass = mean * rest / np.maximum(variance, 1e-300) - 1
        random = (mass < 1e9) & (rest > 0)
        logs[:, random] += np.log(rng.beta((mean * mass)[random], (rest * mass)[random], (20_000, random.sum())))
        logs[:, ~random] += np.log(mean[~random])
    np.testing.assert_allclose(mean_log, logs.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(variance_log, logs.var(axis=0), rtol=0.06)


def test_no_variance_is_negative_where_values_are_nearly_certain() -> None:
    table = census_table()
    table = table.with_coarsenings(automatic_coarsenings(table))
    model = fit_backoff(table)
    assert model.posterior().variance.min() > 0
    for network in model.members:
        for betas, _ in network._conditional_betas(table.cells):
            assert (betas.mean > 0).all()
            assert (betas.rest >= 0).all()
            np.testing.assert_allclose(betas.mean + betas.rest, 1.0, rtol=1e-12)
            assert (betas.variance <= betas.mean * betas.rest).all()
    drawn = model.draws(table.cells[table.unique_cells], 100, np.random.default_rng(0))
    assert drawn.max() <= 0
    assert drawn.min() > -200


@given(coarsened_tables(max_records=40), st.integers(0, 2**32))
@settings(max_examples=15)
def test_draws_have_the_moments_of_the_posterior(table: rc.ContingencyTable, seed: int) -> None:
    network = BackoffNetwork(table, range(table.n_keys))
    cells = all_cells(table)[:: max(1, table.n_formal_cells // 6)]
    n_draws = 4000
    drawn = network.draws(cells, n_draws, np.random.default_rng(seed))
    mean, variance, _ = network.posterior(cells)
    deviation = drawn.std(axis=0)
    assert (np.abs(drawn.mean(axis=0) - mean) <= 6 * deviation / np.sqrt(n_draws) + 1e-12).all()
    spread = np.sqrt(np.maximum(((drawn - drawn.mean(axis=0)) ** 2).var(axis=0), 0) / n_draws)
    assert (np.abs(drawn.var(axis=0) - variance) <= 8 * spread + 1e-12).all()


def test_cells_that_share_a_context_share_its_draw() -> None:
    table = census_table()
    network = BackoffNetwork(table, range(8))
    drawn = network.draws(np.repeat(table.cells[:4], 2, axis=0), 20, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn[:, ::2], drawn[:, 1::2])
    # So do cells that were never seen.
    unseen = table.cells[:4].copy()
    unseen[:, 0] = unseen[::-1, 0]
    drawn = network.draws(np.repeat(unseen, 2, axis=0), 20, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn[:, ::2], drawn[:, 1::2])


@given(
    st.lists(st.integers(0, 8), min_size=2, max_size=4),
    st.integers(0, 30),
    st.floats(0.1, 20.0),
    st.floats(0.1, 20.0),
    st.sampled_from([0.0, 0.3, 0.75]),
)
@example([0, 0, 0, 0], 7, 0.1015625, 1.0, 0.0)
@settings(max_examples=100)
def test_moments_of_two_contexts_are_those_of_the_integral(
    counts: list[int], others: int, first: float, second: float, discount: float
) -> None:
    """A probability whose mean is itself beta: moments by quadrature over the shorter context.

    Given the shorter context, the second moment is the probability that the next two records both have the value, by the rule of
    the Chinese restaurant with a discount: a record joins those of a value, less the discount, or draws anew from the shorter
    context, which then counts as one more value.
    """
    n_here, n_there = float(sum(counts)) + 1.0, float(sum(counts)) + 1.0 + others
    n_values = float(sum(n > 0 for n in counts)) + 1.0
    shorter = Betas.uniform(np.array([float(len(counts))])).given(
        Tally(np.array([counts[0] + 0.0]), np.array([n_there]), np.array([n_values])), Context(0, first, 0.0)
    )
    longer = shorter.given(
        Tally(np.array([counts[0] + 0.0]), np.array([n_here]), np.array([n_values])), Context(1, second, 0.0, discount)
    )
    a = counts[0] + first / len(counts)
    b = n_there + first - a
    assert shorter.variance[0] == pytest.approx(stats.beta.var(a, b))
    # Nodes for the weight function of the beta distribution itself: the moments are polynomials, so few of them are exact.
    nodes, weights = special.roots_jacobi(4, b - 1.0, a - 1.0)
    p, weights = 0.5 * (1.0 + nodes), weights / weights.sum()
    own, anew, total = max(counts[0] - discount, 0.0), (second + discount * n_values) * p, n_here + second
    mean = (own + anew) / total
    twice = (own * (own + 1 + anew) + anew * (own + 1 - discount + anew + discount * p)) / (total * (total + 1))
    expected = weights @ mean
    assert longer.mean[0] == pytest.approx(expected, rel=1e-9)
    assert longer.rest[0] == pytest.approx(1 - expected, rel=1e-9)
    assert longer.variance[0] == pytest.approx(weights @ (twice - mean**2 + (mean - expected) ** 2), rel=1e-7)


@given(st.lists(st.tuples(st.floats(1e-3, 50.0), st.floats(1e-3, 50.0)), min_size=1, max_size=4), st.integers(0, 2**32))
@settings(max_examples=20)
def test_log_beta_draws_are_betas(shapes: list[tuple[float, float]], seed: int) -> None:
    a, b = np.array(shapes).T
    drawn = log_beta_draws(a / (a + b), b / (a + b), stats.beta.var(a, b), 2000, np.random.default_rng(seed))
    for k in range(len(a)):
        # Uniform by the distribution function, computed on the logarithm where the variable itself is too small to hold.
        log_cdf = np.where(
            drawn[:, k] < -600,
            np.exp(a[k] * drawn[:, k] - np.log(a[k]) - special.betaln(a[k], b[k])),
            stats.beta.cdf(np.exp(drawn[:, k]), a[k], b[k]),
        )
        is_inside = np.exp(drawn[:, k]) < 1.0 - 1e-12
        assert (
            stats.kstest(np.where(is_inside, log_cdf, stats.beta.cdf(1.0 - 1e-12, a[k], b[k])), lambda u: u).statistic
            < 0.06 + 1.0 - is_inside.mean()
        )


def test_the_census_sample_is_estimated_close_to_the_truth() -> None:
    table = census_table()
    table = table.with_coarsenings(automatic_coarsenings(table))
    model = fit_backoff(table)
    risk = rc.record_risk(table, model, population=277_677)
    assert risk.expected_population_uniques == pytest.approx(179, rel=0.1)
    assert risk.expected_correct_matches == pytest.approx(414.58, rel=0.1)
    again = rc.record_risk(table, fit_backoff(table), population=277_677)
    np.testing.assert_array_equal(again.unique_probability, risk.unique_probability)


def test_the_order_in_which_keys_are_named_changes_nothing() -> None:
    table = census_table()
    other = table.project(table.keys[::-1])
    risks = []
    for one in (table, other):
        coarsened = one.with_coarsenings(automatic_coarsenings(one))
        risks.append(rc.record_risk(coarsened, fit_backoff(coarsened, n_orders=4), population=277_677))
    assert risks[0].expected_population_uniques == pytest.approx(risks[1].expected_population_uniques, rel=1e-6)
    assert risks[0].expected_correct_matches == pytest.approx(risks[1].expected_correct_matches, rel=1e-6)


def merged_levels(key: rc.Categories, n_groups: int) -> rc.Coarsening:
    groups = np.arange(key.n_levels) * n_groups // key.n_levels
    return rc.Coarsening(f"{key.key} merged", key.key, groups.astype(np.int32), tuple(f"g{g}" for g in range(n_groups)))


@given(coarsened_tables(min_keys=2, max_records=60), st.integers(0, 9))
@settings(max_examples=25)
def test_networks_of_coarser_tables_follow_from_that_of_the_finer_one(table: rc.ContingencyTable, seed: int) -> None:
    networks = CoarserNetworks(table, seed=seed)
    order = [table.keys[k] for k in networks.model.networks[0].order]
    alone = fit_backoff(table, n_orders=1, seed=seed)
    np.testing.assert_array_equal(networks.model.log_cell_probability(), alone.log_cell_probability())
    # Among the coarsenings are some that the finer network does not have.
    merged = [merged_levels(key, key.n_levels - 1) for key in table.categories if key.n_levels > 2]
    changed = [(networks.coarsened(c), table.recode(c)) for c in (*table.coarsenings, *merged)]
    for key in table.keys:
        others = [other for other in table.keys if other != key]
        changed.append((networks.without(key), table.project(others)))
    for found, coarser in changed:
        finer = with_answered(coarser)
        expected = BackoffNetwork(finer, [coarser.keys.index(key) for key in order if key in coarser.keys])
        (network,) = found.networks
        assert found.table.keys == coarser.keys
        assert [c.pair for c in network.conditionals] == [c.pair for c in expected.conditionals]
        assert network.conditionals == expected.conditionals
        np.testing.assert_allclose(found.log_cell_probability(), expected.log_cell_probability(), rtol=1e-9)
        unseen = all_cells(coarser)[:: max(1, coarser.n_formal_cells // 20)]
        np.testing.assert_allclose(found.log_cell_probability(unseen), expected.log_cell_probability(unseen), rtol=1e-9)


def test_a_network_of_a_coarser_census_is_the_one_fitted_to_it() -> None:
    table = census_table()
    table = table.with_coarsenings(automatic_coarsenings(table))
    networks = CoarserNetworks(table)
    order = [table.keys[k] for k in networks.model.networks[0].order]
    for key in table.keys[:3]:
        found = networks.without(key)
        fewer = [other for other in order if other != key]
        expected = BackoffNetwork(found.networks[0].table, [found.table.keys.index(other) for other in fewer])
        np.testing.assert_allclose(found.log_cell_probability(), expected.log_cell_probability(), rtol=1e-9)


def test_keys_that_decide_over_others_are_not_left_out_of_a_network() -> None:
    keys = [rc.Categories("age", (0, 1, 2), True), rc.Categories("job", ("nobody", "a", "b"), taken_with=("age", 1))]
    rows = np.array([[0, 0], [1, 1], [1, 2], [2, 1], [2, 2]], dtype=np.int32)
    assert not CoarserNetworks.applies_to(rc.ContingencyTable.from_codes(rows, keys))
    assert CoarserNetworks.applies_to(census_table())


def test_the_standard_error_is_the_spread_over_seeds() -> None:
    table = census_table()
    table = table.with_coarsenings(automatic_coarsenings(table))
    risks = [rc.record_risk(table, fit_backoff(table, seed=seed), population=277_677) for seed in range(6)]
    alone = table.unique_cells
    spread = np.std([risk.unique_probability[alone] for risk in risks], axis=0, ddof=1)
    told = np.mean([risk.standard_error[alone] for risk in risks], axis=0)
    assert told.mean() == pytest.approx(spread.mean(), rel=0.35)
    above = np.array([risk.unique_probability[alone] > 0.2 for risk in risks])
    crossing = above.any(axis=0) & ~above.all(axis=0)
    marked = np.array([risk.is_uncertain(0.2)[alone] for risk in risks])
    # A record that another seed puts on the other side is usually marked.
    assert marked[:, crossing].mean() > 0.75
    assert marked.mean() < 0.1


def test_orders_come_in_pairs() -> None:
    orders = random_orders(["b", "c", "a"], 5, np.random.default_rng(0))
    assert [len(set(order)) for order in orders] == [3] * 5
    assert orders[1] == orders[0][::-1]
    renamed = random_orders(["a", "b", "c"], 5, np.random.default_rng(0))
    assert [["bca"[k] for k in order] for order in orders] == [["abc"[k] for k in order] for order in renamed]


def test_no_cells_have_no_probabilities() -> None:
    table = census_table()
    assert len(fit_backoff(table, n_orders=4).log_cell_probability(table.cells[:0])) == 0


def test_no_swap_leaves_the_risk_as_it_was() -> None:
    table = census_table()
    risk = rc.record_risk(table, fit_backoff(table, n_orders=1), population=277_677)
    best = rc.DecomposableModel(table, cliques=[("age", "spouse"), ("spouse", "marital")])
    plan = rc.plan_swaps(table, best, records=risk.riskiest(5), risk=risk)
    links = plan.links(plan.task.register_of(risk))
    untouched = risk_after_pairs(risk, plan, links, np.zeros(len(plan), dtype=bool))
    assert untouched.expected_population_uniques == pytest.approx(risk.expected_population_uniques)
    assert untouched.expected_correct_matches == pytest.approx(risk.expected_correct_matches)
    swapped = risk_after(risk, plan.release, links)
    # Partners leave their cells, too.
    removed = risk.unique_probability[np.unique(table.cell_of(plan.rows))].sum()
    assert swapped.expected_population_uniques == pytest.approx(risk.expected_population_uniques - removed, abs=1.5)


def test_contexts_are_chosen_on_a_part_of_very_many_cells() -> None:
    table = census_table()
    model = fit_backoff(table, n_orders=1, many_cells=500)
    assert isinstance(model, BackoffModel)
    cells = table.cells[:50]
    assert np.isfinite(model.log_cell_probability(cells)).all()


@pytest.mark.parametrize("is_ordered", [True, False])
def test_mergers_lose_the_least_at_every_step(is_ordered: bool) -> None:
    rng = np.random.default_rng(int(is_ordered))
    joint = rng.poisson(3.0, (9, 7)).astype(float)
    totals = joint[:, :4].sum(axis=1)

    def likelihood(groups: list[list[int]]) -> float:
        merged = np.array([joint[g].sum(axis=0) for g in groups])
        total = np.array([totals[g].sum() for g in groups])
        with np.errstate(divide="ignore", invalid="ignore"):
            return float(np.nansum(merged * np.log(merged)) - 2 * np.nansum(total * np.log(total)))

    merge = agglomeration.merge_neighbours if is_ordered else agglomeration.merge_any
    groups = [[level] for level in range(9)]
    for a, b in merge(joint.copy(), totals.copy(), 2.0):
        pairs = [(i, j) for i in range(len(groups)) for j in range(i + 1, len(groups)) if not is_ordered or j == i + 1]

        def after(i: int, j: int, groups: list[list[int]] = groups) -> list[list[int]]:
            return [g for k, g in enumerate(groups) if k not in (i, j)] + [groups[i] + groups[j]]

        best = max(likelihood(after(i, j)) for i, j in pairs)
        i = next(k for k, g in enumerate(groups) if min(g) == a)
        j = next(k for k, g in enumerate(groups) if min(g) == b)
        assert likelihood(after(i, j)) == pytest.approx(best)
        groups[i] = sorted(groups[i] + groups[j])
        del groups[j]


def test_the_posterior_of_an_average_has_the_variance_within_and_between_its_networks() -> None:
    table = census_table()
    model = fit_backoff(table, n_orders=4)
    rows = np.stack([network.log_moment_rows(table.cells) for network in model.networks])
    mean, variance, error = model.posterior()
    log_means, mean_logs, variances = np.moveaxis(rows, 2, 0)
    assert variance == pytest.approx(variances.mean(axis=0) + 1.25 * log_means.var(axis=0, ddof=1))
    arithmetic = np.log(np.exp(log_means).mean(axis=0))
    assert model.log_cell_probability() == pytest.approx(arithmetic)
    # Averaging moves the mean of the logarithm as far as that of the arithmetic mean lies above the geometric one.
    assert mean == pytest.approx(mean_logs.mean(axis=0) + arithmetic - log_means.mean(axis=0))
    # An order and its reverse count as one observation of the chance in the orders.
    pairs = 0.5 * (log_means[::2] + log_means[1::2])
    assert error == pytest.approx(pairs.std(axis=0, ddof=1) / np.sqrt(2))


@st.composite
def shuffled_files(draw: st.DrawFn) -> tuple[pa.Table, list[str], list[int]]:
    """A small file with keys of many levels and keys that repeat each other, another order of its keys, and one of its records."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_records = draw(st.integers(2, 150))
    names = list("abcde"[: draw(st.integers(2, 5))])
    values = {name: rng.zipf(1.6, n_records) % rng.integers(2, 25) for name in names}
    values[names[0]][:2] = 0, 1
    if draw(st.booleans()):
        values[names[-1]] = values[names[0]] % draw(st.integers(2, 30))
    return pa.table(values), draw(st.permutations(names)), rng.permutation(n_records).tolist()


@given(shuffled_files())
@settings(max_examples=40, deadline=None)
def test_neither_the_order_of_keys_nor_that_of_records_matters(file: tuple[pa.Table, list[str], list[int]]) -> None:
    frame, other_keys, other_rows = file

    def record_risks(sample: pa.Table, keys: list[str]) -> np.ndarray:
        table = rc.Microdata(sample, keys=keys).table()
        table = table.with_coarsenings(automatic_coarsenings(table))
        assert table.record_cell is not None
        model = fit_backoff(table, n_orders=4, many_cells=30)
        return rc.record_risk(table, model, population=10 * len(sample)).unique_probability[table.record_cell]

    risks = record_risks(frame, frame.column_names)
    np.testing.assert_allclose(record_risks(frame, other_keys), risks, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(record_risks(frame.take(other_rows), frame.column_names), risks[other_rows], rtol=1e-7, atol=1e-12)


@given(coarsened_tables(max_records=20), st.data())
@settings(max_examples=15, deadline=None)
def test_weights_have_the_best_likelihood_with_households_left_out(table: rc.ContingencyTable, data: st.DataObject) -> None:
    records = naive.records_of(table)
    household = np.array(data.draw(st.lists(st.integers(0, 6), min_size=len(records), max_size=len(records))))
    table = replace(table, record_cell=np.repeat(np.arange(table.n_cells), table.counts))
    households = Households.of(table, household)
    if households is None:
        assert (np.bincount(household)[household] > 1).mean() < 0.5
        return
    network = BackoffNetwork(table, range(table.n_keys), households=households)
    for conditional in network.conditionals:
        # The weights of shorter contexts stay; those of each context are the best given them.
        for place, context in enumerate(conditional.contexts):

            def likelihood(weights: Context, place: int = place, conditional: Conditional = conditional) -> float:
                shortened = Conditional(conditional.vertex, (*conditional.contexts[:place], weights))
                return naive.leave_households_out(network, shortened, records, household)

            value = likelihood(context)
            for strength in (context.strength / 2, context.strength * 2):
                if 2**-4 <= strength <= 2**9:
                    assert likelihood(replace(context, strength=strength)) <= value + 1e-9
            assert likelihood(replace(context, power=0.0, discount=0.5)) <= value + 1e-9


def test_relatives_do_not_vouch_for_each_other() -> None:
    """Where whole households are drawn that share a postcode and an origin, a third of the risk would be missed."""
    rng = np.random.default_rng(1)
    n_households = 12_000
    of_person = np.repeat(np.arange(n_households), rng.integers(1, 6, n_households))
    share = (np.arange(400) + 2.7) ** -1.1
    postcode = rng.choice(400, n_households, p=share / share.sum())[of_person]
    origin = rng.choice(6, n_households, p=[0.5, 0.2, 0.1, 0.1, 0.06, 0.04])[of_person]
    people = np.stack([postcode, rng.integers(0, 40, len(of_person)), rng.integers(0, 2, len(of_person)), origin], axis=1)
    _, kind, number = np.unique(people, axis=0, return_inverse=True, return_counts=True)
    rows = np.flatnonzero(rng.random(n_households)[of_person] < 0.08)
    names = ["postcode", "age", "sex", "origin"]
    table = rc.Microdata(pa.table({name: people[rows, k] for k, name in enumerate(names)}), keys=names).table()
    table = table.with_coarsenings(automatic_coarsenings(table))
    n_true = int((number[kind.ravel()[rows]] == 1).sum())
    by_record, by_household = (
        rc.record_risk(table, fit_backoff(table, n_orders=4, household=each), population=len(people)).expected_population_uniques
        for each in (None, of_person[rows])
    )
    assert by_record < 0.75 * n_true
    assert by_household == pytest.approx(n_true, rel=0.15)
    alone = fit_backoff(table, n_orders=4, household=np.arange(len(rows)))
    assert rc.record_risk(table, alone, population=len(people)).expected_population_uniques == pytest.approx(by_record)


def test_a_part_of_many_households_stands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rarecell.model.backoff_conditionals.MOST_MEMBERS", 40)
    table = census_table()
    household = np.arange(table.n_records) // 3
    households = Households.of(table, household)
    assert households is not None
    assert 35 < len(households.household) <= 40
    assert (np.bincount(households.household)[np.unique(households.household)] == 3).mean() > 0.9
    assert fit_backoff(table, n_orders=2, household=household).log_cell_probability() is not None
