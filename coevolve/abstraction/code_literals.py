"""The values that a program says by itself: constants that it passes to the environment's tools.

    email = "ann@example.com"
    apis.venmo.create_transaction(receiver_email=email, amount=20)      → both, of `venmo.create_transaction`

Only parameters that a tool requires count: optional ones (`page_limit`, `sort_by`) are the program's own way of asking. A constant
counts as itself or through a variable that is only ever bound to it; what a program computes from answers does not count. Nothing is
executed; code that does not parse says nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from coevolve.agents.code.calls import dotted, parsed
from coevolve.environments.protocol import Tool

_UNKNOWN = object()


def spoken(code: str, tools: Mapping[str, Tool]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Tool and required arguments of each call that passes constants."""
    tree = parsed(code)
    if tree is None:
        return
    bound = _bound(tree)
    for node in ast.walk(tree):
        names = dotted(node.func, 16) if isinstance(node, ast.Call) else None
        tool = tools.get(".".join(names).removeprefix("apis.")) if names else None
        if tool:
            required = tool.parameters.get("required", [])
            values = {
                word.arg: _constant(word.value, bound)
                for word in node.keywords
                if word.arg in required
            }
            yield (
                tool.name,
                {name: value for name, value in values.items() if value is not _UNKNOWN},
            )


def _bound(tree: ast.AST) -> dict[str, Any]:
    """Variables that one plain assignment binds, to a constant, and nothing else does."""
    stored = [
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    found = {}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Assign)
            and len(node.targets) == 1
            and isinstance(node.targets[0], ast.Name)
        ):
            name, value = node.targets[0].id, _constant(node.value, {})
            if value is not _UNKNOWN and stored.count(name) == 1:
                found[name] = value
    return found


def _constant(node: ast.expr, bound: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return bound.get(node.id, _UNKNOWN)
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _UNKNOWN
    return value if value is None or isinstance(value, str | int | float | bool) else _UNKNOWN
