"""AppWorld marks its protected files with a canary string, so that models trained on them can be told.

Text that may end up in training (descriptions, observations, prompts, records) never holds it: `clean` takes it out, whatever
stands around it. The string itself is not written here either, only its shape.
"""

from __future__ import annotations

import re

_CANARY = re.compile(
    r"(?:canary[ _]string\W{0,6})?\bappworld:[0-9a-f]{7}:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
    re.I,
)


def clean(text: str) -> str:
    """The text without canaries."""
    return _CANARY.sub("", text) if "appworld:" in text.lower() else text
