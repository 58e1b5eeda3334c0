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
from coevolve.environments.protocol import Tool
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
from coevolve.models.chat import BadReply, ChatRequest, ContextFull
from coevolve.models.prompt_templates import load
from coevolve.models.service import Models
from coevolve.records import Call, Start, Step, Usage

EVIDENCE_TOKENS = 4000  # Tokens of trajectories in one reflection
# Why an episode ended.
CUT = "the model's reply was cut at its limit of tokens"
SILENT = "the model's reply held no action"
UNREADABLE = "the model's replies could not be read"


class ModelExplorer:
    """The exploring model. `prompts` is a directory of templates that replace the package's."""

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
        self._evidence_tokens = evidence_tokens
        names = ("reflect", "explore", "observe")
        self._reflect, self._explore, self._observe = (load(name, prompts) for name in names)

    @property
    def identity(self) -> dict[str, object]:
        """What decides its replies, for the journal's configuration."""
        return {
            "model": self.model,
            "temperature": self._request.temperature,
            "prompts": [p.version for p in (self._reflect, self._explore, self._observe)],
            "evidence": self._evidence_tokens,
        }

    def reflections(
        self, found: list[ContextSignals], tools: Mapping[str, Tool]
    ) -> list[Reflection | RefusedReflection | BadReply]:
        """One per context, in order; the error where there was no answer."""

        async def ask(signals: ContextSignals) -> Reflection | RefusedReflection | BadReply:
            prompt, budget = self._reflect, self._evidence_tokens
            try:
                return await reflect(self.models, self._request, prompt, signals, tools, budget)
            except BadReply as error:
                return error

        return list(self.models.each(found, ask))

    def run(
        self, pool: Pool, plans: list[Plan], memory: Memory, settings: ExploreSettings
    ) -> Iterator[PlanResult]:
        """Runs the plans of a block; yields them in order."""
        opened, limit = open_sessions(pool, plans, settings), settings.max_actions

        async def play(item: tuple[Plan, Start, EnvSession | Fault]) -> PlanResult:
            plan, start, session = item
            if isinstance(session, Fault):
                return PlanResult(plan, None, session.message)
            rng = random.Random(f"{seed_of(plan, settings)}-tools")
            code = pool.description.actions == "code"
            talk = Conversation(plan, session.opened, memory, code, rng)
            talk.open(self._explore, limit)
            try:
                steps, usage, end = await self._play(talk, plan, pool, session, limit)
            except BadReply:
                return PlanResult(plan, None, lost=True)
            except _Faulty as fault:
                return PlanResult(plan, None, str(fault))
            exploration = exploration_of(pool, plan, start, steps, settings, usage)
            lessons = _lessons(steps, pool.tools)
            finished = FinishedEpisode(exploration, lessons, session.opened.state)
            return PlanResult(plan, finished, "" if steps else end)

        try:
            yield from self.models.each(opened, play)
        finally:
            pool.close([session for *_, session in opened if not isinstance(session, Fault)])

    async def _play(
        self, talk: Conversation, plan: Plan, pool: Pool, session: EnvSession, max_actions: int
    ) -> tuple[list[Step], Usage, str]:
        """Plays one episode: its steps, its tokens, and why the model gave no further action."""
        steps, usage, end = list[Step](), Usage(), ""
        while len(steps) < max_actions and not end:
            try:
                reply = await self.models.chat(self._next_request(talk, plan))
            except ContextFull as error:
                return steps, usage, str(error)
            prompt_tokens = usage.prompt_tokens + reply.usage.prompt_tokens
            usage = Usage(prompt_tokens, usage.completion_tokens + reply.usage.completion_tokens)
            hints = talk.hints
            action = None if reply.truncated else talk.take(reply)
            if action is None:
                unreadable = UNREADABLE if talk.hints >= MAX_HINTS else ""
                end = CUT if reply.truncated else SILENT if talk.hints == hints else unreadable
                continue
            call = [(session, 0, [action])]
            (answer,) = await asyncio.to_thread(pool.step, call)
            if isinstance(answer, Fault):
                raise _Faulty(answer.message)
            steps.append(step_of(action, answer[0]))
            talk.observe(self._observe, steps[-1], max_actions - len(steps))
            if answer[0].fatal:
                break
        return steps, usage, end

    def _next_request(self, talk: Conversation, plan: Plan) -> ChatRequest:
        return replace(
            self._request,
            messages=list(talk.messages),
            tools=talk.schemas,
            # The episode's number in its run: two rounds from one start state are two samples.
            sample=int(plan.key.rpartition("-")[2]),
            prompt_version=f"{self._explore.version}-{self._observe.version}",
        )


class _Faulty(Exception):
    """The environment failed in the middle of an episode."""


def _lessons(steps: list[Step], tools: Mapping[str, Tool]) -> list[Lesson]:
    """What an episode teaches of the tools it called: which worked, with which parameters."""
    return [
        Lesson(action.tool, Recipe(tuple(action.arguments)), outcome_of(step, tools[action.tool]))
        for step in steps
        if isinstance(action := step.action, Call) and action.tool in tools
    ]
