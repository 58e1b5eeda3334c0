"""Stall: on this task the policy repeats a call that tells it nothing new, or runs out of budget.

A rollout stalls where one call came back with the same observation three times, or where it ran out
of steps or tokens. c of the n rollouts of the task in the iteration stalled in the same way.
Flagged if the lower Wilson bound of c/n (95 %, two-sided) is above `rate_floor`, which two of eight
rollouts are and one is not; strength is that bound. Pattern: the repeated tool, or `max_steps`,
`max_tokens`; a tool that the inventory lacks is left to `unknown_tool`. Evidence: the rollouts that
stalled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from coevolve.records import Statistic
from coevolve.signals.patterns import CODE, step_tools
from coevolve.signals.rule import RuleInput, SignalCandidate
from coevolve.signals.views import RolloutSteps
from coevolve.statistics import wilson

REPEATS = 3
BUDGETS = ("max_steps", "max_tokens")


def observe(rollout: RolloutSteps, raw: bytes) -> set[tuple[str, str]]:
    """(task, what stalled): tools called alike with the same outcome `REPEATS` times (`code` for a
    block without a known call), and the budget that ran out."""
    found = {rollout.stop_reason} if rollout.stop_reason in BUDGETS else set()
    # Most rollouts repeat no action at all, and then the observations need not be hashed.
    actions = Counter(bytes(step.action) for step in rollout.steps)
    often = {action for action, count in actions.items() if count >= REPEATS}
    same: Counter[tuple[bytes, bytes]] = Counter()
    for step in rollout.steps if often else ():
        if (action := bytes(step.action)) in often:
            same[action, bytes(step.observation)] += 1
            if same[action, bytes(step.observation)] == REPEATS:
                found.update(step_tools(step)[-1:] or [CODE])
    return {(rollout.task_id, what) for what in found}


def calibrated(seen: RuleInput) -> Iterator[SignalCandidate]:
    for counts in seen.counts:
        table = counts.tables["stall"]
        for (task_id, what), count in table:
            if what not in (CODE, *BUDGETS) and seen.invented(counts.env, what):
                continue
            trials = seen.counts.trials((counts.env, task_id), counts.iteration)
            rate = wilson(count, trials).low
            if rate > seen.settings.rate_floor:
                statistic, rows = Statistic("wilson_low", rate), table.rows((task_id, what))
                yield SignalCandidate(*counts.key, rate, statistic, task_id, (what,), rows)


def reason(c: SignalCandidate) -> str:
    return f"task {c.task_id}: {c.path} in at least {c.percent:.0f} % of its rollouts"
