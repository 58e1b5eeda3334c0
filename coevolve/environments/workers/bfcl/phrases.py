"""How people ask for each of the 128 functions; the folder `phrases` has a file for each API class.

The program writer fills these templates, so each names every argument that is needed to make the
same call again: which folder, which order type, which unit. Texts that must be exact stand in
quotes.
"""

from __future__ import annotations

from pathlib import Path

from ..data_files import ToolPhrases, check_phrases, read_phrases
from .content import CONTENT
from .data import DOCUMENTS, functions


def phrases() -> dict[str, ToolPhrases]:
    """Function → its phrases, checked against its parameters. Raises BadData."""
    titles, descriptions = (list(texts) for texts in zip(*CONTENT.new_tickets, strict=True))
    texts = {"new_ticket_titles": titles, "new_ticket_descriptions": descriptions}
    found: dict[str, ToolPhrases] = {}
    for stem in DOCUMENTS.values():
        path = Path(__file__).with_name("phrases") / f"{stem}.toml"
        found |= read_phrases(path, CONTENT._asdict() | texts)
    parameters = {name: doc["parameters"]["properties"] for name, (_, doc) in functions().items()}
    check_phrases(found, parameters)
    return found
