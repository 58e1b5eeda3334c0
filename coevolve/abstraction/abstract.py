"""Turns explorations into candidate tasks: the stage `abstract` (paper, section on task
abstraction), here without a model.

Each exploration's goals are minimised by execution (`goals`), joined to tasks of at most
`max_goals` user turns, put into the order of a conversation (`turns`), executed once more in that
form, and written (`request_writer`). Every solution has been executed as it stands. What gives no
task is a `Reject` with its reason. Within one run no two tasks share a start state and the query or
the solution, and no query stands for two different effects; the later one is rejected. An
exploration whose environment fails is a `Reject` too (`environment`), counts as lost, and is not
journalled; the stage stops where everything was lost so far.

Unlike the paper's abstractor this one needs no model, states nothing that was not executed, and
checks every claim.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from coevolve.abstraction.candidates import candidates
from coevolve.abstraction.tasks import FAULT, AbstractionResult, Reject
from coevolve.environments.client import Pool
from coevolve.environments.faults import FaultCounter
from coevolve.environments.replay import gather_replays, run_replays
from coevolve.records import Exploration, Task, content_id
from coevolve.runs import Journal

CHUNK = 32  # Explorations, or contexts, worked on at a time
WHAT = "explorations"
LOST_REPLY = "no_reply"
EnvironmentOf = Callable[[str], Pool]
Group = Sequence[Exploration]
Worker = Callable[[list[Group], Pool], list[AbstractionResult]]


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
    """Candidate tasks in the order of their explorations, at most `per_exploration` of each; the
    same for any pool size.

    `environment` gives the running pool of an exploration's `env`. Raises Unreachable where every
    exploration is lost.
    """

    def work(groups: list[Group], pool: Pool) -> list[AbstractionResult]:
        searches = [
            candidates(e, pool, per_exploration, random.Random(f"{seed}-{e.id}")) for (e,) in groups
        ]
        return run_replays(pool, gather_replays(searches))

    groups = ((exploration,) for exploration in explorations)
    yield from abstracted(groups, environment, work, _first_id, journal, env_faults, reject)


def _first_id(group: Group) -> str:
    return group[0].id


def abstracted(
    groups: Iterable[Group],
    environment: EnvironmentOf,
    work: Worker,
    key: Callable[[Group], str],
    journal: Journal | None,
    env_faults: FaultCounter | None,
    reject: Callable[[Reject], None],
) -> Iterator[Task]:
    """The new tasks of groups of explorations, in their order. `work` abstracts groups of one
    environment, `key` names a journal entry. Raises Unreachable where all is lost so far."""
    journal, env_faults = journal or Journal(None, {}), env_faults or FaultCounter(WHAT)
    remaining, made = iter(groups), _MadeTasks()
    while chunk := list(islice(remaining, CHUNK)):
        done = {key(group): journal.get(key(group), AbstractionResult) for group in chunk}
        for env in sorted({group[0].env for group in chunk if done[key(group)] is None}):
            missing = [g for g in chunk if g[0].env == env and done[key(g)] is None]
            pool = environment(env)
            pool.compare([exploration.env_version for g in missing for exploration in g])
            for group, result in zip(missing, work(missing, pool), strict=True):
                done[key(group)] = result
                # a rerun may not meet a fault, or a reply that did not come, again
                if not any(r.reason in (FAULT, LOST_REPLY) for r in result.rejects):
                    journal.put(key(group), result)
        results = [done[key(group)] for group in chunk]
        for result in results:
            faults = (r.detail for r in result.rejects if r.reason == FAULT)
            env_faults.add(next(faults, None))
        env_faults.stop()
        for result in results:
            yield from made.new(result, reject)


class _MadeTasks:
    """The tasks that this run has made so far."""

    def __init__(self) -> None:
        self._tasks: set[str] = set()
        self._effects: dict[str, str] = {}

    def new(self, result: AbstractionResult, reject: Callable[[Reject], None]) -> Iterator[Task]:
        """The tasks of a result that are new; the rest, and its own rejects, go to `reject`."""
        for rejected in result.rejects:
            reject(rejected)
        for task in result.tasks:
            if reason := self._add(task):
                reject(Reject(task.lineage.explorations[0], reason, task.kind, query=task.query))
            else:
                yield task

    def _add(self, task: Task) -> str | None:
        """None, or why the task is not new."""
        query = content_id(task.env, task.query)
        same = {content_id(task.env, task.start, part) for part in (task.query, task.solution)}
        if self._tasks & same:
            return "duplicate"
        if self._effects.get(query, task.effects) != task.effects:
            return "ambiguous_query"
        self._tasks |= same
        self._effects[query] = task.effects
        return None
