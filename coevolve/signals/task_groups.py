"""Each task's groups over time: those of the input behind those of the history."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from coevolve.signals.counts import RolloutColumns, RolloutCounts, RolloutGroup
from coevolve.signals.history import KEEP, MODULUS, GroupOutcome, History, TaskKey


class TaskIteration(NamedTuple):
    """One task in one iteration of the input."""

    env: str
    task_id: str
    iteration: int
    before: list[GroupOutcome]
    """The last `KEEP` earlier groups, of the history and of the input, in order."""
    outcomes: list[GroupOutcome]  # The task's groups in this iteration, in order
    groups: list[RolloutGroup]  # The same groups with their rollouts
    all_groups: list[RolloutGroup]  # All groups of the task in the input, in order
    last: int  # Index in `all_groups` of this iteration's last group

    @property
    def now(self) -> GroupOutcome:
        """The last group of the iteration."""
        return self.outcomes[-1]

    def earlier(self) -> Iterator[RolloutGroup]:
        """The input's groups before the last one of this iteration, latest first."""
        return (self.all_groups[place] for place in reversed(range(self.last)))


def _outcome(when: tuple[int, int], group: RolloutGroup, rollouts: RolloutColumns) -> GroupOutcome:
    digest = sum(rollouts.id_hash[row] for row in group.rows) % MODULUS
    return GroupOutcome(*when, group.successes, group.trials, digest)


def outcomes(counts: RolloutCounts) -> Iterator[tuple[TaskKey, GroupOutcome]]:
    """All groups of the input, as the history holds them."""
    for key, groups in counts.groups.items():
        for when, group in groups.items():
            yield key, _outcome(when, group, counts.rollouts)


def covered(counts: RolloutCounts) -> set[tuple[TaskKey, int]]:
    """Which tasks the input has outcomes of, in which iterations."""
    return {(key, iteration) for key, groups in counts.groups.items() for iteration, _ in groups}


def task_iterations(counts: RolloutCounts, history: History) -> Iterator[TaskIteration]:
    """Each task in each iteration of the input, sorted by environment, task and iteration.

    `history` must hold none of the input's tasks in the same iteration.
    """
    for key in sorted(counts.groups):
        by_time = sorted(counts.groups[key].items())
        found = [_outcome(when, group, counts.rollouts) for when, group in by_time]
        groups = [group for _, group in by_time]
        for iteration, members in groupby(enumerate(found), lambda pair: pair[1].iteration):
            places = [place for place, _ in members]
            here, last = slice(places[0], places[-1] + 1), places[-1]
            past = [outcome for outcome in history.outcomes(key) if outcome.iteration < iteration]
            before = sorted(past + found[max(0, last - KEEP) : last])[-KEEP:]
            yield TaskIteration(*key, iteration, before, found[here], groups[here], groups, last)
