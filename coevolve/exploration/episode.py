"""One episode from the explorer's side: its tools, values, steps, and the memory at its start.

An explorer is a generator that yields a call and receives the executed step. `ExplorerEpisode`
makes the calls (typed arguments), notes the steps, and classifies what came of an attempt.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Generator
from typing import Any

from coevolve.environments.protocol import ActionResult, Opened, Tool
from coevolve.exploration.arguments import KnownValues, ObservedValue, draw, lookup_only
from coevolve.exploration.memory import Lesson, Memory, Recipe
from coevolve.exploration.schemas import Shape, properties, usual_shape
from coevolve.records import Action, Call, Step

Explorer = Generator[Call, Step, None]  # Yields calls, receives their steps; may end early


class ExplorerEpisode:
    def __init__(self, opened: Opened, memory: Memory, rng: random.Random):
        offered = opened.tools or list(memory.tools)
        self.tools = {name: memory.tools[name] for name in offered if name in memory.tools}
        self.memory, self.rng = memory, rng
        self.state = opened.state
        self.known = KnownValues(opened.values)
        self.steps: list[Step] = []
        self.fresh: list[ObservedValue] = []  # The values that the last step showed
        self.tried: Counter[tuple[str, str, Shape]] = Counter()
        self.lessons: list[Lesson] = []

    def record(self, step: Step) -> None:
        """Takes up an executed step. The driver calls it before the explorer sees the step."""
        self.steps.append(step)
        tool = self.tools[step.action.tool]
        self.tried[self.state, tool.name, tuple(step.action.arguments)] += 1
        self.state = step.state or self.state
        self.fresh = self.known.see(step, tool)

    def call(
        self, tool: Tool, shape: Shape | None = None, fixed: dict[str, Any] | None = None
    ) -> Call:
        """A call with drawn arguments; `fixed` ones are taken as they are."""
        shape = usual_shape(self.rng, tool) if shape is None else shape
        arguments = {}
        for name in properties(tool):
            if fixed and name in fixed:
                arguments[name] = fixed[name]
            elif name in shape:
                arguments[name] = draw(self.rng, tool, name, self.known)
        return Call(tool.name, arguments)

    def times_tried(self, tool: str, shape: Shape) -> int:
        key = (self.state, tool, shape)
        return self.tried[key] + self.memory.tried[key]

    def siblings(self, tool: Tool) -> list[Tool]:
        """The other tools of its app."""
        return [t for t in self.tools.values() if t.app == tool.app and t.name != tool.name]

    def note(self, tool: Tool, recipe: Recipe, outcome: str, source: str | None = None) -> None:
        self.lessons.append(Lesson(tool.name, recipe, outcome, source))

    def tells_arguments(self) -> bool:
        """Whether this environment names wrong arguments; other refusals then vouch for them."""
        own = any(lesson.outcome == "arguments" for lesson in self.lessons)
        return own or bool(self.memory.refused)

    def missing(self, tool: Tool, shape: Shape) -> list[str]:
        """Parameters for which neither the user nor an output of the same app has a value."""
        return [name for name in shape if self._missing(tool, name)]

    def _missing(self, tool: Tool, name: str) -> bool:
        observed = self.known.observed(tool, name)
        if lookup_only(tool, name):
            if self.memory.producers(name, tool.app):
                return not any(seen.tool.app == tool.app for _, seen in observed)
            return not observed
        schema = properties(tool)[name]
        plain = "enum" in schema or schema.get("type") not in ("string", "integer")
        return not plain and not observed and not self.known.given(tool, name)


def step_of(action: Action, result: ActionResult) -> Step:
    """The record of an executed action."""
    return Step(
        turn=0,
        action=action,
        observation=result.observation,
        error=result.error or result.fatal,
        effects=result.effects,
        state=result.state,
    )


def outcome_of(step: Step, tool: Tool) -> str:
    """What came of calling a tool, in the words of `Lesson`."""
    if step.error:
        return "arguments" if "argument" in step.error or step.error == "not_found" else "state"
    if step.effects:
        return "effect"
    return "response" if tool.checked else "nothing"
