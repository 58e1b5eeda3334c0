"""Strict parity: what the official executor does to a call that this adapter, left to itself, repairs (docs/bfcl.md, table).

Between sessions nothing is shared here either. What the official process shares between the policy's and the reference's
objects is a `Shared`, one a judgement: so a verdict is the one that a fresh official process gives.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Collection
from typing import Any

from .data import functions, source
from .refusals import Answer, refusal

RAISED = "Error during execution: "
_BLOCKED = ("kill", "exit", "quit", "remove", "unlink", "popen", "Popen", "run")
_CALLED = re.compile(r"\b([a-zA-Z_]\w*)\s*(?=\()")
"""What the official executor takes for a function's name, in texts too."""


class Shared:
    """The default lists of `post_tweet` and the tables of long_context, shared by all objects of one judgement."""

    def __init__(self) -> None:
        self.tweet: dict[str, list] = {"tags": [], "mentions": []}
        self._rows: dict[int, dict] = {}

    def rows(self, table: dict[str, dict]) -> dict[str, dict]:
        """The table with the package's own rows replaced by this judgement's copies of them."""
        module = source("TravelAPI")
        own = {
            id(row)
            for rows in (module.CREDIT_CARD_EXTENSION, module.BOOKING_RECORD_EXTENSION)
            for row in rows.values()
        }
        return {key: self._row(row) if id(row) in own else row for key, row in table.items()}

    def _row(self, row: dict) -> dict:
        if id(row) not in self._rows:
            self._rows[id(row)] = copy.deepcopy(row)
        return self._rows[id(row)]


class Quirks:
    """The official treatment of calls, for the objects of one role. `key` is what official names of objects begin with."""

    def __init__(self, key: str, shared: Shared):
        self.shared = shared
        self._key = key

    def refusal(self, tool: Any, arguments: Any, methods: Collection[str]) -> Answer | None:
        """Only a name that no object has is refused, in the official words where it could be a name at all."""
        if isinstance(tool, str) and tool in _BLOCKED:
            return Answer(f"{RAISED}Function call {tool} is not allowed.", "unknown_tool")
        if isinstance(tool, str) and tool.isidentifier() and tool not in methods:
            return Answer(f"{RAISED}name {tool!r} is not defined", "unknown_tool")
        named = isinstance(arguments, dict) and all(
            isinstance(name, str) and name.isidentifier() for name in arguments
        )
        return None if named and tool in methods else refusal(tool, arguments, methods)

    def arguments(self, tool: str, arguments: dict, methods: Collection[str]) -> dict:
        """Texts rewritten as the official executor does; tweets without tags or mentions get the shared lists."""
        written = {name: self._written(value, methods) for name, value in arguments.items()}
        return self.shared.tweet | written if tool == "post_tweet" else written

    def _written(self, value: Any, methods: Collection[str]) -> Any:
        def name(match: re.Match[str]) -> str:
            called = match[1]
            return (
                f"{self._object(functions()[called][0])}.{called}" if called in methods else called
            )

        text = repr(value)
        return ast.literal_eval(_CALLED.sub(name, text)) if _CALLED.search(text) else value

    def _object(self, class_: str) -> str:
        return re.sub(r"[-./:]", "_", f"{self._key}_{class_}_instance")
