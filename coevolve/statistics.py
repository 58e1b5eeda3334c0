"""Small-sample statistics for filters: standard library only, checked against scipy in the tests.

Rates come with Wilson intervals, drops with Fisher's exact test, solve rates with a Beta posterior,
means with Student's t. All functions are pure; arguments outside their domain raise ValueError.
Probabilities are good to about 1e-10.

Sources: Wilson 1927; Fisher 1935; Benjamini & Hochberg 1995; the incomplete beta function by
Lentz's continued fraction (Numerical Recipes, 6.4); unbiased pass@k (Chen et al. 2021, eq. 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

_NEGLIGIBLE = 1e-18
"""A term this much smaller than the sum before it ends a series of falling terms."""


class Interval(NamedTuple):
    low: float
    high: float


class Mean(NamedTuple):
    """A mean with the limits of its confidence interval."""

    mean: float
    low: float
    high: float


def wilson(successes: float, trials: float, confidence: float = 0.95) -> Interval:
    """Two-sided Wilson score interval of a rate; (0, 1) without trials."""
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials")
    if trials == 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    rate, weight = successes / trials, z * z / trials
    centre = (rate + weight / 2) / (1 + weight)
    half = z / (1 + weight) * math.sqrt(rate * (1 - rate) / trials + weight / (4 * trials))
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == trials else min(1.0, centre + half)
    return Interval(low, high)


@lru_cache(maxsize=10_000)
def fisher_less(
    now_successes: int, now_trials: int, then_successes: int, then_trials: int
) -> float:
    """One-sided exact p-value that the rate now is lower than the rate then (margins fixed).

    P(X <= now_successes) for X hypergeometric: `now_trials` draws from all trials, of which all
    successes count.
    """
    if not (0 <= now_successes <= now_trials and 0 <= then_successes <= then_trials):
        raise ValueError("successes must lie between 0 and trials")
    successes, trials = now_successes + then_successes, now_trials + then_trials
    failures = trials - successes
    if now_successes >= min(successes, now_trials):
        return 1.0
    # The sum starts at the mode, or as near to it as it may, and runs to both sides from there.
    mode = (now_trials + 1) * (successes + 1) // (trials + 2)
    start = min(now_successes, max(mode, now_trials - failures))
    ways = _log_comb(successes, start) + _log_comb(failures, now_trials - start)
    peak = math.exp(ways - _log_comb(trials, now_trials))
    total, term = 0.0, peak
    for x in range(start, max(0, now_trials - failures) - 1, -1):
        total += term
        if term < total * _NEGLIGIBLE:
            break
        term *= x * (failures - now_trials + x) / ((successes - x + 1) * (now_trials - x + 1))
    term = peak
    for x in range(start, now_successes):
        term *= (successes - x) * (now_trials - x) / ((x + 1) * (failures - now_trials + x + 1))
        total += term
        if term < total * _NEGLIGIBLE:
            break
    return min(1.0, total)


def _log_comb(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values (q): rejecting q <= a keeps the false discovery rate at a."""
    n = len(p_values)
    order = sorted(range(n), key=lambda i: p_values[i], reverse=True)
    adjusted, least = [0.0] * n, 1.0
    for place, i in enumerate(order):
        least = min(least, p_values[i] * n / (n - place))
        adjusted[i] = least
    return adjusted


def beta_cdf(x: float, a: float, b: float) -> float:
    """P(X <= x) for X ~ Beta(a, b): the regularised incomplete beta function."""
    if a <= 0 or b <= 0:
        raise ValueError(f"Beta({a}, {b})")
    if not 0 < x < 1:
        return 0.0 if x <= 0 else 1.0
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(scale + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _beta_fraction(x, a, b) / a
    return 1.0 - front * _beta_fraction(1 - x, b, a) / b


def _beta_fraction(x: float, a: float, b: float) -> float:
    """The beta function's continued fraction by Lentz's method, for x < (a+1)/(a+b+2)."""
    tiny = 1e-300
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0) or tiny)
    value = d
    for m in range(1, 10_000):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / (1.0 + numerator * d or tiny)
            c = 1.0 + numerator / c or tiny
            value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            return value
    return value


@lru_cache(maxsize=10_000)
def solve_rate_mass(successes: int, trials: int, low: float = 0.2, high: float = 0.8) -> float:
    """P(low <= p <= high) of a solve rate under Beta(1 + s, 1 + n - s) (uniform prior)."""
    a, b = 1 + successes, 1 + trials - successes
    return beta_cdf(high, a, b) - beta_cdf(low, a, b)


def student_cdf(t: float, degrees: float) -> float:
    """P(T <= t) for Student's t."""
    tail = beta_cdf(degrees / (degrees + t * t), degrees / 2, 0.5) / 2
    return 1 - tail if t > 0 else tail


def student_quantile(probability: float, degrees: float) -> float:
    """The t with P(T <= t) = probability, by bisection."""
    if not 0 < probability < 1 or degrees <= 0:
        raise ValueError(f"quantile {probability} of t({degrees})")
    if probability < 0.5:
        return -student_quantile(1 - probability, degrees)
    low, high = 0.0, 1.0
    while student_cdf(high, degrees) < probability:
        high *= 2
    while low < (middle := (low + high) / 2) < high:
        if student_cdf(middle, degrees) < probability:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def variance(values: Sequence[float]) -> float:
    """Sample variance (n - 1); 0 for a single value."""
    if len(values) < 2:
        return 0.0
    centre = mean(values)
    return math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1)


def mean_rate(
    rate: float, variance_of_mean: float, units: int, trials: int, confidence: float = 0.95
) -> Mean:
    """A mean of rates with a Wilson interval on the effective sample size rate(1 - rate) /
    variance.

    Unlike a t interval it stays inside [0, 1] and has width when every unit has the same outcome.
    The effective size lies between 1 and `trials`; it is `units` where the mean is 0 or 1 and so
    has no variance to go by.
    """
    rate = min(max(rate, 0.0), 1.0)
    spread = rate * (1 - rate)
    if spread <= 0:
        size = float(units)
    elif variance_of_mean <= 0:
        size = float(trials)
    else:
        size = min(max(spread / variance_of_mean, 1.0), float(trials))
    return Mean(rate, *wilson(rate * size, size, confidence))


def pass_at(k: int, successes: int, trials: int) -> float:
    """Unbiased estimate of the chance that one of k tries succeeds, from `trials` >= k tries."""
    if not 0 < k <= trials:
        raise ValueError(f"pass@{k} needs at least {k} trials, got {trials}")
    return 1.0 - math.comb(trials - successes, k) / math.comb(trials, k)
