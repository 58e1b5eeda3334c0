"""How people ask for what AppWorld's APIs do: some ninety of the 457, those that tasks can be about and those that inform them.

The program writer fills these templates (`protocol.Language`). An API that is not here is never asked for and never offered to
an explorer without a model: logging in and out, accounts and passwords, receipts, administration.
"""

from __future__ import annotations

from .media import AMAZON, FILES, NOTES, SPOTIFY
from .people import GMAIL, PHONE, SPLITWISE, SUPERVISOR, TODOIST, VENMO

_APPS = {
    "amazon": AMAZON,
    "file_system": FILES,
    "gmail": GMAIL,
    "phone": PHONE,
    "simple_note": NOTES,
    "splitwise": SPLITWISE,
    "spotify": SPOTIFY,
    "supervisor": SUPERVISOR,
    "todoist": TODOIST,
    "venmo": VENMO,
}
LANGUAGE: dict[str, dict] = {
    f"{app}.{api}": entry for app, apis in _APPS.items() for api, entry in apis.items()
}
"""API → fields of protocol.Language, with `takes` (optional parameters of an explorer's calls) and `read_only` beside them."""

OFFERED = sorted(LANGUAGE)
"""What a session offers to explorers that make calls."""

HARMLESS: list[tuple[str, dict]] = [("phone.get_current_date_and_time", {})]
"""A call that changes nothing and tells next to nothing."""
