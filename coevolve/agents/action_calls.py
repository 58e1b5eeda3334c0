"""One call from what stands for it: a JSON object, or a call expression with literal arguments.

Positional arguments are bound by the tool's documented parameters, in their order. One known prefix of a name (``functions.``,
the tool's app) is dropped. Whether a tool exists and takes these arguments is the environment's to say: it answers with near
matches. Raises `Unreadable`.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from coevolve.agents.action_values import FORM, Unreadable, check, json_value, literal, pairs, repaired, tree
from coevolve.environments.protocol import Tool
from coevolve.records import Call

Tools = Mapping[str, Tool]
NO_TOOLS: Tools = MappingProxyType({})


def from_json(item: Any, tools: Tools) -> Call:
    """A call from its JSON object, also wrapped as ``{"type": "function", "function": {...}}`` or named by ``function``."""
    if isinstance(item, dict) and isinstance(item.get("function"), dict):
        item = item["function"]
    name = item.get("name", item.get("function")) if isinstance(item, dict) else None
    if not isinstance(name, str) or not name.strip():
        raise Unreadable("bad_call", f"A call needs the name of a tool. {FORM}")
    name = tool_name(name.strip(), tools)
    arguments = item.get("arguments", item.get("parameters"))
    if isinstance(arguments, str):
        arguments = _whole(arguments, name) if arguments.strip() else {}
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise Unreadable("bad_call", f"The arguments of {name} must be a JSON object. {FORM}")
    check(name, arguments)
    return Call(name, arguments)


def _whole(text: str, name: str) -> Any:
    """The value of a text that holds one."""
    value, end = json_value(text)
    if text[end:].strip():
        raise Unreadable(
            "bad_json", f"After the arguments of {name} there is more: {text[end:].strip()[:30]!r}. {FORM}"
        )
    return value


def from_python(source: str, tools: Tools) -> list[Call]:
    """The calls of Python text that holds nothing else: single ones, lists of them, several lines."""
    found: list[Call] = []
    for statement in tree(repaired(source.strip())).body:
        if not isinstance(statement, ast.Expr):
            raise Unreadable("bad_call", "Only calls are understood, no other code.")
        value = statement.value
        for item in value.elts if isinstance(value, ast.List | ast.Tuple) else [value]:
            found.append(_call(item, tools))
    return found


def _call(node: ast.expr, tools: Tools) -> Call:
    if not isinstance(node, ast.Call):
        raise Unreadable("bad_call", "Every item must be a call with plain values, as in [tool(parameter=value)].")
    name = tool_name(_dotted(node.func), tools)
    given = [(_parameter(name, i, tools), literal(value)) for i, value in enumerate(node.args)]
    for keyword in node.keywords:
        if keyword.arg is None:
            raise Unreadable("bad_call", f"{name}: write the arguments one by one, without **.")
        given.append((keyword.arg, literal(keyword.value)))
    try:
        arguments = pairs(given)
    except Unreadable:
        raise Unreadable("bad_call", f"{name}: an argument is given twice.") from None
    check(name, arguments)
    return Call(name, arguments)


def _dotted(node: ast.expr) -> str:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        raise Unreadable("bad_call", "A call is the name of a tool with its arguments in parentheses.")
    return ".".join([node.id, *reversed(parts)])


def _parameter(tool: str, position: int, tools: Tools) -> str:
    if tool not in tools:
        raise Unreadable("bad_call", f"{tool}: write the arguments by name, as in {tool}(parameter=value).")
    names = list(tools[tool].parameters.get("properties", {}))
    if position >= len(names):
        raise Unreadable("bad_call", f"{tool} takes {len(names)} arguments: {', '.join(names) or 'none'}.")
    return names[position]


def tool_name(name: str, tools: Tools) -> str:
    """The name without a known prefix. Raises Unreadable where an unknown one stands before a tool's name."""
    name = name.removeprefix("functions.")
    prefix, dot, last = name.rpartition(".")
    if name in tools or not dot or not tools:
        return name
    if last in tools and tools[last].app == prefix:
        return last
    near = [last] if last in tools else difflib.get_close_matches(name, tools, 3)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise Unreadable("bad_call", f"There is no tool {name[:60]!r}.{hint}")
