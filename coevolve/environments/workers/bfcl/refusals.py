"""Refusals of calls that are not run: undocumented names and types, and calls that cost too much.

Such a call would take minutes or fill the memory. A refusal is an answer that says how to write the
call right. Nothing is looked up, bound or converted here.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Collection
from typing import Any, NamedTuple

from .data import functions

MAX_TEXT = 20_000  # Characters of one text
MAX_ITEMS = 1_000  # Items of one list or object
MAX_NESTING = 6  # Lists and objects in one another


class CostLimits(NamedTuple):
    """Bounds on the numbers whose size costs time."""

    precision: int  # Digits
    places: int  # Decimal places
    power_bits: int  # Bits of a power


# 14,000 bits are below Python's limit for printing an integer (4,300 digits)
COST_LIMITS = CostLimits(precision=1_000, places=300, power_bits=14_000)
STRICT_COST_LIMITS = CostLimits(precision=5_000, places=100_000, power_bits=1_000_000)
"""Under strict parity: a call within them takes a quarter of a second at most, so that an episode
of such calls can be graded in time."""

_TYPES = {
    "string": ((str,), "text"),
    "integer": ((int, float), "a whole number"),
    "float": ((int, float), "a number"),
    "boolean": ((bool,), "true or false"),
    "array": ((list,), "a list"),
    "dict": ((dict,), "an object"),
}


class CallAnswer(NamedTuple):
    """The answer to one call: the text that the policy reads, and the kind of error."""

    text: str
    error: str | None = None


def refusal(tool: Any, arguments: Any, offered: Collection[str]) -> CallAnswer | None:
    """The answer to a call that must not run, with a hint to write it right; None if it may."""
    if not isinstance(tool, str) or tool not in offered:
        near = difflib.get_close_matches(str(tool)[:60], list(offered), n=3)
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        return _refused("unknown_tool", f"There is no tool {str(tool)[:60]!r}.{hint}")
    if not isinstance(arguments, dict):
        return _refused("bad_argument", "Arguments must be an object with the parameters' names.")
    document = functions()[tool][1]["parameters"]
    problem = _names(arguments, document) or _types(arguments, document)
    if problem:
        return _refused("bad_argument", f"{problem} {_usage(tool, document)}")
    problem = _size(arguments) or _cost(tool, arguments, COST_LIMITS)
    return _refused("too_large", problem) if problem else None


def costly(tool: str, arguments: dict) -> CallAnswer | None:
    """The answer to a call that the official executor would run for minutes; None to others."""
    problem = _cost(tool, arguments, STRICT_COST_LIMITS)
    return _refused("too_large", problem) if problem else None


def _refused(kind: str, message: str) -> CallAnswer:
    return CallAnswer(json.dumps({"error": message}), kind)


def _usage(tool: str, document: dict) -> str:
    required = document.get("required", [])
    parts = [
        f"{name}: {_TYPES[schema['type']][1]}{'' if name in required else ' (optional)'}"
        for name, schema in document["properties"].items()
    ]
    return f"{tool} takes {', '.join(parts) or 'no arguments'}."


def _names(arguments: dict, document: dict) -> str | None:
    for name in arguments:
        if name not in document["properties"]:
            return f"There is no parameter {str(name)[:60]!r}."
    missing = [name for name in document.get("required", []) if name not in arguments]
    return f"Missing: {', '.join(missing)}." if missing else None


def _types(arguments: dict, document: dict) -> str | None:
    for name, value in arguments.items():
        if value is None and name not in document.get("required", []):
            continue
        if name.endswith("_id") and isinstance(value, str):
            continue  # some official tickets have ids like 'ticket_001'
        if not _fits(value, document["properties"][name]):
            return f"{name} must be {_wanted(document['properties'][name])}."
    return None


def _wanted(schema: dict) -> str:
    """The type in words, that of a list's items included."""
    word = _TYPES[schema["type"]][1]
    items = schema.get("items") if schema["type"] == "array" else None
    return f"{word} whose items are each {_wanted(items)}" if items else word


def _fits(value: Any, schema: dict) -> bool:
    types, _ = _TYPES[schema["type"]]
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        return False
    return schema["type"] != "array" or all(_fits(item, schema["items"]) for item in value)


def _size(value: Any, depth: int = 0) -> str | None:
    """A bound on everything that reaches an API object."""
    if isinstance(value, str):
        return f"A text may have at most {MAX_TEXT} characters." if len(value) > MAX_TEXT else None
    if isinstance(value, (int, float)):
        fine = math.isfinite(value) if isinstance(value, float) else abs(value) < 2**63
        return None if fine else "A number is too large."
    if isinstance(value, (dict, list)):
        if depth >= MAX_NESTING or len(value) > MAX_ITEMS:
            return f"At most {MAX_ITEMS} items and {MAX_NESTING} levels."
        for item in [*value, *value.values()] if isinstance(value, dict) else value:
            if problem := _size(item, depth + 1):
                return problem
    return None


def _cost(tool: str, arguments: dict, limits: CostLimits) -> str | None:
    """A bound on the time of the few functions whose cost grows with a number's value."""
    numbers = {name: value for name, value in arguments.items() if isinstance(value, (int, float))}
    if abs(numbers.get("precision", 0)) > limits.precision:
        return f"precision may be at most {limits.precision}."
    if abs(numbers.get("decimal_places", 0)) > limits.places:
        return f"decimal_places may be at most {limits.places}."
    if tool == "power" and all(isinstance(value, int) for value in numbers.values()):
        base, exponent = abs(numbers.get("base", 0)), abs(numbers.get("exponent", 0))
        if exponent * base.bit_length() > limits.power_bits:
            return "The result has too many digits."
    return None
