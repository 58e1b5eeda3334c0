"""Walks an executed solution and gives the verdict on each of its values: what `abstract` and
`validate` ask of a task.

The user's turns up to a step's own and the start's observation are its text; the outputs before it
are what it was shown. Of a program each constant is judged that the request has to hold
(`programs`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from coevolve.environments.protocol import ActionResult, CodeSyntax, Tool
from coevolve.grounding.arguments import UNKNOWN, Grounding, grounded
from coevolve.grounding.programs import unknown_constants
from coevolve.grounding.sources import at, output, parts_of, sources
from coevolve.records import Action, Call, Step, canonical


class JudgedValue(NamedTuple):
    """A value of a solution."""

    step: int
    name: str  # Tool, path and value, or the part of a program, for a reader
    grounding: Grounding


def judged(
    steps: Sequence[Step],
    queries: Sequence[str],
    observation: str,
    tools: Mapping[str, Tool],
    style: CodeSyntax | None = None,
) -> Iterator[JudgedValue]:
    """The verdict on every argument and every unknown constant of a program. `observation` is shown
    at the start, `style` is how the environment writes calls as code."""
    shown: list[str] = []
    apps = {name: tool.app for name, tool in tools.items()}
    for index, (step, found) in enumerate(zip(steps, sources(list(steps), apps), strict=True)):
        text = "\n".join([*queries[: step.turn + 1], observation])
        if isinstance(step.action, Call):
            tool, arguments = tools[step.action.tool], step.action.arguments
            for path, source in found.items():
                grounding = grounded(arguments, path, tool, text, shown, source)
                yield JudgedValue(index, _named(tool.name, path, arguments), grounding)
        else:
            for what in unknown_constants(step.action, tools, text, style, shown):
                yield JudgedValue(index, what, UNKNOWN)
        shown.append(output_text(step.observation))


def _named(tool: str, path: tuple, arguments: dict) -> str:
    value = canonical(at(arguments, path)).decode()[:200]
    return f"{'.'.join([tool, *map(str, path)])} = {value}"


def executed_steps(
    solution: Sequence[Sequence[Action]], results: Sequence[Sequence[ActionResult]]
) -> list[Step]:
    """The steps of a solution that was executed with these results, turn by turn."""
    return [
        Step(turn, action, result.observation, result.error, result.effects, result.state)
        for turn, (actions, done) in enumerate(zip(solution, results, strict=True))
        for action, result in zip(actions, done, strict=False)
    ]


def first_unknown(
    steps: Sequence[Step],
    queries: Sequence[str],
    observation: str,
    tools: Mapping[str, Tool],
    style: CodeSyntax | None = None,
) -> str | None:
    """The first value that a solver with only the request cannot know, in words."""
    values = judged(steps, queries, observation, tools, style)
    return next((value.name for value in values if value.grounding.kind == "unknown"), None)


def output_text(observation: str) -> str:
    """The keys and values of an output, a line each, so that a list's numbers stand apart."""
    lines: list[str] = []
    for _, part in parts_of(output(observation)):
        if isinstance(part, dict):
            lines += part
        elif not isinstance(part, list):
            lines.append(part if isinstance(part, str) else json.dumps(part))
    return "\n".join(lines)
