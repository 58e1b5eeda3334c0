"""A task's groups over time: those of the stream behind those of the history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from coevolve.records import Outcome
from coevolve.signals.history import MODULUS, Entry, History, Key
from coevolve.signals.tally import Group, Rows, Tally


class Update(NamedTuple):
    """A task in one iteration of the stream."""

    key: Key
    iteration: int
    before: list[Entry]
    """All earlier groups, of the history and of the stream, in order."""
    now: Entry
    """The last group of the iteration."""
    groups: list[Group]
    """The task's groups in this iteration, in order."""
    times: list[tuple[int, int]]
    """Their iterations and steps."""
    earlier: list[Group]
    """Groups of the stream before `now`, in order."""


def entry(when: tuple[int, int], group: Group, rows: Rows) -> Entry:
    digest = sum(rows.name[row] for row in group.rows) % MODULUS
    return Entry(*when, group.successes, group.trials, digest)


def entries(tally: Tally) -> Iterator[tuple[Key, Entry]]:
    """All groups of the stream, as history entries."""
    for key, groups in tally.groups.items():
        for when, group in groups.items():
            yield key, entry(when, group, tally.rows)


def updates(tally: Tally, history: History) -> Iterator[Update]:
    """Each task in each iteration of the stream, sorted by environment, task and iteration.

    `history` must hold none of the stream's iterations.
    """
    for key in sorted(tally.groups):
        groups = tally.groups[key]
        times = sorted(groups)
        stream = [entry(when, groups[when], tally.rows) for when in times]
        for iteration in sorted({iteration for iteration, _ in times}):
            last = max(i for i, when in enumerate(times) if when[0] == iteration)
            before = sorted([e for e in history.entries(key) if e.iteration < iteration] + stream[:last])
            yield Update(
                key,
                iteration,
                before,
                stream[last],
                [groups[when] for when in times if when[0] == iteration],
                [when for when in times if when[0] == iteration],
                [groups[when] for when in times[:last]],
            )


def outcomes(items: list[Entry]) -> list[Outcome]:
    return [Outcome(e.iteration, e.step, e.successes, e.trials) for e in items]
