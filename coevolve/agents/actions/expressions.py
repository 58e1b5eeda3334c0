"""Python that calls something else than a tool by its name: ``getattr(fs, 'ls')()``, ``fs['ls']()``, ``os.system('ls')``.

| where | what is an attempt |
|---|---|
| the reply is nothing else | a computed function, a dotted name, a function that gets a text or an argument by name |
| a line of the reply | a computed function, where the line names an offered tool or a name in double underscores |

Nothing of it is looked up or run: the policy gets a hint.
"""

from __future__ import annotations

import ast
import re
from itertools import islice

from coevolve.agents.actions.calls import Tools, known
from coevolve.agents.actions.halves import unfenced
from coevolve.agents.actions.talk import MAX_TRIES, told
from coevolve.agents.actions.values import FORM, Issue, Unreadable, repaired, tree

_LONGEST = 2000
"""Characters of a text that is looked at."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_DOTTED = re.compile(r"[A-Za-z_][\w.]*")


def computed(body: str, tools: Tools) -> Issue | None:
    """The hint for a reply that calls what is no tool's name."""
    for call in _calls(unfenced(body)):
        if (
            not _is_name(call.func)
            or any(word.arg for word in call.keywords)
            or any(map(_is_text, call.args))
        ):
            return _no_tool(call)
    start = 0
    for line in islice(body.split("\n"), MAX_TRIES):
        for call in _calls(line):
            if _is_computed(call.func) and _names_tool(line, tools) and not told(body, start):
                return _no_tool(call)
        start += len(line) + 1
    return None


def _calls(text: str) -> list[ast.Call]:
    """The calls of a text that holds nothing else; those in a list, too."""
    text = text.strip(" `;\t\r\n")
    if not text.endswith((")", "]")) or "(" not in text or len(text) > _LONGEST:
        return []
    try:
        statements = tree(repaired(text)).body
    except Unreadable:
        return []
    values = [
        statement.value if isinstance(statement, ast.Expr) else None for statement in statements
    ]
    items = [
        item
        for value in values
        for item in (value.elts if isinstance(value, ast.List) else [value])
    ]
    return [item for item in items if isinstance(item, ast.Call)] if all(items) else []


def _is_name(function: ast.expr) -> bool:
    return isinstance(function, ast.Name)


def _is_computed(function: ast.expr) -> bool:
    return "__" in ast.unparse(function) or not _DOTTED.fullmatch(ast.unparse(function))


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _names_tool(line: str, tools: Tools) -> bool:
    return "__" in line or any(known(name, tools) for name in _NAME.findall(line))


def _no_tool(call: ast.Call) -> Issue:
    name = ast.unparse(call.func)[:60]
    return Issue(
        "bad_call", f"{name!r} is no tool; a call is the name of a tool with plain values. {FORM}"
    )
