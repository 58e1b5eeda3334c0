"""The pools of a stage whose records name their environments: each is started when its first record comes, and all end together.

A command line that stands in a record is started only if the user named it too (`registry.recorded`).
"""

from __future__ import annotations

from contextlib import ExitStack

from coevolve.environments.client import Pool
from coevolve.environments.registry import recorded


class Pools:
    """A context manager; `pools(env)` is the running pool of an environment."""

    def __init__(self, workers: int = 1, named: str | None = None, *, any_version: bool = False):
        self._workers, self._named, self._any_version = workers, named, any_version
        self._running: dict[str, Pool] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Pools:
        return self

    def __exit__(self, *error: object) -> None:
        self._running.clear()
        self._stack.__exit__(*error)

    def __call__(self, env: str) -> Pool:
        if env not in self._running:
            pool = Pool(
                recorded(env, self._named), workers=self._workers, any_version=self._any_version
            )
            self._running[env] = self._stack.enter_context(pool)
        return self._running[env]
