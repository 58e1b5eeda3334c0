"""`explore` with a model: reflection on the contexts, then one conversation per episode.

A `ModelExplorer` takes the place of the program explorers in `explore`: it reflects on the chosen
contexts, and runs the plans of a block, many at a time, each in a session of its own. Between
blocks the shared memory learns as it does without a model, so that every prompt is a pure function
of the inputs, the settings and the model's earlier replies, and a rerun finds each of its calls in
the ledger.

A reply that is no reply (`BadReply`) loses its episode, or its context's episodes: counted, not
journaled, asked again by a rerun. A conversation that outgrows the model's context ends its
episode. An episode that ends before its first action says why, and is not journaled: a rerun asks
again, at no cost where the ledger has the reply.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from coevolve.environments.client import EnvSession, Fault, Pool
from coevolve.environments.protocol import ActionResult, Tool
from coevolve.exploration.batch import (
    FinishedEpisode,
    PlanResult,
    exploration_of,
    open_sessions,
    seed_of,
)
from coevolve.exploration.context import ContextSignals
from coevolve.exploration.conversation import MAX_HINTS, Conversation
from coevolve.exploration.episode import outcome_of, step_of
from coevolve.exploration.memory import Lesson, Memory, Recipe
from coevolve.exploration.plans import Plan
from coevolve.exploration.reflection import Reflection, RefusedReflection, reflect
from coevolve.exploration.settings import ExploreSettings
from coevolve.models.chat import BadReply, ChatReply, ChatRequest, ContextFull
from coevolve.models.prompt_templates import load
from coevolve.models.service import Models
from coevolve.records import Action, Call, Start, Step, Usage

EVIDENCE_TOKENS = 4000
"""Tokens of trajectories in one reflection."""
# Why an episode ended.
CUT = "the model's reply was cut at its limit of tokens"
SILENT = "the model's reply held no action"
UNREADABLE = "the model's replies could not be read"


class ModelExplorer:
    """The exploring model. `prompts` is a directory with templates that replace the package's
    own."""

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
        self.request = ChatRequest(model=model, messages=[], temperature=temperature)
        self.evidence_tokens = evidence_tokens
        names = ("reflect", "explore", "observe")
        self.reflect, self.explore, self.observe = (load(name, prompts) for name in names)

    @property
    def identity(self) -> dict[str, object]:
        """What decides its replies, for the journal's configuration."""
        return {
            "model": self.model,
            "temperature": self.request.temperature,
            "prompts": [p.version for p in (self.reflect, self.explore, self.observe)],
            "evidence": self.evidence_tokens,
        }

    def reflections(
        self, found: list[ContextSignals], tools: Mapping[str, Tool]
    ) -> list[Reflection | RefusedReflection | BadReply]:
        """One per context, in order; the error where there was no answer."""

        async def ask(signals: ContextSignals) -> Reflection | RefusedReflection | BadReply:
            prompt, budget = self.reflect, self.evidence_tokens
            try:
                return await reflect(self.models, self.request, prompt, signals, tools, budget)
            except BadReply as error:
                return error

        return list(self.models.each(found, ask))

    def run(
        self, pool: Pool, plans: list[Plan], memory: Memory, settings: ExploreSettings
    ) -> Iterator[PlanResult]:
        """Runs the plans of a block; yields them in order."""
        opened = open_sessions(pool, plans, settings)

        async def play(item: tuple[Plan, Start, EnvSession | Fault]) -> PlanResult:
            plan, start, session = item
            if isinstance(session, Fault):
                return PlanResult(plan, None, session.message)
            episode = _ModelEpisode(self, pool, plan, session, memory, settings)
            dropped = await episode.play()
            if dropped:
                return dropped
            steps = episode.steps
            exploration = exploration_of(pool, plan, start, steps, settings, episode.usage)
            lessons = _lessons(steps, pool.tools)
            finished = FinishedEpisode(exploration, lessons, session.opened.state)
            return PlanResult(plan, finished, "" if steps else episode.end)

        try:
            yield from self.models.each(opened, play)
        finally:
            pool.close([session for *_, session in opened if not isinstance(session, Fault)])


class _ModelEpisode:
    def __init__(
        self,
        explorer: ModelExplorer,
        pool: Pool,
        plan: Plan,
        session: EnvSession,
        memory: Memory,
        settings: ExploreSettings,
    ):
        self._explorer, self._pool, self._plan, self._session = explorer, pool, plan, session
        self._max_steps = settings.max_actions
        rng = random.Random(f"{seed_of(plan, settings)}-tools")
        code = pool.description.actions == "code"
        self._talk = Conversation(plan, session.opened, memory, code, rng)
        self.steps: list[Step] = []
        self.usage = Usage()
        self.end = ""
        """Why there was no further action, where the model gave none."""

    async def play(self) -> PlanResult | None:
        """Plays the episode; None, or why it is dropped."""
        self._talk.open(self._explorer.explore, self._max_steps)
        while len(self.steps) < self._max_steps and not self.end:
            try:
                reply = await self._ask()
            except BadReply:
                return PlanResult(self._plan, None, lost=True)
            except ContextFull as error:
                self.end = str(error)
                break
            hints = self._talk.hints
            action = None if reply.truncated else self._talk.take(reply)
            if action is not None:
                result = await self._act(action)
                if isinstance(result, Fault):
                    return PlanResult(self._plan, None, result.message)
                if result.fatal:
                    break
            elif reply.truncated:
                self.end = CUT
            elif self._talk.hints == hints:
                self.end = SILENT
            elif self._talk.hints >= MAX_HINTS:
                self.end = UNREADABLE
        return None

    async def _act(self, action: Action) -> ActionResult | Fault:
        call = [(self._session, 0, [action])]
        (answer,) = await asyncio.to_thread(self._pool.step, call)
        if isinstance(answer, Fault):
            return answer
        self.steps.append(step_of(action, answer[0]))
        left = self._max_steps - len(self.steps)
        self._talk.observe(self._explorer.observe, self.steps[-1], left)
        return answer[0]

    async def _ask(self) -> ChatReply:
        explorer = self._explorer
        request = replace(
            explorer.request,
            messages=list(self._talk.messages),
            tools=self._talk.schemas,
            # The episode's number in its run: two rounds from one start state are two samples.
            sample=int(self._plan.key.rpartition("-")[2]),
            prompt_version=f"{explorer.explore.version}-{explorer.observe.version}",
        )
        reply = await explorer.models.chat(request)
        self.usage = Usage(
            self.usage.prompt_tokens + reply.usage.prompt_tokens,
            self.usage.completion_tokens + reply.usage.completion_tokens,
        )
        return reply


def _lessons(steps: list[Step], tools: Mapping[str, Tool]) -> list[Lesson]:
    """What an episode teaches of the tools it called: which worked, with which parameters."""
    return [
        Lesson(action.tool, Recipe(tuple(action.arguments)), outcome_of(step, tools[action.tool]))
        for step in steps
        if isinstance(action := step.action, Call) and action.tool in tools
    ]
