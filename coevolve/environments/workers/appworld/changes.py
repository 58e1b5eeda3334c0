"""The changes in an episode's databases: noted by triggers, read as effects in canonical form.

Triggers of the episode's own connections, made before an app's first write, note every row that is
added, changed or removed, with its content before, so that the cost follows the changes, not the
size of the tables. `canonical` writes the changed rows as effects.

A notice that an app sends somebody as a consequence of a change is no change of its own in the
difference of an episode: which notices are sent depends on the API that was taken. The people
notified are listed beside the changes. A notice that is all that a call does (a reminder) is a
change.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from .canonical import RowChange, effects
from .rows import NOTICES, USERS, EpisodeRows, TableSchema

_LOG = "coevolve_changes"  # Name of the temporary table that the triggers write to


class Difference(NamedTuple):
    """The difference of an episode to its start."""

    effects: list[dict]  # Net effects, sorted, without the notices that they entail
    notified: list[str]  # People who got such notices, as "app user_id"
    concerned: list[str]  # People whom the changes are about, as "app user_id"


class ChangeTracker:
    """The changes of one episode."""

    def __init__(self, databases: dict[str, sqlite3.Connection], tables: list[TableSchema]):
        self._rows = EpisodeRows(databases, tables)
        self._seen: dict[str, int] = {}
        """Watched app → the log's last entry that `since_last` has read."""
        self._called: dict[str, int] = {}  # App → the log's last entry at the end of the last call
        self._notices: set[tuple[str, int]] = set()
        """App and id of the notices of which each is all that a call did in the app."""

    def watch(self, app: str) -> None:
        """Notes the app's changes from here on; to be called before a statement may change it."""
        if app not in self._seen:
            self._seen[app] = 0
            tables = [table for table in self._rows.tables.values() if table.app == app]
            _add_triggers(self._rows.databases[app], tables)

    def end_call(self) -> None:
        """To be called after each API call."""
        for app in self._seen:
            log = self._log(app, self._called.get(app, 0))
            if log:
                self._called[app] = log[-1][0]
            if all(table == NOTICES for _, table, _, _ in log):
                self._notices |= {(app, id_) for _, _, id_, _ in log}

    def since_last(self) -> list[dict]:
        """Returns the net effects since this was last asked, sorted."""
        changes = []
        for app in self._seen:
            found, self._seen[app] = self._changes(app, self._seen[app])
            changes += found
        return effects(changes, self._rows)

    def since_start(self) -> list[dict]:
        """Returns the net effects since the beginning of the episode, sorted."""
        return effects(self._all(), self._rows)

    def difference(self) -> Difference:
        changes = self._all()
        entailed = [change for change in changes if self._is_entailed(change)]
        rest = [change for change in changes if not self._is_entailed(change)]
        notified = {f"{change.table.app} {change.after['user_id']}" for change in entailed}
        concerned = {person for change in rest for person in _people(change)}
        return Difference(effects(rest, self._rows), sorted(notified), sorted(concerned))

    def _all(self) -> list[RowChange]:
        return [change for app in self._seen for change in self._changes(app, 0)[0]]

    def _is_entailed(self, change: RowChange) -> bool:
        """Whether it is a notice that came with other changes."""
        is_notice = change.table.name == NOTICES and change.before is None
        return is_notice and (change.table.app, change.id) not in self._notices

    def _log(self, app: str, after: int) -> list[tuple[int, str, int, str | None]]:
        """Returns number, table, row id and old content of the entries after one."""
        query = f"SELECT seq, tbl, id, old FROM {_LOG} WHERE seq > ? ORDER BY seq"
        return self._rows.databases[app].execute(query, (after,)).fetchall()

    def _changes(self, app: str, after: int) -> tuple[list[RowChange], int]:
        """Returns the rows that differ between the state after a log entry and the present one, and
        the last entry's number."""
        log = self._log(app, after)
        first: dict[tuple[str, int], str | None] = {}
        for _, table, id_, old in log:
            first.setdefault((table, id_), old)
            if old is None:
                self._rows.added.add((app, table, id_))
        changes = []
        for (name, id_), old in first.items():
            table = self._rows.tables[app, name]
            change = RowChange(table, id_, table.row(old), self._rows.current(table, id_))
            if change.before != change.after:
                changes.append(change)
        return changes, log[-1][0] if log else after


def _people(change: RowChange) -> list[str]:
    """Returns the users of the app whom a changed row refers to, before and after."""
    table, found = change.table, []
    columns = [column for column, target in table.references.items() if target == USERS]
    for row in (change.before, change.after):
        for value in [row[column] for column in columns] if row else []:
            ids = value if isinstance(value, list) else [value]
            found += [f"{table.app} {id_}" for id_ in ids if id_ is not None]
    return found


def _add_triggers(connection: sqlite3.Connection, tables: list[TableSchema]) -> None:
    connection.execute(
        f"CREATE TEMP TABLE {_LOG} (seq INTEGER PRIMARY KEY, tbl TEXT, id INTEGER, old TEXT)"
    )
    for table in tables:
        row = table.as_json("OLD.")
        events = ("INSERT", "NEW.id", "NULL"), ("UPDATE", "OLD.id", row), ("DELETE", "OLD.id", row)
        for event, id_, old in events:
            connection.execute(
                f'CREATE TEMP TRIGGER "coevolve_{event}_{table.name}" '
                f'AFTER {event} ON main."{table.name}" BEGIN '
                f"INSERT INTO {_LOG} (tbl, id, old) VALUES ('{table.name}', {id_}, {old}); END"
            )
