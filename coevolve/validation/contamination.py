"""Finds synthetic tasks that share something with a task kept for testing (`Description.held_out`),
whatever they say of their origin.

A task touches a held-out one when it begins in the same state, whatever its name; when all of its
query or one longer turn of it is the same, up to case and punctuation; when its solution holds the
other's or is held by it; or when it achieves the same: the same effects and compared responses,
turn by turn. A solution holds another if it has all its calls one after the other, or, from
`TELLING_CALLS` on, wherever they stand (the order of two look-ups says nothing); arguments count as
they act (10 is 10.0, a default is none). The held-out tasks are opened and executed once a pool,
which is a matter of seconds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from coevolve.environments.client import Fault, Pool
from coevolve.environments.protocol import Tool
from coevolve.environments.replay import ReplayedEpisode, ReplayJob, effects_digest, replay
from coevolve.grounding.arguments import is_default
from coevolve.grounding.sources import identity
from coevolve.records import Action, Task, content_id, task_id

LONG_TURN_WORDS = 8  # From so many words on a turn of the user's is nobody else's by chance
FEW_CALLS = 2  # A solution of fewer calls is no sign of anything; a block of code is
TELLING_CALLS = 3
"""So many calls, one with arguments at least, nobody else makes by chance. Of 583 generated tasks
one was a piece of three calls of an official BFCL solution, none of a longer one; pieces of two
calls come up without having been seen."""


class ContaminationIndex:
    """The held-out tasks of a pool's environment, indexed by what they can be recognised by."""

    def __init__(self, pool: Pool):
        tasks = [task for split in pool.description.held_out for task in pool.tasks(split)]
        self._tools = pool.tools
        self._own = {task.id for task in tasks}
        self._states: dict[str, str] = {}
        self._marks: dict[str, str] = {}
        self._solutions: dict[tuple, tuple[Counter, str]] = {}
        episodes = replay(pool, [ReplayJob(task.start, task.solution) for task in tasks])
        for task, episode in zip(tasks, episodes, strict=True):
            name = task.start.name or task.id
            if isinstance(episode, ReplayedEpisode):
                self._states.setdefault(episode.opened.state, name)
            calls = _calls(self._tools, task)
            self._solutions.setdefault(calls, (Counter(calls), name))
            for mark in _marks(self._tools, task, episode):
                self._marks.setdefault(mark, name)

    def shared(self, task: Task, episode: ReplayedEpisode) -> str | None:
        """What a replayed task shares with another, held-out one, in words, if anything."""
        id_ = task_id(task.env, task.start, task.query, task.solution, task.verifier)
        if task.origin.kind == "environment" and id_ in self._own:
            return None
        if name := self._states.get(episode.opened.state):
            return f"begins in the start state of held-out task {name}"
        for mark in _marks(self._tools, task, episode):
            if mark in self._marks:
                return f"is held-out task {self._marks[mark]}"
        return self._related(_calls(self._tools, task))

    def _related(self, calls: tuple) -> str | None:
        """Which held-out solution the calls are, hold, or are a piece of."""
        if calls in self._solutions and _known_by(calls):
            return f"is held-out task {self._solutions[calls][1]}"
        counted = Counter(calls)
        for other, (others, name) in self._solutions.items():
            if _known_by(other) and _is_run(other, calls) or _telling(other) and others <= counted:
                return f"contains held-out task {name}"
            if _telling(calls) and counted <= others:
                return f"is a part of held-out task {name}"
        return None


def _marks(tools: dict[str, Tool], task: Task, episode: ReplayedEpisode | Fault) -> Iterator[str]:
    """Digests by which a task is recognised, whatever its start state."""
    turns = [re.findall(r"\w+", turn.lower()) for turn in task.query]
    yield content_id("query", turns)
    yield from (content_id("turn", turn) for turn in turns if len(turn) >= LONG_TURN_WORDS)
    if isinstance(episode, ReplayedEpisode) and _known_by(_calls(tools, task)):
        job = ReplayJob(task.start, task.solution)
        yield content_id("outcome", effects_digest(tools, job, episode))


def _calls(tools: dict[str, Tool], task: Task) -> tuple:
    """The actions of a solution in order, in a form in which those that act alike are equal."""
    return tuple(_acting(tools, action) for turn in task.solution for action in turn)


def _acting(tools: dict[str, Tool], action: Action) -> tuple:
    if isinstance(action, str):
        return (action,)
    tool = tools.get(action.tool, Tool(action.tool, "", {}))
    given = ((n, v) for n, v in action.arguments.items() if not is_default(tool, n, v))
    return action.tool, tuple(sorted((name, identity(value)) for name, value in given))


def _known_by(calls: tuple) -> bool:
    """Whether a whole solution is a sign of anything."""
    return len(calls) >= FEW_CALLS or any(len(call) == 1 for call in calls)


def _telling(calls: tuple) -> bool:
    return len(calls) >= TELLING_CALLS and any(len(call) == 1 or call[1] for call in calls)


def _is_run(short: tuple, long: tuple) -> bool:
    size = len(short)
    return any(long[place : place + size] == short for place in range(len(long) - size + 1))
