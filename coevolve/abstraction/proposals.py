"""What a model proposes as tasks: it reads all rounds of one context and answers with `Proposals`.

An action of a solution names the executed step that it repeats (``{"step": 4}``), or has `step` null and is *composed*: a call
that the exploration does not hold, executed before it is believed. Decoding is strict: a confidence that is missing, no number
or outside 0–1 refuses the proposal. Where the whole answer stays refused after the retry, its items are read one by one, so that
one bad proposal does not cost the others; each reject keeps the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from coevolve.agents.prompts.transcript import transcript
from coevolve.environments.protocol import Description, Opened, Tool
from coevolve.models.chat import AnswerRejected, ChatRequest
from coevolve.models.prompt_templates import PromptTemplate
from coevolve.models.service import Models
from coevolve.models.structured_output import NO_TEXT, is_text
from coevolve.records import Action, Call, Exploration

VALUES = 3
"""Known values shown per parameter."""
LONGEST = 2000
"""Characters of a refused reply that are kept."""


class ProposedAction(Struct, frozen=True):
    """A step to repeat, or with `step` null a composed action."""

    step: int | None
    tool: str | None = None
    arguments: dict[str, Any] | None = None
    code: str | None = None

    @property
    def action(self) -> Action | None:
        """What it says to do, apart from the step; None where it says nothing."""
        if self.code is not None:
            return self.code
        return Call(self.tool, self.arguments or {}) if self.tool else None


class ProposedTurn(Struct, frozen=True):
    query: str
    """What the user says."""
    solution: list[ProposedAction]


class Proposal(Struct, frozen=True):
    """One task."""

    exploration: int
    """Number of the exploration whose start state it has."""
    turns: list[ProposedTurn]
    guideline: str
    confidence: Annotated[float, Meta(ge=0, le=1)]


class Proposals(Struct, frozen=True):
    tasks: list[Proposal]


class Refused(NamedTuple):
    """Something of an answer that is no proposal."""

    reason: str
    reply: str


async def propose(
    models: Models,
    request: ChatRequest,
    prompt: PromptTemplate,
    group: Sequence[Exploration],
    opened: Sequence[Opened],
    tools: Mapping[str, Tool],
    description: Description,
    *,
    most: int,
    budget: int,
) -> list[Proposal | Refused]:
    """At most `most` proposals for the rounds of one context, or what was refused. `budget` tokens are shared by the rounds."""
    text = prompt.render(
        most=most,
        goals=description.max_goals,
        code=description.actions == "code",
        notes=group[0].context.reflection,
        explorations=[
            {
                "steps": transcript(exploration.steps, budget // len(group)),
                "known": known(state, _called(exploration, tools)),
                "observation": state.observation,
            }
            for exploration, state in zip(group, opened, strict=True)
        ],
        tools=[f"{tool.name}: {tool.description}" for tool in _used(group, tools)],
    )
    asked = replace(
        request, messages=[{"role": "user", "content": text}], prompt_version=prompt.version
    )
    try:
        return list((await models.ask(asked, Proposals)).tasks[:most])
    except AnswerRejected as error:
        return list(salvage(error))[:most]


def salvage(error: AnswerRejected) -> Iterator[Proposal | Refused]:
    """The items of a refused answer, each on its own; the whole as refused where it has none."""
    try:
        items = json.loads(error.reply)["tasks"]
        items = items if isinstance(items, list) and items else None
    except (ValueError, TypeError, KeyError, RecursionError):
        items = None
    if items is None:
        yield Refused(error.reason, error.reply[:LONGEST])
        return
    for item in items:
        if not is_text(item):
            yield Refused(NO_TEXT, json.dumps(item)[:LONGEST])
            continue
        try:
            yield msgspec.convert(item, Proposal)
        except msgspec.ValidationError as reason:
            yield Refused(str(reason), json.dumps(item)[:LONGEST])


def known(opened: Opened, tools: Mapping[str, Tool]) -> dict[str, list[Any]]:
    """What the user of a start state knows, by parameter, as far as these tools take it."""
    names = {
        key
        for t in tools.values()
        for p in t.parameters.get("properties", {})
        for key in (p, f"{t.name}.{p}")
    }
    return {key: values[:VALUES] for key, values in opened.values.items() if key in names}


def _called(exploration: Exploration, tools: Mapping[str, Tool]) -> dict[str, Tool]:
    names = {step.action.tool for step in exploration.steps if isinstance(step.action, Call)}
    return {name: tools[name] for name in sorted(names) if name in tools}


def _used(group: Sequence[Exploration], tools: Mapping[str, Tool]) -> list[Tool]:
    return list(
        {
            name: tool
            for exploration in group
            for name, tool in _called(exploration, tools).items()
        }.values()
    )
