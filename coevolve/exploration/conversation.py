"""One episode's conversation with an exploring model: what it is shown, and what it does.

The first message holds the instructions, the context, the values that a user of the start state
knows and what the run has seldom done; after each action comes its observation, fenced as data,
with what was tried in this state before. Only the first call of a reply is taken, so that each
action is chosen from the last observation. A reply that cannot be read is answered with the hint; a
reply without a call ends the episode.

Nothing but the model's own replies decides what happens next: text of the environment is data in a
fence, whatever it says.
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
from coevolve.exploration.memory import Memory
from coevolve.exploration.plans import Plan, least_used
from coevolve.exploration.schemas import Shape, properties
from coevolve.models.chat import ChatReply
from coevolve.models.prompt_templates import PromptTemplate
from coevolve.records import Action, Call, Step

MAX_TOOLS = 64
"""Tools offered to the model: those of the apps that the plan is about, then others by chance."""
MAX_OBSERVATION_CHARS = 4000  # Characters of an observation that are shown
MAX_HINTS = 3  # Unreadable replies that one episode bears
MAX_TRIED = 12  # Actions named as tried in the present state
MAX_SELDOM = 12  # Tools named as seldom used
MAX_VALUES = 3  # Known values shown per parameter


class Conversation:
    """One episode's messages. `hints` counts the replies that could not be read."""

    def __init__(self, plan: Plan, opened: Opened, memory: Memory, code: bool, rng: random.Random):
        self._plan, self._memory, self._code = plan, memory, code
        self.tools = offered(plan, opened, memory, rng)
        self.state = opened.state
        self.messages: list[Message] = []
        self.hints = 0
        seldom = [name for name in least_used(memory, rng) if name in self.tools]
        self._opened, self._seldom = opened, seldom[:MAX_SELDOM]
        self._own: Counter[tuple[str, str, Shape]] = Counter()

    @property
    def schemas(self) -> list[dict[str, Any]]:
        return [] if self._code else [function_schema(tool) for tool in self.tools.values()]

    def open(self, prompt: PromptTemplate, steps: int) -> None:
        """The first message; `steps` is how many actions the episode may have."""
        plan, tools = self._plan, self.tools
        listed = [f"{tool.name}: {tool.description}" for tool in tools.values()]
        text = prompt.render(
            mode=plan.mode,
            code=self._code,
            steps=steps,
            notes=plan.context.reflection,
            aim=[name for name in plan.context.aim if name in tools],
            known=_known(self._opened, tools),
            observation=self._opened.observation,
            seldom=self._seldom if plan.mode != "random" else [],
            tried=self._tried(),
            tools=listed if self._code else [],
        )
        self.messages.append(user_message(text))

    def take(self, reply: ChatReply) -> Action | None:
        """The action of a reply, or None; then `hints` tells whether a hint was given."""
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
            self._answer(parsed.issues[0].with_form(NATIVE).hint)
            return None
        return parsed.calls[0] if parsed.calls else None

    def observe(self, prompt: PromptTemplate, step: Step, left: int) -> None:
        """Shows what an action did."""
        if isinstance(step.action, Call):
            self._own[self.state, step.action.tool, tuple(step.action.arguments)] += 1
        self.state = step.state or self.state
        text = prompt.render(
            observation=clip(step.observation, MAX_OBSERVATION_CHARS),
            error=_error_kind(step.error),
            changed=bool(step.effects),
            left=left,
            tried=self._tried(),
        )
        self._answer(text)

    def _answer(self, text: str) -> None:
        """Answers the last reply, or its call."""
        last = self.messages[-1]
        self.messages += [user_message(text)] if self._code else result_messages(last, [text])

    def _tried(self) -> list[str]:
        """Actions already tried in this state, by other episodes and by this one."""
        if self._plan.mode == "random":
            return []
        found: Counter[str] = Counter()
        for counter in (self._memory.tried, self._own):
            for (state, tool, shape), times in counter.items():
                # They stand among the instructions, where only plain names may.
                if state == self.state and all(map(is_plain, (tool, *shape))):
                    found[f"{tool}({', '.join(shape)})"] += times
        ranked = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
        return [f"{call} ×{times}" for call, times in ranked[:MAX_TRIED]]


def _error_kind(error: str | None) -> str | None:
    """The kind of error if it is a word: the instructions hold nothing longer."""
    return error if error is None or re.fullmatch(r"\w{1,40}", error) else "error"


def offered(plan: Plan, opened: Opened, memory: Memory, rng: random.Random) -> dict[str, Tool]:
    """The tools that the model is told of, in the environment's order."""
    names = opened.tools or memory.tools
    all_ = {name: memory.tools[name] for name in names if name in memory.tools}
    if len(all_) <= MAX_TOOLS:
        return all_
    steps = [step.action.tool for step in plan.pattern.steps]
    named = [*plan.context.aim, *plan.pattern.goals, *steps]
    apps = [plan.app, *(all_[name].app for name in named if name in all_)]
    others = sorted({tool.app for tool in all_.values()} - set(apps))
    sizes = Counter(tool.app for tool in all_.values())
    small = [app for app in others if sizes[app] <= 2]
    rng.shuffle(others)
    chosen: set[str] = set()
    for app in dict.fromkeys([*apps, *small, *others]):
        own = {name for name, tool in all_.items() if tool.app == app}
        if len(chosen | own) <= MAX_TOOLS:
            chosen |= own
    return {name: tool for name, tool in all_.items() if name in chosen}


def _known(opened: Opened, tools: dict[str, Tool]) -> dict[str, list[Any]]:
    """What the user of this start state knows, by parameter, for the tools at hand."""
    pairs = [(tool.name, name) for tool in tools.values() for name in properties(tool)]
    keys = {name for _, name in pairs} | {f"{tool}.{name}" for tool, name in pairs}
    return {key: found[:MAX_VALUES] for key, found in opened.values.items() if key in keys}
