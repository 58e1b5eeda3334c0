"""Progress: the cold start, an iteration in which nothing succeeded.

Neither forgetting nor boundary can speak there. Of each task the failure that came furthest is the
signal: by the environment's dense progress, then by how many different tools it called. Strength is
.9 progress + .1 tools / (most tools of any such failure). Evidence: that rollout.
"""

from __future__ import annotations

from collections.abc import Iterator

from coevolve.records import Statistic
from coevolve.signals.rule import RuleInput, SignalCandidate


def calibrated(seen: RuleInput) -> Iterator[SignalCandidate]:
    for counts in seen.counts:
        if counts.successes or not counts.rollouts:
            continue
        furthest = {
            task.task_id: max(group.furthest for group in task.groups)
            for task in seen.tasks
            if (task.env, task.iteration) == counts.key
        }
        most = max([1, *(tools for _, tools, *_ in furthest.values())])
        for task_id, (progress, tools, _, row) in furthest.items():
            strength = 0.9 * min(max(progress, 0.0), 1.0) + 0.1 * tools / most
            statistic = Statistic("progress", progress)
            yield SignalCandidate(*counts.key, strength, statistic, task_id, rows=[row])


def reason(c: SignalCandidate) -> str:
    return f"task {c.task_id}: nothing succeeded; came as far as {c.statistic.value:.2f}"
