"""The pools of a stage whose records name their environments: each is started when its first record comes, and all end together."""

from __future__ import annotations

from contextlib import ExitStack

from coevolve.environments.client import Pool


class Pools:
    """A context manager; `pools(env)` is the running pool of an environment."""

    def __init__(self, workers: int = 1):
        self._workers = workers
        self._running: dict[str, Pool] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Pools:
        return self

    def __exit__(self, *error: object) -> None:
        self._running.clear()
        self._stack.__exit__(*error)

    def __call__(self, env: str) -> Pool:
        if env not in self._running:
            self._running[env] = self._stack.enter_context(Pool(env, workers=self._workers))
        return self._running[env]
