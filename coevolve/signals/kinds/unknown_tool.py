"""Unknown tool: the policy calls a tool that the environment does not have, again and again.

It needs the inventory. Of the n rollouts, in the iteration, of the tasks on which the name was
called, c called it. Flagged if c >= 2 and the lower Wilson bound of c/n (95 %, two-sided) is above
`rate_floor`; strength is that bound. Pattern: (the name, the real tool that is nearest to it), or
the name alone where none is near (`Inventory.nearest`). Evidence: rollouts that called it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from coevolve.records import Statistic
from coevolve.signals.counts import IterationCounts
from coevolve.signals.patterns import called_tools, step_tools
from coevolve.signals.rule import RuleInput, SignalCandidate
from coevolve.signals.views import RolloutSteps
from coevolve.statistics import wilson

MIN_ROLLOUTS = 2


class CalledName(NamedTuple):
    """How many rollouts called a name, and rows of these, of each task one at least."""

    rollouts: int = 0
    rows: list[int] = []

    def plus(self, rollouts: int, rows: list[int]) -> CalledName:
        return CalledName(self.rollouts + rollouts, self.rows + rows)


def observe(rollout: RolloutSteps, raw: bytes) -> set[tuple[str, str]]:
    """(task, name) of calls that stand in failed code and are not among the rollout's tools, since
    a program stops before it calls what does not exist."""
    failed = [step for step in rollout.steps if step.error is not None]
    names = {name for step in failed for name in step_tools(step)}
    return {(rollout.task_id, name) for name in names.difference(called_tools(rollout))}


def calibrated(seen: RuleInput) -> Iterator[SignalCandidate]:
    rollouts, most = seen.counts.rollouts, seen.settings.max_evidence
    for counts in seen.counts:
        known = seen.inventory_of(counts.env)
        invented = _invented(seen, counts) if known else {}
        trials = _trials(seen, counts) if invented else {}
        for name, called in sorted(invented.items()):
            tasks = {rollouts.task[row] for row in called.rows}
            rate = wilson(called.rollouts, sum(trials[task] for task in tasks)).low
            if called.rollouts >= MIN_ROLLOUTS and rate > seen.settings.rate_floor:
                near = known.nearest(name)
                pattern = (name, near) if near else (name,)
                statistic, rows = Statistic("wilson_low", rate), rollouts.first(called.rows, most)
                yield SignalCandidate(*counts.key, rate, statistic, pattern=pattern, rows=rows)


def _invented(seen: RuleInput, counts: IterationCounts) -> dict[str, CalledName]:
    """The names of called tools that the inventory lacks."""
    found: dict[str, CalledName] = defaultdict(CalledName)
    for name, rows in counts.called.items():
        if seen.invented(counts.env, name):
            found[name] = found[name].plus(len(rows), list(rows))
    table = counts.tables["unknown_tool"]
    for (task_id, name), count in table:
        if seen.invented(counts.env, name):
            found[name] = found[name].plus(count, table.rows((task_id, name)))
    return found


def _trials(seen: RuleInput, counts: IterationCounts) -> dict[int, int]:
    """The iteration's rollouts of each task, by its number in `RolloutColumns.task`."""
    number = seen.counts.rollouts.task
    return {
        number[task.groups[0].rows[0]]: sum(group.trials for group in task.groups)
        for task in seen.tasks
        if (task.env, task.iteration) == counts.key
    }


def reason(c: SignalCandidate) -> str:
    name, *near = c.pattern
    where = f"in at least {c.percent:.0f} % of the rollouts of its tasks"
    meant = f"the nearest is {near[0]}" if near else "and none is near"
    return f"{name}: called {where}, no such tool exists; {meant}"
