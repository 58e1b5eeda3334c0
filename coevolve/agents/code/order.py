"""The same program in another order: its own changes the other way round, as far as names allow.

Two statements keep their order where one binds a name that the other uses, or where they share a
name that either changes (a list that grows). What only looks comes as early as it can, in its own
order; what ends the program stays last. An outcome that depends on more than this depends on an
order that no request of two wishes says. Nothing is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping

from coevolve.agents.code.calls import ROOT, named_calls, parsed
from coevolve.environments.protocol import Tool


def reordered(code: str, tools: Mapping[str, Tool], ends: Collection[str]) -> str | None:
    """The program with its changes in reverse order.

    None where that is the order it has, where it does not parse, and where it is nested too deeply.
    """
    tree = parsed(code)
    if tree is None or not tree.body:
        return None
    try:
        return _reversed(tree, tools, ends)
    except RecursionError:
        return None


def _reversed(tree: ast.Module, tools: Mapping[str, Tool], ends: Collection[str]) -> str | None:
    names = named_calls(tree)
    called = [
        [names[node] for node in ast.walk(statement) if node in names] for statement in tree.body
    ]
    last = next(
        (place for place, own in enumerate(called) if any(name in ends for name in own)),
        len(tree.body),
    )
    statements = tree.body[:last]
    acts = [_acts([tools[name] for name in own if name in tools]) for own in called[:last]]
    order = _order(statements, acts)
    if [place for place in order if acts[place]] == [
        place for place, acting in enumerate(acts) if acting
    ]:
        return None
    return "\n".join(
        ast.unparse(node) for node in [*(statements[place] for place in order), *tree.body[last:]]
    )


def _acts(called: list[Tool]) -> bool:
    """Whether a statement that calls these changes something."""
    return any(not tool.read_only and not tool.name.endswith(".login") for tool in called)


def _order(statements: list[ast.stmt], acts: list[bool]) -> list[int]:
    needs = [
        {e for e in range(n) if _bound_together(statements[e], statements[n])}
        for n in range(len(statements))
    ]
    left, order = set(range(len(statements))), []
    while left:
        ready = [place for place in sorted(left) if not needs[place] & left]
        looks = [place for place in ready if not acts[place]]
        order.append(looks[0] if looks else ready[-1])
        left.remove(order[-1])
    return order


def _bound_together(earlier: ast.stmt, later: ast.stmt) -> bool:
    changed = _changed(earlier) | _changed(later)
    return bool((_used(earlier) & _used(later) & changed) - {ROOT})


def _used(statement: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)} | _defined(
        statement
    )


def _changed(statement: ast.stmt) -> set[str]:
    """Names that it binds, or whose value it may change: by a method, an item or ``+=``."""
    found = _defined(statement)
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        inner = node.func if isinstance(node, ast.Call) else node
        if isinstance(inner, ast.Attribute | ast.Subscript) and isinstance(inner.value, ast.Name):
            if isinstance(node, ast.Call) or not isinstance(inner.ctx, ast.Load):
                found.add(inner.value.id)
    return found - _scoped(statement)


def _scoped(statement: ast.stmt) -> set[str]:
    """Names of comprehensions, which are their own affair."""
    return {
        name.id
        for node in ast.walk(statement)
        if isinstance(node, ast.comprehension)
        for name in ast.walk(node.target)
        if isinstance(name, ast.Name)
    }


def _defined(statement: ast.stmt) -> set[str]:
    return {
        node.name
        for node in ast.walk(statement)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
