"""The desk's tools as `describe` gives them: descriptions, schemas, and how people talk about each.

A tool takes a record by name or by id as its convention has it; schema and language offer both and tell neither.
"""

from __future__ import annotations

from typing import Any

from .world import APPS, COMPLETIONS, PREPARATIONS, VALUE_VERBS

REQUESTS = {
    "set": "set {key} to {text}",
    "add": "add {text} to {key}",
    "send": "send {key} {text}",
    "copy": "copy {text} for {key}",
    "drop": "drop {key}",
    "mark": "mark {key}",
}
ANSWERS = ["tell me {text}", "what is {text}"]
ABOUT = {
    "find": "Tells the id of a record of {app}.",
    "read": "Tells the note of a record of {app}; its owner is the name of the record.",
    "open": "Opens {app}.",
    "check": "Checks {app}.",
    "sync": "Synchronises {app}.",
    "save": "Saves the pending change of {app}.",
    "push": "Pushes the pending change of {app}.",
    "seal": "Seals the pending change of {app}.",
    "set": "Sets the value of a record of {app}, given by name or by id.",
    "add": "Adds a text to the items of a record of {app}, given by name or by id.",
    "send": "Sends a text to a record of {app}, given by name or by id.",
    "copy": "Copies a text for a record of {app}, given by name or by id.",
    "drop": "Removes a record of {app}, given by name or by id.",
    "mark": "Marks a record of {app}, given by name or by id.",
}
PARAMETERS = {
    "name": {"type": "string", "description": "Name of the record"},
    "owner": {"type": "string", "description": "Name of the record that the note belongs to"},
    "id": {"type": "string", "description": "Id of the record"},
    "text": {"type": "string", "description": "The text"},
}


def tools() -> list[dict[str, Any]]:
    """`Tool` of every tool, app by app, the desk's own two last."""
    found = [_tool(app, action) for app in APPS for action in ABOUT]
    answer = {"do": ANSWERS, "lookup_only": ["text"]}
    found.append(_entry("desk", "answer", "Gives the user an answer.", ["text"], ["text"], answer))
    found.append(_entry("desk", "date", "Tells the date.", [], [], {}, read_only=True))
    return found


def _tool(app: str, action: str) -> dict[str, Any]:
    about = ABOUT[action].format(app=app)
    if action in PREPARATIONS + COMPLETIONS:
        return _entry(app, action, about, [], [], {})
    if action == "find":
        return _entry(
            app, action, about, ["name"], ["name"], {"refer": {"id": "{name}"}}, read_only=True
        )
    if action == "read":
        language = {"refer": {"text": f"the {app} note of {{owner}}"}}
        return _entry(app, action, about, ["owner"], ["owner"], language, read_only=True)
    value = ["text"] if action in VALUE_VERBS else []
    language = {
        "do": requests(app, action, "name") + requests(app, action, "id"),
        "lookup_only": ["id"],
    }
    return _entry(app, action, about, ["name", "id", *value], value, language)


def requests(app: str, verb: str, key: str) -> list[str]:
    """The ways to ask for a verb: templates with slots for the key and, where there is one, the text."""
    clause = REQUESTS[verb].replace("{key}", f"{{{key}}}")
    return [f"{clause} in {app}", f"in {app} {clause}"]


def _entry(
    app: str,
    action: str,
    description: str,
    parameters: list[str],
    required: list[str],
    language: dict[str, Any],
    read_only: bool = False,
) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {name: PARAMETERS[name] for name in parameters},
        "required": required,
        "additionalProperties": False,
    }
    return {
        "name": f"{app}.{action}",
        "description": description,
        "parameters": schema,
        "app": app,
        "read_only": read_only,
        "language": language,
    }
