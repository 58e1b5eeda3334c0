"""Whether a text says an argument: in its own form (`report.txt`, 42 for 42.0), or in the environment's words for it.

A parameter's default need not be said. Whole words only, in any case of letters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from coevolve.environments.protocol import Tool
from coevolve.provenance import at, identity


def said(arguments: dict[str, Any], path: tuple, tool: Tool, text: str) -> bool:
    """Whether the text says the part of a call's arguments that the path leads to."""
    value, whole = at(arguments, path), arguments[path[0]]
    schema = tool.parameters.get("properties", {}).get(path[0], {})
    if "default" in schema and identity(schema["default"]) == identity(whole):
        return True
    words = tool.language.words.get(path[0], {}) if tool.language else {}
    forms = [*_forms(value), *(words[key] for key in (_key(value), _key(whole)) if key in words)]
    return any(mentions(text, form) for form in forms)


def mentions(text: str, form: str) -> bool:
    """Whether a form stands in the text by itself, not inside a longer word."""
    return re.search(rf"(?<!\w){re.escape(form)}(?!\w)", text, re.IGNORECASE) is not None


def _forms(value: Any) -> Iterator[str]:
    yield value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and value.is_integer():
        yield str(int(value))


def _key(value: Any) -> str:
    """The JSON text under which `Language.words` has a value."""
    return json.dumps(value, separators=(",", ":"))
