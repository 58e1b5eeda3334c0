"""A block of code in a model's reply: the action of an environment that takes code.

The first fenced block is the action, character by character: indentation and blank lines are the program's meaning. A fence
that is never closed runs to the end of the reply. A reply without a fence holds no code.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n(.*?)(?:^[ \t]*```[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)


def code_of(text: str) -> str | None:
    """The code, without the line break before the closing fence; None where there is none."""
    found = _FENCE.search(text)
    code = found[1].removesuffix("\n") if found else ""
    return code if code.strip() else None
