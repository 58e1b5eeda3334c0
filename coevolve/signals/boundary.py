"""Boundary: the policy sometimes can and sometimes cannot. At most one signal per task and iteration.

- `paper` (CoEvolve, stage 1): in one training step the task's rollouts hold a success and a failure. With several such groups in the
  iteration the last one is taken. Strength: 4 p (1 - p) of its solve rate p.
- `calibrated`: the posterior Beta(1 + s, 1 + n - s) of the solve rate has at least `band_mass` (.65; a task never tried has .6)
  inside the learnable band; strength is that mass. s and n are those of the iteration, with the W groups before it as long as
  Fisher's exact test finds no change in either direction at alpha. "Mixed" alone is the same as "non-zero GRPO advantage" and
  holds for a third of the groups even at p = .05.

Evidence: the group, or as many of both outcomes as fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from coevolve.records import Outcome, Statistic
from coevolve.signals.candidate import Candidate, mixed
from coevolve.signals.history import Entry
from coevolve.signals.settings import Settings
from coevolve.signals.tally import Group, Rows
from coevolve.signals.timeline import TaskUpdate, entry, outcomes
from coevolve.statistics import fisher_less, solve_rate_mass


def paper(updates: Iterable[TaskUpdate], rows: Rows, settings: Settings) -> Iterator[Candidate]:
    for update in updates:
        for group, when in reversed(list(zip(update.groups, update.times, strict=True))):
            if 0 < group.successes < group.trials:
                rate = group.successes / group.trials
                history = outcomes([entry(when, group, rows)])
                yield _candidate(
                    update,
                    [group],
                    rows,
                    settings,
                    4 * rate * (1 - rate),
                    Statistic("mixed", rate),
                    history,
                )
                break


def calibrated(
    updates: Iterable[TaskUpdate], rows: Rows, settings: Settings
) -> Iterator[Candidate]:
    for update in updates:
        groups = [
            entry(when, group, rows)
            for group, when in zip(update.groups, update.times, strict=True)
        ]
        window = [e for e in update.before if e.iteration < update.iteration][-settings.window :]
        now, then = _total(groups), _total(window)
        if min(fisher_less(*now, *then), fisher_less(*then, *now)) > settings.alpha:
            groups, now = window + groups, _total(window + groups)
        mass = solve_rate_mass(*now, *settings.band)
        if mass >= settings.band_mass:
            history = outcomes(groups)
            yield _candidate(
                update, update.groups, rows, settings, mass, Statistic("beta_band", mass), history
            )


def _total(groups: list[Entry]) -> tuple[int, int]:
    """Successes and trials."""
    return sum(e.successes for e in groups), sum(e.trials for e in groups)


def _candidate(
    update: TaskUpdate,
    groups: list[Group],
    rows: Rows,
    settings: Settings,
    strength: float,
    statistic: Statistic,
    history: list[Outcome],
) -> Candidate:
    members = [row for group in groups for row in group.rows]
    env, task_id = update.key
    evidence = mixed(rows, members, settings.max_evidence)
    return Candidate(
        "boundary", env, update.iteration, task_id, (), strength, statistic, evidence, history
    )
