"""Unexplored: what the environment offers and no rollout of the iteration used.

It needs the inventory and has no evidence. The paper's rule for rare patterns never sees it.

- A tool that was never called. The upper Wilson bound of its rate, after n rollouts without it, is
  u; the strength is (1 - u) (1 - covered / 2), where `covered` is the part of its app's tools that
  were called: the least covered apps come first.
- Two tools of one app that were both called, yet never one right after the other, although e such
  successions were to be expected and none has probability e^-e <= alpha. e is (successions from the
  first) (successions to the second) / (all successions), divided by the mean group size, because
  rollouts of one task resemble each other. Strength (1 - e^-e) / 2.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator

from coevolve.records import Statistic
from coevolve.signals.counts import IterationCounts
from coevolve.signals.rule import MAX_PAIRED_TOOLS, RuleInput, SignalCandidate
from coevolve.statistics import wilson


def calibrated(seen: RuleInput) -> Iterator[SignalCandidate]:
    if seen.inventory is None:
        return
    by_app: dict[str, list[str]] = defaultdict(list)
    for tool, app in sorted(seen.inventory.tools.items()):
        by_app[app].append(tool)
    for counts in seen.counts:
        if seen.inventory.covers(counts.env) and counts.rollouts:
            coverage = seen.inventory.coverage(counts.called)
            first, second = _ends(counts, 0), _ends(counts, 1)
            for app, tools in by_app.items():
                yield from _tools(tools, coverage[app], counts)
                yield from _pairs(tools, counts, first, second, seen.settings.alpha)


def _ends(counts: IterationCounts, end: int) -> Counter[str]:
    """How often each tool begins (0) or ends (1) a succession."""
    found: Counter[str] = Counter()
    for pair, count in counts.successions.items():
        found[pair[end]] += count
    return found


def _tools(tools: list[str], covered: float, counts: IterationCounts) -> Iterator[SignalCandidate]:
    bound = wilson(0, counts.rollouts).high
    statistic, strength = Statistic("wilson_high", bound), (1 - bound) * (1 - covered / 2)
    for tool in tools:
        if not counts.calls(tool):
            yield SignalCandidate(*counts.key, strength, statistic, pattern=(tool,))


def _pairs(
    tools: list[str],
    counts: IterationCounts,
    first: Counter[str],
    second: Counter[str],
    alpha: float,
) -> Iterator[SignalCandidate]:
    total = first.total() * counts.rollouts / counts.groups
    followers = _most_frequent(tools, second)
    for tool in _most_frequent(tools, first):
        for other in followers:
            if tool == other or counts.successions[tool, other]:
                continue
            expected = first[tool] * second[other] / total
            p = math.exp(-expected)
            if p <= alpha:
                statistic = Statistic("expected", expected, p)
                yield SignalCandidate(*counts.key, (1 - p) / 2, statistic, pattern=(tool, other))


def _most_frequent(tools: list[str], counts: Counter[str]) -> list[str]:
    """The tools that occur, in the given order; of very many the most frequent."""
    occurring = [tool for tool in tools if counts[tool]]
    kept = set(sorted(occurring, key=lambda tool: (-counts[tool], tool))[:MAX_PAIRED_TOOLS])
    return [tool for tool in occurring if tool in kept]


def reason(c: SignalCandidate) -> str:
    expected = f", though {c.statistic.value:.1f} times were to be expected"
    return f"{c.path}: never called{'' if c.statistic.p is None else expected}"
