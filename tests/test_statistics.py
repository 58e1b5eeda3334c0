"""Our statistics against scipy's."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from scipy import stats

from coevolve import statistics as ours

CASES = [(s, n) for n in (1, 2, 8, 40, 333) for s in sorted({0, 1, n // 3, n // 2, n - 1, n})]


@pytest.mark.parametrize(("successes", "trials"), CASES)
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_wilson(successes, trials, confidence):
    """The score interval, also at 0 and at all successes."""
    theirs = stats.binomtest(successes, trials).proportion_ci(confidence, method="wilson")
    assert ours.wilson(successes, trials, confidence) == pytest.approx(
        (theirs.low, theirs.high), abs=1e-12
    )


def test_wilson_without_trials():
    """Nothing seen, nothing known; impossible counts are refused."""
    assert ours.wilson(0, 0) == (0, 1)
    with pytest.raises(ValueError, match="3 successes of 2"):
        ours.wilson(3, 2)


def test_fisher():
    """One-sided exact test on every table of small margins and on random large ones."""
    tables = [
        (a, n, c, m)
        for n in (1, 3, 8)
        for m in (1, 8, 40)
        for a in range(n + 1)
        for c in range(m + 1)
    ]
    draw = random.Random("fisher")
    for _ in range(200):
        n, m = draw.randint(1, 3000), draw.randint(1, 3000)
        tables.append((draw.randint(0, n), n, draw.randint(0, m), m))
    for a, n, c, m in tables:
        theirs = stats.hypergeom.cdf(a, n + m, a + c, n)
        assert ours.fisher_less(a, n, c, m) == pytest.approx(theirs, rel=1e-8, abs=1e-300)


def test_fisher_is_scipys_fisher_exact():
    """The direction: fewer successes now than then."""
    theirs = stats.fisher_exact([[2, 6], [30, 10]], alternative="less").pvalue
    assert ours.fisher_less(2, 8, 30, 40) == pytest.approx(theirs)
    assert theirs < 0.05


def test_benjamini_hochberg():
    """Adjusted p-values, in the order given, with ties and ones."""
    draw = random.Random("bh")
    for n in (1, 2, 5, 50):
        values = [draw.choice([draw.random(), draw.random() ** 4, 0.05, 1.0]) for _ in range(n)]
        assert ours.benjamini_hochberg(values) == pytest.approx(
            list(stats.false_discovery_control(values))
        )
    assert ours.benjamini_hochberg([]) == []


@pytest.mark.parametrize("a", [0.5, 1, 2.5, 9, 60, 400])
@pytest.mark.parametrize("b", [0.5, 1, 3, 17, 250])
def test_beta_cdf(a, b):
    """The incomplete beta function over its whole range."""
    for x in (0, 1e-9, 0.01, 0.2, 0.5, 0.8, 0.99, 1):
        assert ours.beta_cdf(x, a, b) == pytest.approx(stats.beta.cdf(x, a, b), abs=1e-12, rel=1e-9)


@pytest.mark.parametrize(("successes", "trials"), CASES)
def test_posterior_of_a_solve_rate(successes, trials):
    """Mass inside the learnable band."""
    posterior = stats.beta(1 + successes, 1 + trials - successes)
    mass = posterior.cdf(0.8) - posterior.cdf(0.2)
    assert ours.solve_rate_mass(successes, trials) == pytest.approx(mass, abs=1e-11)


def test_band_of_eight():
    """The figures of the Beta distribution: P(.2 <= p <= .8) for 0 to 4 successes of 8."""
    assert [round(ours.solve_rate_mass(s, 8), 2) for s in range(5)] == [
        0.13,
        0.44,
        0.74,
        0.91,
        0.96,
    ]


@pytest.mark.parametrize("degrees", [1, 2, 5, 30, 759, 1e6])
def test_student(degrees):
    """CDF and quantile of Student's t."""
    for t in (-40, -2, -0.1, 0, 0.5, 3):
        assert ours.student_cdf(t, degrees) == pytest.approx(stats.t.cdf(t, degrees), abs=1e-10)
    for probability in (0.001, 0.3, 0.5, 0.975, 0.9999):
        theirs = stats.t.ppf(probability, degrees)
        assert ours.student_quantile(probability, degrees) == pytest.approx(
            theirs, rel=1e-8, abs=1e-8
        )


def test_mean_rate():
    """The effective sample size: binary outcomes give about Wilson's own, equal rates all trials, 0
    and 1 the units."""
    wins = [1] * 30 + [0] * 10
    rate = ours.mean_rate(0.75, ours.variance(wins) / 40, 40, 40)
    assert rate == pytest.approx((0.75, *ours.wilson(0.75 * 39, 39)))
    assert ours.mean_rate(0.5, 0.0, 10, 80)[1:] == pytest.approx(ours.wilson(40, 80))
    assert ours.mean_rate(1.0, 0.0, 10, 80)[1:] == pytest.approx(ours.wilson(10, 10))


def test_coverage_of_mean_rate():
    """Over tasks of differing difficulty the 95 % interval holds the true mean in 93 to 98 % of
    2,000 samples."""
    draw = random.Random("coverage")
    held = 0
    for _ in range(2000):
        rates = []
        for _ in range(40):
            p = draw.betavariate(1.5, 0.5)
            rates.append(sum(draw.random() < p for _ in range(4)) / 4)
        found = ours.mean_rate(ours.mean(rates), ours.variance(rates) / 40, 40, 160)
        held += found.low <= 0.75 <= found.high
    assert 0.93 < held / 2000 < 0.98


@pytest.mark.parametrize("trials", [1, 4, 9])
def test_pass_at(trials):
    """pass@k is the share of all k-subsets of the tries that hold a success."""
    for successes in range(trials + 1):
        tries = [True] * successes + [False] * (trials - successes)
        for k in range(1, trials + 1):
            subsets = list(combinations(tries, k))
            assert ours.pass_at(k, successes, trials) == pytest.approx(
                sum(map(any, subsets)) / len(subsets)
            )
