"""The history of outcomes: how each task went in earlier training steps.

A history is a file of JSON lines, one a task: ``{"schema": "coevolve.history/1", "env": …,
"task_id": …, "outcomes": [[iteration, step, successes, trials, digest], …]}``, sorted, with at most
`KEEP` outcomes a task, the latest.

Two histories merge by `cat`: outcomes of one task, iteration and step with the same digest are
copies of each other and count once, with different digests they are shards of one group and add up.
The digest is the sum of hashes of the rollouts' ids, so that it does not depend on order, and that
of merged shards equals that of the whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from coevolve import jsonl
from coevolve.errors import BadInput

KEEP = 64  # Groups a task
MODULUS = 1 << 63  # Digests are sums of hashes modulo this
TaskKey = tuple[str, str]  # Environment and task id


class GroupOutcome(NamedTuple):
    """One group: a task in one training step. `digest` names the set of its rollouts."""

    iteration: int
    step: int
    successes: int
    trials: int
    digest: int

    @property
    def rate(self) -> float:
        return self.successes / self.trials


class TaskHistory(Struct, frozen=True, kw_only=True, tag_field="schema", tag="coevolve.history/1"):
    """One line of the file."""

    env: str
    task_id: str
    outcomes: list[GroupOutcome]


class History:
    """Outcomes by task, each list sorted by iteration and step."""

    def __init__(self, outcomes: dict[TaskKey, list[GroupOutcome]] | None = None):
        self._outcomes = outcomes or {}

    def outcomes(self, key: TaskKey) -> list[GroupOutcome]:
        return self._outcomes.get(key, [])

    def without(self, drop: Collection[tuple[TaskKey, int]]) -> History:
        """The same history without the outcomes of the given tasks in the given iterations."""
        kept = {
            key: [o for o in outcomes if (key, o.iteration) not in drop]
            for key, outcomes in self._outcomes.items()
        }
        return History({key: outcomes for key, outcomes in kept.items() if outcomes})

    def joined(self, more: Iterable[tuple[TaskKey, GroupOutcome]]) -> History:
        """The same history with more outcomes; copies count once, shards add up."""
        shards: dict[TaskKey, dict[tuple[int, int], dict[int, GroupOutcome]]] = {}
        own = ((key, outcome) for key, found in self._outcomes.items() for outcome in found)
        for key, outcome in (*own, *more):
            steps = shards.setdefault(key, {})
            steps.setdefault((outcome.iteration, outcome.step), {})[outcome.digest] = outcome
        return History(
            {
                key: sorted(_sum(*when, group.values()) for when, group in steps.items())[-KEEP:]
                for key, steps in shards.items()
            }
        )

    def __iter__(self) -> Iterator[TaskHistory]:
        """The file's lines, sorted."""
        for (env, task_id), outcomes in sorted(self._outcomes.items()):
            yield TaskHistory(env=env, task_id=task_id, outcomes=outcomes)


def _sum(iteration: int, step: int, shards: Collection[GroupOutcome]) -> GroupOutcome:
    totals = (sum(column) for column in list(zip(*shards, strict=True))[2:])
    successes, trials, digest = totals
    return GroupOutcome(iteration, step, successes, trials, digest % MODULUS)


def load(path: str | os.PathLike[str]) -> History:
    """The history in a file; an absent file is an empty history. A bad line is `BadInput`."""
    found: list[tuple[TaskKey, GroupOutcome]] = []
    for line in jsonl.read([str(path)], TaskHistory) if Path(path).exists() else ():
        for o in line.record.outcomes:
            if not (0 <= o.successes <= o.trials > 0 <= min(o.iteration, o.step)):
                raise BadInput(line.where, line.number, f"impossible outcome {list(o)}")
            found.append(((line.record.env, line.record.task_id), o))
    return History().joined(found)


def update(path: str | os.PathLike[str], change: Callable[[History], History]) -> None:
    """Changes the history in a file, whole or not at all. Runs that do so at the same time wait for
    each other, and each changes what the one before it left."""
    with _exclusive(path):
        jsonl.write(path, change(load(path)))


@contextlib.contextmanager
def _exclusive(path: str | os.PathLike[str]) -> Iterator[None]:
    """Holds the lock of the file's folder: the file itself is another one after each write."""
    folder = Path(path).resolve().parent
    with jsonl.writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    try:
        with jsonl.writing(path):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
