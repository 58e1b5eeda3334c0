"""Action patterns: what a rollout did, as tuples of names, each counted once per rollout.

| family | pattern of the calls search, read, send |
|---|---|
| 1gram | (search) (read) (send) |
| 2gram | (^, search) (search, read) (read, send) (send, $) |
| 3gram | (^, search, read) (search, read, send) (read, send, $) |
| keys | (search, query) (read, id) (send, text, to): a tool with the names of its arguments, sorted |
| app | (mail) …: a tool's app |

The paper leaves "action pattern" open; bigrams with sentinels are this project's reading (CoEvolve, stage 1). For code actions the names
are those of the `apis.app.function` calls: the rollout's `tools`, which ran, else those in the text (`agents.code.calls`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise

from coevolve.agents.code.calls import api_calls
from coevolve.signals.views import CallView, StepView, Whole, action_of

Pattern = tuple[str, ...]
FAMILIES = ("1gram", "2gram", "3gram", "keys", "app")
START, END = "^", "$"


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
    """Names of what an action calls, in order."""
    return api_calls(action) if isinstance(action, str) else [action.tool]


def step_tools(step: StepView) -> list[str]:
    return action_tools(action_of(step))


def called_tools(rollout: Whole) -> list[str]:
    """Names in order: the record's own list, else what its actions say."""
    return rollout.tools or [name for step in rollout.steps for name in step_tools(step)]


def app_of(tool: str, apps: Mapping[str, str]) -> str:
    """The tool's app: as the inventory has it, else the name before the first dot."""
    return apps.get(tool) or tool.split(".", 1)[0]


def patterns(
    family: str, tools: list[str], rollout: Whole | None, apps: Mapping[str, str]
) -> Collection[Pattern]:
    """Distinct patterns of one rollout; `keys` needs its steps."""
    if family == "app":
        return {(app_of(tool, apps),) for tool in tools}
    if family == "keys":
        calls = (action_of(step) for step in rollout.steps) if rollout else ()
        return {
            (call.tool, *sorted(call.arguments)) for call in calls if isinstance(call, CallView)
        }
    return grams(tools, int(family[0]))
