"""Asks a model for tasks: it reads all rounds of one context and answers with `Proposals`.

An action of a solution names the executed step that it repeats (``{"step": 4}``), or has `step`
null and is *composed*: a call that the exploration does not hold, executed before it is believed.
Decoding is strict: a confidence that is missing, no number or outside 0–1 refuses the proposal.
Where the whole answer stays refused after the retry, its items are read one by one, so that one bad
proposal does not cost the others; each reject keeps the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct

from coevolve.agents.prompts.transcript import transcript
from coevolve.environments.client import Pool
from coevolve.environments.protocol import Opened
from coevolve.models.chat import AnswerRejected
from coevolve.models.prompt_templates import PromptTemplate
from coevolve.models.structured_output import NO_TEXT, is_text
from coevolve.records import Action, Call, Exploration

VALUES_SHOWN = 3  # Known values shown per parameter
MAX_REPLY_CHARACTERS = 2000  # How much of a refused reply is kept
EVIDENCE_TOKENS = 8000  # Tokens of the explorations shown for one context, shared by its rounds


class ContextRounds(NamedTuple):
    """All rounds of one context, and how a session in each one's start state opens."""

    explorations: Sequence[Exploration]
    opened: Sequence[Opened]


class ProposedAction(Struct, frozen=True):
    """A step to repeat, or with `step` null a composed action."""

    step: int | None
    tool: str | None = None
    arguments: dict[str, Any] | None = None
    code: str | None = None

    @property
    def action(self) -> Action | None:
        """The action that it holds beside the step, if any."""
        if self.code is not None:
            return self.code
        return Call(self.tool, self.arguments or {}) if self.tool else None


class ProposedTurn(Struct, frozen=True):
    """One turn of the user's, and the actions that answer it."""

    query: str
    solution: list[ProposedAction]


class Proposal(Struct, frozen=True):
    """One task."""

    exploration: int  # Number of the exploration whose start state it has
    turns: list[ProposedTurn]
    guideline: str
    confidence: Annotated[float, Meta(ge=0, le=1)]


class Proposals(Struct, frozen=True):
    """The answer to the prompt."""

    tasks: list[Proposal]


class InvalidProposal(NamedTuple):
    """A part of an answer that is no proposal."""

    reason: str
    reply: str


def prompt_text(prompt: PromptTemplate, rounds: ContextRounds, pool: Pool, most: int) -> str:
    """The prompt that asks for at most `most` proposals for the rounds of one context."""
    budget, used, shown = EVIDENCE_TOKENS // len(rounds.explorations), {}, []
    for exploration, opened in zip(*rounds, strict=True):
        called = {s.action.tool for s in exploration.steps if isinstance(s.action, Call)}
        tools = {name: pool.tools[name] for name in sorted(called) if name in pool.tools}
        used |= tools
        parameters = [
            (t.name, p) for t in tools.values() for p in t.parameters.get("properties", {})
        ]
        keys = {key for tool, name in parameters for key in (name, f"{tool}.{name}")}
        known = {key: vs[:VALUES_SHOWN] for key, vs in opened.values.items() if key in keys}
        steps = transcript(exploration.steps, budget)
        shown.append({"steps": steps, "known": known, "observation": opened.observation})
    return prompt.render(
        most=most,
        goals=pool.description.max_goals,
        code=pool.description.actions == "code",
        notes=rounds.explorations[0].context.reflection,
        explorations=shown,
        tools=[f"{tool.name}: {tool.description}" for tool in used.values()],
    )


def salvage(error: AnswerRejected) -> Iterator[Proposal | InvalidProposal]:
    """The items of a refused answer, each on its own; the whole as invalid where it has none."""
    try:
        items = json.loads(error.reply)["tasks"]
    except (ValueError, TypeError, KeyError, RecursionError):
        items = None
    if not isinstance(items, list) or not items:
        yield InvalidProposal(error.reason, error.reply[:MAX_REPLY_CHARACTERS])
        return
    for item in items:
        try:
            if not is_text(item):
                raise msgspec.ValidationError(NO_TEXT)
            yield msgspec.convert(item, Proposal)
        except msgspec.ValidationError as reason:
            yield InvalidProposal(str(reason), json.dumps(item)[:MAX_REPLY_CHARACTERS])
