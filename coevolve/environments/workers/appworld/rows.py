"""What changed in an episode's databases, in canonical form: the same for any order of independent changes and any ids.

Triggers of the episode's own connections, made before an app's first write, note every row that is added, changed or removed,
with what it was before, so that the cost follows the changes, not the size of the tables. A change is an effect {entity, key, field, op, value} as
coevolve/records.py has it:

- a new row is `add` with the whole row as value; its key is a hash of its content, and where another row refers to it, that
  hash stands in place of the id. Its place in a list that people order by hand (`order_index`) is not part of it.
- an old row is `set`, field by field, or `remove`; its key is its id.
- a text of more than 100,000 characters is its beginning, its length and its hash.
- a notice that an app sends somebody as a consequence of a change is no change of its own in the difference of an episode: which
  notices are sent depends on the API that was taken. Who got one is told beside the changes. A notice that is all that a call
  does (a reminder) is a change.
- ids, row hashes and login times are left out, random codes are written as `<code>`, numbers of the episode's own rows in texts
  that apps write (`Your transfer ID is #3`, `transfer_3.txt`) as `<id>`, floats are rounded to six places, lists
  that are sets are sorted. A music queue keeps its order.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from typing import Any, NamedTuple

CODES = frozenset(
    [
        "verification_code",
        "password_reset_code",
        "confirmation_code",
        "invitation_code",
        "invite_code",
    ]
)
LONGEST, SHOWN = 100_000, 1_000
"""Characters of a text that stands in an effect as it is, and of the beginning of a longer one, before its length and hash."""
_SKIPPED = frozenset(["id", "record_hash", "last_logged_in"])
_PLACED = frozenset(["order_index"])
_ORDERED = frozenset(["queue_song_ids"])
_LOG = "coevolve_changes"
_NOTICES, _USERS = "notifications", "users"
"""Names of tables in the apps that have them."""
_NUMBER = re.compile(r"(?<=#)\d{1,18}(?!\w)|(?<=_)\d{1,18}(?=[._])")
"""Where receipts and their files have the number of what they are about."""


class Table(NamedTuple):
    app: str
    name: str
    entity: str
    """app.Model"""
    columns: tuple[str, ...]
    references: dict[str, str]
    """Column → table of the same app that its id or ids mean."""
    json: frozenset[str]
    """Columns that hold JSON."""


class Difference(NamedTuple):
    """Of an episode to its start."""

    changes: list[dict]
    """Net effects, sorted, without the notices that they entail."""
    told: list[str]
    """People who got such notices, as "app user"."""
    concerned: list[str]
    """People whom the changes are about."""


class _Change(NamedTuple):
    table: Table
    id: int
    before: dict | None
    after: dict | None


class Rows:
    """The changes of one episode; `databases`: app → connection."""

    def __init__(self, databases: dict[str, sqlite3.Connection], tables: list[Table]):
        self._databases = databases
        self._tables = {(table.app, table.name): table for table in tables}
        self._seen: dict[str, int] = {}
        self._added: set[tuple[str, str, int]] = set()
        self._called: dict[str, int] = {}
        """App → the log's last entry at the end of the last call."""
        self._notices: set[tuple[str, int]] = set()
        """Notices, each of which is all that a call did in the app."""

    def watch(self, app: str) -> None:
        """To be called before a statement may change the app's database: from here on its changes are noted."""
        if app not in self._seen:
            self._seen[app] = 0
            _watch(
                self._databases[app], [table for table in self._tables.values() if table.app == app]
            )

    def end_call(self) -> None:
        """To be called after each API call."""
        for app in self._seen:
            query = f"SELECT seq, tbl, id FROM {_LOG} WHERE seq > ? ORDER BY seq"
            log = self._databases[app].execute(query, (self._called.get(app, 0),)).fetchall()
            if log:
                self._called[app] = log[-1][0]
            if all(table == _NOTICES for _, table, _ in log):
                self._notices |= {(app, id_) for _, _, id_ in log}

    def since_last(self) -> list[dict]:
        """Net effects since the last call, sorted."""
        changes = []
        for app in self._seen:
            found, self._seen[app] = self._changes(app, self._seen[app])
            changes += found
        return self._canonical(changes)

    def since_start(self) -> list[dict]:
        """Net effects since the beginning of the episode, sorted."""
        return self._canonical(self._all())

    def difference(self) -> Difference:
        """What the episode came to."""
        changes = self._all()
        entailed = [change for change in changes if self._is_entailed(change)]
        rest = [change for change in changes if not self._is_entailed(change)]
        told = {f"{change.table.app} {change.after['user_id']}" for change in entailed}
        return Difference(
            self._canonical(rest),
            sorted(told),
            sorted({p for change in rest for p in _people(change)}),
        )

    def _all(self) -> list[_Change]:
        return [change for app in self._seen for change in self._changes(app, 0)[0]]

    def _is_entailed(self, change: _Change) -> bool:
        """Whether it is a notice that came with other changes."""
        notice = change.table.name == _NOTICES and change.before is None
        return notice and (change.table.app, change.id) not in self._notices

    def _changes(self, app: str, after: int) -> tuple[list[_Change], int]:
        """Rows that differ between the state after log entry `after` and the present one, and the last entry's number."""
        connection = self._databases[app]
        log = connection.execute(
            f"SELECT seq, tbl, id, old FROM {_LOG} WHERE seq > ? ORDER BY seq", (after,)
        ).fetchall()
        first: dict[tuple[str, int], str | None] = {}
        for _, table, id_, old in log:
            first.setdefault((table, id_), old)
            if old is None:
                self._added.add((app, table, id_))
        changes = []
        for (name, id_), old in first.items():
            table = self._tables[app, name]
            before, now = _row(table, old), self._current(table, id_)
            if before != now:
                changes.append(_Change(table, id_, before, now))
        return changes, log[-1][0] if log else after

    def _current(self, table: Table, id_: int) -> dict | None:
        query = f'SELECT {_object("", table)} FROM "{table.name}" WHERE id = ?'
        found = self._databases[table.app].execute(query, (id_,)).fetchone()
        return _row(table, found[0]) if found else None

    def _canonical(self, changes: list[_Change]) -> list[dict]:
        codes = {
            str(c.after[f])
            for c in changes
            if c.after
            for f in CODES & c.after.keys()
            if c.after[f]
        }
        writer = _Writer(self, codes)
        effects = [effect for change in changes for effect in writer.effects(change)]
        return sorted(effects, key=lambda effect: json.dumps(effect, sort_keys=True))

    def is_new(self, app: str, table: str, id_: Any) -> bool:
        return (app, table, id_) in self._added

    def numbered(self, text: str, number: str) -> bool:
        """Whether a number in a text is that of a row that the episode added, of a kind that the text names."""
        lowered = text.lower()
        kinds = (table for _, table, id_ in self._added if id_ == int(number))
        return any(table.rpartition("_")[2].removesuffix("s") in lowered for table in kinds)

    def content(self, app: str, name: str, id_: int) -> tuple[Table, dict | None]:
        table = self._tables[app, name]
        return table, self._current(table, id_)

    def named(self, app: str, base: str) -> str | None:
        """The table that a name such as `transaction_id` or `recipient_ids` means."""
        return refers_to(base, [name for owner, name in self._tables if owner == app])


class _Writer:
    """Writes changes in canonical form; remembers the content of the new rows it meets."""

    def __init__(self, rows: Rows, codes: set[str]):
        self._rows = rows
        self._codes = sorted(codes, key=lambda code: (-len(code), code))
        self._hashes: dict[tuple[str, str, int], str] = {}

    def effects(self, change: _Change) -> list[dict]:
        table, new = change.table, self._rows.is_new(change.table.app, change.table.name, change.id)
        if change.before is None:
            row = self._content(table, change.after)
            return [_effect(table, _digest(row), "", "add", row)]
        if change.after is None:
            key = _digest(self._content(table, change.before)) if new else str(change.id)
            return [_effect(table, key, "", "remove", None)]
        key = _digest(self._content(table, change.after)) if new else str(change.id)
        before, after = (self._row(table, row) for row in (change.before, change.after))
        return [
            _effect(table, key, f, "set", after[f]) for f in sorted(after) if before[f] != after[f]
        ]

    def _content(self, table: Table, row: dict) -> dict:
        return {
            field: value for field, value in self._row(table, row).items() if field not in _PLACED
        }

    def _row(self, table: Table, row: dict) -> dict:
        return {
            field: self._field(table, field, row[field])
            for field in table.columns
            if field not in _SKIPPED
        }

    def _field(self, table: Table, field: str, value: Any) -> Any:
        if field in CODES:
            return None if value is None else "<code>"
        if field in table.references:
            return self._reference(
                table.app, table.references[field], value, sort=field not in _ORDERED
            )
        return self._value(table.app, value)

    def _value(self, app: str, value: Any) -> Any:
        if isinstance(value, float):
            return round(value, 6)
        if isinstance(value, str):
            for code in self._codes:
                value = value.replace(code, "<code>")
            if len(value) > LONGEST:
                return f"{value[:SHOWN]}… {len(value)} characters, {_digest(value)}"
            text = value
            return _NUMBER.sub(
                lambda found: "<id>" if self._rows.numbered(text, found[0]) else found[0], text
            )
        if isinstance(value, list):
            return sorted(
                (self._value(app, item) for item in value),
                key=lambda item: json.dumps(item, sort_keys=True),
            )
        if isinstance(value, dict):
            return {key: self._named(app, key, item) for key, item in value.items()}
        return value

    def _named(self, app: str, key: str, value: Any) -> Any:
        table = self._rows.named(app, key) if key.endswith(("_id", "_ids")) else None
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
            of, row = self._rows.content(*key)
            self._hashes[key] = "gone" if row is None else f"new:{_digest(self._content(of, row))}"
        return self._hashes[key]


def _people(change: _Change) -> list[str]:
    """Users of the app whom a changed row refers to, before and after, as "app user"."""
    table = change.table
    found = []
    for row in (change.before, change.after):
        for column, target in table.references.items():
            if row and target == _USERS:
                ids = row[column] if isinstance(row[column], list) else [row[column]]
                found += [f"{table.app} {id_}" for id_ in ids if id_ is not None]
    return found


def refers_to(name: str, tables: list[str]) -> str | None:
    """The table that a column `…_id` or `…_ids` means by its name: the longest match of its last words; people are users."""
    words = name.removesuffix("_ids").removesuffix("_id").split("_")
    for first in range(len(words)):
        wanted = "_".join(words[first:])
        for plural in (f"{wanted}s", f"{wanted}es", f"{wanted[:-1]}ies"):
            if plural in tables:
                return plural
    return _USERS if name.endswith("_ids") and _USERS in tables else None


def digest(effects: list[dict]) -> str:
    """16 hex digits for a list of effects."""
    return _digest(effects)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _effect(table: Table, key: str, field: str, op: str, value: Any) -> dict:
    return {"entity": table.entity, "key": key, "field": field, "op": op, "value": value}


def _row(table: Table, text: str | None) -> dict | None:
    if text is None:
        return None
    row = json.loads(text)
    for column in table.json:
        if isinstance(row[column], str):
            row[column] = json.loads(row[column])
    return row


def _object(prefix: str, table: Table) -> str:
    """SQL for a row as JSON text."""
    return "json_object({})".format(
        ", ".join(f"'{column}', {prefix}\"{column}\"" for column in table.columns)
    )


def _watch(connection: sqlite3.Connection, tables: list[Table]) -> None:
    connection.execute(
        f"CREATE TEMP TABLE {_LOG} (seq INTEGER PRIMARY KEY, tbl TEXT, id INTEGER, old TEXT)"
    )
    for table in tables:
        old = _object("OLD.", table)
        for event, id_, was in (
            ("INSERT", "NEW.id", "NULL"),
            ("UPDATE", "OLD.id", old),
            ("DELETE", "OLD.id", old),
        ):
            connection.execute(
                f'CREATE TEMP TRIGGER "coevolve_{event}_{table.name}" AFTER {event} ON main."{table.name}" BEGIN '
                f"INSERT INTO {_LOG} (tbl, id, old) VALUES ('{table.name}', {id_}, {was}); END"
            )
