"""AppWorld's API documentation as `Tool`s of the protocol.

What calls leave out (`code`), tokens and the size of a page, no tool asks for, because the worker adds it. `document`
keeps AppWorld's own text.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .canary import clean
from .code import left_out

_BOUND = re.compile(r"(value|length) (.+)")
_LIMITS = {
    ("value", ">="): "minimum",
    ("value", ">"): "exclusiveMinimum",
    ("value", "<="): "maximum",
    ("value", "<"): "exclusiveMaximum",
    ("length", ">="): "minLength",
    ("length", "<="): "maxLength",
}


def tool(name: str, document: dict, language: dict[str, Any]) -> dict:
    """The `Tool` dict of a documented API; what it reads with GET changes nothing.

    `language` holds the templates, and beside them `read_only`, `checked`, `takes`: the optional parameters that are shown, and
    `needs`: those of them without which nobody would call it.
    """
    entry = dict(language)
    takes, needs = entry.pop("takes", None), entry.pop("needs", ())
    read_only, checked = (
        entry.pop("read_only", document["method"] == "GET"),
        entry.pop("checked", False),
    )
    hidden = left_out(document["parameters"])
    asked = [p for p in document["parameters"] if p["name"] not in hidden]
    shown = [p for p in asked if p["required"] or not language or p["name"] in (takes or [])]
    return {
        "name": name,
        "description": clean(document["description"]),
        "parameters": {
            "type": "object",
            "properties": {parameter["name"]: schema(parameter) for parameter in shown},
            "required": [p["name"] for p in shown if p["required"] or p["name"] in needs],
        },
        "app": document["app_name"],
        "checked": checked,
        "read_only": read_only,
        "language": entry,
        "document": document,
    }


def schema(parameter: dict) -> dict:
    """JSON Schema of a documented parameter: its type, and those constraints that have a word there."""
    kinds = [_kind(kind.strip()) for kind in parameter["type"].split("|")]
    found: dict[str, Any] = (
        dict(kinds[0]) if len(kinds) == 1 else {"type": [kind["type"] for kind in kinds]}
    )
    found["description"] = parameter["description"]
    for constraint in parameter["constraints"]:
        found |= _constraint(constraint)
    if not parameter["required"] and parameter["default"] is not None:
        found["default"] = parameter["default"]
    return found


def _kind(name: str) -> dict:
    if name.startswith("list["):
        return {"type": "array", "items": _kind(name[5:-1])}
    return {"type": name}


def _constraint(text: str) -> dict:
    if text == "value is email address":
        return {"format": "email"}
    if text.startswith("value in "):
        return {"enum": json.loads(text.removeprefix("value in ").replace("'", '"'))}
    if not (bound := _BOUND.fullmatch(text)):
        return {}
    sides = [side.split() for side in bound[2].split(",")]
    return {
        _LIMITS[bound[1], side[0]]: _number(side[1])
        for side in sides
        if len(side) == 2 and (bound[1], side[0]) in _LIMITS
    }


def _number(text: str) -> int | float:
    value = float(text)
    return int(value) if value.is_integer() else value
