"""Forgetting: the policy could do this task and no longer can. One test per task and update (iteration).

Now is the task's last group in the iteration, the window its W groups before that, of whatever iteration; a score is a group's mean.

- `paper` (CoEvolve, stage 1): some score in the window was >= 0.5 and the score now is < 0.5. Strength: the drop from the best.
- `calibrated`: Fisher's exact test, one-sided, of now against the window's pooled trials, at level alpha. Strength: 1 - q, where q
  is the p-value after Benjamini–Hochberg over all tasks tested in the same iteration: a drop that some task was bound to show
  by chance ranks low. The paper's rule flags up to 55 % of the tasks of a policy that does not change.

Evidence: the failures now, then the last success before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from coevolve.records import SUCCESS, Statistic
from coevolve.signals.candidate import Candidate
from coevolve.signals.history import Entry
from coevolve.signals.settings import Settings
from coevolve.signals.tally import Rows
from coevolve.signals.timeline import TaskUpdate, outcomes
from coevolve.statistics import benjamini_hochberg, fisher_less


def paper(updates: Iterable[TaskUpdate], rows: Rows, settings: Settings) -> Iterator[Candidate]:
    for update in updates:
        window = update.before[-settings.window :]
        now, best = _score(update.now), max(map(_score, window), default=0.0)
        if best >= SUCCESS > now:
            yield _candidate(update, rows, settings, best - now, Statistic("drop", best - now))


def calibrated(
    updates: Iterable[TaskUpdate], rows: Rows, settings: Settings
) -> Iterator[Candidate]:
    tested: dict[tuple[str, int], list[tuple[float, float, TaskUpdate]]] = defaultdict(list)
    for update in updates:
        if window := update.before[-settings.window :]:
            successes, trials = sum(e.successes for e in window), sum(e.trials for e in window)
            p = fisher_less(update.now.successes, update.now.trials, successes, trials)
            drop = successes / trials - _score(update.now)
            tested[update.key[0], update.iteration].append((p, drop, update))
    for family in tested.values():
        adjusted = benjamini_hochberg([p for p, *_ in family])
        for q, (p, drop, update) in zip(adjusted, family, strict=True):
            if p <= settings.alpha:
                yield _candidate(update, rows, settings, 1 - q, Statistic("fisher", drop, p))


def _score(entry: Entry) -> float:
    return entry.successes / entry.trials


def _candidate(
    update: TaskUpdate, rows: Rows, settings: Settings, strength: float, statistic: Statistic
) -> Candidate:
    failures = [row for row in rows.ordered(list(update.groups[-1].rows)) if not rows.success[row]]
    wins: list[int] = []
    for place in reversed(range(update.last)):
        group = update.stream[place]
        if wins := [row for row in rows.ordered(list(group.rows)) if rows.success[row]][:1]:
            break
    evidence = (failures[: max(1, settings.max_evidence - len(wins))] + wins)[
        : settings.max_evidence
    ]
    history = outcomes([*update.before[-settings.window :], update.now])
    env, task_id = update.key
    return Candidate(
        "forgetting", env, update.iteration, task_id, (), strength, statistic, evidence, history
    )
