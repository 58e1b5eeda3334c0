"""Which candidates become signals, and in which order.

Kinds take turns by weight (`SignalKind.weight`), so that every prefix of the output keeps to the
quotas, and a kind that has run out leaves its turns to the others. Inside a kind the strongest
comes first, where a candidate loses half its strength each time a signal about the same task, or
with the same tool in its pattern, was chosen before it. The weights follow from laptop experiments:
boundary at most half, coverage of the inventory (unexplored, rare) at least a quarter. Ties are
never left to chance.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from coevolve.signals.kinds import KINDS, WEIGHTS
from coevolve.signals.patterns import END, START
from coevolve.signals.rule import SignalCandidate

Topic = tuple[str, str, str]  # Environment, `task` or `tool`, and its name


def choose(
    candidates: Iterable[SignalCandidate], limit: int, weights: Mapping[str, float] = WEIGHTS
) -> list[SignalCandidate]:
    """At most `limit` candidates (0: all) for each environment in each iteration, in the order of
    iterations and environments, best use of a budget first."""
    by_iteration: dict[tuple[int, str], list[SignalCandidate]] = defaultdict(list)
    for candidate in candidates:
        by_iteration[candidate.iteration, candidate.env].append(candidate)
    chosen: list[SignalCandidate] = []
    for key in sorted(by_iteration):
        found = by_iteration[key]
        # islice takes no integer beyond the machine's.
        chosen += islice(ranked(found, weights), min(limit or len(found), len(found)))
    return chosen


def ranked(
    candidates: list[SignalCandidate], weights: Mapping[str, float] = WEIGHTS
) -> Iterator[SignalCandidate]:
    """All candidates of kinds with a weight, in the order in which a budget would take them."""
    by_kind: dict[str, list[SignalCandidate]] = defaultdict(list)
    for candidate in candidates:
        by_kind[candidate.kind].append(candidate)
    queues = {kind: _Queue(by_kind[kind]) for kind in by_kind if weights.get(kind, 0) > 0}
    taken: Counter[str] = Counter()
    used: Counter[Topic] = Counter()
    while queues:
        kind = min(queues, key=lambda k: ((taken[k] + 0.5) / weights[k], KINDS.index(k)))
        candidate = queues[kind].pop(used)
        if candidate is None:
            del queues[kind]
            continue
        taken[kind] += 1
        used.update(_topics(candidate))
        yield candidate


class _Queue:
    """A heap by discounted strength."""

    def __init__(self, candidates: list[SignalCandidate]):
        ordered = sorted(candidates, key=lambda c: c.order)
        self._heap = [(-c.strength, place, c) for place, c in enumerate(ordered)]

    def pop(self, used: Counter[Topic]) -> SignalCandidate | None:
        while self._heap:
            value, place, candidate = self._heap[0]
            times = max((used[topic] for topic in _topics(candidate)), default=0)
            discounted = -candidate.strength * 0.5**times
            # Discounts only grow, so that an entry whose value is still right is the best.
            if discounted == value:
                heapq.heappop(self._heap)
                return candidate
            heapq.heapreplace(self._heap, (discounted, place, candidate))
        return None


def _topics(candidate: SignalCandidate) -> list[Topic]:
    if candidate.task_id:
        return [(candidate.env, "task", candidate.task_id)]
    return [(candidate.env, "tool", name) for name in candidate.pattern if name not in (START, END)]
