"""What a program says that its request does not: constants, texts built of constants, and places in lists.

    next(row for row in groups if row["name"] == "Jonas's trip")     the request has to name the trip
    "".join(["Jo", "nas"])                                            counts as what it comes to: "Jonas"
    transactions[4]                                                   nobody asks for the fifth by chance

Whoever solves a task has the request alone, so that each text and number of its reference has to be said there. Free are keys
(`row["name"]`), names of apps, what logs in, pages and sorts, truth values, formats of dates, what is printed, defaults, and the
small numbers that count or begin something. A constant argument may be said in the environment's words for it (`said`). Texts
that are computed from constants in ways that are not followed here (`chr`, `replace`, a slice of a text …) are refused: nobody could
tell what they say. Nothing is executed; code that does not parse says nothing.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from coevolve.agents.code.calls import named_calls, parsed
from coevolve.environments.numbers import says_number
from coevolve.environments.protocol import CodeSyntax, Tool
from coevolve.environments.said import mentions, said

_TECHNICAL = re.compile(r"page_index|page_limit|sort_by|\w*token")
_KEY = re.compile(r"[a-z][a-z0-9_]*")
_KEYED = frozenset(["get", "pop", "itemgetter"])
_DATES = frozenset(["strftime", "strptime"])
_HIDING = frozenset(["chr", "bytes", "bytearray", "eval", "exec", "compile", "__import__"])
_ORDINALS = (
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
)
_ENDS = (0, -1)
"""Places that need no word: the first of what is sorted or alone, and the last."""
_OPEN = object()
"""Depends on what an API told."""


class _Hidden(Exception):
    """A text of constants that is not followed."""


def unsaid(
    code: str, tools: Mapping[str, Tool], text: str, style: CodeSyntax | None = None
) -> str | None:
    """The first thing that the program says and the text does not, in words; None where all is said. What the environment adds to
    calls by itself (`style`) need not be."""
    tree = parsed(code)
    if tree is None:
        return None
    try:
        reader = _Reader(tree, tools, text, style or CodeSyntax())
        reader.visit(tree)
    except RecursionError:
        return "what is nested so deeply"
    return next(iter(reader.found), None)


class _Reader(ast.NodeVisitor):
    def __init__(self, tree: ast.Module, tools: Mapping[str, Tool], text: str, style: CodeSyntax):
        self._tools, self._text, self._style = tools, text, style
        self._names = named_calls(tree)
        self._bound = _bound(tree)
        self._free = {tool.app for tool in tools.values()} | {
            name.partition(".")[2] for name in tools
        }
        self._counters = _counters(tree)
        self._exact = False
        """Within an argument or a comparison, where even 0 and 1 mean something."""
        self.found: list[str] = []

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, str):
            self._check(_said_text(value, self._text) or value in self._free, value)
        elif isinstance(value, bytes):
            self.found.append("bytes")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self._check(
                _said_number(value, self._text) or (value in (0, 1) and not self._exact), value
            )

    def visit_Call(self, node: ast.Call) -> None:
        name = self._names.get(node)
        if name is not None:
            self._api_call(node, name)
            return
        called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if called in _HIDING:
            self.found.append(f"{called}(…)")
        if self._whole(node):
            return
        if called == "print":
            self._visit_all([inner for inner in ast.walk(node) if inner in self._names])
        elif called in _DATES or called in ("range", "round"):
            self._visit_all(
                [argument for argument in node.args if not isinstance(argument, ast.Constant)]
            )
        elif called in _KEYED and node.args and _key(node.args[0]):
            self._visit_all([node.func, *node.args[1:], *node.keywords])
        else:
            self.generic_visit(node)

    def _api_call(self, node: ast.Call, name: str) -> None:
        tool = self._tools.get(name)
        values = {word.arg: self._folded(word.value) for word in node.keywords if word.arg}
        plain = {arg: value for arg, value in values.items() if value is not _OPEN}
        for word in node.keywords:
            if self._technical(name, word):
                continue
            counted = self._counters & {
                inner.id for inner in ast.walk(word.value) if isinstance(inner, ast.Name)
            }
            self._check(not counted, f"{name}: {word.arg}, a number that is counted to")
            if word.arg in plain:
                self._argument(tool, name, plain, word.arg)
            else:
                self._within(word.value)
        self._visit_all(node.args)

    def _technical(self, name: str, word: ast.keyword) -> bool:
        """Whether an argument says nothing of the task: pages, tokens, a login, how it ended, what the environment adds."""
        if self._style.arguments.get(name, {}).get(word.arg) == ast.unparse(word.value):
            return True
        ending = name in self._style.ends and word.arg == "status"
        return ending or name.endswith(".login") or _TECHNICAL.fullmatch(word.arg or "") is not None

    def _argument(self, tool: Tool | None, name: str, plain: dict[str, Any], arg: str) -> None:
        value, known = plain[arg], tool.parameters.get("properties", {}) if tool else {}
        acts = tool is not None and not tool.read_only
        if value is None or (isinstance(value, bool) and not acts):
            return
        if isinstance(value, bool) and arg not in known:
            self._check(
                not value or any(mentions(self._text, word) for word in arg.split("_")),
                f"{name}: {arg}",
            )
        elif arg in known:
            self._check(says(plain, arg, tool, self._text), f"{name}: {arg}")
        else:
            members = value if isinstance(value, list) else [value]
            self._check(
                all(_said_value(member, self._text) for member in members), f"{name}: {arg}"
            )

    def visit_Compare(self, node: ast.Compare) -> None:
        inner = list(ast.walk(node))
        if any(isinstance(one, ast.Call) and getattr(one.func, "id", "") == "len" for one in inner):
            self._visit_all(
                [one for one in (node.left, *node.comparators) if not isinstance(one, ast.Constant)]
            )
        elif any(isinstance(one, ast.Subscript | ast.Attribute) for one in inner):
            self._within(node.left, *node.comparators)
        else:
            self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self._whole(node):
            return
        self.visit(node.value)
        place = _integer(node.slice)
        if place is not None:
            self._check(
                place in _ENDS or _said_place(place, self._text), f"place {place} of a list"
            )
        elif not _key(node.slice):
            self.visit(node.slice)

    def visit_Dict(self, node: ast.Dict) -> None:
        self._visit_all([key for key in node.keys if key is not None and not _key(key)])
        self._visit_all(node.values)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not self._whole(node):
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        if not self._whole(node):
            self._visit_all(
                [
                    part.value if isinstance(part, ast.FormattedValue) else part
                    for part in node.values
                ]
            )

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)

    def visit_Raise(self, node: ast.Raise) -> None:
        """What it says is nobody's but the program's."""

    def _visit_all(self, nodes: list[Any]) -> None:
        for node in nodes:
            self.visit(node)

    def _within(self, *nodes: ast.expr) -> None:
        before, self._exact = self._exact, True
        self._visit_all(list(nodes))
        self._exact = before

    def _whole(self, node: ast.expr) -> bool:
        """Whether it is a text of constants alone, which is judged as a whole."""
        value = self._folded(node)
        if not isinstance(value, str):
            return False
        self._check(_said_text(value, self._text), value)
        return True

    def _folded(self, node: ast.expr) -> Any:
        try:
            return _fold(node, self._bound, frozenset())
        except _Hidden:
            self.found.append(ast.unparse(node)[:80])
            return _OPEN

    def _check(self, fine: bool, what: Any) -> None:
        if not fine:
            self.found.append(str(what)[:80])


def says(arguments: dict[str, Any], name: str, tool: Tool, text: str) -> bool:
    """Whether the text says a plain argument of a call: the whole, or each member of a list."""
    value = arguments[name]
    members = isinstance(value, list) and all(
        said(arguments, (name, place), tool, text) for place in range(len(value))
    )
    return members or value is None or said(arguments, (name,), tool, text)


def _said_value(value: Any, text: str) -> bool:
    return (
        _said_number(value, text)
        if isinstance(value, int | float)
        else _said_text(str(value), text)
    )


def _said_text(value: str, text: str) -> bool:
    """The words of a text stand in the other one together; signs at its ends and texts without words need not."""
    core = re.sub(r"^\W+|\W+$", "", value)
    return not core or mentions(text, value) or mentions(text, core)


def _said_number(value: float, text: str) -> bool:
    """A sign is not the number's own in a program."""
    return says_number(text, value) or says_number(text, -value)


def _said_place(place: int, text: str) -> bool:
    number = place + 1 if place >= 0 else -place
    named = _ORDINALS[number - 1 : number]
    return any(
        mentions(text, form)
        for form in (*named, *(f"{number}{end}" for end in ("st", "nd", "rd", "th")))
    )


def _key(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and _KEY.fullmatch(node.value) is not None
    )


def _integer(node: ast.expr) -> int | None:
    sign = -1 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    plain = isinstance(inner, ast.Constant) and type(inner.value) is int
    return sign * inner.value if plain else None


def _counters(tree: ast.AST) -> set[str]:
    """Variables that run through a range."""
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.comprehension)]
    return {
        loop.target.id
        for loop in loops
        if isinstance(loop.target, ast.Name) and isinstance(loop.iter, ast.Call)
        if getattr(loop.iter.func, "id", "") == "range"
    }


def _bound(tree: ast.AST) -> dict[str, ast.expr]:
    """Variables that one plain assignment binds and nothing changes, not even a method of theirs."""
    stored = Counter(
        n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
    )
    changed = {
        node.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.value, ast.Name)
        if isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load)
    }
    return {
        node.targets[0].id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and len(node.targets) == 1
        and isinstance(node.targets[0], ast.Name)
        if stored[node.targets[0].id] == 1 and node.targets[0].id not in changed
    }


def _fold(node: ast.expr, bound: Mapping[str, ast.expr], seen: frozenset[str]) -> Any:
    """The value of an expression of constants alone, `_OPEN` of any other. Raises _Hidden where a text is not followed."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        open_ = node.id not in bound or node.id in seen
        return _OPEN if open_ else _fold(bound[node.id], bound, seen | {node.id})
    if isinstance(node, ast.JoinedStr):
        return _text([_fold(part, bound, seen) for part in node.values])
    if isinstance(node, ast.FormattedValue):
        return _fold(node.value, bound, seen)
    if isinstance(node, ast.List | ast.Tuple):
        values = [_fold(member, bound, seen) for member in node.elts]
        return _OPEN if _OPEN in values else values
    if isinstance(node, ast.UnaryOp | ast.BinOp):
        return _computed(node, bound, seen)
    if isinstance(node, ast.Call):
        return _called(node, bound, seen)
    if isinstance(node, ast.Subscript) and isinstance(_fold(node.value, bound, seen), str):
        raise _Hidden
    return _OPEN


def _computed(
    node: ast.UnaryOp | ast.BinOp, bound: Mapping[str, ast.expr], seen: frozenset[str]
) -> Any:
    parts = [node.operand] if isinstance(node, ast.UnaryOp) else [node.left, node.right]
    values = [_fold(part, bound, seen) for part in parts]
    if _OPEN in values:
        return _OPEN
    numbers = all(isinstance(value, int | float) for value in values)
    if isinstance(node.op, ast.USub) and numbers:
        return -values[0]
    if isinstance(node.op, ast.Add) and (
        numbers or all(isinstance(value, str) for value in values)
    ):
        return values[0] + values[1]
    if any(isinstance(value, str) for value in values):
        raise _Hidden
    return _OPEN


def _called(node: ast.Call, bound: Mapping[str, ast.expr], seen: frozenset[str]) -> Any:
    """A method of a constant text: joining is followed, another one of constants alone is not."""
    if not isinstance(node.func, ast.Attribute):
        return _OPEN
    base = _fold(node.func.value, bound, seen)
    values = [
        _fold(argument, bound, seen)
        for argument in (*node.args, *(word.value for word in node.keywords))
    ]
    if not isinstance(base, str) or _OPEN in values:
        return _OPEN
    if node.func.attr == "join" and len(values) == 1 and isinstance(values[0], list):
        return base.join(map(str, values[0]))
    raise _Hidden


def _text(parts: list[Any]) -> Any:
    return _OPEN if _OPEN in parts else "".join(map(str, parts))
