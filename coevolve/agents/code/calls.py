"""Which APIs a program's text calls, where actions are code. A rollout's `tools` are these names
only where the environment does not say which calls ran (`protocol.Result.tools`).

Every call of ``apis.app.function(…)`` counts, as often as it stands in the text, under the name
``app.function``: in the order of the text, but an inner call before its outer one, as they run.
Whatever else a program calls is its own affair. A variable that is bound to `apis`, to an app or to
one of its functions stands for it. Code that does not parse calls nothing.
"""

from __future__ import annotations

import ast
import warnings

ROOT = "apis"


def api_calls(code: str) -> list[str]:
    """``app.function`` of each call, in order."""
    tree = parsed(code)
    names = named_calls(tree) if tree else {}
    ends = sorted(names, key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0))
    return [names[node] for node in ends]


def named_calls(tree: ast.Module) -> dict[ast.Call, str]:
    """``app.function`` of each node of a tree that calls one."""
    bound: dict[str, tuple[str, ...]] = {ROOT: ()}
    names: dict[ast.Call, str] = {}
    # A stack instead of recursion: a model's expression may be of any depth.
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, inner_done = waiting.pop()
        if inner_done:
            _bind(node, bound)
            continue
        if isinstance(node, ast.Call):
            path = _path(node.func, bound)
            if path is not None and len(path) == 2:
                names[node] = ".".join(path)
        if isinstance(node, ast.Assign):
            waiting.append((node, True))
        waiting.extend((child, False) for child in reversed(list(ast.iter_child_nodes(node))))
    return names


def _bind(node: ast.Assign, bound: dict[str, tuple[str, ...]]) -> None:
    path = _path(node.value, bound)
    for target in node.targets:
        if isinstance(target, ast.Name):
            bound.pop(target.id, None)
            if path is not None:
                bound[target.id] = path


def _path(node: ast.expr, bound: dict[str, tuple[str, ...]]) -> tuple[str, ...] | None:
    """Names below `apis`: () for itself, (app,), (app, function); None for something else."""
    names = dotted(node, 3)
    above = bound.get(names[0]) if names else None
    path = (*above, *names[1:]) if above is not None else ()
    return path if above is not None and len(path) <= 2 else None


def parsed(code: str) -> ast.Module | None:
    """The syntax tree of a program, None where it is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def dotted(node: ast.expr, most: int) -> tuple[str, ...] | None:
    """The names of ``a.b["c"]``; None for anything else and for more than `most` names."""
    names: list[str] = []
    while len(names) < most:
        match node:
            case ast.Name(id=name):
                return (name, *reversed(names))
            case ast.Attribute(attr=name, value=inner):
                pass
            case ast.Subscript(slice=ast.Constant(value=str(name)), value=inner):
                pass
            case _:
                return None
        names.append(name)
        node = inner
    return None
