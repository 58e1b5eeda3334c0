"""AppWorld's API documentation as `Tool`s of the protocol.

No tool asks for the arguments that calls leave out (`code.left_out`), tokens and the size of a
page, because the worker adds them. `document` keeps AppWorld's own text.
"""

from __future__ import annotations

import json
import re
from typing import Any

from ..data_files import ToolPhrases
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


def tool(name: str, document: dict, phrases: ToolPhrases | None) -> dict:
    """Returns the `Tool` dict of a documented API; a GET request changes nothing.

    An API with phrases shows only the optional parameters that they name, because no request would
    mention the rest.
    """
    hidden = left_out(document["parameters"])
    shown = [p for p in document["parameters"] if p["name"] not in hidden]
    needs, read_only = (), None
    if phrases:
        needs, read_only = phrases.needs, phrases.read_only
        named = {*phrases.takes, *phrases.optional, *needs}
        shown = [p for p in shown if p["required"] or p["name"] in named]
    return {
        "name": name,
        "description": clean(document["description"]),
        "parameters": {
            "type": "object",
            "properties": {parameter["name"]: schema(parameter) for parameter in shown},
            "required": [p["name"] for p in shown if p["required"] or p["name"] in needs],
        },
        "app": document["app_name"],
        "checked": bool(phrases and phrases.checked),
        "read_only": document["method"] == "GET" if read_only is None else read_only,
        "language": phrases.language() if phrases else {},
        "document": document,
    }


def schema(parameter: dict) -> dict:
    """Returns the JSON Schema of a documented parameter: its type, and those constraints that have
    a word there."""
    kinds = [_kind(kind.strip()) for kind in parameter["type"].split("|")]
    found: dict[str, Any] = kinds[0] if len(kinds) == 1 else {"type": [k["type"] for k in kinds]}
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
    sides = [(bound[1], *side.split()) for side in bound[2].split(",")]
    known = [side for side in sides if len(side) == 3 and side[:2] in _LIMITS]
    return {_LIMITS[side[:2]]: _number(side[2]) for side in known}


def _number(text: str) -> int | float:
    value = float(text)
    return int(value) if value.is_integer() else value
