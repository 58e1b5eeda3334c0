"""People, records and texts of the demo world (`world.toml`, `catalogues.toml`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from ...data_files import read_data

APPS = ("amazon phone file_system spotify venmo gmail splitwise simple_note todoist").split()
"""Apps in which people have accounts."""


class DemoPerson(NamedTuple):
    first: str
    last: str
    birthday: str
    sex: str
    phone_number: str
    password: str  # Its end, after the name of the app
    street_address: str
    city: str
    zip_code: int
    card_number: int
    expiry_month: int
    cvv_number: int
    weekday: str  # A word for their emails, so that no two have one subject
    relationships: list[str]  # Words for this person in the others' contacts, in turn

    @property
    def email(self) -> str:
        return f"{self.first.lower()}.{self.last.lower()}@example.com"

    @property
    def name(self) -> str:
        return f"{self.first} {self.last}"

    @property
    def contact(self) -> dict[str, str]:
        return {"email": self.email, "phone_number": self.phone_number}

    @property
    def card(self) -> dict[str, Any]:
        return {
            "owner_name": self.name,
            "card_name": "Visa",
            "card_number": self.card_number,
            "expiry_year": 2030,
            "expiry_month": self.expiry_month,
            "cvv_number": self.cvv_number,
        }

    @property
    def address(self) -> dict[str, Any]:
        return {
            "street_address": self.street_address,
            "city": self.city,
            "state": "Maine",
            "country": "United States",
            "zip_code": self.zip_code,
        }

    def user_name(self, app: str) -> str:
        return self.phone_number if app == "phone" else self.email

    def app_password(self, app: str) -> str:
        return f"{app.replace('_', '-')}-{self.password}"


class CatalogueTable(NamedTuple):
    columns: list[str]
    rows: list[list[Any]]


class DemoContent(NamedTuple):
    """The fields of `world.toml`, which says what the columns are."""

    people: list[DemoPerson]
    playlists: list[tuple[str, int, int]]
    review: tuple[int, str, str]
    notes: list[tuple[str, str, list[str]]]
    projects: list[tuple[str, list[str]]]
    section: str
    labels: list[str]
    files: list[tuple[str, str]]
    emails: list[tuple[str, str]]
    draft: tuple[str, str]
    messages: list[str]
    alarm_days: list[str]
    alarms: list[tuple[str, str]]
    payments: list[tuple[float, str]]
    requests: list[tuple[float, str]]
    expenses: list[tuple[float, str]]


_HERE = Path(__file__).parent
CONTENT: DemoContent = read_data(_HERE / "world.toml", DemoContent)
CATALOGUES: dict[str, dict[str, CatalogueTable]] = read_data(
    _HERE / "catalogues.toml", dict[str, dict[str, CatalogueTable]]
)
"""App → model → its rows."""
