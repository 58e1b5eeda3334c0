"""Forgetting: the policy could do this task and no longer can. One test per task and iteration.

"Now" is the task's last group in the iteration, the window its W groups before that, of whatever
iteration; a score is a group's mean.

- `paper` (CoEvolve, stage 1): some score in the window was >= 0.5 and the score now is < 0.5.
  Strength: the drop from the best.
- `calibrated`: Fisher's exact test, one-sided, of now against the window's pooled trials, at level
  alpha. Strength: 1 - q, q after Benjamini–Hochberg over all tasks tested in the same iteration: a
  drop that some task was bound to show by chance ranks low.

Evidence: the failures now, then the last success before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from coevolve.records import SUCCESS, Statistic
from coevolve.signals.rule import RuleInput, SignalCandidate
from coevolve.signals.task_groups import TaskIteration
from coevolve.statistics import benjamini_hochberg, fisher_less


def paper(seen: RuleInput) -> Iterator[SignalCandidate]:
    for task in seen.tasks:
        window = task.before[-seen.settings.window :]
        now, best = task.now.rate, max((group.rate for group in window), default=0.0)
        if best >= SUCCESS > now:
            yield _candidate(seen, task, best - now, Statistic("drop", best - now))


def calibrated(seen: RuleInput) -> Iterator[SignalCandidate]:
    tested: dict[tuple[str, int], list[tuple[float, float, TaskIteration]]] = defaultdict(list)
    for task in seen.tasks:
        if window := task.before[-seen.settings.window :]:
            successes, trials = sum(g.successes for g in window), sum(g.trials for g in window)
            p = fisher_less(task.now.successes, task.now.trials, successes, trials)
            drop = successes / trials - task.now.rate
            tested[task.env, task.iteration].append((p, drop, task))
    for family in tested.values():
        adjusted = benjamini_hochberg([p for p, *_ in family])
        for q, (p, drop, task) in zip(adjusted, family, strict=True):
            if p <= seen.settings.alpha:
                yield _candidate(seen, task, 1 - q, Statistic("fisher", drop, p))


def _candidate(
    seen: RuleInput, task: TaskIteration, strength: float, statistic: Statistic
) -> SignalCandidate:
    rollouts, most = seen.counts.rollouts, seen.settings.max_evidence
    _, failures = rollouts.by_success(task.groups[-1].rows)
    earlier = (rollouts.by_success(group.rows)[0] for group in task.earlier())
    win = next((successes[:1] for successes in earlier if successes), [])
    # One trajectory at the least shows what goes wrong now.
    rows = (failures[: max(1, most - len(win))] + win)[:most]
    history = [*task.before[-seen.settings.window :], task.now]
    where = task.env, task.iteration
    return SignalCandidate(*where, strength, statistic, task.task_id, rows=rows, history=history)


def reason(c: SignalCandidate) -> str:
    *before, now = (f"{group.successes}/{group.trials}" for group in c.history)
    p = "" if c.statistic.p is None else f", p = {c.statistic.p:.2g}"
    return f"task {c.task_id}: {', '.join(before)}, now {now}{p}"
