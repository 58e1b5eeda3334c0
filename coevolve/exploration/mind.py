"""`explore` with a model: reflection on the contexts, then one conversation per episode.

A `Mind` takes the place of the program explorers in `explore`: it reflects on the chosen contexts, and runs the plans of a
block, many at a time, each in a session of its own. Between blocks the shared memory learns as it does without a model, so that
every prompt is a pure function of the inputs, the settings and the model's earlier replies, and a rerun finds each of its calls
in the ledger. `sample` numbers an episode's calls by the episode, so that two rounds from one start state differ.

A reply that is no reply (`BadReply`) loses its episode, or its context's episodes: counted, not journaled, asked again by a
rerun. A conversation that outgrows the model's context ends its episode. An episode that ends before its first action says why,
and is not journaled: a rerun asks again, at no cost where the ledger has the reply.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from coevolve.environments.client import EnvSession, Fault, Pool
from coevolve.environments.protocol import Tool
from coevolve.exploration.context import Focus
from coevolve.exploration.conversation import HINTS, Conversation
from coevolve.exploration.lockstep import (
    Done,
    Finished,
    exploration_of,
    open_sessions,
    seed_of,
    step_of,
)
from coevolve.exploration.memory import Lesson, Memory, Recipe
from coevolve.exploration.plans import Plan
from coevolve.exploration.reflection import Reflection, Refused, reflect
from coevolve.exploration.settings import ExploreSettings
from coevolve.exploration.situation import outcome_of
from coevolve.models.chat import BadReply, ChatReply, ChatRequest, ContextFull
from coevolve.models.prompt_templates import load
from coevolve.models.service import Models
from coevolve.records import Call, Step, Usage

EVIDENCE_TOKENS = 4000
"""Of trajectories in one reflection."""
CUT, SILENT, UNREADABLE = (
    "the model's reply was cut at its limit of tokens",
    "the model's reply held no action",
    "the model's replies could not be read",
)
"""Why an episode ended."""


class Mind:
    """The exploring model. `prompts` is a directory with templates that replace the package's own."""

    def __init__(
        self,
        models: Models,
        model: str,
        *,
        temperature: float | None = None,
        prompts: str | None = None,
        evidence_tokens: int = EVIDENCE_TOKENS,
    ):
        self.models, self.model = models, model
        self._request = ChatRequest(model=model, messages=[], temperature=temperature)
        self._budget = evidence_tokens
        self._reflect, self._explore, self._observe = (
            load(n, prompts) for n in ("reflect", "explore", "observe")
        )

    @property
    def identity(self) -> dict[str, object]:
        """What decides its replies, for the journal's configuration."""
        versions = [prompt.version for prompt in (self._reflect, self._explore, self._observe)]
        return {
            "model": self.model,
            "temperature": self._request.temperature,
            "prompts": versions,
            "evidence": self._budget,
        }

    def reflections(
        self, found: list[Focus], tools: Mapping[str, Tool]
    ) -> list[Reflection | Refused | BadReply]:
        """One per context, in order; the error where there was no answer."""

        async def ask(focus: Focus) -> Reflection | Refused | BadReply:
            try:
                return await reflect(
                    self.models, self._request, self._reflect, focus, tools, self._budget
                )
            except BadReply as error:
                return error

        return list(self.models.each(found, ask))

    def run(
        self, pool: Pool, plans: list[Plan], memory: Memory, settings: ExploreSettings
    ) -> Iterator[Done]:
        """Runs the plans of a block; yields them in order."""
        opened = list(zip(plans, *open_sessions(pool, plans, settings), strict=True))

        async def play(item: tuple) -> Done:
            plan, start, session = item
            if isinstance(session, Fault):
                return Done(plan, None, session.message)
            episode = _Episode(self, pool, plan, session, memory, settings)
            fault = await episode.play()
            if fault:
                return fault
            exploration = exploration_of(pool, plan, start, episode.steps, settings, episode.usage)
            finished = Finished(
                exploration, _lessons(episode.steps, pool.tools), session.opened.state
            )
            return Done(plan, finished, "" if episode.steps else episode.end)

        try:
            yield from self.models.each(opened, play)
        finally:
            pool.close([session for *_, session in opened if not isinstance(session, Fault)])


class _Episode:
    def __init__(
        self,
        mind: Mind,
        pool: Pool,
        plan: Plan,
        session: EnvSession,
        memory: Memory,
        settings: ExploreSettings,
    ):
        self._mind, self._pool, self._plan, self._session, self._most = (
            mind,
            pool,
            plan,
            session,
            settings.max_actions,
        )
        rng = random.Random(f"{seed_of(plan, settings)}-tools")
        self._talk = Conversation(
            plan, session.opened, memory, pool.description.actions == "code", rng
        )
        self.steps: list[Step] = []
        self.usage = Usage()
        self.end = ""
        """Why there was no further action, where the model gave none."""

    async def play(self) -> Done | None:
        """Plays the episode; None, or what it was lost to."""
        self._talk.open(self._mind._explore, self._most)
        while len(self.steps) < self._most:
            try:
                reply = await self._ask()
            except BadReply:
                return Done(self._plan, None, lost=True)
            except ContextFull as error:
                self.end = str(error)
                return None
            hints = self._talk.hints
            action = None if reply.truncated else self._talk.take(reply)
            if action is not None:
                (answer,) = await asyncio.to_thread(self._pool.step, [(self._session, 0, [action])])
                if isinstance(answer, Fault):
                    return Done(self._plan, None, answer.message)
                step = step_of(action, answer[0])
                self.steps.append(step)
                self._talk.observe(self._mind._observe, step, self._most - len(self.steps))
                if answer[0].fatal:
                    return None
            elif self._talk.hints == hints or self._talk.hints >= HINTS:
                self.end = (
                    CUT if reply.truncated else SILENT if self._talk.hints == hints else UNREADABLE
                )
                return None
        return None

    async def _ask(self) -> ChatReply:
        request = replace(
            self._mind._request,
            messages=list(self._talk.messages),
            tools=self._talk.schemas,
            sample=_number(self._plan),
            prompt_version=f"{self._mind._explore.version}-{self._mind._observe.version}",
        )
        reply = await self._mind.models.chat(request)
        self.usage = Usage(
            self.usage.prompt_tokens + reply.usage.prompt_tokens,
            self.usage.completion_tokens + reply.usage.completion_tokens,
        )
        return reply


def _number(plan: Plan) -> int:
    """The episode's number in its run, the end of its key."""
    return int(plan.key.rpartition("-")[2])


def _lessons(steps: list[Step], tools: Mapping[str, Tool]) -> list[Lesson]:
    """What an episode teaches of the tools it called: which worked, with which parameters."""
    calls = [
        (step, tools[step.action.tool])
        for step in steps
        if isinstance(step.action, Call) and step.action.tool in tools
    ]
    return [
        Lesson(tool.name, Recipe(tuple(step.action.arguments)), outcome_of(step, tool))
        for step, tool in calls
    ]
