"""One call from what stands for it: a JSON object, or a call expression with literal arguments.

Name and arguments are found under the keys that models use for them (`NAMES`, `ARGUMENTS`), beside
the name, or under the name as in ``{"ls": {}}``. Positional arguments are bound by the tool's
documented parameters, in their order; one object alone is all of them, unless the first parameter
is an object itself. Around a call, an assignment, ``print`` and ``await`` say nothing. One known
prefix of a name (``functions.``, the tool's app) is dropped. Whether a tool exists and takes these
arguments is the environment's to say: it answers with near matches. Raises `Unreadable`.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any

from coevolve.agents.actions.values import (
    FORM,
    MAX_CALLS,
    Unreadable,
    check,
    json_value,
    literal,
    repaired,
    tree,
)
from coevolve.environments.protocol import Tool
from coevolve.records import Call

Tools = Mapping[str, Tool]
NO_TOOLS: Tools = MappingProxyType({})

CALL = re.compile(r"\[?\s*([A-Za-z_][\w.]*)\(")
NAMES = tuple(
    "name function tool tool_name function_name action toolName functionName recipient_name func"
    " api_name".split()
)
"""Keys of a call's name, the first one present counts."""
ARGUMENTS = tuple(
    "arguments parameters args params tool_input action_input input toolInput toolArgs kwargs"
    " api_args".split()
)
"""Keys of a call's arguments."""
_LISTS = tuple("tool_calls function_calls tool_uses calls actions commands".split())
"""Keys of a list of calls."""
_WRAPS = tuple(
    "function functionCall function_call tool_call toolCall toolUse tool_use call".split()
)
"""Keys of one call."""
PREFIXES = ("functions", "tools", "default_api")
"""Names of the module that models imagine around their tools."""
_ABOUT = {"id", "type", "index", "call_id", "tool_call_id", *NAMES}
"""Keys of a call that are no arguments."""


def items(value: Any, tools: Tools) -> list[Any]:
    """The calls in a JSON value: a list, an object of calls by name, or the value itself."""
    if isinstance(value, list):
        return [call for item in value for call in (_by_name(item, tools) or [item])]
    lists = _under(value, _LISTS, list)
    return items(lists[0], tools) if len(lists) == 1 else _by_name(value, tools) or [value]


def unwrapped(item: Any) -> Any:
    """A call without what wraps it, as in ``{"type": "function", "function": {...}}``."""
    inner = _under(item, _WRAPS, dict)
    return inner[0] if len(inner) == 1 else item


def _under(value: Any, keys: tuple[str, ...], kind: type) -> list[Any]:
    """What a JSON object holds under the keys, as far as it is of the type."""
    found = value if isinstance(value, dict) else {}
    return [found[key] for key in keys if isinstance(found.get(key), kind)]


def _by_name(value: Any, tools: Tools) -> list[Any]:
    """The calls of an object of arguments by tool, as an object or as its text."""
    if not isinstance(value, dict) or not all(k in tools and _argued(v) for k, v in value.items()):
        return []
    return [{"name": name, "arguments": arguments} for name, arguments in value.items()]


def _argued(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, str) and value.lstrip().startswith("{"))


def from_json(item: Any, tools: Tools) -> Call:
    """A call from its JSON object, wrapped or not."""
    item = unwrapped(item)
    named = [item[key] for key in NAMES if key in item] if isinstance(item, dict) else []
    if not named or not isinstance(named[0], str) or not named[0].strip():
        raise Unreadable("bad_call", f"A call needs the name of a tool. {FORM}")
    name = tool_name(named[0].strip(), tools)
    arguments = _arguments(item, name, tools)
    if isinstance(arguments, str):
        arguments = _whole(arguments, name) if arguments.strip() else {}
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise Unreadable("bad_call", f"The arguments of {name} must be a JSON object. {FORM}")
    check(name, arguments)
    return Call(name, arguments)


def _arguments(item: dict[str, Any], name: str, tools: Tools) -> Any:
    """The value under a key for arguments, else the parameters that stand beside the name."""
    own = parameters(name, tools).keys()
    for key in ARGUMENTS:
        if key in item and (key in ARGUMENTS[:2] or key not in own):
            return item[key]
    called = next(key for key in NAMES if key in item)
    keys = [key for key in item if key != called and (key in own or key not in _ABOUT)]
    if not own >= set(keys):
        raise Unreadable("bad_call", f'The arguments of {name} belong under "arguments". {FORM}')
    return {key: item[key] for key in keys}


def known(name: str, tools: Tools) -> bool:
    """Whether a name is an offered tool's, with a prefix or without."""
    return name in tools or name.rpartition(".")[2] in tools


def resembles_tool(name: str, tools: Tools) -> bool:
    """Whether a name is an offered tool's or nearly one's; without tools any may be."""
    if not tools or known(name, tools):
        return True
    return bool(difflib.get_close_matches(name.rpartition(".")[2], tools, 1, 0.8))


def reads_as_call(name: str, text: str, tools: Tools) -> bool:
    """Whether ``name(…)`` can be read as a call, or names a parameter of the tool."""
    try:
        return bool(from_python(text, tools))
    except Unreadable:
        own = parameters(name.rpartition(".")[2], tools)
        return any(re.search(rf"[(,]\s*{re.escape(key)}\s*=", text) for key in own)


def parameters(tool: str, tools: Tools) -> dict[str, Any]:
    """The schemas of a tool's parameters by name; none where the tool is unknown."""
    return tools[tool].parameters.get("properties", {}) if tool in tools else {}


def typed(tool: str, parameter: str, text: str, tools: Tools) -> Any:
    """The argument that a text between marks spells; the text itself where the parameter is one."""
    text = text.removeprefix("\n").removesuffix("\n")
    kind = parameters(tool, tools).get(parameter, {}).get("type")
    if kind == "string" or (isinstance(kind, list) and "string" in kind):
        return text
    try:
        return _whole(text, tool)
    except Unreadable:
        return {"True": True, "False": False, "None": None}.get(text.strip(), text)


def _whole(text: str, name: str) -> Any:
    """The value of a text that holds one."""
    value, end = json_value(text)
    if more := text[end:].strip():
        hint = f"After the arguments of {name} there is more: {more[:30]!r}. {FORM}"
        raise Unreadable("bad_json", hint)
    return value


def from_python(source: str, tools: Tools) -> list[Call]:
    """The calls of Python text that holds nothing else: single ones, lists, several lines."""
    body = tree(repaired(source.strip())).body
    found = (item for statement in body for item in _expressions(statement, tools))
    return [_call(item, tools) for item in islice(found, MAX_CALLS + 1)]  # more are refused anyway


def _expressions(statement: ast.stmt, tools: Tools) -> Iterator[ast.expr]:
    """What a statement calls. Printing a variable calls nothing."""
    match statement:
        case ast.Expr(value=value) | ast.Assign(targets=[ast.Name()], value=value):
            pass
        case _:
            raise Unreadable("bad_call", "Only calls are understood, no other code.")
    for outer in value.elts if isinstance(value, ast.List | ast.Tuple) else [value]:
        for item in outer.elts if isinstance(outer, ast.List) else [outer]:
            item = item.value if isinstance(item, ast.Await) else item
            match item:
                case ast.Call(func=ast.Name(id="print"), args=args) if "print" not in tools:
                    yield from (inner for inner in args if isinstance(inner, ast.Call))
                case _:
                    yield item


def _call(node: ast.expr, tools: Tools) -> Call:
    if not isinstance(node, ast.Call):
        raise Unreadable("bad_call", f"Every item must be a call with plain values. {FORM}")
    name = tool_name(_dotted(node.func), tools)
    arguments = _object(node, name, tools)
    if arguments is None:
        given = [(_parameter(name, i, tools), literal(arg)) for i, arg in enumerate(node.args)]
        for keyword in node.keywords:
            if keyword.arg is None:
                raise Unreadable("bad_call", f"{name}: write the arguments one by one, without **.")
            given.append((keyword.arg, literal(keyword.value)))
        arguments = dict(given)
        if len(arguments) < len(given):
            raise Unreadable("bad_call", f"{name}: an argument is given twice.")
    check(name, arguments)
    return Call(name, arguments)


def _dotted(node: ast.expr) -> str:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        hint = "A call is the name of a tool with its arguments in parentheses."
        raise Unreadable("bad_call", hint)
    return ".".join([node.id, *reversed(parts)])


def _object(node: ast.Call, tool: str, tools: Tools) -> dict[str, Any] | None:
    """The arguments of a call that gives them as one object, as in ``f({"a": 1})``."""
    if node.keywords or len(node.args) != 1 or not isinstance(node.args[0], ast.Dict):
        return None
    value, own = literal(node.args[0]), parameters(tool, tools)
    takes_object = next(iter(own.values()), {}).get("type") in ("object", "dict")
    return value if not takes_object or (value and own.keys() >= value.keys()) else None


def _parameter(tool: str, position: int, tools: Tools) -> str:
    if tool not in tools:
        raise Unreadable("bad_call", f"{tool}: write the arguments by name. {FORM}")
    names = list(parameters(tool, tools))
    if position >= len(names):
        raise Unreadable(
            "bad_call", f"{tool} takes {len(names)} arguments: {', '.join(names) or 'none'}."
        )
    return names[position]


def tool_name(name: str, tools: Tools) -> str:
    """The name without a known prefix. Raises Unreadable for an unknown one."""
    name = re.sub(rf"^(?:{'|'.join(PREFIXES)})\.", "", name)
    plain = name.replace("\\_", "_")
    name = plain if plain in tools else name
    prefix, dot, last = name.rpartition(".")
    if name in tools or not dot or not tools:
        return name
    if last in tools and tools[last].app == prefix:
        return last
    if last == "call" and prefix in tools:
        return prefix
    near = [last] if last in tools else difflib.get_close_matches(name, tools, 3)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    raise Unreadable("bad_call", f"There is no tool {name[:60]!r}.{hint}")
