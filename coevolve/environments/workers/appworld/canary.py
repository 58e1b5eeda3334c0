"""The canary string that AppWorld marks its protected files with, to find models trained on them.

`clean` takes it out of text that may end up in training (descriptions, observations, prompts,
records). The string itself is not written here either, only its shape.
"""

from __future__ import annotations

import re

_CANARY = re.compile(
    r"(?:canary[ _]string\W{0,6})?"
    r"\bappworld:[0-9a-f]{7}:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
    re.I,
)


def clean(text: str) -> str:
    """Returns the text without canaries."""
    return _CANARY.sub("", text) if "appworld:" in text.lower() else text
