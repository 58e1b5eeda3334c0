"""The state of an API object as comparable cells, and what one call changed in it.

`cells` flattens the public attributes to {(key, field): value}: a file is ``("/home/notes.txt", "file")``, a row of a table
``("orders/1204", "price")``, a plain attribute ``("", "fuelLevel")``. `Names.effects` turns the difference of two such maps
into `Effect` dicts that are equal whenever the same thing happened: rows created in the session go by a hash of their
content, counters and balances by their difference, generated numbers and clock times by a placeholder. Private attributes
that later calls depend on (current folder, brake force) belong to the state's hash only, as the official checker never
compares them. The random generators' position and caches are no part of the state.

A state that is cyclic or has outgrown `MAX_NODES` or `MAX_CHARS` raises `Corrupt`: directories copied into themselves do that.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

MAX_DEPTH = 50
MAX_NODES = 20_000
MAX_CHARS = 8_000_000

GENERATED = "(generated)"

_SILENT = {"generated_ids", "remainingUnlockedDoors", "long_context"}
"""Follow from other cells, or differ between replays by chance."""

_COUNTED = {"order_counter", "tweet_counter", "ticket_counter", "message_count", "user_count", "balance", "fuelLevel"}
"""Shown as a difference, so that an effect does not depend on what else was done before."""

_GENERATED_FIELDS = {
    "orders": {"id"},
    "tweets": {"id"},
    "ticket_queue": {"id"},
    "booking_record": {"transaction_id"},
    "credit_card_list": {"balance"},
    "transaction_history": {"timestamp"},
}
"""Of new rows: drawn by chance or by a counter."""

_PRIVATE = ("_parkingBrakeForce", "_slopeAngle", "_brakePedalForce")

Cells = dict[tuple[str, str], Any]


class Corrupt(Exception):
    """A state that nothing can be compared with."""


def cells(instance: Any) -> Cells:
    """The public state, flattened. Raises `Corrupt`."""
    found: Cells = {}
    for name, value in vars(instance).items():
        if name.startswith("_") or name == "long_context":
            continue
        if type(value).__name__ == "Directory":
            _walk(value, "/" + value.name.strip("/"), found)
        else:
            _flatten(name, value, found)
    return found


def _walk(root: Any, path: str, found: Cells) -> None:
    """Adds a directory tree; bounded, because `cp` and `mv` can make cycles and doublings."""
    pending, size = [(root, path, 0)], 0
    while pending:
        directory, path, depth = pending.pop()
        found[path, "directory"] = directory.name
        if depth > MAX_DEPTH or len(found) > MAX_NODES or size > MAX_CHARS:
            raise Corrupt("the file system contains itself or has grown beyond all bounds")
        for name, item in directory.contents.items():
            place = f"{path.rstrip('/')}/{name}"
            if hasattr(item, "contents"):
                pending.append((item, place, depth + 1))
            else:
                found[place, "file"] = item.content
                size += len(item.content) if isinstance(item.content, str) else 1


def _flatten(name: str, value: Any, found: Cells) -> None:
    if isinstance(value, list) and value and all(isinstance(row, dict) and "id" in row for row in value):
        value = {row["id"]: row for row in value}
    if not isinstance(value, dict):
        found["", name] = sorted(value) if isinstance(value, set) else value
        return
    for key, row in value.items():
        if isinstance(row, dict):
            found.update({(f"{name}/{key}", str(field)): item for field, item in row.items()})
            if not row:
                found[f"{name}/{key}", ""] = {}
        else:
            found[name, str(key)] = row


def freeze(cells_: Cells) -> Cells:
    """A copy that later calls cannot change through shared lists."""
    return {key: _copy(value) for key, value in cells_.items()}


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def hidden(instance: Any) -> list[Any]:
    """The private attributes that later calls depend on."""
    private: list[Any] = [getattr(instance, name) for name in _PRIVATE if hasattr(instance, name)]
    if hasattr(instance, "_current_dir"):
        private.append(working_directory(instance))
    return private


def fingerprint(cells_: Cells, hidden_: list[Any]) -> str:
    """Hash of one object's state, private parts included."""
    text = json.dumps([sorted((list(key), value) for key, value in cells_.items()), hidden_], default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def working_directory(file_system: Any) -> str:
    """Path of the current folder; bounded, for a parent may be its own child."""
    names, directory = [], file_system._current_dir
    while directory is not None and len(names) <= MAX_DEPTH:
        names.append(directory.name)
        directory = directory.parent
    return "/" + "/".join(reversed(names))


class Names:
    """What the session's own rows are called in effects; one per session and class."""

    def __init__(self, entity: str):
        self.entity = entity
        self._rows: dict[str, str] = {}
        self._values: dict[str, str] = {}

    def effects(self, before: Cells, after: Cells) -> list[dict]:
        """Sorted `Effect` dicts that lead from one state to the other."""
        changed = [key for key in {**before, **after} if before.get(key, _ABSENT) != after.get(key, _ABSENT)]
        rows = {key for key, _ in before}
        self._name_new_rows(
            [key for key in changed if "/" in key[0] and key[0][0] != "/" and key[0] not in rows], after
        )
        found = [effect for key in changed for effect in self._change(key, before, after)]
        return sorted(found, key=lambda effect: json.dumps(list(effect.values()), sort_keys=True, default=str))

    def _name_new_rows(self, keys: list[tuple[str, str]], after: Cells) -> None:
        for row in dict.fromkeys(key for key, _ in keys):
            table, _, id_ = row.partition("/")
            skip = _GENERATED_FIELDS.get(table, set())
            content = sorted(
                (field, self._value(after[row, field])) for key, field in keys if key == row and field not in skip
            )
            name = f"{table}/#{hashlib.sha256(json.dumps(content, default=str).encode()).hexdigest()[:8]}"
            same = sum(other == name or other.startswith(name + "-") for other in self._rows.values())
            self._rows[row] = self._values[id_] = f"{name}-{same + 1}" if same else name

    def _change(self, key: tuple[str, str], before: Cells, after: Cells) -> list[dict]:
        (row, field), old, new = key, before.get(key, _ABSENT), after.get(key, _ABSENT)
        table = row.partition("/")[0]
        if (field or row) in _SILENT:
            return []
        if row in self._rows and old is _ABSENT and field in _GENERATED_FIELDS.get(table, ()):
            return []
        if isinstance(old, list | _Absent) and isinstance(new, list | _Absent):
            return self._list_change(row, field, old or [], new or [])
        if field in _COUNTED and _is_number(old) and _is_number(new):
            return [self._effect(row, field, "set", f"{round(new - old, 6):+}")]
        if field == "access_token" and isinstance(new, str):
            self._values[new] = new = GENERATED
        if row == "user_map" and old is _ABSENT:
            self._values[new] = f"#{field}"
            new = GENERATED
        op = "add" if old is _ABSENT else "remove" if new is _ABSENT else "set"
        return [self._effect(row, field, op, old if new is _ABSENT else new)]

    def _list_change(self, row: str, field: str, old: list, new: list) -> list[dict]:
        skip = _GENERATED_FIELDS.get(field, set())
        texts = [Counter(self._item(field or row, item, skip) for item in items) for items in (old, new)]
        gone, come = texts[0] - texts[1], texts[1] - texts[0]
        if not gone and not come and old != new:
            return [self._effect(row, field, "set", new)]
        made = [("remove", text) for text in gone.elements()] + [("add", text) for text in come.elements()]
        return [self._effect(row, field, op, json.loads(text)) for op, text in made]

    def _item(self, field: str, item: Any, skip: set[str]) -> str:
        if isinstance(item, dict):
            item = {key: value for key, value in item.items() if key not in skip}
        return json.dumps(self._value(item), sort_keys=True, default=str)

    def _effect(self, row: str, field: str, op: str, value: Any) -> dict:
        if row in ("comments", "retweets"):
            value = self._value(value, tweets=row == "retweets")
            field = self._rows.get(f"tweets/{field}", field)
        return {
            "entity": self.entity,
            "key": self._rows.get(row, row),
            "field": field,
            "op": op,
            "value": self._value(value),
        }

    def _value(self, value: Any, tweets: bool = False) -> Any:
        """The value with generated ids replaced by their names."""
        if isinstance(value, str):
            return self._values.get(value, value)
        if isinstance(value, dict):
            return {self._values.get(key, key): self._value(item, tweets) for key, item in value.items()}
        if isinstance(value, list):
            return [self._value(item, tweets) for item in value]
        return self._rows.get(f"tweets/{value}", value) if tweets and isinstance(value, int) else value


class _Absent:
    """No cell; false, so that an absent list reads as an empty one."""

    def __bool__(self) -> bool:
        return False


_ABSENT = _Absent()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
