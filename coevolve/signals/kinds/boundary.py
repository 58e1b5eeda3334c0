"""Boundary: the policy sometimes can and sometimes cannot. At most one a task and iteration.

- `paper` (CoEvolve, stage 1): in one training step the task's rollouts hold a success and a
  failure; the last such group of the iteration counts. Strength: 4 p (1 - p) of its solve rate p.
- `calibrated`: the posterior Beta(1 + s, 1 + n - s) of the solve rate has at least `band_mass`
  inside the learnable band; strength is that mass. s and n are those of the iteration, with the W
  groups before it as long as Fisher's exact test finds no change in either direction at alpha.

Evidence: the group, or as many of both outcomes as fit.
"""

from __future__ import annotations

from collections.abc import Iterator

from coevolve.records import Statistic
from coevolve.signals.counts import RolloutColumns, RolloutGroup
from coevolve.signals.history import GroupOutcome
from coevolve.signals.rule import RuleInput, SignalCandidate
from coevolve.signals.task_groups import TaskIteration
from coevolve.statistics import fisher_less, solve_rate_mass


def paper(seen: RuleInput) -> Iterator[SignalCandidate]:
    for task in seen.tasks:
        mixed = [i for i, group in enumerate(task.outcomes) if 0 < group.successes < group.trials]
        if mixed:
            outcome, group = task.outcomes[mixed[-1]], task.groups[mixed[-1]]
            p = outcome.rate
            yield _candidate(seen, task, [group], 4 * p * (1 - p), Statistic("mixed", p), [outcome])


def calibrated(seen: RuleInput) -> Iterator[SignalCandidate]:
    for task in seen.tasks:
        past = [group for group in task.before if group.iteration < task.iteration]
        groups, window = task.outcomes, past[-seen.settings.window :]
        now, then = _total(groups), _total(window)
        if min(fisher_less(*now, *then), fisher_less(*then, *now)) > seen.settings.alpha:
            groups, now = window + groups, _total(window + groups)
        mass = solve_rate_mass(*now, *seen.settings.band)
        if mass >= seen.settings.band_mass:
            yield _candidate(seen, task, task.groups, mass, Statistic("beta_band", mass), groups)


def _total(groups: list[GroupOutcome]) -> tuple[int, int]:
    """Successes and trials."""
    return sum(g.successes for g in groups), sum(g.trials for g in groups)


def _candidate(
    seen: RuleInput,
    task: TaskIteration,
    groups: list[RolloutGroup],
    strength: float,
    statistic: Statistic,
    history: list[GroupOutcome],
) -> SignalCandidate:
    members = [row for group in groups for row in group.rows]
    rows = _both_outcomes(seen.counts.rollouts, members, seen.settings.max_evidence)
    where = task.env, task.iteration
    return SignalCandidate(*where, strength, statistic, task.task_id, rows=rows, history=history)


def _both_outcomes(rollouts: RolloutColumns, members: list[int], limit: int) -> list[int]:
    """At most `limit` of the rows, in order, both outcomes in equal parts where possible."""
    fewer, more = sorted(rollouts.by_success(members), key=len)
    few = min(len(fewer), limit // 2)
    return rollouts.ordered(fewer[:few] + more[: limit - few])


def reason(c: SignalCandidate) -> str:
    groups = [f"{group.successes}/{group.trials}" for group in c.history]
    return f"task {c.task_id}: {', '.join(groups)} succeed"
