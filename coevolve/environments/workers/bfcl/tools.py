"""BFCL's functions as `Tool`s of the protocol: JSON Schema for BFCL's type names, and phrases.

The folder `phrases` says how people ask for each of the 128 functions, in a file for each API
class. The program writer fills these templates, so each names every argument that is needed to make
the same call again: which folder, which order type, which unit. Texts that must be exact stand in
quotes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..data_files import ToolPhrases, check_phrases, read_phrases
from .content import CONTENT
from .data import DOCUMENTS, functions

_TYPES = {"dict": "object", "float": "number"}
_ENUM = re.compile(r"\[Enum\]:\s*(\[[^\]]*\]|[^.]*)")


def tools() -> list[dict]:
    """The `Tool` dicts of all functions, in the package's order. Raises BadData."""
    known = phrases()
    return [
        _tool(class_, document, known[name]) for name, (class_, document) in functions().items()
    ]


def phrases() -> dict[str, ToolPhrases]:
    """Function → its phrases, checked against its parameters. Raises BadData."""
    titles, descriptions = (list(texts) for texts in zip(*CONTENT.new_tickets, strict=True))
    texts = {"new_ticket_titles": titles, "new_ticket_descriptions": descriptions}
    found: dict[str, ToolPhrases] = {}
    for stem in DOCUMENTS.values():
        path = Path(__file__).with_name("phrases") / f"{stem}.toml"
        found |= read_phrases(path, CONTENT._asdict() | texts)
    parameters = {name: doc["parameters"]["properties"] for name, (_, doc) in functions().items()}
    check_phrases(found, parameters)
    return found


def _tool(class_: str, document: dict, phrases: ToolPhrases) -> dict:
    return {
        "name": document["name"],
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
