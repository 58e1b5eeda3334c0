"""The rows of an episode's databases: what tables there are, and what a row holds."""

from __future__ import annotations

import json
import sqlite3
from typing import Any, NamedTuple

NOTICES, USERS = "notifications", "users"  # Names of tables in the apps that have them


class TableSchema(NamedTuple):
    app: str
    name: str
    entity: str  # app.Model
    columns: tuple[str, ...]
    references: dict[str, str]  # Column → table of the same app that its id or ids mean
    json: frozenset[str]  # Columns that hold JSON

    def as_json(self, prefix: str = "") -> str:
        """Returns SQL for a row as JSON text; `prefix` is "OLD." in a trigger."""
        fields = ", ".join(f"'{column}', {prefix}\"{column}\"" for column in self.columns)
        return f"json_object({fields})"

    def row(self, text: str | None) -> dict | None:
        """Returns the row of such a text; None for None, where there is no row."""
        if text is None:
            return None
        row = json.loads(text)
        for column in self.json:
            if isinstance(row[column], str):
                row[column] = json.loads(row[column])
        return row


class EpisodeRows:
    """The present rows of one episode's databases; knows which the episode added."""

    def __init__(self, databases: dict[str, sqlite3.Connection], tables: list[TableSchema]):
        self.databases = databases
        self.tables = {(table.app, table.name): table for table in tables}
        self.added: set[tuple[str, str, int]] = set()  # App, table and id

    def current(self, table: TableSchema, id_: int) -> dict | None:
        """Returns a row as it is now; None where it is gone."""
        query = f'SELECT {table.as_json()} FROM "{table.name}" WHERE id = ?'
        found = self.databases[table.app].execute(query, (id_,)).fetchone()
        return table.row(found[0]) if found else None

    def is_new(self, app: str, table: str, id_: Any) -> bool:
        return (app, table, id_) in self.added

    def tables_with_new(self, id_: int) -> list[str]:
        """Returns the names of the tables to which the episode added a row of this id."""
        return [table for _, table, added in self.added if added == id_]

    def refers_to(self, app: str, name: str) -> str | None:
        """Returns the app's table that a name such as `transaction_id` means."""
        return refers_to(name, [table for owner, table in self.tables if owner == app])


def refers_to(name: str, tables: list[str]) -> str | None:
    """Returns the table that a column `…_id` or `…_ids` means by its name: the longest match of its
    last words; people are users."""
    words = name.removesuffix("_ids").removesuffix("_id").split("_")
    for first in range(len(words)):
        wanted = "_".join(words[first:])
        for plural in (f"{wanted}s", f"{wanted}es", f"{wanted[:-1]}ies"):
            if plural in tables:
                return plural
    return USERS if name.endswith("_ids") and USERS in tables else None
