"""The hash of an API object's state, and the changes of one call as `Effect` dicts.

The same change gives equal effects whenever it happens: rows created in the session go by a hash of
their content, counters and balances by their difference, generated numbers and clock times by a
placeholder. effects.toml lists the attributes that are treated so. Private attributes belong to the
hash of the state only.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from ..data_files import read_data
from .state import MUTABLE, SCALARS, Cells, attribute_cells, copied, hidden, is_public

GENERATED = "(generated)"


class EffectFields(NamedTuple):
    """The tables of effects.toml, which says what each holds."""

    silent: list[str]
    counted: list[str]
    generated: dict[str, list[str]]


_FIELDS: EffectFields = read_data(Path(__file__).with_name("effects.toml"), EffectFields)
_SILENT, _COUNTED, _GENERATED = set(_FIELDS.silent), set(_FIELDS.counted), _FIELDS.generated

_quote = json.encoder.encode_basestring_ascii
_encode = json.JSONEncoder(check_circular=False, default=str).encode
_encode_sorted = json.JSONEncoder(check_circular=False, default=str, sort_keys=True).encode


class _Absent:
    """No cell; false, so that an absent list reads as an empty one."""

    def __bool__(self) -> bool:
        return False


_ABSENT = _Absent()
_NOTHING: Cells = {}
_LISTS = (list, _Absent)


class StateWatch:
    """One object's state as it was last looked at; one per session and class.

    A call touches few attributes: only those that have another value are flattened and compared
    cell by cell. The hash is over the texts of all cells, of which only theirs are written anew.
    """

    digest: str  # Hash of the state, private parts included

    def __init__(self, entity: str, instance: Any):
        """Raises `CorruptState`."""
        self._names = EffectNames(entity)
        self._mirror: dict[str, Any] = {}
        self._cells: dict[str, Cells] = {}
        self._texts: dict[tuple[str, str], str] = {}
        self._take(self._touched(instance), hidden(instance))

    def effects(self, instance: Any) -> list[dict] | None:
        """The changes since the last look, as sorted `Effect` dicts. Raises `CorruptState`.

        None where nothing has changed, private parts included.
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
        """Copies and cells of the attributes that have another value or type (1 and 1.0)."""
        mirror, found = self._mirror, {}
        for name, value in vars(instance).items():
            known = mirror.get(name, _ABSENT)
            if type(known) is type(value) and known == value:
                continue
            copy = copied(value)
            if is_public(name):
                found[name] = copy, attribute_cells(name, copy)
            else:
                mirror[name] = _comparable(copy)
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
    """The value to compare with later; a folder never is, as the object stays the same."""
    return value if type(value) in SCALARS or not hasattr(value, "contents") else _ABSENT


def _written(value: Any) -> str:
    """A value as JSON; most are texts and numbers, for which an encoder takes long to start."""
    kind = type(value)
    if kind is str:
        return _quote(value)
    if kind is int or kind is float and value - value == 0:
        return repr(value)
    return _encode(value)


class EffectNames:
    """The names of the session's own rows in effects; one per session and class."""

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
        added = [k for k, old, _ in changed if old is _ABSENT and "/" in k[0] and k[0][0] != "/"]
        if added:
            rows = {key for key, _ in before}
            self._name_new_rows([key for key in added if key[0] not in rows], after)
        found = [effect for key, old, new in changed for effect in self._change(*key, old, new)]
        return sorted(found, key=_text) if len(found) > 1 else found

    def _name_new_rows(self, keys: list[tuple[str, str]], after: Cells) -> None:
        for row in dict.fromkeys(key for key, _ in keys):
            table, _, id_ = row.partition("/")
            skip = _GENERATED.get(table, ())
            fields = [field for key, field in keys if key == row and field not in skip]
            content = sorted((field, self._value(after[row, field])) for field in fields)
            name = f"{table}/#{hashlib.sha256(_encode(content).encode()).hexdigest()[:8]}"
            same = sum(n == name or n.startswith(name + "-") for n in self._rows.values())
            self._rows[row] = self._values[id_] = f"{name}-{same + 1}" if same else name

    def _change(self, row: str, field: str, old: Any, new: Any) -> list[dict]:
        if (field or row) in _SILENT:
            return []
        made_here = old is _ABSENT and row in self._rows
        if made_here and field in _GENERATED.get(row.partition("/")[0], ()):
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
        skip = _GENERATED.get(field, ())
        if new[: len(old)] == old:
            old, new = [], new[len(old) :]
        before, after = (Counter(self._item(item, skip) for item in items) for items in (old, new))
        if before == after and old != new:  # only the order has changed
            return [self._effect(row, field, "set", new)]
        made = [("remove", text) for text in (before - after).elements()]
        made += [("add", text) for text in (after - before).elements()]
        return [self._effect(row, field, op, json.loads(text)) for op, text in made]

    def _item(self, item: Any, skip: Any) -> str:
        if isinstance(item, dict):
            item = {key: value for key, value in item.items() if key not in skip}
        return _encode_sorted(self._value(item))

    def _effect(self, row: str, field: str, op: str, value: Any) -> dict:
        if row in ("comments", "retweets"):
            value = self._value(value, tweets=row == "retweets")
            field = self._rows.get(f"tweets/{field}", field)
        key, value = self._rows.get(row, row), self._value(value)
        return {"entity": self.entity, "key": key, "field": field, "op": op, "value": value}

    def _value(self, value: Any, tweets: bool = False) -> Any:
        """The value with generated ids replaced by their names."""
        if isinstance(value, str):
            return self._values.get(value, value)
        if not tweets and not isinstance(value, MUTABLE):
            return value
        if isinstance(value, dict):
            pairs = value.items()
            return {self._values.get(key, key): self._value(v, tweets) for key, v in pairs}
        if isinstance(value, list):
            return [self._value(item, tweets) for item in value]
        is_tweet = tweets and isinstance(value, int)
        return self._rows.get(f"tweets/{value}", value) if is_tweet else value


def _text(effect: dict) -> str:
    """Its values as JSON, by which effects are sorted."""
    value = effect["value"]
    head = f"{_quote(effect['key'])}, {_quote(effect['field'])}, {_quote(effect['op'])}"
    return f"{head}, {_encode_sorted(value) if type(value) in MUTABLE else _written(value)}"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
