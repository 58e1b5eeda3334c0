"""Whether a text states a value in a form that people give to it.

| value | stated by |
|---|---|
| `"I'm late."` | the same in other letters' case, other quotes, without its full stop |
| `"parkingBrake"`, `"high_priority"`, `"well-known"` | its words with spaces between them |
| `"apple"` | its plural, `Apple's` |
| `"2025-07-04"`, `"15:30"` | any way to write that date, that time (`dates`) |
| `1500`, `"1500"` | any way to write that number (`numbers`) |

Whole words and whole numbers count only: `teapot` states no `tea`, `20,000` no 20.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from coevolve.grounding.dates import dates, moment, times
from coevolve.grounding.numbers import read_number, states_number

ORDINALS = tuple("first second third fourth fifth sixth seventh eighth ninth tenth".split())
_DIGITS = re.compile(r"\d+(?:\.\d+)?")
_QUOTES = str.maketrans("‘’“”–", "''\"\"-")


def mentions(text: str, form: str) -> bool:
    """Whether a form stands in the text by itself: not inside a longer word or a longer number."""
    before = after = ""
    if _DIGITS.fullmatch(form):
        before, after = r"(?<!\d[.:/])(?<!\W-)(?<!\A-)", r"(?![.:/]\d|,\d{3}(?!\d))"
        # three digits after a comma are the end of 20,000; elsewhere a comma separates numbers
        before += r"(?<!\d,)" if len(form) == 3 else ""
    pattern = rf"(?<!\w){before}{re.escape(form)}(?!\w){after}"
    return re.search(pattern, text, re.IGNORECASE) is not None


def states(text: str, value: Any) -> bool:
    """Whether a text states a text or a number. Truth values and null have no form of their own."""
    if isinstance(value, int | float):
        return not isinstance(value, bool) and states_number(text, value)
    if not isinstance(value, str):
        return False
    shown, value = plain(text), plain(value)
    if found := moment(value):
        same = found[0] <= dates(shown) and found[1] <= times(shown)
        # `8:20` stands in `8:20 pm` as well, which is another time
        return same or (not found[1] and mentions(shown, value))
    number = read_number(value)
    if number is not None and states_number(text, number):
        return True
    return any(mentions(shown, form) for form in _forms(value))


def states_fragment(text: str, value: str) -> bool:
    """The same for a piece of a text in a program: signs at its ends need not be stated."""
    core = re.sub(r"^\W+|\W+$", "", value)
    if not core or states(text, value):
        return True
    return read_number(value) is None and states(text, core)  # the sign of -20 is its own


def states_place(text: str, place: int) -> bool:
    """Whether a text names a place in a list by its ordinal; -2 is the second from the end."""
    number = place + 1 if place >= 0 else -place
    forms = [f"{number}{end}" for end in ("st", "nd", "rd", "th")]
    return any(mentions(text, form) for form in (*ORDINALS[number - 1 : number], *forms))


@lru_cache(maxsize=128)
def plain(text: str) -> str:
    """A text with straight quotes, usual characters and single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).translate(_QUOTES).split())


def _forms(value: str) -> Iterator[str]:
    bare = value.rstrip(".!?").strip() or value
    yield from (value, bare)
    if re.fullmatch(r"\w+|[^\W\d]+(?:-[^\W\d]+)+", bare):
        bare = re.sub(r"(?<=[a-z])(?=[A-Z])|[_-]", " ", bare)
        yield bare
    if re.fullmatch(r"[a-z]{3,}(?: [a-z]+)*", bare):
        yield f"{bare}s"
        yield f"{bare[:-1]}ies" if bare.endswith("y") else f"{bare}es"
