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
    ending = (place for place, own in enumerate(called) if any(name in ends for name in own))
    last = next(ending, len(tree.body))
    statements = tree.body[:last]
    acts = [_acts([tools[name] for name in own if name in tools]) for own in called[:last]]
    order = _order(statements, acts)
    changes = [place for place in order if acts[place]]
    if changes == sorted(changes):
        return None
    moved = [*(statements[place] for place in order), *tree.body[last:]]
    return "\n".join(map(ast.unparse, moved))


def _acts(called: list[Tool]) -> bool:
    """Whether a statement that calls these changes something."""
    return any(not tool.read_only and not tool.name.endswith(".login") for tool in called)


def _order(statements: list[ast.stmt], acts: list[bool]) -> list[int]:
    names = [_names(statement) for statement in statements]
    needs = [
        {earlier for earlier in range(later) if _bound_together(names[earlier], names[later])}
        for later in range(len(statements))
    ]
    left, order = set(range(len(statements))), []
    while left:
        ready = [place for place in sorted(left) if not needs[place] & left]
        looks = [place for place in ready if not acts[place]]
        order.append(looks[0] if looks else ready[-1])
        left.remove(order[-1])
    return order


StatementNames = tuple[set[str], set[str]]


def _bound_together(earlier: StatementNames, later: StatementNames) -> bool:
    (used, changed), (used_later, changed_later) = earlier, later
    return bool((used & used_later & (changed | changed_later)) - {ROOT})


def _names(statement: ast.stmt) -> StatementNames:
    """Names that a statement uses, and those that it binds or may change.

    A method, an item and ``+=`` may change a name's value. Names of comprehensions are their own.
    """
    used: set[str] = set()
    changed: set[str] = set()
    scoped: set[str] = set()
    for node in ast.walk(statement):
        match node:
            case ast.Name(id=name):
                used.add(name)
                if not isinstance(node.ctx, ast.Load):
                    changed.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                used.add(name)
                changed.add(name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
                changed.add(name)
            case ast.Call(func=ast.Subscript(value=ast.Name(id=name))):
                changed.add(name)
            case ast.Attribute(value=ast.Name(id=name)) | ast.Subscript(value=ast.Name(id=name)):
                if not isinstance(node.ctx, ast.Load):
                    changed.add(name)
            case ast.comprehension(target=target):
                scoped |= {inner.id for inner in ast.walk(target) if isinstance(inner, ast.Name)}
    return used, changed - scoped
