"""What an exploring model is shown, and what it does: one conversation per episode.

The first message holds the instructions, the context, the values that a user of the start state knows and what the run has
seldom done; after each action comes its observation, fenced as data, with what was tried in this state before. Only the first
call of a reply is taken, so that each action is chosen from the last observation. A reply that cannot be read is answered with
the hint; a reply without a call ends the episode.

Nothing but the model's own replies decides what happens next: text of the environment is data in a fence, whatever it says.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any

from coevolve.agents.actions.replies import parse_message
from coevolve.agents.code.replies import read
from coevolve.agents.prompts.styles import (
    NATIVE,
    Message,
    function_schema,
    result_messages,
    user_message,
)
from coevolve.agents.prompts.transcript import clip
from coevolve.environments.protocol import Opened, Tool, is_plain
from coevolve.exploration.arguments import Shape
from coevolve.exploration.memory import Memory
from coevolve.exploration.plans import Plan, least_used
from coevolve.models.chat import ChatReply
from coevolve.models.prompt_templates import PromptTemplate
from coevolve.records import Action, Call, Step

MOST_TOOLS = 64
"""Tools offered to the model; of a larger inventory, those of the apps that the plan is about, then others by chance."""
LONGEST = 4000
"""Characters of an observation that are shown."""
HINTS = 3
"""Unreadable replies that one episode bears."""
TRIED = 12
"""Actions named as tried in the present state."""
SELDOM = 12
"""Tools named as seldom used."""
VALUES = 3
"""Known values shown per parameter."""


class Conversation:
    """One episode's messages. `hints` counts the replies that could not be read."""

    def __init__(self, plan: Plan, opened: Opened, memory: Memory, code: bool, rng: random.Random):
        self._plan, self._memory, self._code = plan, memory, code
        self.tools = offered(plan, opened, memory, rng)
        self.state = opened.state
        self.messages: list[Message] = []
        self.hints = 0
        self._opened, self._seldom = opened, _seldom(self.tools, memory, rng)
        self._own: Counter[tuple[str, str, Shape]] = Counter()

    @property
    def schemas(self) -> list[dict[str, Any]]:
        return [] if self._code else [function_schema(tool) for tool in self.tools.values()]

    def open(self, prompt: PromptTemplate, steps: int) -> None:
        """The first message."""
        unseen = self._plan.mode != "random"
        text = prompt.render(
            mode=self._plan.mode,
            code=self._code,
            steps=steps,
            notes=self._plan.context.reflection,
            aim=[name for name in self._plan.context.aim if name in self.tools],
            known=_known(self._opened, self.tools),
            observation=self._opened.observation,
            seldom=self._seldom if unseen else [],
            tried=self._tried(),
            tools=[f"{tool.name}: {tool.description}" for tool in self.tools.values()]
            if self._code
            else [],
        )
        self.messages.append(user_message(text))

    def take(self, reply: ChatReply) -> Action | None:
        """Takes up a reply: its action; None where it holds none, and then `hints` tells whether a hint was given."""
        message = reply.message
        if self._code:
            self.messages.append(message)
            found = read(reply.text)
            if found.issue:
                self.hints += 1
                self._answer(found.issue.hint)
            return found.code
        parsed = parse_message(message, self.tools)
        if message.get("tool_calls"):
            message["tool_calls"] = message["tool_calls"][:1]
        self.messages.append(message)
        if parsed.issues:
            self.hints += 1
            self._answer(parsed.issues[0].told(NATIVE).hint)
            return None
        return parsed.calls[0] if parsed.calls else None

    def observe(self, prompt: PromptTemplate, step: Step, left: int) -> None:
        """Shows what an action did."""
        if isinstance(step.action, Call):
            self._own[self.state, step.action.tool, tuple(step.action.arguments)] += 1
        self.state = step.state or self.state
        text = prompt.render(
            observation=clip(step.observation, LONGEST),
            error=_word(step.error),
            changed=bool(step.effects),
            left=left,
            tried=self._tried(),
        )
        self._answer(text)

    def _answer(self, text: str) -> None:
        """Answers the last reply, or its call."""
        self.messages += (
            [user_message(text)] if self._code else result_messages(self.messages[-1], [text])
        )

    def _tried(self) -> list[str]:
        """Actions already tried in this state, by other episodes and by this one; those with plain names, for they stand among
        the instructions."""
        if self._plan.mode == "random":
            return []
        seen: Counter[str] = Counter()
        for counter in (self._memory.tried, self._own):
            for (state, tool, shape), times in counter.items():
                if state == self.state and all(map(is_plain, (tool, *shape))):
                    seen[f"{tool}({', '.join(shape)})"] += times
        return [
            f"{call} ×{times}"
            for call, times in sorted(seen.items(), key=lambda pair: (-pair[1], pair[0]))[:TRIED]
        ]


def _word(error: str | None) -> str | None:
    """The kind of error if it is a word; anything longer stays out of the instructions, the observation tells it anyway."""
    return error if error is None or re.fullmatch(r"\w{1,40}", error) else "error"


def offered(plan: Plan, opened: Opened, memory: Memory, rng: random.Random) -> dict[str, Tool]:
    """The tools that the model is told of, in the environment's order."""
    all_ = {
        name: memory.tools[name] for name in opened.tools or memory.tools if name in memory.tools
    }
    if len(all_) <= MOST_TOOLS:
        return all_
    named = [
        *plan.context.aim,
        *plan.pattern.goals,
        *(step.action.tool for step in plan.pattern.steps),
    ]
    apps = [plan.app, *(all_[name].app for name in named if name in all_)]
    others = sorted({tool.app for tool in all_.values()} - set(apps))
    alone = [app for app in others if sum(tool.app == app for tool in all_.values()) <= 2]
    rng.shuffle(others)
    chosen: set[str] = set()
    for app in dict.fromkeys([*apps, *alone, *others]):
        own = {name for name, tool in all_.items() if tool.app == app}
        if len(chosen | own) <= MOST_TOOLS:
            chosen |= own
    return {name: tool for name, tool in all_.items() if name in chosen}


def _seldom(tools: dict[str, Tool], memory: Memory, rng: random.Random) -> list[str]:
    return [name for name in least_used(memory, rng) if name in tools][:SELDOM]


def _known(opened: Opened, tools: dict[str, Tool]) -> dict[str, list[Any]]:
    """What the user of this start state knows, by parameter, for the tools at hand."""
    parameters = {name for tool in tools.values() for name in tool.parameters.get("properties", {})}
    qualified = {
        f"{tool.name}.{name}"
        for tool in tools.values()
        for name in tool.parameters.get("properties", {})
    }
    return {
        key: found[:VALUES]
        for key, found in opened.values.items()
        if key in parameters or key in qualified
    }
