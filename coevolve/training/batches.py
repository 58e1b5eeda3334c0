"""Which tasks a training step sees: a pure function of (settings, step, tasks).

A share of each batch comes from the newest tasks (highest `origin.iteration`), the rest from the
whole set. Both parts go through seeded permutations, epoch after epoch, so that every task is seen
equally often; a task occurs twice in a batch only where there are fewer tasks than places.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from coevolve.records import Task
from coevolve.training.settings import GrpoSettings


def plan(tasks: list[Task], settings: GrpoSettings, step: int) -> list[Task]:
    """The batch of one step; `step` counts from 0 over the whole run. `tasks` must not be empty."""
    seed, size, count = settings.seed, settings.batch, len(tasks)
    latest = max(task.origin.iteration for task in tasks)
    newest = [i for i, task in enumerate(tasks) if task.origin.iteration == latest]
    quota = min(round(size * settings.newest_share), len(newest)) if len(newest) < count else 0
    chosen: list[int] = []
    _fill(chosen, quota, _stream(newest, f"{seed}-newest-{latest}", step * quota), len(newest))
    _fill(chosen, size, _stream(range(count), f"{seed}-all", step * (size - quota)), count)
    return [tasks[i] for i in chosen]


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
