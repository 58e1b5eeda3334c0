"""No task but the environment's own may be one that is kept for testing (`Description.held_out`), whatever it says of its origin.

A task touches a held-out one when it begins in the same state, whatever its name; when all of its query or one longer turn of it
is the same, up to case and punctuation; when its solution makes the same calls; or when it achieves the same: the same effects
and compared responses, turn by turn. The held-out tasks are opened and executed once a pool, which is a matter of seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from coevolve.environments.client import Fault, Pool
from coevolve.environments.protocol import Tool
from coevolve.environments.replay import Episode, Job, outcome, replay
from coevolve.records import Task, content_id, task_id

LONG_TURN = 8
"""Words from which on a turn of the user's is nobody else's by chance."""
FEW_CALLS = 2
"""A solution of fewer calls is no sign of anything."""


class HeldOut:
    """What the held-out tasks of a pool's environment are known by."""

    def __init__(self, pool: Pool):
        tasks = [task for split in pool.description.held_out for task in pool.tasks(split)]
        self._tools = pool.tools
        self._own = {task.id for task in tasks}
        self._states: dict[str, str] = {}
        self._marks: dict[str, str] = {}
        episodes = replay(pool, [Job(task.start, task.solution) for task in tasks])
        for task, episode in zip(tasks, episodes, strict=True):
            name = task.start.name or task.id
            if isinstance(episode, Episode):
                self._states.setdefault(episode.opened.state, name)
            for mark in _marks(self._tools, task, episode):
                self._marks.setdefault(mark, name)

    def touches(self, task: Task, episode: Episode) -> str | None:
        """What a replayed task shares with a held-out one, in words; None if nothing, or if it is given as that very task."""
        id_ = task_id(task.env, task.start, task.query, task.solution, task.verifier)
        if task.origin.kind == "environment" and id_ in self._own:
            return None
        if name := self._states.get(episode.opened.state):
            return f"begins in the start state of held-out task {name}"
        marks = _marks(self._tools, task, episode)
        return next((f"is held-out task {self._marks[mark]}" for mark in marks if mark in self._marks), None)


def _marks(tools: dict[str, Tool], task: Task, episode: Episode | Fault) -> Iterator[str]:
    """What a task is known by, whatever its start state."""
    turns = [re.findall(r"\w+", turn.lower()) for turn in task.query]
    yield content_id("query", turns)
    yield from (content_id("turn", turn) for turn in turns if len(turn) >= LONG_TURN)
    if sum(map(len, task.solution)) >= FEW_CALLS:
        yield content_id("calls", [action for turn in task.solution for action in turn])
        if isinstance(episode, Episode):
            yield content_id("outcome", outcome(tools, Job(task.start, task.solution), episode))
