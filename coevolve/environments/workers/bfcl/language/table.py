"""How people ask for each of the 128 functions, and the calls that tell next to nothing.

The program writer fills these templates, so each names every argument that is needed to make the same call again: which
folder, which order type, which unit. Texts that must be exact stand in quotes.
"""

from __future__ import annotations

from .files import FILES, MATH
from .people import MESSAGES, TICKETS, TWITTER
from .things import TRADING, TRAVEL, VEHICLE

LANGUAGE: dict[str, dict] = FILES | MATH | MESSAGES | TWITTER | TICKETS | TRADING | TRAVEL | VEHICLE
"""Function → fields of protocol.Language, with `checked` and `read_only` beside them."""

HARMLESS: list[tuple[str, dict]] = [
    ("pwd", {}),
    ("trading_get_login_status", {}),
    ("travel_get_login_status", {}),
    ("display_log", {"messages": ["ok"]}),
    ("message_get_login_status", {}),
    ("posting_get_login_status", {}),
    ("ticket_get_login_status", {}),
    ("absolute_value", {"number": 1}),
]
"""One for each class."""
