"""One entry of the language table: the fields of protocol.Language, and whether the response is compared."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any


def ask(
    *do: str,
    optional: dict[str, str] | None = None,
    refer: dict[str, str] | None = None,
    words: dict[str, dict[str, str]] | None = None,
    literal: tuple[str, ...] = (),
    absent: dict[str, str] | None = None,
    lookup_only: tuple[str, ...] = (),
    checked: bool = False,
    read_only: bool = False,
) -> dict:
    """A function that a person asks for with any of the clauses `do`."""
    return {
        "do": list(do),
        "optional": optional or {},
        "refer": refer or {},
        "words": words or {},
        "literal": list(literal),
        "absent": absent or {},
        "lookup_only": list(lookup_only),
        "checked": checked,
        "read_only": read_only,
    }


def read(
    *do: str,
    optional: dict[str, str] | None = None,
    refer: dict[str, str] | None = None,
    words: dict[str, dict[str, str]] | None = None,
    literal: tuple[str, ...] = (),
    absent: dict[str, str] | None = None,
    lookup_only: tuple[str, ...] = (),
) -> dict:
    """A function that changes nothing and whose answer is what the person wants."""
    return ask(
        *do,
        optional=optional,
        refer=refer,
        words=words,
        literal=literal,
        absent=absent,
        lookup_only=lookup_only,
        checked=True,
        read_only=True,
    )


def said(pairs: list[tuple[Any, str]]) -> dict[str, str]:
    """How values are said, by their compact JSON text."""
    return {json.dumps(value, separators=(",", ":")): word for value, word in pairs}


def quoted(texts: Iterable[str]) -> dict[str, str]:
    """Texts of a user's own, said in quotes; what a phrase refers to in their place stands without them."""
    return said([(text, f'"{text}"') for text in texts])
