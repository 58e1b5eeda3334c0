"""Drivers: who plays the episodes. All yield the finished, graded episodes in the order they came.

| driver | policy | how |
|---|---|---|
| `ProgramPolicy` | a function | all episodes of a chunk advance one reply at a time, the environment in one batched call |
| `LocalPolicy` | a local model | one forward pass per token for all live episodes; those whose turn ended are stepped together |
| `ServerPolicy` | an OpenAI-compatible server | asyncio, a bounded number of episodes in flight, environment calls in threads |

A `Fault` of the environment ends an episode as `env_error`; errors of a model or server propagate.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar

from coevolve.agents.episode import Episode, Reply
from coevolve.agents.policies import Program, offered
from coevolve.agents.prompts import function_schema
from coevolve.environments.protocol import Result
from coevolve.records import Usage

if TYPE_CHECKING:
    from coevolve.environments.client import Fault, Pool
    from coevolve.models.openai_chat import ChatServer
    from coevolve.models.transformers_lm import LocalModel, Turn

T = TypeVar("T")
CHUNK = 256


class Policy(Protocol):
    name: str
    rows: int
    """Episodes that are played together, in batches of this size; 1 where they don't touch one another."""

    def play(self, episodes: Iterable[Episode], pool: Pool) -> Iterator[Episode]: ...


class ProgramPolicy:
    rows = 1

    def __init__(self, name: str, program: Program):
        self.name, self._program = name, program

    def play(self, episodes: Iterable[Episode], pool: Pool) -> Iterator[Episode]:
        for chunk in chunks(episodes, CHUNK):
            open_all(chunk, pool)
            while live := [e for e in chunk if not e.done]:
                advance([(e, Reply({"role": "assistant", "content": self._program(e, pool)})) for e in live], pool)
            finish_all(chunk, pool)
            yield from chunk


class LocalPolicy:
    """`temperature` 0 decodes greedily."""

    def __init__(self, name: str, model: LocalModel, temperature: float = 1.0):
        self.name, self.model, self.temperature = name, model, temperature
        self.rows = min(CHUNK, model.rows)

    def play(self, episodes: Iterable[Episode], pool: Pool) -> Iterator[Episode]:
        for chunk in chunks(episodes, self.rows):
            open_all(chunk, pool)
            self._play([e for e in chunk if not e.done], pool)
            finish_all(chunk, pool)
            yield from chunk

    def _play(self, episodes: list[Episode], pool: Pool) -> None:
        schemas = _Schemas(pool)
        prompts = [self.model.chat.prompt(e.unread, schemas.of(e)) for e in episodes]
        for episode, prompt in zip(episodes, prompts, strict=True):
            if len(prompt) >= self.model.max_tokens:
                episode.stop("max_tokens", f"the prompt alone is {len(prompt)} tokens")
        fitting = [(e, p) for e, p in zip(episodes, prompts, strict=True) if not e.done]
        rows = self.model.sample(
            [p for _, p in fitting],
            [e.key for e, _ in fitting],
            lambda turns: self._respond([fitting[t.row][0] for t in turns], turns, pool),
            self.temperature,
        )
        for (episode, _), row in zip(fitting, rows, strict=True):
            sampled = sum(row.mask)
            episode.tokens = row
            episode.usage = Usage(prompt_tokens=len(row.mask) - sampled, completion_tokens=sampled)

    def _respond(self, episodes: list[Episode], turns: list[Turn], pool: Pool) -> list[list[int] | None]:
        """Plays out the replies that just ended; returns the tokens that follow each, None where the episode is over."""
        replies = [Reply({"role": "assistant", "content": t.text}, t.truncated) for t in turns]
        advance(list(zip(episodes, replies, strict=True)), pool)
        return [self._suffix(e, t) for e, t in zip(episodes, turns, strict=True)]

    def _suffix(self, episode: Episode, turn: Turn) -> list[int] | None:
        if episode.done:
            return None
        suffix = self.model.chat.suffix(episode.unread)
        if turn.length + len(suffix) >= self.model.max_tokens:
            episode.stop("max_tokens")
            return None
        return suffix


class ServerPolicy:
    rows = 1

    def __init__(self, name: str, server: ChatServer, concurrency: int = 16):
        self.name, self._server, self._concurrency = name, server, concurrency

    def play(self, episodes: Iterable[Episode], pool: Pool) -> Iterator[Episode]:
        waiting: deque[asyncio.Task[None]] = deque()
        started: deque[Episode] = deque()
        source = iter(episodes)
        schemas = _Schemas(pool)

        async def front() -> None:
            for episode in islice(source, self._concurrency - len(waiting)):
                started.append(episode)
                waiting.append(asyncio.create_task(self._play(episode, pool, schemas)))
            if waiting:
                await waiting[0]

        with asyncio.Runner() as runner:
            runner.run(self._server.open())
            try:
                while True:
                    runner.run(front())
                    if not started:
                        return
                    waiting.popleft()
                    yield started.popleft()
            finally:
                runner.run(self._server.close())

    async def _play(self, episode: Episode, pool: Pool, schemas: _Schemas) -> None:
        await asyncio.to_thread(open_all, [episode], pool)
        while not episode.done:
            reply = await self._server.complete(
                episode.messages, schemas.of(episode), f"{episode.key}-{episode.replies}"
            )
            if reply is None:
                episode.stop("max_tokens", "the server's context is full")
                break
            await asyncio.to_thread(advance, [(episode, Reply(*reply))], pool)
        await asyncio.to_thread(finish_all, [episode], pool)


class _Schemas:
    """Function schemas of the tools that a session offers, built once per distinct offer."""

    def __init__(self, pool: Pool):
        self._pool = pool
        self._built: dict[tuple[str, ...], list[dict]] = {}

    def of(self, episode: Episode) -> list[dict]:
        names = tuple(offered(episode, self._pool))
        if names not in self._built:
            self._built[names] = [function_schema(self._pool.tools[name]) for name in names]
        return self._built[names]


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    source = iter(items)
    while chunk := list(islice(source, size)):
        yield chunk


def open_all(episodes: list[Episode], pool: Pool) -> None:
    """Opens a session for each episode, in one batch."""
    for episode, opened in zip(episodes, pool.open([e.task.start for e in episodes]), strict=True):
        if _is_fault(opened):
            episode.stop("env_error", opened.message)
        else:
            episode.open(opened)


def advance(replies: list[tuple[Episode, Reply]], pool: Pool) -> None:
    """Plays out one reply of each episode; the environment is stepped in one batch."""
    acting = [(e, actions) for e, reply in replies if (actions := e.reply(reply))]
    if not acting:
        return
    answers = pool.step([(e.session, e.turn, actions) for e, actions in acting])
    for (episode, _), results in zip(acting, answers, strict=True):
        _observe(episode, results)


def _observe(episode: Episode, results: list[Result] | Fault) -> None:
    if _is_fault(results):
        episode.stop("env_error", results.message)
    else:
        episode.observe(results)


def finish_all(episodes: list[Episode], pool: Pool) -> None:
    """Grades what can be graded, in one batch, and closes all sessions."""
    graded = [e for e in episodes if e.gradable]
    for episode, verdict in zip(graded, pool.evaluate([(e.session, e.task) for e in graded]), strict=True):
        if _is_fault(verdict):
            episode.stop("env_error", verdict.message)
        else:
            episode.grade(verdict)
    pool.close([e.session for e in episodes if e.session is not None])


def _is_fault(value: object) -> bool:
    from coevolve.environments.client import Fault

    return isinstance(value, Fault)
