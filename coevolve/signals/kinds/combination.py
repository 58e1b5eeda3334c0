"""Combination: two tools that work alone and fail together.

Rollouts that called both are compared with those that called only the first, and with those that
called only the second, each by Fisher's exact test, one-sided on success; the larger p-value
counts. All counts are divided by the mean group size, because rollouts of one task share their
difficulty. Only pairs whose margins could give a p-value that survives the correction are tested
(Tarone 1990), among the `MAX_PAIRED_TOOLS` tools that most rollouts called, without those that the
inventory lacks. Flagged if q <= alpha
after Benjamini–Hochberg over these, and if rollouts of more than one task failed. Strength: (1 - q)
times the smaller of the two differences in success. Pattern: the pair, sorted. Evidence: failures
with both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from coevolve.records import Statistic
from coevolve.signals.counts import RolloutColumns
from coevolve.signals.patterns import Pattern
from coevolve.signals.rule import MAX_PAIRED_TOOLS, RuleInput, SignalCandidate
from coevolve.statistics import benjamini_hochberg, fisher_less


class PairTest(NamedTuple):
    attainable: float  # The least p-value that the margins allow
    p: float
    difference: float
    pair: Pattern


def calibrated(seen: RuleInput) -> Iterator[SignalCandidate]:
    rollouts, alpha = seen.counts.rollouts, seen.settings.alpha
    for counts in seen.counts:
        size = counts.rollouts / max(counts.groups, 1)
        called = counts.called
        known = {t: rows for t, rows in called.items() if not seen.invented(counts.env, t)}
        calls = CallSets(known, rollouts)
        found = (_test(pair, calls, size, alpha) for pair in combinations(calls.tools, 2))
        tests = testable([test for test in found if test], alpha)
        adjusted = benjamini_hochberg([test.p for test in tests])
        for q, test in zip(adjusted, tests, strict=True):
            failures = calls.failures(test.pair) if q <= alpha else []
            if len({rollouts.task[row] for row in failures}) > 1:
                statistic = Statistic("fisher", test.difference, test.p)
                strength = (1 - q) * test.difference
                rows = rollouts.first(failures, seen.settings.max_evidence)
                yield SignalCandidate(*counts.key, strength, statistic, "", test.pair, rows)


class CallSets:
    """Which rollouts called which tools, as bit sets: thousands of pairs are counted fast."""

    def __init__(self, called: Mapping[str, Sequence[int]], rollouts: RolloutColumns):
        ranked = sorted(called, key=lambda tool: (-len(called[tool]), tool))
        self.tools = sorted(ranked[:MAX_PAIRED_TOOLS])
        self._called, self._success = called, rollouts.success
        self._bits = {tool: _bits(called[tool]) for tool in self.tools}
        self._failed = _bits([row for row, success in enumerate(self._success) if not success])
        self.single = {tool: self.both((tool, tool)) for tool in self.tools}
        """Rollouts that called the tool, and the failures among them."""

    def both(self, pair: Pattern) -> tuple[int, int]:
        """Rollouts that called both tools, and the failures among them."""
        rows = self._bits[pair[0]] & self._bits[pair[1]]
        return rows.bit_count(), (rows & self._failed).bit_count()

    def failures(self, pair: Pattern) -> list[int]:
        """Rows of the failures that called both."""
        second = set(self._called[pair[1]])
        first = self._called[pair[0]]
        return [row for row in first if row in second and not self._success[row]]


def _bits(rows: Sequence[int]) -> int:
    """An integer with these bits set."""
    octets = bytearray(max(rows, default=0) // 8 + 1)
    for row in rows:
        octets[row >> 3] |= 1 << (row & 7)
    return int.from_bytes(octets, "little")


def testable(tests: list[PairTest], alpha: float) -> list[PairTest]:
    """The largest family of k tests that could each reach alpha / k, in the order given."""
    attainable = sorted(test.attainable for test in tests)
    sizes = range(1, len(tests) + 1)
    size = next((k for k in sizes if bisect_right(attainable, alpha / k) <= k), 0)
    return [test for test in tests if test.attainable <= alpha / size] if size else []


def _test(pair: Pattern, calls: CallSets, size: float, alpha: float) -> PairTest | None:
    """None where the tools never meet, or never part, or no outcome could be significant."""
    trials, failures = calls.both(pair)
    alone = [(n - trials, failed - failures) for n, failed in map(calls.single.get, pair)]
    if not trials or not all(n for n, _ in alone):
        return None
    together, others = _effective(trials, failures, size), [_effective(*a, size) for a in alone]
    attainable = max(_attainable(*together, *other) for other in others)
    if attainable > alpha:
        return None
    difference = min(failures / trials - failed / n for n, failed in alone)
    if difference <= 0:
        return PairTest(attainable, 1.0, 0.0, pair)
    p = max(fisher_less(*together, *other) for other in others)
    return PairTest(attainable, p, difference, pair)


def _attainable(
    now_successes: int, now_trials: int, then_successes: int, then_trials: int
) -> float:
    """The p-value had as few of the successes as possible fallen to the rollouts with both."""
    least = max(0, now_successes + then_successes - then_trials)
    return fisher_less(least, now_trials, now_successes + then_successes - least, then_trials)


def _effective(trials: int, failures: int, size: float) -> tuple[int, int]:
    """Successes and trials, in units of groups."""
    units = max(1, round(trials / size))
    return round(units * (1 - failures / trials)), units


def reason(c: SignalCandidate) -> str:
    pair, p = " with ".join(c.pattern), c.statistic.p
    return f"{pair}: fail {c.percent:.0f} points more often together, p = {p or 0:.2g}"
