"""Drivers play episodes with a policy and yield them finished and graded, in their order.

| driver | policy | how |
|---|---|---|
| `ProgramPolicy` | a function | a chunk of episodes advances one reply at a time, in one batch |
| `LocalPolicy` | a local model | one forward pass per token for all live episodes of a chunk |
| `ServerPolicy` | an OpenAI-compatible server | asyncio, a bounded number of episodes in flight |

A `Fault` of the environment ends an episode as `env_error`; errors of a model or server propagate.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from coevolve.agents.episode import REFUSED, Episode, PolicyReply
from coevolve.agents.policies import Program
from coevolve.agents.prompts.styles import TOOLS, Style
from coevolve.environments.faults import Fault
from coevolve.models.chat import BadReply, ChatRequest, ContextFull
from coevolve.records import Usage

if TYPE_CHECKING:
    from coevolve.environments.client import Pool
    from coevolve.models.service import Models
    from coevolve.models.transformers_lm import LocalModel, SampledReply

T = TypeVar("T")
CHUNK = 256  # Episodes that a driver opens at a time, at most


class Policy(Protocol):
    name: str
    rows: int  # Episodes in a batch, whose tokens depend on one another's; 1 where they do not
    style: Style

    def play(self, episodes: Iterable[Episode], pool: Pool) -> Iterator[Episode]: ...


class ProgramPolicy:
    rows = 1
    style = TOOLS

    def __init__(self, name: str, program: Program):
        self.name, self._program = name, program

    def play(self, episodes: Iterable[Episode], pool: Pool) -> Iterator[Episode]:
        yield from _in_chunks(episodes, pool, CHUNK, self._play)

    def _play(self, episodes: list[Episode], pool: Pool) -> None:
        while live := [episode for episode in episodes if not episode.done]:
            advance([(e, PolicyReply.of_text(self._program(e, pool))) for e in live], pool)


class LocalPolicy:
    """A local model; `temperature` 0 decodes greedily."""

    def __init__(
        self, name: str, model: LocalModel, temperature: float = 1.0, style: Style = TOOLS
    ):
        self.name, self.style = style.label(name), style
        self.model, self.temperature = model, temperature
        self.rows = min(CHUNK, model.rows)

    def play(self, episodes: Iterable[Episode], pool: Pool) -> Iterator[Episode]:
        yield from _in_chunks(episodes, pool, self.rows, self._play)

    def _play(self, episodes: list[Episode], pool: Pool) -> None:
        schemas = Schemas(pool, self.style)
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

    def _respond(
        self, episodes: list[Episode], turns: list[SampledReply], pool: Pool
    ) -> list[list[int] | None]:
        """Plays out replies; returns the tokens that follow each, None at an episode's end."""
        replies = [PolicyReply.of_text(turn.text, turn.truncated) for turn in turns]
        advance(list(zip(episodes, replies, strict=True)), pool)
        return [self._suffix(e, t) for e, t in zip(episodes, turns, strict=True)]

    def _suffix(self, episode: Episode, turn: SampledReply) -> list[int] | None:
        if episode.done:
            return None
        suffix = self.model.chat.suffix(episode.unread)
        if turn.length + len(suffix) >= self.model.max_tokens:
            episode.stop("max_tokens")
            return None
        return suffix


class ServerPolicy:
    """A model behind a server, which calls it `model`; `max_turn_tokens` caps a reply.

    An empty reply hands the turn back. An answer that is no reply loses its episode: `env_error`.
    """

    rows = 1

    def __init__(
        self,
        model: str,
        models: Models,
        temperature: float = 1.0,
        max_turn_tokens: int | None = None,
        style: Style = TOOLS,
    ):
        self.name, self._models, self.style = style.label(model), models, style
        self._request = ChatRequest(
            model=model,
            messages=[],
            temperature=temperature,
            max_tokens=max_turn_tokens,
            may_be_silent=True,
        )

    def play(self, episodes: Iterable[Episode], pool: Pool) -> Iterator[Episode]:
        schemas = Schemas(pool, self.style)
        played = partial(self._play, pool=pool, schemas=schemas)
        yield from self._models.each(episodes, played, pool.description.limits.sessions)

    async def _play(self, episode: Episode, pool: Pool, schemas: Schemas) -> Episode:
        episode.tools_resent = True
        await asyncio.to_thread(open_all, [episode], pool)
        while not episode.done:
            try:
                reply = await self._models.chat(self._request_of(episode, schemas.of(episode)))
            except BadReply as error:
                episode.stop("env_error", str(error))
            except ContextFull:
                episode.stop("max_tokens", "the server's context is full")
            else:
                policy_reply = PolicyReply(reply.message, reply.truncated, reply.usage)
                await asyncio.to_thread(advance, [(episode, policy_reply)], pool)
        await asyncio.to_thread(finish_all, [episode], pool)
        return episode

    def _request_of(self, episode: Episode, tools: list[dict]) -> ChatRequest:
        digest = hashlib.sha256(f"{episode.key}-{episode.replies}".encode()).digest()
        return msgspec.structs.replace(
            self._request,
            messages=list(episode.messages),
            tools=tools,
            sample=episode.sample,
            seed=int.from_bytes(digest[:4], "big") >> 1,  # servers take 31 bits
        )


class Schemas:
    """Schemas of the tools that a session offers, in one style, built once per distinct offer."""

    def __init__(self, pool: Pool, style: Style):
        self._pool, self._style = pool, style
        self._built: dict[tuple[tuple[str, ...], ...], list[dict]] = {}

    def of(self, episode: Episode) -> list[dict]:
        if episode.acts_in_code:
            return []
        names = tuple(map(tuple, episode.offers()))
        if names not in self._built:
            offered = ([self._pool.tools[name] for name in part] for part in names)
            self._built[names] = self._style.schemas(*offered)
        return self._built[names]


def chunks(items: Iterable[T], size: int) -> Iterator[list[T]]:
    source = iter(items)
    while chunk := list(islice(source, size)):
        yield chunk


def _in_chunks(
    episodes: Iterable[Episode], pool: Pool, size: int, play: Callable[[list[Episode], Pool], None]
) -> Iterator[Episode]:
    """Plays `size` episodes at a time, or fewer where the environment bears fewer sessions."""
    for chunk in chunks(episodes, min(size, pool.description.limits.sessions or size)):
        open_all(chunk, pool)
        play([episode for episode in chunk if not episode.done], pool)
        finish_all(chunk, pool)
        yield from chunk


def open_all(episodes: list[Episode], pool: Pool) -> None:
    """Opens a session for each episode, in one batch."""
    sessions = pool.open([e.task.start for e in episodes], [e.task.query for e in episodes])
    for episode, opened in zip(episodes, sessions, strict=True):
        if isinstance(opened, Fault):
            refused = REFUSED if opened.kind == "bad_request" else ""
            episode.stop("env_error", refused + opened.message)
        else:
            episode.open(opened)


def advance(replies: list[tuple[Episode, PolicyReply]], pool: Pool) -> None:
    """Plays out one reply of each episode; the environment is stepped in one batch."""
    acting = [(e, actions) for e, reply in replies if (actions := e.reply(reply))]
    answers = pool.step([(e.session, e.turn, actions) for e, actions in acting]) if acting else []
    for (episode, _), results in zip(acting, answers, strict=True):
        if isinstance(results, Fault):
            episode.stop("env_error", results.message)
        else:
            episode.observe(results)


def finish_all(episodes: list[Episode], pool: Pool) -> None:
    """Grades what can be graded, in one batch, and closes all sessions."""
    graded = [e for e in episodes if e.gradable]
    verdicts = pool.evaluate([(e.session, e.task) for e in graded])
    for episode, verdict in zip(graded, verdicts, strict=True):
        if isinstance(verdict, Fault):
            episode.stop("env_error", verdict.message)
        else:
            episode.grade(verdict)
    pool.close([e.session for e in episodes if e.session is not None])
