"""Action patterns: what a rollout did, as tuples of names, each counted once per rollout.

| family | pattern of the calls search, read, send |
|---|---|
| 1gram | (search) (read) (send) |
| 2gram | (^, search) (search, read) (read, send) (send, $) |
| 3gram | (^, search, read) (search, read, send) (read, send, $) |
| keys | (search, query) (read, id) (send, text, to): a tool with the names of its arguments, sorted |
| app | (mail) …: a tool's app |

The paper leaves "action pattern" open; bigrams with sentinels are this project's reading (CoEvolve, stage 1). For code actions the names
are the `apis.app.function` calls in the order in which they stand in the source, found with `ast`; code that does not parse has none.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from itertools import pairwise

from coevolve.agents.code_calls import parsed
from coevolve.signals.views import CallView, Whole, action_of

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


def code_tools(code: str) -> list[str]:
    """`app.function` of each `apis.app.function(…)` call in a block of Python, in source order."""
    tree = parsed(code)
    if tree is None:
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (name := _api(node.func)):
            found.append((node.end_lineno, node.end_col_offset, name))
    return [name for *_, name in sorted(found)]


def _api(function: ast.expr) -> str | None:
    """`app.function` where the callee is `apis.app.function`. An inner call ends, and so runs, before its outer one."""
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Attribute):
        app = function.value
        if isinstance(app.value, ast.Name) and app.value.id == "apis":
            return f"{app.attr}.{function.attr}"
    return None


def called_tools(rollout: Whole) -> list[str]:
    """Names in order: the record's own list, else what its actions say."""
    if rollout.tools:
        return rollout.tools
    names: list[str] = []
    for step in rollout.steps:
        action = action_of(step)
        names.extend(code_tools(action) if isinstance(action, str) else [action.tool])
    return names


def app_of(tool: str, apps: Mapping[str, str]) -> str:
    """The tool's app: as the inventory has it, else the name before the first dot."""
    return apps.get(tool) or tool.split(".", 1)[0]


def patterns(family: str, tools: list[str], rollout: Whole | None, apps: Mapping[str, str]) -> Collection[Pattern]:
    """Distinct patterns of one rollout; `keys` needs its steps."""
    if family == "app":
        return {(app_of(tool, apps),) for tool in tools}
    if family == "keys":
        calls = (action_of(step) for step in rollout.steps) if rollout else ()
        return {(call.tool, *sorted(call.arguments)) for call in calls if isinstance(call, CallView)}
    return grams(tools, int(family[0]))
