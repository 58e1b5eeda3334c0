"""One entry of AppWorld's language table: the fields of protocol.Language, and how explorers may call the API.

`takes` are the optional parameters that an explorer's call may use; filters and sort orders that no request would mention are
not among them. Identifiers and addresses are for looking up (`lookup_only`), what people make up is said as it is (`literal`).
"""

from __future__ import annotations

import json


def ask(
    *do: str,
    optional: dict[str, str] | None = None,
    refer: dict[str, str] | None = None,
    words: dict[str, dict[str, str]] | None = None,
    literal: tuple[str, ...] = (),
    lookup: tuple[str, ...] = (),
    takes: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
) -> dict:
    """An API that changes something, asked for with any of the clauses `do`; `needs` are optional parameters that it always takes."""
    return {
        "do": list(do),
        "optional": optional or {},
        "refer": refer or {},
        "words": words or {},
        "literal": list(literal),
        "lookup_only": list(lookup),
        "takes": (*takes, *needs, *(optional or {})),
        "needs": needs,
    }


def look(
    *takes: str,
    refer: dict[str, str] | None = None,
    rows: dict[str, str] | None = None,
    facts: dict[str, str] | None = None,
    lookup: tuple[str, ...] = (),
) -> dict:
    """An API that only shows something: nobody asks for it by itself, but for what it tells."""
    return {
        "refer": refer or {},
        "rows": rows or {},
        "facts": facts or {},
        "lookup_only": list(lookup),
        "takes": takes,
        "read_only": True,
    }


def said(**by_value: str) -> dict[str, str]:
    """How truth values are said: `said(true="public", false="private")`."""
    return by_value


def quoted(texts: list[str]) -> dict[str, str]:
    """Texts of a person's own, said in quotes; a phrase for what stands elsewhere takes their place without them."""
    return {json.dumps(text): f'"{text}"' for text in texts}
