"""Combination: two tools that work alone and fail together.

Rollouts that called both are compared with those that called only the first, and with those that called only the second, each
by Fisher's exact test, one-sided on success; the larger p-value counts. Rollouts of one task share their difficulty, so all
counts are divided by the mean group size before the test: the effective sample is groups, not rollouts. Most pairs meet too
seldom to say anything; as Tarone (1990) has it, only pairs whose margins could give a p-value that survives the correction are
tested at all, and of the tools only the `TOOLS` that most rollouts called: pairs grow with their square. Flagged if q <= alpha
after Benjamini–Hochberg over these, and if rollouts of more than one task failed. Strength: (1 - q) times the smaller of the
two differences in success. Pattern: the pair, sorted. Evidence: failures with both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from coevolve.records import Statistic
from coevolve.signals.candidate import Candidate
from coevolve.signals.patterns import Pattern
from coevolve.signals.settings import TOOLS, Settings
from coevolve.signals.tally import Rows, Tally
from coevolve.statistics import benjamini_hochberg, fisher_less


class Test(NamedTuple):
    attainable: float
    """The least p-value that the margins allow."""
    p: float
    difference: float
    pair: Pattern


def calibrated(tally: Tally, settings: Settings) -> Iterator[Candidate]:
    for (env, iteration), update in sorted(tally.updates.items(), key=lambda item: item[0]):
        size = update.rollouts / max(update.groups, 1)
        calls = Calls(update.called, tally.rows)
        found = [
            test
            for pair in combinations(calls.tools, 2)
            if (test := _test(pair, calls, size, settings.alpha))
        ]
        tests = testable(found, settings.alpha)
        adjusted = benjamini_hochberg([test.p for test in tests])
        for q, test in zip(adjusted, tests, strict=True):
            failures = calls.failures(test.pair) if q <= settings.alpha else []
            if len({tally.rows.task[row] for row in failures}) > 1:
                statistic, strength = (
                    Statistic("fisher", test.difference, test.p),
                    (1 - q) * test.difference,
                )
                rows = tally.rows.first(failures, settings.max_evidence)
                yield Candidate(
                    "combination", env, iteration, "", test.pair, strength, statistic, rows
                )


class Calls:
    """Which rollouts called which tools, as bit sets, so that thousands of pairs are counted in no time."""

    def __init__(self, called: Mapping[str, Sequence[int]], rows: Rows):
        self.tools = sorted(sorted(called, key=lambda tool: (-len(called[tool]), tool))[:TOOLS])
        self._called, self._rows = called, rows
        self._bits = {tool: _bits(called[tool]) for tool in self.tools}
        self._failed = _bits([row for row, success in enumerate(rows.success) if not success])

        self._single = {tool: self.both((tool, tool)) for tool in self.tools}

    def single(self, tool: str) -> tuple[int, int]:
        """Rollouts that called the tool, and the failures among them."""
        return self._single[tool]

    def both(self, pair: Pattern) -> tuple[int, int]:
        """The same for two tools."""
        rows = self._bits[pair[0]] & self._bits[pair[1]]
        return rows.bit_count(), (rows & self._failed).bit_count()

    def failures(self, pair: Pattern) -> list[int]:
        """Rows of the failures that called both."""
        second = set(self._called[pair[1]])
        return [
            row for row in self._called[pair[0]] if row in second and not self._rows.success[row]
        ]


def _bits(rows: Sequence[int]) -> int:
    """An integer with these bits set."""
    if not rows:
        return 0
    octets = bytearray(max(rows) // 8 + 1)
    for row in rows:
        octets[row >> 3] |= 1 << (row & 7)
    return int.from_bytes(octets, "little")


def testable(tests: list[Test], alpha: float) -> list[Test]:
    """The largest family of k tests that could each reach alpha / k, in the order given."""
    attainable = sorted(test.attainable for test in tests)
    size = next(
        (k for k in range(1, len(tests) + 1) if bisect_right(attainable, alpha / k) <= k), 0
    )
    return [test for test in tests if test.attainable <= alpha / size] if size else []


def _test(pair: Pattern, calls: Calls, size: float, alpha: float) -> Test | None:
    """None where the tools never meet, one never occurs without the other, or no outcome could be significant."""
    trials, failures = calls.both(pair)
    if not trials:
        return None
    together, others = _effective(trials, failures, size), []
    for tool in pair:
        called, failed = calls.single(tool)
        if called == trials:
            return None
        others.append((called - trials, failed - failures))
    effective = [_effective(*other, size) for other in others]
    attainable = max(_attainable(*together, *other) for other in effective)
    if attainable > alpha:
        return None
    difference = min(failures / trials - failed / alone for alone, failed in others)
    if difference <= 0:
        return Test(attainable, 1.0, 0.0, pair)
    return Test(
        attainable, max(fisher_less(*together, *other) for other in effective), difference, pair
    )


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
