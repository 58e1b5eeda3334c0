"""The corpus of replies in `agents/replies.jsonl`, and the tools that were offered with them.

A row holds `reply`, `why` (the class it stands for) and what a parser must make of it: `calls`
(``[[tool, arguments], …]``), `hint` (words of the hint, none of the reply runs) or `text` (the
reply hands the turn back). With ``"tools": "none"`` the parser knows no tools.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from coevolve.agents.actions.replies import parse
from coevolve.environments.protocol import Tool

CORPUS = Path(__file__).parent / "agents/replies.jsonl"
PARAMETERS = {
    "ls": {"a": "boolean"},
    "cd": {"folder": "string"},
    "mv": {"source": "string", "destination": "string"},
    "echo": {"content": "string", "file_name": "string"},
    "find": {"path": "string", "pattern": "string"},
    "sort": {"file_name": "string"},
    "touch": {"file_name": "string"},
    "pwd": {},
    "mean": {"numbers": "array"},
    "add": {"a": "number", "b": "number"},
    "fillFuelTank": {"fuelAmount": "number"},
    "post_tweet": {"content": "string", "tags": "array"},
    "edit_ticket": {"ticket_id": "integer", "updates": "object"},
    "answer": {"text": "string"},
}


def _tool(name: str, parameters: dict[str, str]) -> Tool:
    properties = {key: {"type": kind} for key, kind in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return Tool(name, name, schema, app="GorillaFileSystem")


TOOLS = {name: _tool(name, parameters) for name, parameters in PARAMETERS.items()}


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CORPUS.read_text().splitlines()]


def wanted(row: dict[str, Any]) -> str:
    """`runs`, `hint` or `text`."""
    return next(kind for key, kind in KINDS.items() if key in row)


def outcome(row: dict[str, Any]) -> str:
    """What the parser makes of a row: `runs`, `hint`, `text`, or `other calls`."""
    parsed = parse(row["reply"], {} if row.get("tools") == "none" else TOOLS)
    if parsed.calls:
        calls = [[call.tool, call.arguments] for call in parsed.calls]
        return "runs" if calls == row.get("calls", calls) else "other calls"
    return "hint" if parsed.issues else "text"


KINDS = {"calls": "runs", "hint": "hint", "text": "text"}
