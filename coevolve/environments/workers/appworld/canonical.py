"""Changed database rows as effects in canonical form: the same for any order of independent changes
and any ids. An effect is {entity, key, field, op, value} as coevolve/records.py has it:

- a new row is `add` with the whole row as value; its key is a hash of its content, and where
  another row refers to it, that hash stands in place of the id. Its place in a list that people
  order by hand (`order_index`) is not part of it.
- an old row is `set`, field by field, or `remove`; its key is its id.
- a text of more than 100,000 characters is its beginning, its length and its hash.
- ids, row hashes and login times are left out, random codes are written as `<code>`, numbers of the
  episode's own rows in texts that apps write (`Your transfer ID is #3`, `transfer_3.txt`) as
  `<id>`, floats are rounded to six places, lists that are sets are sorted. A music queue keeps its
  order.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, NamedTuple

from .rows import EpisodeRows, TableSchema

CODES = frozenset(
    "verification_code password_reset_code confirmation_code invitation_code invite_code".split()
)
"""Columns of random codes."""
MAX_TEXT_CHARS, SHOWN_CHARS = 100_000, 1_000
"""Length of a text that stands in an effect as it is, and of the shown beginning of a longer
one."""
_SKIPPED = frozenset(["id", "record_hash", "last_logged_in"])
_PLACED = frozenset(["order_index"])
_ORDERED = frozenset(["queue_song_ids"])
# where receipts and their files have the number of the row that they are about
_NUMBER = re.compile(r"(?<=#)\d{1,18}(?!\w)|(?<=_)\d{1,18}(?=[._])")


class RowChange(NamedTuple):
    table: TableSchema
    id: int
    before: dict | None
    after: dict | None


def effects(changes: list[RowChange], rows: EpisodeRows) -> list[dict]:
    """Returns the sorted effects of changes."""
    after = [change.after for change in changes if change.after]
    codes = {str(row[code]) for row in after for code in CODES & row.keys() if row[code]}
    writer = _Writer(rows, codes)
    written = [effect for change in changes for effect in writer.effects(change)]
    return sorted(written, key=_sort_key)


class _Writer:
    """Writes changes in canonical form; remembers the content of the new rows it meets."""

    def __init__(self, rows: EpisodeRows, codes: set[str]):
        self._rows = rows
        self._codes = sorted(codes, key=lambda code: (-len(code), code))
        self._hashes: dict[tuple[str, str, int], str] = {}

    def effects(self, change: RowChange) -> list[dict]:
        table, before, after = change.table, change.before, change.after

        def effect(key: str, field: str, op: str, value: Any) -> dict:
            return {"entity": table.entity, "key": key, "field": field, "op": op, "value": value}

        if before is None:
            row = self._content(table, after)
            return [effect(digest(row), "", "add", row)]
        new = self._rows.is_new(table.app, table.name, change.id)
        key = digest(self._content(table, after or before)) if new else str(change.id)
        if after is None:
            return [effect(key, "", "remove", None)]
        was, is_ = self._row(table, before), self._row(table, after)
        return [effect(key, f, "set", is_[f]) for f in sorted(is_) if was[f] != is_[f]]

    def _content(self, table: TableSchema, row: dict) -> dict:
        return {f: value for f, value in self._row(table, row).items() if f not in _PLACED}

    def _row(self, table: TableSchema, row: dict) -> dict:
        return {f: self._field(table, f, row[f]) for f in table.columns if f not in _SKIPPED}

    def _field(self, table: TableSchema, field: str, value: Any) -> Any:
        if field in CODES:
            return None if value is None else "<code>"
        if target := table.references.get(field):
            return self._reference(table.app, target, value, sort=field not in _ORDERED)
        return self._value(table.app, value)

    def _value(self, app: str, value: Any) -> Any:
        if isinstance(value, float):
            return round(value, 6)
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return sorted((self._value(app, item) for item in value), key=_sort_key)
        if isinstance(value, dict):
            return {key: self._entry(app, key, item) for key, item in value.items()}
        return value

    def _text(self, text: str) -> str:
        for code in self._codes:
            text = text.replace(code, "<code>")
        if len(text) > MAX_TEXT_CHARS:
            return f"{text[:SHOWN_CHARS]}… {len(text)} characters, {digest(text)}"
        lowered = text.lower()

        def number(found: re.Match) -> str:
            # only of a row that the episode added, of a kind that the text names
            tables = self._rows.tables_with_new(int(found[0]))
            kinds = [table.rpartition("_")[2].removesuffix("s") for table in tables]
            return "<id>" if any(kind in lowered for kind in kinds) else found[0]

        return _NUMBER.sub(number, text)

    def _entry(self, app: str, key: str, value: Any) -> Any:
        is_reference = key.endswith(("_id", "_ids"))
        table = self._rows.refers_to(app, key) if is_reference else None
        return self._reference(app, table, value, sort=True) if table else self._value(app, value)

    def _reference(self, app: str, table: str, value: Any, sort: bool) -> Any:
        if isinstance(value, list):
            items = [self._reference(app, table, item, sort) for item in value]
            return sorted(items, key=str) if sort else items
        if not isinstance(value, int) or not self._rows.is_new(app, table, value):
            return value
        key = (app, table, value)
        if key not in self._hashes:
            self._hashes[key] = "circle"
            schema = self._rows.tables[app, table]
            row = self._rows.current(schema, value)
            content = None if row is None else digest(self._content(schema, row))
            self._hashes[key] = "gone" if content is None else f"new:{content}"
        return self._hashes[key]


def digest(value: Any) -> str:
    """Returns 16 hex digits for a value that JSON can hold."""
    return hashlib.sha256(_sort_key(value).encode()).hexdigest()[:16]


def _sort_key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
