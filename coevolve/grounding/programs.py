"""Finds the constants of a program that a solver who has only the request cannot know: texts,
numbers, and places in lists.

    next(row for row in groups if row["name"] == "Jonas's trip")    the request has to name the trip
    "".join(["Jo", "nas"])                                           is judged as "Jonas"
    transactions[4]                                                  nobody asks for it by chance

A constant argument of an API gets the verdict of any call's argument (`arguments`). Other constants
have to be stated or shown, but for keys (`row["name"]`), names of apps, what logs in, pages and
sorts, truth values, formats of dates, what is printed, and the small numbers that count or begin
something. Texts that are computed from constants in ways that are not followed (`folding`) are
unknown. Nothing is executed; code that does not parse has no constants.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coevolve.agents.code.calls import named_calls, parsed
from coevolve.environments.protocol import CodeSyntax, Tool
from coevolve.grounding.arguments import evidence, grounded
from coevolve.grounding.folding import COMPUTED, Folder, NotFolded
from coevolve.grounding.texts import states, states_fragment, states_place

_TECHNICAL = re.compile(r"page_index|page_limit|sort_by|\w*token")
_KEY = re.compile(r"[a-z][a-z0-9_]*")
_KEYED = frozenset(["get", "pop", "itemgetter"])
_DATES = frozenset(["strftime", "strptime"])
_HIDING = frozenset(["chr", "bytes", "bytearray", "eval", "exec", "compile", "__import__"])
_ENDS = (0, -1)  # Places that need no word: the first of what is sorted or alone, and the last
_OTHER = Tool("", "", {}, read_only=True)
"""Stands for an API that the environment does not describe."""


def unknown_constants(
    code: str,
    tools: Mapping[str, Tool],
    text: str,
    style: CodeSyntax | None = None,
    shown: Sequence[str] = (),
) -> list[str]:
    """The constants, in words, that neither `text`, the user's turns so far, states nor an earlier
    output (`shown`) shows. What the environment adds to calls by itself (`style`) is free."""
    tree = parsed(code)
    if tree is None:
        return []
    try:
        reader = _Reader(tree, tools, style or CodeSyntax(), text, shown)
        reader.visit(tree)
    except RecursionError:
        return ["what is nested so deeply"]
    return reader.found


class _Reader(ast.NodeVisitor):
    def __init__(
        self, tree: ast.Module, tools: Mapping, style: CodeSyntax, text: str, shown: Sequence
    ):
        self._tools, self._style, self._text, self._shown = tools, style, text, shown
        self._names, self._folder = named_calls(tree), Folder(tree)
        functions = {name.partition(".")[2] for name in tools}
        self._free = {tool.app for tool in tools.values()} | functions
        self._counters = _counters(tree)
        self._exact = False  # within an argument or a comparison, where even 0 and 1 mean something
        self.found: list[str] = []

    def visit(self, node: ast.AST) -> None:
        """Passes over docstrings and error messages; judges a text of constants as a whole."""
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if docstring or isinstance(node, ast.Raise):
            return
        if not isinstance(node, ast.BinOp | ast.JoinedStr | ast.Subscript) or not self._whole(node):
            super().visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, str):
            self._check(value in self._free or self._known_text(value), value)
        elif isinstance(value, bytes):
            self.found.append("bytes")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            # a sign is not the number's own in a program
            known = any(states(t, v) for t in (self._text, *self._shown) for v in (value, -value))
            self._check(known or (value in (0, 1) and not self._exact), value)

    def visit_Call(self, node: ast.Call) -> None:
        name = self._names.get(node)
        if name is not None:
            self._api_call(node, name)
            return
        called = _called(node)
        if called in _HIDING:
            self.found.append(f"{called}(…)")
        if self._whole(node):
            return
        if called == "print":
            self._visit_all(inner for inner in ast.walk(node) if inner in self._names)
        elif called in _DATES or called in ("range", "round"):
            self._visit_all(_computed(node.args))
        elif called in _KEYED and node.args and _key(node.args[0]):
            self._visit_all([node.func, *node.args[1:], *node.keywords])
        else:
            self.generic_visit(node)

    def _api_call(self, node: ast.Call, name: str) -> None:
        tool = self._tools.get(name, _OTHER)
        values = {word.arg: self._folded(word.value) for word in node.keywords if word.arg}
        plain = {arg: value for arg, value in values.items() if value is not COMPUTED}
        for word in node.keywords:
            if self._technical(name, word):
                continue
            used = {inner.id for inner in ast.walk(word.value) if isinstance(inner, ast.Name)}
            counted = used & self._counters
            self._check(not counted, f"{name}: {word.arg}, a number that is counted to")
            if word.arg in plain:
                verdict = grounded(plain, (word.arg,), tool, self._text, self._shown)
                self._check(verdict.kind != "unknown", f"{name}: {word.arg}")
            else:
                self._within(word.value)
        self._visit_all(node.args)

    def _technical(self, name: str, word: ast.keyword) -> bool:
        """Whether an argument is no part of the task: pages, tokens, a login, an ending."""
        if self._style.arguments.get(name, {}).get(word.arg) == ast.unparse(word.value):
            return True
        ending = name in self._style.ends and word.arg == "status"
        return ending or name.endswith(".login") or _TECHNICAL.fullmatch(word.arg or "") is not None

    def visit_Compare(self, node: ast.Compare) -> None:
        inner = list(ast.walk(node))
        if any(_called(one) == "len" for one in inner):
            self._visit_all(_computed([node.left, *node.comparators]))
        elif any(isinstance(one, ast.Subscript | ast.Attribute) for one in inner):
            self._within(node.left, *node.comparators)
        else:
            self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)
        place = _integer(node.slice)
        if place is not None:
            known = place in _ENDS or states_place(self._text, place)
            self._check(known, f"place {place} of a list")
        elif not _key(node.slice):
            self.visit(node.slice)

    def visit_Dict(self, node: ast.Dict) -> None:
        self._visit_all(key for key in node.keys if key is not None and not _key(key))
        self._visit_all(node.values)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> None:
        self.visit(node.value)  # its format is no constant of the task

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def _within(self, *nodes: ast.expr) -> None:
        before, self._exact = self._exact, True
        self._visit_all(nodes)
        self._exact = before

    def _whole(self, node: ast.expr) -> bool:
        """Whether it is a text of constants alone, which is judged as a whole."""
        value = self._folded(node)
        if not isinstance(value, str):
            return False
        self._check(self._known_text(value), value)
        return True

    def _folded(self, node: ast.expr) -> Any:
        try:
            return self._folder.value(node)
        except NotFolded:
            self.found.append(ast.unparse(node)[:80])
            return COMPUTED

    def _known_text(self, value: str) -> bool:
        fragment = any(states_fragment(text, value) for text in (self._text, *self._shown))
        return fragment or evidence(value, self._text, self._shown).kind != "unknown"

    def _check(self, fine: bool, what: Any) -> None:
        if not fine:
            self.found.append(str(what)[:80])


def _called(node: ast.expr) -> str:
    """The name of the function or method that an expression calls; "" for any other expression."""
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "id", getattr(function, "attr", ""))


def _computed(nodes: Iterable[ast.expr]) -> list[ast.expr]:
    return [node for node in nodes if not isinstance(node, ast.Constant)]


def _key(node: ast.expr) -> bool:
    text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return text and _KEY.fullmatch(node.value) is not None


def _integer(node: ast.expr) -> int | None:
    sign = -1 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    plain = isinstance(inner, ast.Constant) and type(inner.value) is int
    return sign * inner.value if plain else None


def _counters(tree: ast.AST) -> set[str]:
    """Variables that run through a range."""
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.comprehension)]
    named = [loop for loop in loops if isinstance(loop.target, ast.Name)]
    return {loop.target.id for loop in named if _called(loop.iter) == "range"}
