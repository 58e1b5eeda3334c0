"""Folds the constants of a program: which texts, numbers and lists its expressions come to, without
execution.

"".join(["Jo", "nas"])                "Jonas" x = "Ann" + "Bo"; f"{x}!"             "AnnBo!"
apis.v.find()[0]["name"]              COMPUTED: depends on what an API returns "pizza".replace("pi",
"x"), "ab"[:1]  raises NotFolded: a text that is not followed here
"""

from __future__ import annotations

import ast
from collections import Counter
from typing import Any

COMPUTED = object()  # The value of an expression that depends on more than constants


class NotFolded(Exception):
    """A text is computed from constants in a way that is not followed."""


class Folder:
    """Folds the expressions of one program."""

    def __init__(self, tree: ast.Module):
        self._bound = _bound(tree)

    def value(self, node: ast.expr, seen: frozenset[str] = frozenset()) -> Any:
        """The value of an expression of constants alone, else COMPUTED. Raises NotFolded. `seen`
        are the variables that are being looked up."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            known = node.id in self._bound and node.id not in seen
            return self.value(self._bound[node.id], seen | {node.id}) if known else COMPUTED
        if isinstance(node, ast.JoinedStr):
            parts = [self.value(part, seen) for part in node.values]
            return COMPUTED if COMPUTED in parts else "".join(map(str, parts))
        if isinstance(node, ast.FormattedValue):
            return self.value(node.value, seen)
        if isinstance(node, ast.List | ast.Tuple):
            values = [self.value(member, seen) for member in node.elts]
            return COMPUTED if COMPUTED in values else values
        if isinstance(node, ast.Dict) and all(isinstance(k, ast.Constant) for k in node.keys):
            values = [self.value(member, seen) for member in node.values]
            keys = (key.value for key in node.keys)
            return COMPUTED if COMPUTED in values else dict(zip(keys, values, strict=True))
        if isinstance(node, ast.UnaryOp | ast.BinOp):
            return self._computed(node, seen)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return self._called(node, node.func, seen)
        if isinstance(node, ast.Subscript) and isinstance(self.value(node.value, seen), str):
            raise NotFolded
        return COMPUTED

    def _computed(self, node: ast.UnaryOp | ast.BinOp, seen: frozenset[str]) -> Any:
        parts = [node.operand] if isinstance(node, ast.UnaryOp) else [node.left, node.right]
        values = [self.value(part, seen) for part in parts]
        if COMPUTED in values:
            return COMPUTED
        numbers = all(isinstance(value, int | float) for value in values)
        if isinstance(node.op, ast.USub) and numbers:
            return -values[0]
        if isinstance(node.op, ast.Add) and (numbers or all(isinstance(v, str) for v in values)):
            return values[0] + values[1]
        if any(isinstance(value, str) for value in values):
            raise NotFolded
        return COMPUTED

    def _called(self, node: ast.Call, method: ast.Attribute, seen: frozenset[str]) -> Any:
        """A method of a constant text: only `join` is followed."""
        base = self.value(method.value, seen)
        given = (*node.args, *(word.value for word in node.keywords))
        values = [self.value(argument, seen) for argument in given]
        if not isinstance(base, str) or COMPUTED in values:
            return COMPUTED
        if method.attr == "join" and len(values) == 1 and isinstance(values[0], list):
            return base.join(map(str, values[0]))
        raise NotFolded


def _bound(tree: ast.Module) -> dict[str, ast.expr]:
    """Variables that one plain assignment binds and nothing changes, no method either."""
    stored: Counter[str] = Counter()
    changed, assigned = set(), {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            stored[node.id] += 1
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.value, ast.Name):
            if isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
                changed.add(node.value.id)
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            if isinstance(node.targets[0], ast.Name):
                assigned[node.targets[0].id] = node.value
    return {n: v for n, v in assigned.items() if stored[n] == 1 and n not in changed}
