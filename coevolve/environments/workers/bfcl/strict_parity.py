"""Strict parity: the official executor's treatment of calls that this adapter otherwise repairs.

docs/bfcl.md has a table of the differences. Sessions share nothing here either. The objects of the
policy and of the reference share in the official process what `SharedObjects` holds; there is one
for each judgement, so that a verdict is the one of a fresh official process.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Collection
from typing import Any

from .data import functions, source
from .refusals import CallAnswer, costly, refusal

RAISED = "Error during execution: "
_BLOCKED = ("kill", "exit", "quit", "remove", "unlink", "popen", "Popen", "run")
_CALLED = re.compile(r"\b([a-zA-Z_]\w*)\s*(?=\()")
"""The official executor takes this for a function's name, in texts too."""


class SharedObjects:
    """The default lists of `post_tweet` and the tables of long_context, for one judgement."""

    def __init__(self) -> None:
        self.tweet: dict[str, list] = {"tags": [], "mentions": []}
        self._rows: dict[int, dict] = {}

    def rows(self, table: dict[str, dict]) -> dict[str, dict]:
        """The table with the package's own rows replaced by this judgement's copies of them."""
        module = source("TravelAPI")
        tables = (module.CREDIT_CARD_EXTENSION, module.BOOKING_RECORD_EXTENSION)
        own = {id(row) for rows in tables for row in rows.values()}
        return {key: self._row(row) if id(row) in own else row for key, row in table.items()}

    def _row(self, row: dict) -> dict:
        if id(row) not in self._rows:
            self._rows[id(row)] = copy.deepcopy(row)
        return self._rows[id(row)]


class StrictParity:
    """The official treatment of calls, for the objects of one role."""

    def __init__(self, key: str, shared: SharedObjects):
        """`key` is what the official names of the objects begin with."""
        self.shared = shared
        self._key = key

    def refusal(self, tool: Any, arguments: Any, methods: Collection[str]) -> CallAnswer | None:
        """Only a name that no object has is refused, in the official words if it is a name, and a
        call that takes minutes."""
        if isinstance(tool, str) and tool in _BLOCKED:
            return CallAnswer(f"{RAISED}Function call {tool} is not allowed.", "unknown_tool")
        if isinstance(tool, str) and tool.isidentifier() and tool not in methods:
            return CallAnswer(f"{RAISED}name {tool!r} is not defined", "unknown_tool")
        named = isinstance(arguments, dict) and all(
            isinstance(name, str) and name.isidentifier() for name in arguments
        )
        known = named and tool in methods
        return costly(tool, arguments) if known else refusal(tool, arguments, methods)

    def arguments(self, tool: str, arguments: dict, methods: Collection[str]) -> dict:
        """The arguments with texts rewritten as the official executor does.

        Tweets without tags or mentions get the shared lists.
        """
        written = {name: self._written(value, methods) for name, value in arguments.items()}
        return self.shared.tweet | written if tool == "post_tweet" else written

    def _written(self, value: Any, methods: Collection[str]) -> Any:
        def name(match: re.Match[str]) -> str:
            called = match[1]
            object_ = f"{self._object(functions()[called][0])}." if called in methods else ""
            return f"{object_}{called}"

        text = repr(value)
        return ast.literal_eval(_CALLED.sub(name, text)) if _CALLED.search(text) else value

    def _object(self, class_: str) -> str:
        return re.sub(r"[-./:]", "_", f"{self._key}_{class_}_instance")
