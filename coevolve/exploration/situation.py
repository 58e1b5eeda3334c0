"""What one episode knows: the tools offered, the values, the steps made, and the memory as it was when its block began.

An explorer is a generator that yields a call and receives the executed step. `Situation` makes the calls (typed arguments),
takes note of the steps, and classifies what came of an attempt.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Generator
from typing import Any

from coevolve.environments.protocol import Opened, Tool
from coevolve.exploration.arguments import (
    Known,
    Leaf,
    Shape,
    draw,
    lookup_only,
    properties,
    usual_shape,
)
from coevolve.exploration.memory import Lesson, Memory, Recipe
from coevolve.records import Call, Step

Explorer = Generator[Call, Step, None]
"""Yields calls, receives their steps; may end early."""


class Situation:
    """One episode from the explorer's side."""

    def __init__(self, opened: Opened, memory: Memory, rng: random.Random):
        offered = opened.tools or list(memory.tools)
        self.tools = {name: memory.tools[name] for name in offered if name in memory.tools}
        self.memory, self.rng = memory, rng
        self.state = opened.state
        self.known = Known(opened.values)
        self.steps: list[Step] = []
        self.fresh: list[Leaf] = []
        """What the last step showed."""
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
        fixed = fixed or {}
        names = [name for name in properties(tool) if name in shape or name in fixed]
        return Call(
            tool.name,
            {n: fixed[n] if n in fixed else draw(self.rng, tool, n, self.known) for n in names},
        )

    def run(
        self, tool: Tool, shape: Shape | None = None, fixed: dict[str, Any] | None = None
    ) -> Generator[Call, Step, Step]:
        return (yield self.call(tool, shape, fixed))

    def times_tried(self, tool: str, shape: Shape) -> int:
        key = (self.state, tool, shape)
        return self.tried[key] + self.memory.tried[key]

    def siblings(self, tool: Tool) -> list[Tool]:
        """The other tools of its app."""
        return [
            other
            for other in self.tools.values()
            if other.app == tool.app and other.name != tool.name
        ]

    def note(self, tool: Tool, recipe: Recipe, outcome: str, source: str | None = None) -> None:
        self.lessons.append(Lesson(tool.name, recipe, outcome, source))

    def tells_arguments(self) -> bool:
        """Whether this environment says when arguments are at fault, so that another refusal vouches for them."""
        return bool(self.memory.refused) or any(
            lesson.outcome == "arguments" for lesson in self.lessons
        )

    def missing(self, tool: Tool, shape: Shape) -> list[str]:
        """Parameters for which neither the user nor an earlier output of the same app has a value."""
        return [name for name in shape if self._missing(tool, name)]

    def _missing(self, tool: Tool, name: str) -> bool:
        schema = properties(tool)[name]
        observed = self.known.observed(tool, name, schema)
        if lookup_only(tool, name) and tool.app in {
            self.memory.tools[p].app for p in self.memory.producers(name)
        }:
            return not any(leaf.app == tool.app for _, leaf in observed)
        if lookup_only(tool, name):
            return not observed
        plain = "enum" in schema or schema.get("type") not in ("string", "integer")
        return not plain and not observed and not self.known.given(tool.name, name, schema)


def outcome_of(step: Step, tool: Tool) -> str:
    """What came of calling a tool, in the words of `Lesson`."""
    if step.error:
        return "arguments" if "argument" in step.error or step.error == "not_found" else "situation"
    if step.effects:
        return "effect"
    return "response" if tool.checked else "nothing"
