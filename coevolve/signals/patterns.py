"""Action patterns: what a rollout did, as tuples of names, each counted once per rollout.

| family | pattern of the calls search, read, send |
|---|---|
| 1gram | (search) (read) (send) |
| 2gram | (^, search) (search, read) (read, send) (send, $) |
| 3gram | (^, search, read) (search, read, send) (read, send, $) |
| keys | (search, query) (read, id) (send, text, to): a tool with its arguments' names, sorted |
| app | (mail) …: a tool's app |

The paper leaves "action pattern" open; bigrams with sentinels are this project's reading (CoEvolve,
stage 1). For code actions the names are those of the `apis.app.function` calls: the rollout's
`tools`, which ran, else those in the text (`agents.code.calls`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise

from coevolve.agents.code.calls import api_calls
from coevolve.signals.views import CallView, RolloutSteps, StepView, action_of

Pattern = tuple[str, ...]
FAMILIES = {
    "1gram": "single actions",
    "2gram": "two actions in a row",
    "3gram": "three actions in a row",
    "keys": "an action with the names of its arguments",
    "app": "the app that an action belongs to",
}
START, END = "^", "$"
CODE = "code"
"""Stands for the tool of an action that calls none: code without a known call, unreadable text."""


def grams(tools: list[str], n: int) -> set[Pattern]:
    """Distinct n-grams of tool names, with sentinels for n > 1. No calls, no pattern."""
    if not tools:
        return set()
    if n == 1:
        return {(tool,) for tool in tools}
    padded = [START, *tools, END]
    if n == 2:
        return set(pairwise(padded))
    return set(zip(*(padded[i:] for i in range(n)), strict=False))


def action_tools(action: CallView | str) -> list[str]:
    """Names of the tools that an action calls, in order."""
    return api_calls(action) if isinstance(action, str) else [action.tool]


def step_tools(step: StepView) -> list[str]:
    return action_tools(action_of(step))


def called_tools(rollout: RolloutSteps) -> list[str]:
    """Names in order: the record's own list, else those in its actions."""
    return rollout.tools or [name for step in rollout.steps for name in step_tools(step)]


def patterns(
    family: str, tools: list[str], rollout: RolloutSteps | None, apps: Mapping[str, str]
) -> Collection[Pattern]:
    """Distinct patterns of one rollout; `keys` needs its steps. A tool's app is the one that `apps`
    names, else the name before the first dot."""
    if family == "app":
        return {(apps.get(tool) or tool.split(".", 1)[0],) for tool in tools}
    if family == "keys":
        calls = [action_of(step) for step in rollout.steps] if rollout else []
        return {(c.tool, *sorted(c.arguments)) for c in calls if isinstance(c, CallView)}
    return grams(tools, int(family[0]))
