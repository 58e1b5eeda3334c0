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
_ENDS = (0, -1)
"""Places that need no word: the first of what is sorted or alone, and the last."""
_OTHER = Tool("", "", {}, read_only=True)
"""Stands for an API that the environment does not describe."""


def unknown_constants(
    code: str,
    tools: Mapping[str, Tool],
    text: str,
    style: CodeSyntax | None = None,
    shown: Sequence[str] = (),
) -> list[str]:
    """What the program holds and neither `text`, the user's turns so far, states nor an earlier
    output (`shown`) shows, each in words. What the environment adds to calls by itself (`style`) is
    free."""
    tree = parsed(code)
    if tree is None:
        return []
    try:
        reader = _Reader(tree, tools, text, style or CodeSyntax(), shown)
        reader.visit(tree)
    except RecursionError:
        return ["what is nested so deeply"]
    return reader.found


class _Reader(ast.NodeVisitor):
    def __init__(
        self,
        tree: ast.Module,
        tools: Mapping[str, Tool],
        text: str,
        style: CodeSyntax,
        shown: Sequence[str],
    ):
        self._tools, self._text, self._style, self._shown = tools, text, style, shown
        self._names = named_calls(tree)
        self._folder = Folder(tree)
        apps, functions = (
            (tool.app for tool in tools.values()),
            (n.partition(".")[2] for n in tools),
        )
        self._free = {*apps, *functions}
        self._counters = _counters(tree)
        self._exact = False  # within an argument or a comparison, where even 0 and 1 mean something
        self.found: list[str] = []

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

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
        called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
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
        """Whether an argument says nothing of the task: pages, tokens, a login, how it ended, what
        the environment adds."""
        if self._style.arguments.get(name, {}).get(word.arg) == ast.unparse(word.value):
            return True
        ending = name in self._style.ends and word.arg == "status"
        return ending or name.endswith(".login") or _TECHNICAL.fullmatch(word.arg or "") is not None

    def visit_Compare(self, node: ast.Compare) -> None:
        inner = list(ast.walk(node))
        if any(isinstance(one, ast.Call) and getattr(one.func, "id", "") == "len" for one in inner):
            self._visit_all(_computed([node.left, *node.comparators]))
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
            known = place in _ENDS or states_place(self._text, place)
            self._check(known, f"place {place} of a list")
        elif not _key(node.slice):
            self.visit(node.slice)

    def visit_Dict(self, node: ast.Dict) -> None:
        self._visit_all(key for key in node.keys if key is not None and not _key(key))
        self._visit_all(node.values)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if not self._whole(node):
            self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        if not self._whole(node):
            # the value alone: a format is no constant of the task
            self._visit_all(
                p.value if isinstance(p, ast.FormattedValue) else p for p in node.values
            )

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Leaves out a message that nobody but the program reads."""

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
        texts = (self._text, *self._shown)
        if any(states_fragment(text, value) for text in texts):
            return True
        return evidence(value, self._text, self._shown).kind != "unknown"

    def _check(self, fine: bool, what: Any) -> None:
        if not fine:
            self.found.append(str(what)[:80])


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
    return {
        loop.target.id
        for loop in loops
        if isinstance(loop.target, ast.Name) and isinstance(loop.iter, ast.Call)
        if getattr(loop.iter.func, "id", "") == "range"
    }
