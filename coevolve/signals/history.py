"""How each task went in earlier training steps: the memory of the forgetting signal.

A history is a file of JSON lines, one a task: ``{"schema": "coevolve.history/1", "env": …, "task_id": …, "outcomes":
[[iteration, step, successes, trials, digest], …]}``, sorted, with at most `KEEP` outcomes a task, the latest.

Two histories merge by `cat`: outcomes of one task, iteration and step with the same digest are copies of each other and count
once, with different digests they are shards of one group and add up. The digest is the sum of hashes of the rollouts' ids, so
that it does not depend on order, and that of merged shards equals that of the whole.
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

KEEP = 64
MODULUS = 1 << 63
Key = tuple[str, str]
"""Environment and task id."""


class Entry(NamedTuple):
    """One group: a task in one training step. `digest` names the set of its rollouts."""

    iteration: int
    step: int
    successes: int
    trials: int
    digest: int


class _Line(Struct, frozen=True, kw_only=True, tag_field="schema", tag="coevolve.history/1"):
    env: str
    task_id: str
    outcomes: list[Entry]


class History:
    """Entries by task, each list sorted by iteration and step."""

    def __init__(self, entries: dict[Key, list[Entry]] | None = None):
        self._entries = entries or {}

    def entries(self, key: Key) -> list[Entry]:
        return self._entries.get(key, [])

    def without(self, drop: Collection[tuple[Key, int]]) -> History:
        """The same history without the outcomes of the given tasks in the given iterations."""
        kept = {
            key: [e for e in entries if (key, e.iteration) not in drop]
            for key, entries in self._entries.items()
        }
        return History({key: entries for key, entries in kept.items() if entries})

    def joined(self, key_entries: Iterable[tuple[Key, Entry]]) -> History:
        """With more entries; copies count once, shards add up."""
        pools: dict[Key, dict[tuple[int, int], dict[int, Entry]]] = {}
        for key, entry in [*self._all(), *key_entries]:
            at = pools.setdefault(key, {}).setdefault((entry.iteration, entry.step), {})
            at[entry.digest] = entry
        merged = {}
        for key, steps in pools.items():
            merged[key] = sorted(_sum(list(shards.values())) for shards in steps.values())[-KEEP:]
        return History(merged)

    def _all(self) -> Iterator[tuple[Key, Entry]]:
        for key, entries in self._entries.items():
            for entry in entries:
                yield key, entry

    def __iter__(self) -> Iterator[_Line]:
        """File lines, sorted."""
        for (env, task_id), outcomes in sorted(self._entries.items()):
            yield _Line(env=env, task_id=task_id, outcomes=outcomes)


def _sum(shards: list[Entry]) -> Entry:
    first = shards[0]
    return Entry(
        first.iteration,
        first.step,
        sum(s.successes for s in shards),
        sum(s.trials for s in shards),
        sum(s.digest for s in shards) % MODULUS,
    )


def load(path: str | os.PathLike[str]) -> History:
    """The history in a file; an absent file is an empty history. A bad line is `BadInput`."""
    if not Path(path).exists():
        return History()
    found: list[tuple[Key, Entry]] = []
    for line in jsonl.read([str(path)], _Line):
        for entry in line.record.outcomes:
            if not (0 <= entry.successes <= entry.trials > 0 <= min(entry.iteration, entry.step)):
                raise BadInput(line.where, line.number, f"impossible outcome {list(entry)}")
            found.append(((line.record.env, line.record.task_id), entry))
    return History().joined(found)


def update(path: str | os.PathLike[str], change: Callable[[History], History]) -> None:
    """Changes the history in a file, whole or not at all. Runs that do so at the same time wait for each other, and each
    changes what the one before it left."""
    with _turn(path):
        jsonl.write(path, change(load(path)))


@contextlib.contextmanager
def _turn(path: str | os.PathLike[str]) -> Iterator[None]:
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
