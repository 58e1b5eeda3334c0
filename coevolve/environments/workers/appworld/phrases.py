"""Phrases that people ask with for some 130 of AppWorld's 457 APIs: ninety that tasks can be about,
the others inform them. The folder `phrases` has a file for each app.

The program writer fills these templates (`protocol.Language`). An API that is not here is never
asked for and never offered to an explorer without a model: logging in and out, accounts and
passwords, receipts, administration.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from ..data_files import ToolPhrases, read_phrases
from .values import made_up

HARMLESS_CALLS = [{"tool": "phone.get_current_date_and_time", "arguments": {}}]
"""A call that changes nothing and tells next to nothing."""


@cache
def phrases() -> dict[str, ToolPhrases]:
    """Returns `app.api` → its phrases. Raises BadData."""
    found = {}
    for file in sorted(Path(__file__).with_name("phrases").glob("*.toml")):
        for api, entry in read_phrases(file, made_up()).items():
            found[f"{file.stem}.{api}"] = entry
    return found
