"""Whether a text says an argument: in its own form (`report.txt`), as a number of that value, or in the environment's words for it.

A parameter's default need not be said. Whole words and whole numbers only, in any case of letters.
"""

from __future__ import annotations

import json
import re
from typing import Any

from coevolve.environments.numbers import says_number
from coevolve.environments.protocol import Tool
from coevolve.provenance import at, identity

_DIGITS = re.compile(r"\d+(?:\.\d+)?")


def said(arguments: dict[str, Any], path: tuple, tool: Tool, text: str) -> bool:
    """Whether the text says the part of a call's arguments that the path leads to."""
    value, whole = at(arguments, path), arguments[path[0]]
    schema = tool.parameters.get("properties", {}).get(path[0], {})
    if "default" in schema and identity(schema["default"]) == identity(whole):
        return True
    words = tool.language.words.get(path[0], {}) if tool.language else {}
    own = says_number(text, value) if is_number(value) else mentions(text, _form(value))
    return own or any(
        mentions(text, words[key]) for key in (_key(value), _key(whole)) if key in words
    )


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def mentions(text: str, form: str) -> bool:
    """Whether a form stands in the text by itself, not inside a longer word; one of digits, not inside a longer number."""
    before = after = ""
    if _DIGITS.fullmatch(form):
        before, after = r"(?<!\d[.:/])(?<!\W-)(?<!\A-)", r"(?![.:/]\d|,\d{3}(?!\d))"
        before += r"(?<!\d,)" if len(form) == 3 else ""  # elsewhere a comma separates numbers
    return (
        re.search(rf"(?<!\w){before}{re.escape(form)}(?!\w){after}", text, re.IGNORECASE)
        is not None
    )


def _form(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _key(value: Any) -> str:
    """The JSON text under which `Language.words` has a value."""
    return json.dumps(value, separators=(",", ":"))
