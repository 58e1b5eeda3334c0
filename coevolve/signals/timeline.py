"""A task's groups over time: those of the stream behind those of the history."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from coevolve.records import Outcome
from coevolve.signals.history import KEEP, MODULUS, Entry, History, Key
from coevolve.signals.tally import Group, Rows, Tally


class TaskUpdate(NamedTuple):
    """A task in one iteration of the stream."""

    key: Key
    iteration: int
    before: list[Entry]
    """The last `KEEP` earlier groups, of the history and of the stream, in order."""
    now: Entry
    """The last group of the iteration."""
    groups: list[Group]
    """The task's groups in this iteration, in order."""
    times: list[tuple[int, int]]
    """Their iterations and steps."""
    stream: list[Group]
    """All groups of the task in the stream, in order."""
    last: int
    """Index of `now` in it."""


def entry(when: tuple[int, int], group: Group, rows: Rows) -> Entry:
    digest = sum(rows.name[row] for row in group.rows) % MODULUS
    return Entry(*when, group.successes, group.trials, digest)


def entries(tally: Tally) -> Iterator[tuple[Key, Entry]]:
    """All groups of the stream, as history entries."""
    for key, groups in tally.groups.items():
        for when, group in groups.items():
            yield key, entry(when, group, tally.rows)


def covered(tally: Tally) -> set[tuple[Key, int]]:
    """Which tasks the stream has outcomes of, in which iterations."""
    return {(key, iteration) for key, groups in tally.groups.items() for iteration, _ in groups}


def updates(tally: Tally, history: History) -> Iterator[TaskUpdate]:
    """Each task in each iteration of the stream, sorted by environment, task and iteration.

    `history` must hold none of the stream's tasks in the same iteration.
    """
    for key in sorted(tally.groups):
        groups = sorted(tally.groups[key].items())
        stream = [entry(when, group, tally.rows) for when, group in groups]
        ordered = [group for _, group in groups]
        for iteration, members in groupby(range(len(groups)), key=lambda i: groups[i][0][0]):
            places = list(members)
            last = places[-1]
            past = [e for e in history.entries(key) if e.iteration < iteration]
            yield TaskUpdate(
                key,
                iteration,
                sorted(past + stream[max(0, last - KEEP) : last])[-KEEP:],
                stream[last],
                [groups[place][1] for place in places],
                [groups[place][0] for place in places],
                ordered,
                last,
            )


def outcomes(items: list[Entry]) -> list[Outcome]:
    return [Outcome(e.iteration, e.step, e.successes, e.trials) for e in items]
