"""The stages as Python generators, records in and records out (docs/python.md).

These are the functions behind the commands, less what only a command needs: journals, --rejects
and a model's budget. Defaults are those of the commands. Errors are `coevolve.errors`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, TypeVar

import msgspec

from coevolve import jsonl
from coevolve.abstraction import abstract as abstraction
from coevolve.environments.client import Pool
from coevolve.environments.protocol import Tool
from coevolve.errors import UsageError
from coevolve.exploration import explore as exploration
from coevolve.exploration.settings import ExploreSettings
from coevolve.merging import merge as merging
from coevolve.merging.duplicates import HeldOutTasks
from coevolve.merging.merge import MergeSettings
from coevolve.records import Exploration, Rollout, Signal, Task, Verdict
from coevolve.signals import extract
from coevolve.signals.inventory import inventory
from coevolve.signals.settings import SignalSettings
from coevolve.validation import validate as validation

T = TypeVar("T")


def read(path: str | os.PathLike[str], record: type[T]) -> Iterator[T]:
    """The records of a file of JSON lines (.gz and .zst are unpacked).

    Raises BadInput, with file and line, for a line that is no such record.
    """
    for line in jsonl.read([os.fspath(path)], record):
        yield line.record


def write(path: str | os.PathLike[str], records: Iterable[object]) -> int:
    """Writes records as JSON lines; the file appears whole or not at all. Returns how many."""
    return jsonl.write(path, records)


def extract_signals(
    rollouts: Iterable[Rollout],
    *,
    tools: Mapping[str, Tool] | None = None,
    max_signals: int = 200,
    settings: SignalSettings = SignalSettings(),
) -> Iterator[Signal]:
    """The policy's weaknesses, the most important first.

    `tools` is the environment's inventory (`Pool.tools`); without it no tool is `unexplored`.
    At most `max_signals` an iteration (0: all). Rollouts of several iterations may come together:
    the earlier ones are the history that forgetting is judged by.
    """
    known = inventory(None, {name: tool.app for name, tool in tools.items()}) if tools else None
    return extract.extract(rollouts, settings, inventory=known, max_signals=max_signals)


def explore(
    signals: Iterable[Signal],
    pool: Pool,
    *,
    tasks: Iterable[Task] = (),
    settings: ExploreSettings = ExploreSettings(),
) -> Iterator[Exploration]:
    """Episodes around the signals, played by programs. `tasks` is the set so far: coverage aims
    where it has little. With `ExploreSettings(mode="curious")`, and no signals, unguided ones.

    Raises UsageError for signals of another environment, Unreachable where every episode is lost.
    """
    return exploration.explore(signals, pool, settings, tasks=tasks)


def abstract(
    explorations: Iterable[Exploration], pool: Pool, *, per_exploration: int = 4, seed: int = 0
) -> Iterator[Task]:
    """Candidate tasks, at most `per_exploration` of each exploration. Each solution was executed.

    Raises UsageError for explorations of another environment than the pool's.
    """
    return abstraction.abstract(
        explorations, _only(pool), per_exploration=per_exploration, seed=seed
    )


def validate(
    tasks: Iterable[Task],
    pool: Pool,
    *,
    gate: Literal["strict", "paper"] = "strict",
    on_verdict: Callable[[Verdict], object] = lambda verdict: None,
) -> Iterator[Task]:
    """The valid tasks, each with its `validity`. `on_verdict` is told every verdict.

    Raises UsageError for tasks of another environment than the pool's.
    """
    waiting: deque[Task] = deque()

    def noted() -> Iterator[Task]:
        for task in tasks:
            waiting.append(task)
            yield task

    for verdict in validation.validate(noted(), _only(pool), gate=gate):
        task = waiting.popleft()
        on_verdict(verdict)
        if verdict.verdict == "valid":
            yield msgspec.structs.replace(task, validity=validation.validity(verdict))


def merge(
    tasks: Iterable[Task],
    into: Iterable[Task] = (),
    *,
    exclude: Iterable[Task] = (),
    settings: MergeSettings = MergeSettings(),
) -> Iterator[Task]:
    """The set `into` in its order, then the new tasks that are valid, no duplicates, and touch no
    task of `exclude` (held-out tasks), within the shares of the settings."""
    merged = merging.merge(_lines(into), _lines(tasks), HeldOutTasks(exclude), settings)
    return (line.record for line in merged.kept)


def _only(pool: Pool) -> Callable[[str], Pool]:
    def environment(name: str) -> Pool:
        if name != pool.name:
            raise UsageError(f"a record of {name!r}, and the pool is of {pool.name!r}")
        return pool

    return environment


def _lines(tasks: Iterable[Task]) -> Iterator[jsonl.Line[Task]]:
    for number, task in enumerate(tasks, 1):
        yield jsonl.Line(task, b"", "tasks", number)
