"""A function's document as a `Tool` of the protocol, with JSON Schema for BFCL's type names."""

from __future__ import annotations

import re
from typing import Any

from ..data_files import ToolPhrases

_TYPES = {"dict": "object", "float": "number"}
_ENUM = re.compile(r"\[Enum\]:\s*(\[[^\]]*\]|[^.]*)")


def tool(name: str, class_: str, document: dict, phrases: ToolPhrases) -> dict:
    """The `Tool` dict of a documented function."""
    return {
        "name": name,
        "description": document["description"].rpartition("Tool description:")[2].strip(),
        "parameters": schema(document["parameters"]),
        "app": class_,
        "checked": phrases.checked,
        "read_only": bool(phrases.read_only),
        "language": phrases.language(),
        "document": document,
    }


def schema(source: dict) -> dict:
    """JSON Schema of a documented type; `[Enum]` in a description becomes an enum."""
    found: dict[str, Any] = {"type": _TYPES.get(source["type"], source["type"])}
    text = source.get("description", "").strip()
    if text:
        found["description"] = text
    options = enum(text)
    if options and found["type"] == "string":
        found["enum"] = options
    if "items" in source:
        found["items"] = schema(source["items"]) | ({"enum": options} if options else {})
    if "properties" in source:
        found["properties"] = {name: schema(value) for name, value in source["properties"].items()}
        found["required"] = list(source.get("required", []))
    if source.get("default", "None") != "None":  # the documents write no default so
        found["default"] = source["default"]
    return found


def enum(description: str) -> list[str]:
    """The options that a description lists after `[Enum]:`."""
    match = _ENUM.search(description)
    return [part.strip().strip("\"'") for part in match[1].strip("[] ").split(",")] if match else []
