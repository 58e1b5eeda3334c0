"""Values that the supervisor of an AppWorld start state would say: names and texts of their own
making (`values.toml`), and the names of what is theirs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from ..data_files import read_data

MAX_VALUES = 12  # Names taken of one kind


@cache
def made_up() -> dict[str, list[Any]]:
    """Returns parameter → values that somebody makes up. Raises BadData."""
    return read_data(Path(__file__).with_name("values.toml"), dict[str, list[Any]])


def known_values(call: Callable[..., Any]) -> dict[str, list[Any]]:
    """Returns parameter → values, as `Opened.values` has it. `call(app, api)` is the response of an
    API to the supervisor, so that nothing appears that they could not see. Identifiers are looked
    up instead."""
    people = _rows(call("phone", "search_contacts"))
    addresses = [row["email"] for row in people if row.get("email")]
    names = [f"{row['first_name']} {row['last_name']}" for row in people]
    paths = call("file_system", "show_directory", entry_type="files") or []
    files = [path for path in paths if isinstance(path, str)]

    def column(app: str, api: str, field: str) -> list[Any]:
        return [row[field] for row in _rows(call(app, api))]

    own = {
        "venmo.search_users.query": names,
        "venmo.search_friends.query": names,
        "splitwise.search_users.query": names,
        "phone.search_contacts.query": names,
        "spotify.search_songs.query": column("spotify", "show_song_library", "title"),
        "simple_note.search_notes.query": column("simple_note", "search_notes", "title"),
        "amazon.search_products.query": column("amazon", "show_wish_list", "product_name"),
        "email_addresses": [[address] for address in addresses],
        "recipient_email_addresses": [[address] for address in addresses],
        "member_emails": [[address] for address in addresses[:3]] + [addresses[:2]],
        "file_path": files,
        "source_file_path": files,
    }
    found = made_up() | {name: known[:MAX_VALUES] for name, known in own.items() if any(known)}
    return {name: known for name, known in sorted(found.items()) if known}


def _rows(response: Any) -> list[dict]:
    """Returns the rows of a response; none where it failed."""
    return [row for row in response if isinstance(row, dict)] if isinstance(response, list) else []
