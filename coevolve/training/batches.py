"""Which tasks a training step sees: a pure function of (seed, step, tasks).

A share of each batch comes from the newest tasks (highest `origin.iteration`), the rest from the whole set. Both parts go
through seeded permutations, epoch after epoch, so that every task is seen equally often; a task occurs twice in a batch
only where there are fewer tasks than places.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from coevolve.records import Task


class Batch(NamedTuple):
    tasks: list[Task]
    newest: int
    """How many of them are among the newest tasks."""


def plan(tasks: list[Task], *, seed: int, step: int, size: int, newest_share: float) -> Batch:
    """The batch of one step; `step` counts from 0 over the whole run. `tasks` must not be empty."""
    latest = max(task.origin.iteration for task in tasks)
    newest = [i for i, task in enumerate(tasks) if task.origin.iteration == latest]
    quota = min(round(size * newest_share), len(newest)) if len(newest) < len(tasks) else 0
    chosen: list[int] = []
    _fill(chosen, quota, _stream(newest, f"{seed}-newest-{latest}", step * quota), len(newest))
    _fill(
        chosen, size, _stream(range(len(tasks)), f"{seed}-all", step * (size - quota)), len(tasks)
    )
    return Batch(
        [tasks[i] for i in chosen], sum(tasks[i].origin.iteration == latest for i in chosen)
    )


def _fill(chosen: list[int], size: int, stream: Iterator[int], available: int) -> None:
    """Takes from the stream up to `size` places, without repeats as long as there are others."""
    taken = set(chosen)
    while len(chosen) < size:
        index = next(stream)
        if index not in taken or len(taken) >= available:
            chosen.append(index)
            taken.add(index)


def _stream(items: range | list[int], key: str, start: int) -> Iterator[int]:
    """Endless permutations of the items, from position `start` on."""
    epoch, offset = divmod(start, len(items))
    while True:
        order = list(items)
        random.Random(f"{key}-{epoch}").shuffle(order)
        yield from order[offset:]
        epoch, offset = epoch + 1, 0
