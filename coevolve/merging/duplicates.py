"""Exact duplicates of tasks, and tasks that belong to a held-out set.

Two tasks are the same if their ids are, or their environment, start state and query. A task touches
a held-out set if it begins in one of its start states, or asks one of its queries to the same
effect (the same solution, where a task carries no effects).
"""

from __future__ import annotations

from collections.abc import Iterable

from coevolve.records import Task, content_id


class SeenTasks:
    """The tasks seen so far."""

    def __init__(self) -> None:
        self._keys: set[str] = set()

    def add(self, task: Task) -> bool:
        """Whether the task is seen for the first time."""
        keys = {task.id, content_id(task.env, task.start, task.query)}
        known = bool(self._keys & keys)
        self._keys |= keys
        return not known


class HeldOutTasks:
    """A set of tasks that training must not touch."""

    def __init__(self, tasks: Iterable[Task] = ()):
        self._starts: set[str] = set()
        self._requests: set[str] = set()
        for task in tasks:
            self._starts.add(content_id(task.env, task.start))
            self._requests |= _requests(task)

    def touches(self, task: Task) -> str | None:
        """Why the task must not be trained on, or None."""
        if content_id(task.env, task.start) in self._starts:
            return "held-out start state"
        return "held-out query" if self._requests & _requests(task) else None


def _requests(task: Task) -> set[str]:
    """The task's query with its effects, where it carries any, and with its solution."""
    found = {content_id("solution", task.env, task.query, task.solution)}
    if task.effects:
        found.add(content_id("effects", task.env, task.query, task.effects))
    return found
