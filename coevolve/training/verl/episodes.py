"""Episodes inside verl: `agents.episode` driven from asyncio, token by token, whatever fails.

`Player` is what a worker process of verl has one of: the environment's pool (opened with the first
episode), the chat framing and the job. `Player.play` never raises for anything that an environment
or a server does, and always gives a row with at least one response token:

| what happened | the row |
|---|---|
| the episode ended | its tokens; mask 1 and log-probabilities where the policy sampled |
| infrastructure failed, a reply without a token, a deadline | one token of mask 0 |
| the prompt does not fit | the same; no policy acted |

A row of mask 0 is outside mean and std of its group, and has no loss and no KL.

Token ids only grow: the prompt is rendered once, what was sampled is never tokenised again, and
between two replies goes `ChatTemplate.suffix`. The finished record is on disk before `play`
returns. A record that cannot be written is the only error that gets out (WriteFailed). Sessions are
closed when the last call to the environment has come back, however late.
"""

from __future__ import annotations

import asyncio
import copy
import os
import threading
import time
import traceback
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from coevolve.agents.drivers import advance, finish_all, open_all
from coevolve.agents.episode import Episode, PolicyReply
from coevolve.agents.prompts.styles import style
from coevolve.environments.protocol import EpisodeLimits
from coevolve.errors import CoevolveError
from coevolve.models.chat_template import ChatTemplate
from coevolve.models.transformers_lm import TokenRow
from coevolve.records import Rollout, Task, Usage
from coevolve.training.metrics import RolloutSummary, summary
from coevolve.training.verl.environment import Environment
from coevolve.training.verl.files import VerlFiles, VerlJob, append

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from coevolve.environments.client import Pool


class Sampled(NamedTuple):
    """A reply in tokens."""

    token_ids: list[int]  # The token that ends it included, where the policy ended it
    logprobs: list[float]


Generate = Callable[[list[int], int, str], Awaitable[Sampled]]
"""(token ids so far, most tokens, key for draws) → reply."""


class EpisodePlace(NamedTuple):
    """Where in training an episode is."""

    iteration: int
    step: int  # Optimiser steps done
    policy: str
    again: int  # How often the task came before in this step
    session: int  # Index in the group


class PlayedEpisode(NamedTuple):
    """A row of verl's; `response_ids`, `mask`, `logprobs` have one length, at least 1."""

    rollout: Rollout
    summary: RolloutSummary
    prompt_ids: list[int]
    response_ids: list[int]
    mask: list[int]
    logprobs: list[float]
    seconds_policy: float
    seconds_environment: float


class _Episode:
    """An episode that is being played, its tokens and its clock."""

    def __init__(self, episode: Episode):
        self.episode = episode
        self.row = TokenRow([], [], [])
        self.prompt = 0
        self.calls: list[Future] = []
        self.policy = self.environment = 0.0

    def sampled(self, reply: Sampled) -> None:
        self.row.token_ids.extend(reply.token_ids)
        self.row.mask.extend([1] * len(reply.token_ids))
        self.row.logprobs.extend(reply.logprobs)

    def shown(self, token_ids: list[int]) -> None:
        self.row.token_ids.extend(token_ids)
        self.row.mask.extend([0] * len(token_ids))
        self.row.logprobs.extend([0.0] * len(token_ids))


class Player:
    """Belongs to one event loop. `stops`: ids that end a reply."""

    def __init__(self, job: VerlJob, tokenizer: PreTrainedTokenizerBase, stops: set[int]):
        self._job, self._settings, self._limits = job, job.settings, job.limits
        self._style = style(job.settings.prompt_style)
        self.chat = ChatTemplate(tokenizer, self._style.render)
        self.stops = stops | {self.chat.end}
        self._environment = Environment(job, self._style)
        self._writing = threading.Lock()
        self._began: dict[int, float] = {}

    async def play(self, task: Task, place: EpisodePlace, generate: Generate) -> PlayedEpisode:
        """Plays, records and returns one episode."""
        made = _Episode(self._episode(task, place))
        outcome = made.episode
        try:
            async with asyncio.timeout_at(self._deadline(place.step)):
                pool = await self._environment.pool()
                alone = asyncio.timeout(self._limits.episode_timeout)
                async with self._environment.room(pool), alone:
                    await self._play(made, pool, generate)
        except Exception as error:  # noqa: BLE001 - the boundary: what failed is a masked record
            outcome = _lost(made.episode, self._reason(error))
            self._environment.release(made.episode, made.calls)
        return await self._recorded(made, outcome, place)

    def close(self) -> None:
        """Ends the environment's processes; episodes under way are lost."""
        self._environment.close()

    def _deadline(self, step: int) -> float:
        """When all episodes of the step must be over, by the event loop; waiting counts."""
        if step not in self._began:
            self._began = {step: asyncio.get_running_loop().time()}
        return self._began[step] + self._limits.step_timeout

    def _reason(self, error: Exception) -> str:
        """Why an episode is lost, in one line; the log gets tracebacks of the unforeseen."""
        if isinstance(error, TimeoutError):
            episode, step = self._limits.episode_timeout, self._limits.step_timeout
            return f"not over within {episode:g} s, or the step's episodes not within {step:g} s"
        if not isinstance(error, CoevolveError):
            traceback.print_exception(error)
        # Ray's has the whole traceback, the cause at its end
        cause = str(error).strip().rpartition("\n")[2]
        return " ".join(f"{type(error).__name__}: {cause}".split())

    def _episode(self, task: Task, place: EpisodePlace) -> Episode:
        """As `agents.rollout` names it; limits, tools and style follow with the pool."""
        again, settings = place.again, self._settings
        sample = again * settings.samples + place.session
        group = f"{place.iteration}-{place.step}-{task.id}" + (f"-{again}" if again else "")
        key = f"{settings.seed}-{place.step}-{task.id}-{sample}"
        limits, style = EpisodeLimits(), self._style
        return Episode(task, limits, key=key, group=group, sample=sample, style=style)

    async def _play(self, made: _Episode, pool: Pool, generate: Generate) -> None:
        episode, most = made.episode, self._settings.max_actions
        episode.tools, episode.style = pool.tools, self._environment.style
        episode.limits = pool.description.limits
        if most is not None:
            episode.limits = msgspec.structs.replace(episode.limits, max_steps=most)
        await self._call(made, open_all, [episode], pool)
        if not episode.done:
            self._begin(made)
        while not episode.done:
            await self._turn(made, pool, generate)
        await self._call(made, finish_all, [episode], pool)

    def _begin(self, made: _Episode) -> None:
        prompt = self.chat.prompt(made.episode.unread, self._environment.schemas.of(made.episode))
        made.shown(prompt)
        made.prompt = len(prompt)
        most = self._settings.prompt_tokens
        if made.prompt > most:
            why = f"the prompt alone is {made.prompt} tokens, more than the {most} of a prompt"
            made.episode.stop("max_tokens", why)

    async def _turn(self, made: _Episode, pool: Pool, generate: Generate) -> None:
        """One reply of the policy, and what the environment makes of it."""
        episode, row, settings = made.episode, made.row, self._settings
        limit = made.prompt + settings.episode_tokens - settings.prompt_tokens
        room = limit - len(row.token_ids)
        began = time.monotonic()
        key, most = f"{episode.key}-{episode.replies}", min(room, settings.reply_tokens or room)
        reply = await generate(list(row.token_ids), most, key)
        made.policy += time.monotonic() - began
        if not reply.token_ids or len(reply.token_ids) != len(reply.logprobs):
            why = "the server gave a reply without tokens, or without their log-probabilities"
            episode.stop("env_error", why)
            return
        made.sampled(reply)
        ended = reply.token_ids[-1] in self.stops
        text = self.chat.decode(reply.token_ids[:-1] if ended else reply.token_ids)
        said = PolicyReply({"role": "assistant", "content": text}, truncated=not ended)
        await self._call(made, advance, [(episode, said)], pool)
        if not episode.done:
            self._go_on(made, limit)

    def _go_on(self, made: _Episode, limit: int) -> None:
        """Appends what follows the reply, if another one still fits."""
        suffix = self.chat.suffix(made.episode.unread)
        if made.row.token_ids[-1] != self.chat.end:
            suffix = [self.chat.end, *suffix]
        if len(made.row.token_ids) + len(suffix) >= limit:
            made.episode.stop("max_tokens")
        else:
            made.shown(suffix)

    async def _call(
        self, made: _Episode, function: Callable[..., None], *arguments: object
    ) -> None:
        """A blocking call; it goes on in the background when the episode is given up."""
        began = time.monotonic()
        await self._environment.in_thread(function, *arguments, calls=made.calls)
        made.environment += time.monotonic() - began

    async def _recorded(
        self, made: _Episode, episode: Episode, place: EpisodePlace
    ) -> PlayedEpisode:
        row, sampled = made.row, sum(made.row.mask)
        episode.tokens = row if row.token_ids else None
        episode.usage = Usage(prompt_tokens=len(row.mask) - sampled, completion_tokens=sampled)
        rollout = episode.record(
            policy=self._style.label(place.policy),
            iteration=place.iteration,
            step=place.step,
            seed=self._settings.seed,
            keep_tokens=self._settings.keep_tokens,
        )
        await self._environment.in_thread(self._write, rollout, calls=[])
        masked = rollout.stop_reason == "env_error" or not sampled
        return PlayedEpisode(
            rollout=rollout,
            summary=summary(rollout, self._settings.reward, episode.replies),
            prompt_ids=self._prompt(made),
            response_ids=[self.chat.end] if masked else row.token_ids[made.prompt :],
            mask=[0] if masked else row.mask[made.prompt :],
            logprobs=[0.0] if masked else row.logprobs[made.prompt :],
            seconds_policy=made.policy,
            seconds_environment=made.environment,
        )

    def _prompt(self, made: _Episode) -> list[int]:
        """A row needs a prompt that fits; of one that doesn't, nothing is trained anyway."""
        fits = 0 < made.prompt <= self._settings.prompt_tokens
        return made.row.token_ids[: made.prompt] if fits else [self.chat.end]

    def _write(self, rollout: Rollout) -> None:
        files, attempt = VerlFiles(self._job.run), self._job.attempt
        file = files.episode_file(rollout.iteration, attempt, os.getpid())
        with self._writing:
            append(file, rollout)


def _lost(episode: Episode, reason: str) -> Episode:
    """A copy, ended by the infrastructure; the original may still be changed by a thread."""
    lost = copy.copy(episode)
    lost.messages, lost.steps = list(episode.messages), list(episode.steps)
    lost.stop("env_error", reason)
    return lost
