"""Explorations in, candidate tasks out: the stage `abstract` in its program form (paper, section on task abstraction).

Each exploration's goals are minimised by execution (`goals`), joined to tasks of at most `max_goals` user turns, put into the
order of a conversation (`turns`), executed once more in that form, and written (`writers`). Every solution has been executed as
it stands. What gives no task is a `Reject` with its reason. Within one run no two tasks share a start state and the query or the
solution, and no query stands for two different effects; the later one is rejected. An exploration whose environment fails is a
`Reject` too (`environment`), counts as lost, and is not journalled; the stage stops where everything was lost so far (`env_faults`).

Unlike the paper's abstractor this one needs no model, says nothing that was not executed, and checks every claim.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from coevolve.abstraction.candidates import FAULT, Found, Reject, candidates
from coevolve.environments.client import Pool
from coevolve.environments.faults import FaultCounter
from coevolve.environments.replay import gather_replays, run_replays
from coevolve.records import Exploration, Task, content_id
from coevolve.runs import Journal

CHUNK = 32
"""Explorations worked on at a time."""
WHAT = "explorations"
EnvironmentOf = Callable[[str], Pool]


def abstract(
    explorations: Iterable[Exploration],
    environment: EnvironmentOf,
    *,
    per_exploration: int = 4,
    seed: int = 0,
    journal: Journal | None = None,
    env_faults: FaultCounter | None = None,
    reject: Callable[[Reject], None] = lambda rejected: None,
) -> Iterator[Task]:
    """Candidate tasks in the order of their explorations, at most `per_exploration` of each; the same for any pool size.

    `environment` gives the running pool of an exploration's `env`. Raises Unreachable where every exploration is lost.
    """
    journal, env_faults = journal or Journal(None, {}), env_faults or FaultCounter(WHAT)
    known = Known()
    remaining = iter(explorations)
    while chunk := list(islice(remaining, CHUNK)):
        for found in _chunk(chunk, environment, per_exploration, seed, journal, env_faults):
            yield from known.taken(found, reject)


class Known:
    """What this run has made so far."""

    def __init__(self) -> None:
        self._tasks: set[str] = set()
        self._effects: dict[str, str] = {}

    def taken(self, found: Found, reject: Callable[[Reject], None]) -> Iterator[Task]:
        """The tasks of one finished piece of work that are to be had; the rest, and its own rejects, go to `reject`."""
        for rejected in found.rejects:
            reject(rejected)
        for task in found.tasks:
            reason = self.add(task)
            if reason is None:
                yield task
            else:
                reject(Reject(task.lineage.explorations[0], reason, task.kind, query=task.query))

    def add(self, task: Task) -> str | None:
        """None, or why the task is not to be had."""
        query = content_id(task.env, task.query)
        same = {
            content_id(task.env, task.start, task.query),
            content_id(task.env, task.start, task.solution),
        }
        if self._tasks & same:
            return "duplicate"
        if self._effects.get(query, task.effects) != task.effects:
            return "ambiguous_query"
        self._tasks |= same
        self._effects[query] = task.effects
        return None


def _chunk(
    chunk: list[Exploration],
    environment: EnvironmentOf,
    per_exploration: int,
    seed: int,
    journal: Journal,
    env_faults: FaultCounter,
) -> list[Found]:
    done = {e.id: found for e in chunk if (found := journal.get(e.id, Found)) is not None}
    for env in sorted({e.env for e in chunk if e.id not in done}):
        pool, missing = environment(env), [e for e in chunk if e.env == env and e.id not in done]
        pool.compare([e.env_version for e in missing])
        works = [
            candidates(e, pool, per_exploration, random.Random(f"{seed}-{e.id}")) for e in missing
        ]
        found = run_replays(pool, gather_replays(works))
        for exploration, result in zip(missing, found, strict=True):
            done[exploration.id] = result
            if fault_of(result) is None:
                journal.put(exploration.id, result)
    return counted([done[e.id] for e in chunk], env_faults)


def fault_of(found: Found) -> str | None:
    """The environment's fault to which an exploration was lost."""
    return next((rejected.detail for rejected in found.rejects if rejected.reason == FAULT), None)


def counted(chunk: list[Found], env_faults: FaultCounter) -> list[Found]:
    """The chunk, counted. Raises Unreachable where all was lost so far."""
    for found in chunk:
        env_faults.add(fault_of(found))
    env_faults.stop()
    return chunk
