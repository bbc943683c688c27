"""A shuffle that changes few rows: P(arrangement) ∝ θ^(rows that change), drawn exactly, stratum by stratum.

A row keeps its part or is *free*. With φ = θ/(1−θ), and with n rows of a type that may be held and a that never are,

    Π over rows of [θ + (1−θ)·1(same)]  =  (1−θ)^Σn · Σ over sets of free rows of φ^(free rows that may be held)

and F free rows, F_j of type j, have F!/Π F_j! arrangements. As F! = ∫ u^F e^−u du, the types are independent given u:

    u    has a density ∝ e^−u u^Σa Π_j A(n_j, a_j; φu),   A(n, a; v) = Σ_f C(n, f) v^f / (a+f)!
    f_j  of the n_j rows are free with probability ∝ C(n_j, f) (φu)^f / (a_j+f)!
    the free rows of a stratum exchange their parts at random.

A has real, negative zeros (it is a Laguerre polynomial), so the density of u is log-concave, and three of its tangents
make a hull for rejection. Types of equal (n, a) are handled as one with a multiplicity.
"""

from __future__ import annotations

import math

import numpy as np

from rarecell._kernels.compiled import njit

_NEGLIGIBLE = 1e-19
_FEW = 8
"""Up to this many rows, terms are added from the first on, without finding the largest; no overflow for v up to 1e30."""
_MOST_STEPS = 60
_LARGE = 200.0
"""With more free rows than this, the mean of u comes from an expansion around its mode."""


@njit(cache=True, nogil=True)
def likeliest_free(n, a, v):
    """The f at which C(n, f) v^f / (a+f)! is largest."""
    c = (a + 1.0) - n * v
    if c >= 0.0:
        return 0
    b = a + 2.0 + v
    root = -2.0 * c / (b + math.sqrt(b * b - 4.0 * c))
    return min(n, int(root) + 1)


@njit(cache=True, nogil=True)
def moments_of_few(n, v):
    """:func:`free_moments` for few rows, all of which may be held."""
    total, first, second, term = 1.0, 0.0, 0.0, 1.0
    for f in range(n):
        term *= (n - f) * v / ((f + 1.0) * (f + 1.0))
        total += term
        first += term * (f + 1.0)
        second += term * (f + 1.0) ** 2
    mean = first / total
    return math.log(total), mean, second / total - mean * mean


@njit(cache=True, nogil=True)
def free_moments(n, a, v):
    """log A(n, a; v), and mean and variance of f; sums run outwards from the largest term, or from the first of a few."""
    if a == 0 and n <= _FEW and v < 1e30:
        return moments_of_few(n, v)
    mode = likeliest_free(n, a, v)
    total, first, second = 1.0, 0.0, 0.0
    term, f = 1.0, mode
    while f < n and term > _NEGLIGIBLE * total:
        term *= (n - f) * v / ((f + 1.0) * (a + f + 1.0))
        f += 1
        total += term
        first += term * (f - mode)
        second += term * (f - mode) ** 2
    term, f = 1.0, mode
    while f > 0 and term > _NEGLIGIBLE * total:
        term *= f * (a + f) / ((n - f + 1.0) * v)
        f -= 1
        total += term
        first += term * (f - mode)
        second += term * (f - mode) ** 2
    log_mode = math.lgamma(n + 1.0) - math.lgamma(mode + 1.0) - math.lgamma(n - mode + 1.0) - math.lgamma(a + mode + 1.0)
    log_mode += mode * math.log(v)
    shift = first / total
    return log_mode + math.log(total), mode + shift, second / total - shift * shift


@njit(cache=True, nogil=True)
def log_density(u, phi, groups, start, stop):
    """log of the density of u up to a constant, with its first and second derivatives.

    ``groups`` has n, a and the number of types with them; those from ``start`` to ``stop`` make up the stratum.
    """
    value, mean, variance, always = -u, 0.0, 0.0, 0.0
    for g in range(start, stop):
        n, a, times = groups[g, 0], groups[g, 1], groups[g, 2]
        log_sum, m, s = free_moments(n, a, phi * u)
        value += times * (log_sum + a * math.log(u))
        mean += times * m
        variance += times * s
        always += times * a
    return value, (always + mean) / u - 1.0, (variance - mean - always) / (u * u)


@njit(cache=True, nogil=True)
def tangent_points(phi, groups, start, stop):
    """Three points around the mode of u, the last of them where the density falls, and the width of the density there."""
    n_rows, n_always = 0.0, 0.0
    for g in range(start, stop):
        n_rows += groups[g, 0] * groups[g, 2]
        n_always += groups[g, 1] * groups[g, 2]
    if n_always == 0.0 and phi * n_rows <= 1.0:
        # The density only falls; near 0 it does so at the rate 1 − φn.
        slope, curvature = 1.0 - phi * n_rows, 0.0
        for g in range(start, stop):
            n = groups[g, 0]
            curvature += groups[g, 2] * phi * phi * (0.5 * n * (n - 1.0) - n * n)
        width = min(1.0 / max(slope, 1e-12), 1.0 / math.sqrt(max(-curvature, 1e-24)))
        return 1e-6 * width, width, 2.5 * width, width
    low, high = 0.0, n_rows + n_always + 1.0
    u = high
    for _ in range(_MOST_STEPS):
        _, slope, curvature = log_density(u, phi, groups, start, stop)
        if slope > 0.0:
            low = u
        else:
            high = u
        width = 1.0 / math.sqrt(max(-curvature, 1e-24))
        if abs(slope) * width < 0.05:
            break
        step = u - slope / curvature if curvature < 0.0 else -1.0
        u = step if low < step < high else 0.5 * (low + high)
    left = max(u - 1.2 * width, 0.4 * u)
    return left, u, u + 1.2 * width, width


@njit(cache=True, nogil=True)
def piece(value, slope, at, left, right):
    """log of the integral of exp(value + slope·(x − at)) from left to right; right may be infinite."""
    if right == np.inf:
        return value + slope * (left - at) - math.log(-slope)
    span = slope * (right - left)
    if abs(span) < 1e-9:
        return value + slope * (left - at) + math.log(right - left)
    if slope > 0.0:
        return value + slope * (right - at) + math.log(-math.expm1(-span) / slope)
    return value + slope * (left - at) + math.log(math.expm1(span) / slope)


@njit(cache=True, nogil=True)
def within_piece(slope, left, right, uniform):
    """Draw from a density ∝ exp(slope·x) between left and right."""
    if right == np.inf:
        return left + math.log1p(-uniform) / slope
    span = slope * (right - left)
    if abs(span) < 1e-9:
        return left + uniform * (right - left)
    if slope > 0.0:
        return right + math.log1p(uniform * math.expm1(-span)) / slope
    return left + math.log1p(uniform * math.expm1(span)) / slope


@njit(cache=True, nogil=True)
def crossing(at, values, slopes, k):
    """Where the tangents at points k and k+1 meet."""
    bend = slopes[k] - slopes[k + 1]
    if bend <= 1e-12 * (abs(slopes[k]) + abs(slopes[k + 1])):
        return 0.5 * (at[k] + at[k + 1])
    met = at[k] + (values[k + 1] - values[k] + slopes[k + 1] * (at[k] - at[k + 1])) / bend
    return min(max(met, at[k]), at[k + 1])


@njit(cache=True, nogil=True)
def draw_u(phi, groups, start, stop, rng):
    """One draw of u, by rejection from the hull of three tangents."""
    at, values, slopes = np.empty(3), np.empty(3), np.empty(3)
    at[0], at[1], at[2], width = tangent_points(phi, groups, start, stop)
    for k in range(3):
        values[k], slopes[k], _ = log_density(at[k], phi, groups, start, stop)
    while slopes[2] * width > -0.3:
        at[2] += width
        width *= 1.5
        values[2], slopes[2], _ = log_density(at[2], phi, groups, start, stop)
    ends = np.array([0.0, crossing(at, values, slopes, 0), crossing(at, values, slopes, 1), np.inf])
    mass = np.empty(3)
    for k in range(3):
        mass[k] = piece(values[k], slopes[k], at[k], ends[k], ends[k + 1]) if ends[k + 1] > ends[k] else -np.inf
    top = max(mass[0], mass[1], mass[2])
    first, second, third = math.exp(mass[0] - top), math.exp(mass[1] - top), math.exp(mass[2] - top)
    while True:
        target = rng.random() * (first + second + third)
        k = 0 if target < first else (1 if target < first + second else 2)
        u = within_piece(slopes[k], ends[k], ends[k + 1], rng.random())
        if u <= 0.0:
            continue
        value, _, _ = log_density(u, phi, groups, start, stop)
        if math.log1p(-rng.random()) <= value - (values[k] + slopes[k] * (u - at[k])):
            return u


@njit(cache=True, nogil=True)
def draw_free(n, a, v, rng):
    """Draw how many of the n rows are free: f with probability ∝ C(n, f) v^f / (a+f)!, searched outwards from the likeliest."""
    mode = likeliest_free(n, a, v)
    log_sum, _, _ = free_moments(n, a, v)
    log_mode = math.lgamma(n + 1.0) - math.lgamma(mode + 1.0) - math.lgamma(n - mode + 1.0) - math.lgamma(a + mode + 1.0)
    left = rng.random() * math.exp(log_sum - log_mode - mode * math.log(v)) - 1.0
    up, down, above, below = mode, mode, 1.0, 1.0
    while left > 0.0 and (above > 0.0 or below > 0.0):
        above *= (n - up) * v / ((up + 1.0) * (a + up + 1.0)) if up < n else 0.0
        up += 1
        left -= above
        if left <= 0.0 and above > 0.0:
            return up
        below *= down * (a + down) / ((n - down + 1.0) * v) if down > 0 else 0.0
        down -= 1
        left -= below
        if left <= 0.0 and below > 0.0:
            return down
    return mode


@njit(cache=True, nogil=True)
def shuffle_strata(theta, stratum_start, sizes, groups, group_start, rows, source, rng):
    """Rearrange the parts of all strata; ``source[r]`` becomes the row whose part row r gets.

    ``rows`` is sorted by stratum and type, and within a type rows that may be held come first: type t has ``sizes[t, 0]`` of
    them and ``sizes[t, 1]`` others. Stratum s has the types from ``stratum_start[s]`` on, and the groups from
    ``group_start[s]`` on. ``rows`` is reordered within types.
    """
    free = np.empty(rows.size, dtype=np.int64)
    place = 0
    for s in range(stratum_start.size - 1):
        first, last = stratum_start[s], stratum_start[s + 1]
        n_free, start = 0, place
        for t in range(first, last):
            place += sizes[t, 0] + sizes[t, 1]
        if last - first == 1:
            continue
        u, v = 0.0, 0.0
        if theta < 1.0:
            u = draw_u(theta / (1.0 - theta), groups, group_start[s], group_start[s + 1], rng)
            v = u * (theta / (1.0 - theta))
        for t in range(first, last):
            n, a = sizes[t, 0], sizes[t, 1]
            f = n if theta >= 1.0 else (draw_free(n, a, v, rng) if n > 0 else 0)
            for i in range(f):
                k = start + i + rng.integers(0, n - i)
                rows[start + i], rows[k] = rows[k], rows[start + i]
                free[n_free + i] = rows[start + i]
            for i in range(a):
                free[n_free + f + i] = rows[start + n + i]
            n_free += f + a
            start += n + a
        exchange(free, n_free, source, rng)


@njit(cache=True, nogil=True)
def exchange(free, n_free, source, rng):
    """Permute the parts of the first ``n_free`` rows of ``free``, every arrangement being equally likely."""
    for i in range(n_free):
        source[free[i]] = free[i]
    for i in range(n_free - 1, 0, -1):
        k = rng.integers(0, i + 1)
        row, mate = free[i], free[k]
        source[row], source[mate] = source[mate], source[row]


@njit(cache=True, nogil=True)
def expanded_mean(near_mode, phi, groups, start, stop):
    """Mean of u by Laplace's expansion around its mode: mode + h‴ σ⁴/2, where h is the log density."""
    _, slope, curvature = log_density(near_mode, phi, groups, start, stop)
    mode = near_mode - slope / curvature
    width = 1.0 / math.sqrt(-curvature)
    above = log_density(mode + 0.5 * width, phi, groups, start, stop)[2]
    below = log_density(mode - 0.5 * width, phi, groups, start, stop)[2]
    return mode + 0.5 * (above - below) / width * width**4


@njit(cache=True, nogil=True)
def integrated_mean(phi, groups, start, stop, nodes, weights):
    """Mean of u by Gauss-Legendre sums on panels around its mode."""
    left, middle, right, width = tangent_points(phi, groups, start, stop)
    top, _, _ = log_density(middle, phi, groups, start, stop)
    value, slope, _ = log_density(right, phi, groups, start, stop)
    while slope * width > -0.3:
        right += width
        width *= 1.5
        value, slope, _ = log_density(right, phi, groups, start, stop)
    upper = right + (45.0 + max(value - top, 0.0)) / -slope
    value, slope, _ = log_density(left, phi, groups, start, stop)
    lower = max(0.0, left - (45.0 + max(value - top, 0.0)) / slope) if slope > 0.0 else 0.0
    mass, moment, begin = 0.0, 0.0, lower
    for panel in range(-3, 7):
        end = upper if panel == 6 else middle + width * panel * abs(panel) * 0.8
        end = min(max(end, begin), upper)
        half = 0.5 * (end - begin)
        for k in range(nodes.size if half > 0.0 else 0):
            u = begin + half * (1.0 + nodes[k])
            value, _, _ = log_density(u, phi, groups, start, stop)
            weight = half * weights[k] * math.exp(value - top)
            mass += weight
            moment += weight * (u - middle)
        begin = end
    return middle + moment / mass


@njit(cache=True, nogil=True)
def mean_changed(theta, groups, start, stop, nodes, weights):
    """Expected number of changed rows among those of a stratum that may be held.

    With f of them free it is (E f − nθ)/(1−θ), and integration by parts gives E f + a = E u − 1. E u comes from
    Gauss-Legendre sums on panels around the mode, or from Laplace's expansion there when it is large.
    """
    n_rows, n_always = 0.0, 0.0
    for g in range(start, stop):
        n_rows += groups[g, 0] * groups[g, 2]
        n_always += groups[g, 1] * groups[g, 2]
    if theta >= 1.0:
        kept = 0.0
        for g in range(start, stop):
            kept += groups[g, 2] * groups[g, 0] * (groups[g, 0] + groups[g, 1]) / (n_rows + n_always)
        return n_rows - kept
    phi = theta / (1.0 - theta)
    middle = tangent_points(phi, groups, start, stop)[1]
    if middle > _LARGE:
        mean_u = expanded_mean(middle, phi, groups, start, stop)
    else:
        mean_u = integrated_mean(phi, groups, start, stop, nodes, weights)
    mean_free = mean_u - 1.0 - n_always
    return min(max((mean_free - n_rows * theta) / (1.0 - theta), 0.0), n_rows)


@njit(cache=True, nogil=True)
def total_mean_changed(thetas, groups, group_start, strata, times, nodes, weights):
    """For each θ, the sum of :func:`mean_changed` over ``strata``, each counted as often as ``times`` says."""
    total = np.zeros(thetas.size)
    for k in range(thetas.size):
        for i in range(strata.size):
            start, stop = group_start[strata[i]], group_start[strata[i] + 1]
            total[k] += times[i] * mean_changed(thetas[k], groups, start, stop, nodes, weights)
    return total
