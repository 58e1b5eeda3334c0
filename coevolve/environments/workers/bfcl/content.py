"""Names, words and sentences of generated start states and their users; content.toml holds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from ..data_files import read_data


class BfclContent(NamedTuple):
    """The tables of content.toml, which says what each is for."""

    first_names: list[str]
    last_names: list[str]
    handles: list[str]
    passwords: list[str]
    roots: list[str]
    folders: list[str]
    subfolders: list[str]
    stems: list[str]
    suffixes: list[str]
    new_files: list[str]
    new_folders: list[str]
    lines: list[str]
    rows: list[str]
    patterns: list[str]
    sentences: list[str]
    messages: list[str]
    keywords: list[str]
    tweets: list[str]
    new_tweets: list[str]
    tags: list[str]
    comments: list[str]
    tickets: list[tuple[str, str]]
    new_tickets: list[tuple[str, str]]
    resolutions: list[str]
    metric_units: list[str]
    conversions: list[tuple[str, str]]
    currencies: list[str]
    insurances: list[str]
    support_requests: list[str]
    addresses: list[str]
    drives: list[tuple[str, str, str, str]]
    together: list[list[str]]
    harmless: list[dict[str, Any]]
    companies: dict[str, str]
    cities: dict[str, str]
    routes: dict[str, list[str]]
    ticket_updates: dict[str, str]
    door_sets: dict[str, str]


CONTENT: BfclContent = read_data(Path(__file__).with_name("content.toml"), BfclContent)
