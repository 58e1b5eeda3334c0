"""Which candidates become signals, and in which order: quotas per kind, diversity over tasks and tools, no ties left to chance.

Kinds take turns by weight, so that every prefix of the output keeps to the quotas, and a kind that has run out leaves its turns to
the others. Inside a kind the strongest comes first, where a candidate loses half its strength each time a signal about the same
task, or with the same tool in its pattern, was chosen before it. The weights follow from laptop experiments: boundary at most half,
coverage of the inventory (unexplored, rare) at least a quarter.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from coevolve.signals.candidate import Candidate
from coevolve.signals.patterns import END, START
from coevolve.signals.settings import KINDS

WEIGHTS: dict[str, float] = {
    "forgetting": 2,
    "boundary": 4,
    "rare": 1.5,
    "unexplored": 2.5,
    "error": 1,
    "combination": 1,
    "stall": 1,
    "safety": 1,
    "progress": 4,
}

Topic = tuple[str, str, str]
"""Environment, `task` or `tool`, and its name."""


def choose(
    candidates: Iterable[Candidate], limit: int, weights: Mapping[str, float] = WEIGHTS
) -> list[Candidate]:
    """At most `limit` candidates (0: all) per update, which is one iteration of one environment, in the order of iterations and
    environments, best use of a budget first."""
    updates: dict[tuple[int, str], list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        updates[candidate.iteration, candidate.env].append(candidate)
    chosen: list[Candidate] = []
    for _, found in sorted(updates.items(), key=lambda item: item[0]):
        chosen += islice(ranked(found, weights), min(limit or len(found), len(found)))
    return chosen


def ranked(
    candidates: list[Candidate], weights: Mapping[str, float] = WEIGHTS
) -> Iterator[Candidate]:
    """All candidates of kinds with a weight, in the order in which a budget would take them."""
    heaps = {kind: [c for c in candidates if c.kind == kind] for kind in KINDS}
    queues = {
        kind: _Queue(found) for kind, found in heaps.items() if found and weights.get(kind, 0) > 0
    }
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
    """A heap by discounted strength. Discounts only grow, so that an entry whose value is still right is the best."""

    def __init__(self, candidates: list[Candidate]):
        ordered = sorted(candidates, key=lambda c: c.order)
        self._heap = [(-c.strength, place, c) for place, c in enumerate(ordered)]

    def pop(self, used: Counter[Topic]) -> Candidate | None:
        while self._heap:
            value, place, candidate = self._heap[0]
            fresh = -candidate.strength * 0.5 ** max(
                (used[topic] for topic in _topics(candidate)), default=0
            )
            if fresh == value:
                heapq.heappop(self._heap)
                return candidate
            heapq.heapreplace(self._heap, (fresh, place, candidate))
        return None


def _topics(candidate: Candidate) -> list[Topic]:
    if candidate.task_id:
        return [(candidate.env, "task", candidate.task_id)]
    return [(candidate.env, "tool", name) for name in candidate.pattern if name not in (START, END)]
