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

_COUNTED = {
    "order_counter",
    "tweet_counter",
    "ticket_counter",
    "message_count",
    "user_count",
    "balance",
    "fuelLevel",
}
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

_MUTABLE = (dict, list, set)
_SCALARS = {str, int, float, bool, type(None)}
_quote = json.encoder.encode_basestring_ascii
_encode = json.JSONEncoder(check_circular=False, default=str).encode
_encode_sorted = json.JSONEncoder(check_circular=False, default=str, sort_keys=True).encode


class Corrupt(Exception):
    """A state that nothing can be compared with."""


def cells(instance: Any) -> Cells:
    """The public state, flattened. Raises `Corrupt`."""
    found: Cells = {}
    for name, value in vars(instance).items():
        if name[0] != "_" and name != "long_context":
            found |= _flat(name, value)
    return found


def _flat(name: str, value: Any) -> Cells:
    """The cells of one attribute."""
    found: Cells = {}
    if type(value) in _SCALARS:
        found["", name] = value
    elif hasattr(value, "contents"):
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
    if (
        isinstance(value, list)
        and value
        and all([isinstance(row, dict) and "id" in row for row in value])
    ):
        value = {row["id"]: row for row in value}
    if not isinstance(value, dict):
        found["", name] = sorted(value) if isinstance(value, set) else value
        return
    for key, row in value.items():
        if not isinstance(row, dict):
            found[name, str(key)] = row
            continue
        place = f"{name}/{key}"
        for field, item in row.items():
            found[place, str(field)] = item
        if not row:
            found[place, ""] = {}


def freeze(cells_: Cells) -> Cells:
    """A copy that later calls cannot change through shared lists."""
    return cells_ | {key: copied(value) for key, value in cells_.items() if type(value) in _MUTABLE}


def copied(value: Any) -> Any:
    """A copy of JSON data, or of a set; `copy.deepcopy` takes five times as long."""
    kind = type(value)
    if kind is dict:
        return {
            key: copied(item) if type(item) in _MUTABLE else item for key, item in value.items()
        }
    if kind is list:
        return [copied(item) if type(item) in _MUTABLE else item for item in value]
    return set(value) if kind is set else value


def hidden(instance: Any) -> list[Any]:
    """The private attributes that later calls depend on."""
    own = vars(instance)
    private: list[Any] = [own[name] for name in _PRIVATE if name in own]
    if "_current_dir" in own:
        private.append(working_directory(instance))
    return private


def working_directory(file_system: Any) -> str:
    """Path of the current folder; bounded, for a parent may be its own child."""
    names, directory = [], file_system._current_dir
    while directory is not None and len(names) <= MAX_DEPTH:
        names.append(directory.name)
        directory = directory.parent
    return "/" + "/".join(reversed(names))


class Watch:
    """One object's state as it was last looked at; one per session and class.

    A call touches few attributes: only those that have another value are flattened and compared cell by cell. The hash is over
    the texts of all cells, of which only theirs are written anew.
    """

    digest: str
    """Hash of the state, private parts included."""

    def __init__(self, entity: str, instance: Any):
        """Raises `Corrupt`."""
        self._names = Names(entity)
        self._mirror: dict[str, Any] = {}
        self._cells: dict[str, Cells] = {}
        self._texts: dict[tuple[str, str], str] = {}
        self._take(self._touched(instance), hidden(instance))

    def effects(self, instance: Any) -> list[dict] | None:
        """What has changed since the last look, as sorted `Effect` dicts; None where nothing has, private parts included.

        Raises `Corrupt`.
        """
        if vars(instance) == self._mirror:
            return None
        touched, private, known = self._touched(instance), hidden(instance), self._cells
        changed = {name: new for name, (_, new) in touched.items() if new != known.get(name)}
        if not changed and private == self._hidden:
            return None
        before, after = {}, {}
        for name, new in changed.items():
            before |= known.get(name, _NOTHING)
            after |= new
        self._take(touched, private)
        return self._names.effects(before, after) if changed else []

    def _touched(self, instance: Any) -> dict[str, tuple[Any, Cells]]:
        """Copies and cells of the attributes that have another value, or the same one as another type (1 and 1.0)."""
        mirror, found = self._mirror, {}
        for name, value in vars(instance).items():
            known = mirror.get(name, _ABSENT)
            if type(known) is type(value) and known == value:
                continue
            copy = copied(value)
            if name[0] == "_" or name == "long_context":
                mirror[name] = _comparable(copy)
            else:
                found[name] = copy, _flat(name, copy)
        return found

    def _take(self, touched: dict[str, tuple[Any, Cells]], private: list[Any]) -> None:
        texts, keys = self._texts, list(self._texts)
        for name, (copy, new) in touched.items():
            old = self._cells.get(name, _NOTHING)
            for key in old.keys() - new.keys() if old else ():
                del texts[key]
            for key, value in new.items():
                if key not in old or old[key] is not value:
                    texts[key] = f"[[{_quote(key[0])}, {_quote(key[1])}], {_written(value)}]"
            self._cells[name] = new
            self._mirror[name] = _comparable(copy)
        if list(texts) != keys:
            texts = {key: texts[key] for key in sorted(texts)}
        self._texts, self._hidden = texts, private
        text = f"[[{', '.join(texts.values())}], {_encode(private) if private else '[]'}]"
        self.digest = hashlib.sha256(text.encode()).hexdigest()


def _comparable(value: Any) -> Any:
    """What a later look compares with: a folder is the same object however much changes in it."""
    return value if type(value) in _SCALARS or not hasattr(value, "contents") else _ABSENT


def _written(value: Any) -> str:
    """A value as JSON; most are texts and numbers, for which an encoder takes long to start."""
    kind = type(value)
    if kind is str:
        return _quote(value)
    if kind is int or kind is float and value - value == 0:
        return repr(value)
    return _encode(value)


class Names:
    """What the session's own rows are called in effects; one per session and class."""

    def __init__(self, entity: str):
        self.entity = entity
        self._rows: dict[str, str] = {}
        self._values: dict[str, str] = {}

    def effects(self, before: Cells, after: Cells) -> list[dict]:
        """Sorted `Effect` dicts that lead from one state to the other."""
        changed = [
            (key, old, new)
            for key in {**before, **after}
            if (old := before.get(key, _ABSENT)) != (new := after.get(key, _ABSENT))
        ]
        if added := [
            key for key, old, _ in changed if old is _ABSENT and "/" in key[0] and key[0][0] != "/"
        ]:
            rows = {key for key, _ in before}
            self._name_new_rows([key for key in added if key[0] not in rows], after)
        found = [
            effect
            for (row, field), old, new in changed
            for effect in self._change(row, field, old, new)
        ]
        return sorted(found, key=_text) if len(found) > 1 else found

    def _name_new_rows(self, keys: list[tuple[str, str]], after: Cells) -> None:
        for row in dict.fromkeys(key for key, _ in keys):
            table, _, id_ = row.partition("/")
            skip = _GENERATED_FIELDS.get(table, set())
            content = sorted(
                (field, self._value(after[row, field]))
                for key, field in keys
                if key == row and field not in skip
            )
            name = f"{table}/#{hashlib.sha256(_encode(content).encode()).hexdigest()[:8]}"
            same = sum(
                other == name or other.startswith(name + "-") for other in self._rows.values()
            )
            self._rows[row] = self._values[id_] = f"{name}-{same + 1}" if same else name

    def _change(self, row: str, field: str, old: Any, new: Any) -> list[dict]:
        if (field or row) in _SILENT:
            return []
        if (
            old is _ABSENT
            and row in self._rows
            and field in _GENERATED_FIELDS.get(row.partition("/")[0], ())
        ):
            return []
        if isinstance(old, _LISTS) and isinstance(new, _LISTS):
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
        if new[: len(old)] == old:
            old, new = [], new[len(old) :]
        texts = [
            Counter(self._item(field or row, item, skip) for item in items) for items in (old, new)
        ]
        gone, come = texts[0] - texts[1], texts[1] - texts[0]
        if not gone and not come and old != new:
            return [self._effect(row, field, "set", new)]
        made = [("remove", text) for text in gone.elements()] + [
            ("add", text) for text in come.elements()
        ]
        return [self._effect(row, field, op, json.loads(text)) for op, text in made]

    def _item(self, field: str, item: Any, skip: set[str]) -> str:
        if isinstance(item, dict):
            item = {key: value for key, value in item.items() if key not in skip}
        return _encode_sorted(self._value(item))

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
        if not tweets and not isinstance(value, _MUTABLE):
            return value
        if isinstance(value, dict):
            return {
                self._values.get(key, key): self._value(item, tweets) for key, item in value.items()
            }
        if isinstance(value, list):
            return [self._value(item, tweets) for item in value]
        return (
            self._rows.get(f"tweets/{value}", value) if tweets and isinstance(value, int) else value
        )


def _text(effect: dict) -> str:
    """Its values as JSON, by which effects are sorted."""
    value = effect["value"]
    head = f"{_quote(effect['key'])}, {_quote(effect['field'])}, {_quote(effect['op'])}"
    return f"{head}, {_encode_sorted(value) if type(value) in _MUTABLE else _written(value)}"


class _Absent:
    """No cell; false, so that an absent list reads as an empty one."""

    def __bool__(self) -> bool:
        return False


_ABSENT = _Absent()
_NOTHING: Cells = {}
_LISTS = (list, _Absent)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
