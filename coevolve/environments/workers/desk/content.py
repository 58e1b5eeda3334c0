"""Names, words and texts of the desk; content.toml holds them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ..data_files import read_data


class DeskContent(NamedTuple):
    """The tables of content.toml, which says what each is for."""

    apps: list[str]
    names: list[str]
    words: list[str]
    answers: list[str]
    requests: dict[str, str]
    descriptions: dict[str, str]
    parameters: dict[str, str]


CONTENT: DeskContent = read_data(Path(__file__).with_name("content.toml"), DeskContent)
