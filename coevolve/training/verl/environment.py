"""The environment of a worker process of verl, called from asyncio: one pool for all episodes.

Pool calls block, so they run in threads. An episode that is given up leaves its last call running:
`Pool` ends it within its own limits, and then the session is closed, which that call may only just
have opened.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from coevolve import jsonl
from coevolve.agents.code.prompts import episode_style
from coevolve.agents.drivers import Schemas
from coevolve.agents.episode import Episode
from coevolve.agents.prompts.styles import Style
from coevolve.environments.client import Pool
from coevolve.training.verl.files import VerlJob

THREADS = 256
"""Calls that may be under way at once; the environment's processes answer one at a time each."""


class Environment:
    """Belongs to one event loop."""

    style: Style  # How episodes are told, once the pool is open
    schemas: Schemas  # The schemas of the tools, once the pool is open

    def __init__(self, job: VerlJob, style: Style):
        self._job, self._style = job, style
        self._threads = ThreadPoolExecutor(THREADS, "environment")
        self._opening: Future[Pool] | None = None
        self._room: asyncio.Semaphore | None = None

    async def pool(self) -> Pool:
        """The running pool. Raises what starting it raises; the next one who asks tries again."""
        if self._opening is None or (self._opening.done() and self._opening.exception()):
            self._opening = self._threads.submit(self._open)
        return await asyncio.shield(asyncio.wrap_future(self._opening))

    def room(self, pool: Pool) -> contextlib.AbstractAsyncContextManager:
        """Room for a session, where an environment bears only so many."""
        most = pool.description.limits.sessions
        if most and self._room is None:
            self._room = asyncio.Semaphore(most)
        return self._room or contextlib.nullcontext()

    async def in_thread(
        self, function: Callable[..., None], *arguments: object, calls: list[Future]
    ) -> None:
        """Runs a function that blocks; `calls` collects what runs, for `release`."""
        calls.append(self._threads.submit(function, *arguments))
        await asyncio.wrap_future(calls[-1])

    def release(self, episode: Episode, calls: list[Future]) -> None:
        """Closes an abandoned episode's session when its last call has come back."""
        if calls:
            calls[-1].add_done_callback(lambda _: self._threads.submit(self._close, episode))

    def close(self) -> None:
        """Ends the environment's processes."""
        if self._opening and self._opening.done() and not self._opening.exception():
            self._opening.result().__exit__(None, None, None)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _open(self) -> Pool:
        job = self._job
        pool = Pool(job.env, workers=job.workers, call_timeout=job.limits.call_timeout)
        pool.__enter__()
        self.style = episode_style(pool, self._style)
        self.schemas = Schemas(pool, self.style)
        return pool

    def _close(self, episode: Episode) -> None:
        if episode.session is None:
            return
        try:
            self._opening.result().close([episode.session])
        except Exception as error:  # noqa: BLE001 - the boundary of a thread that nobody waits for
            jsonl.warn(f"a session of {self._job.env} could not be closed: {error}")
