"""The desk's tools as `describe` gives them: descriptions, schemas, and how people ask for each.

A tool takes a record by name or by id as its convention has it; schema and language offer both and
tell neither.
"""

from __future__ import annotations

from typing import Any

from .content import CONTENT
from .world import APPS, COMPLETIONS, PREPARATIONS, VALUE_VERBS


def tools() -> list[dict[str, Any]]:
    """`Tool` of every tool, app by app, the desk's own two last."""
    found = [
        _tool(app, action, text) for app in APPS for action, text in CONTENT.descriptions.items()
    ]
    language = {"do": CONTENT.answers, "lookup_only": ["text"]}
    found.append(
        _entry("desk", "answer", "Gives the user an answer.", ["text"], ["text"], language)
    )
    found.append(_entry("desk", "date", "Tells the date.", read_only=True))
    return found


def _tool(app: str, action: str, description: str) -> dict[str, Any]:
    about = description.format(app=app)
    if action in PREPARATIONS + COMPLETIONS:
        return _entry(app, action, about)
    if action == "find":
        refer = {"refer": {"id": "{name}"}}
        return _entry(app, action, about, ["name"], ["name"], refer, read_only=True)
    if action == "read":
        refer = {"refer": {"text": f"the {app} note of {{owner}}"}}
        return _entry(app, action, about, ["owner"], ["owner"], refer, read_only=True)
    value = ["text"] if action in VALUE_VERBS else []
    ways = requests(app, action, "name") + requests(app, action, "id")
    language = {"do": ways, "lookup_only": ["id"]}
    return _entry(app, action, about, ["name", "id", *value], value, language)


def requests(app: str, verb: str, key: str) -> list[str]:
    """Templates that ask for a verb, with slots for the key and, where there is one, the text."""
    clause = CONTENT.requests[verb].replace("{key}", f"{{{key}}}")
    return [f"{clause} in {app}", f"in {app} {clause}"]


def _entry(
    app: str,
    action: str,
    description: str,
    parameters: list[str] | None = None,
    required: list[str] | None = None,
    language: dict[str, Any] | None = None,
    read_only: bool = False,
) -> dict[str, Any]:
    texts = CONTENT.parameters
    schema = {
        "type": "object",
        "properties": {n: {"type": "string", "description": texts[n]} for n in parameters or []},
        "required": required or [],
        "additionalProperties": False,
    }
    return {
        "name": f"{app}.{action}",
        "description": description,
        "parameters": schema,
        "app": app,
        "read_only": read_only,
        "language": language or {},
    }
