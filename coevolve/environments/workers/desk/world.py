"""The desk's state and rules: 12 apps of 14 tools each, `desk.answer` and `desk.date`.

Every app holds a few records; a record has a name (people say it), an id (`find` tells it) and a
note (`read` tells it to who names the owner). The verbs change records. Each (app, verb) has a
fixed convention of its own, `CONVENTIONS`, that no observation spells out:

- the key: the record is addressed by its name or by its id,
- the preparation: none, or one of open, check, sync; it must be the last preparation in that app,
- the completion: none (the change is made at once), or one of save, push, seal; another one loses
  the change.

Public state is what records and answers hold; armed preparations and pending changes are hidden. A
call never raises: `DeskWorld.call` returns an observation and, where it was refused, the kind of
error.
"""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any, NamedTuple

from .content import CONTENT

APPS = CONTENT.apps
PREPARATIONS = "open check sync".split()
COMPLETIONS = "save push seal".split()
VALUE_VERBS = "set add send copy".split()
BARE_VERBS = "drop mark".split()
VERBS = VALUE_VERBS + BARE_VERBS
LOOK_UPS = {"find": "name", "read": "owner"}  # The look-ups and what each calls the record's name
# verb → the field of a record that it changes
FIELDS = {"set": "value", "add": "items", "send": "sent", "copy": "copies", "mark": "marked"}
LISTS = {"items", "sent", "copies"}  # fields that hold several texts

IDS = [f"i{number}" for number in range(10, 40)]
RECORDS_PER_APP = 4
DATE = "2026-01-01"  # of every desk, whatever the day


class Convention(NamedTuple):
    """The way in which one verb of one app must be used."""

    key: str
    preparation: str | None
    completion: str | None


class DeskChange(NamedTuple):
    """A change of a record by a verb; `text` is None for verbs without a value."""

    app: str
    verb: str
    name: str
    text: str | None


class DeskRefusal(Exception):
    """A call is refused, with the kind of error and the text that the caller reads."""

    def __init__(self, kind: str, message: str):
        super().__init__(message)
        self.kind = kind


class DeskResult(NamedTuple):
    """The result of one call: what the caller reads, the kind of error, the changes."""

    output: dict[str, Any]
    error: str | None
    effects: list[dict[str, Any]]


Facts = dict[tuple[str, str, str], Any]  # (entity, key, field) → value: the public state, flat


_rng = random.Random("desk-conventions")
_WAYS = (["name", "id"], [None, *PREPARATIONS], [None, *COMPLETIONS])
CONVENTIONS = {
    (app, verb): Convention(*[_rng.choice(ways) for ways in _WAYS])
    for app in APPS
    for verb in VERBS
}


class DeskWorld:
    """One desk, a pure function of `seed` and the calls made since."""

    def __init__(self, seed: int):
        rng = random.Random(f"desk-{seed}")
        self.records: dict[str, dict[str, dict[str, Any]]] = {}
        for app in APPS:
            names = rng.sample(CONTENT.names, RECORDS_PER_APP)
            pairs = zip(names, rng.sample(IDS, RECORDS_PER_APP), strict=True)
            self.records[app] = {n: {"id": i, "note": rng.choice(CONTENT.words)} for n, i in pairs}
        self.answers: list[str] = []
        self.armed: dict[str, str] = {}
        self.pending: dict[str, DeskChange] = {}

    def call(self, tool: str, arguments: dict[str, Any]) -> DeskResult:
        """Runs one call. A refused one changes nothing, but a wrong completion loses the change."""
        app, _, action = tool.partition(".")
        before = self.facts(app)
        try:
            output, error = self._run(app, action, arguments), None
        except DeskRefusal as refusal:
            output, error = {"error": str(refusal)}, refusal.kind
        return DeskResult(output, error, effects(before, self.facts(app)))

    def _run(self, app: str, action: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if app == "desk" and action == "answer":
            _check(arguments, ["text"])
            self.answers.append(arguments["text"])
            return {"ok": True}
        if app == "desk" and action == "date":
            _check(arguments, [])
            return {"date": DATE}
        if app not in self.records:
            raise DeskRefusal("unknown_tool", "unknown tool")
        if action in LOOK_UPS:
            return self._look_up(app, action, arguments)
        if action in PREPARATIONS:
            _check(arguments, [])
            self.armed[app] = action
        elif action in COMPLETIONS:
            _check(arguments, [])
            self._complete(app, action)
        elif action in VERBS:
            self._change(app, action, arguments)
        else:
            raise DeskRefusal("unknown_tool", "unknown tool")
        return {"ok": True}

    def _look_up(self, app: str, action: str, arguments: dict[str, Any]) -> dict[str, Any]:
        key = LOOK_UPS[action]
        _check(arguments, [key])
        record = self.records[app].get(arguments[key])
        if record is None:
            raise DeskRefusal("not_found", f"no record {arguments[key]}")
        return {"id": record["id"]} if action == "find" else {"text": record["note"]}

    def _change(self, app: str, verb: str, arguments: dict[str, Any]) -> None:
        convention = CONVENTIONS[app, verb]
        if not {"name", "id"} & set(arguments):
            raise DeskRefusal("missing_argument", "missing argument name or id")
        _check(arguments, [convention.key] + (["text"] if verb in VALUE_VERBS else []))
        key = arguments[convention.key]
        name = key if convention.key == "name" else self._named(app, key)
        if name not in self.records[app]:
            raise DeskRefusal("not_found", f"no record {key}")
        if convention.preparation not in (None, self.armed.get(app)):
            raise DeskRefusal("not_ready", "not ready")
        self.armed.pop(app, None)
        change = DeskChange(app, verb, name, arguments.get("text"))
        if convention.completion:
            self.pending[app] = change
        else:
            self._apply(change)

    def _named(self, app: str, id_: str) -> str | None:
        return next((n for n, record in self.records[app].items() if record["id"] == id_), None)

    def _complete(self, app: str, completion: str) -> None:
        change = self.pending.pop(app, None)
        if change is None:
            raise DeskRefusal("nothing_pending", f"nothing to {completion}")
        wanted = CONVENTIONS[app, change.verb].completion
        if wanted != completion or change.name not in self.records[app]:
            raise DeskRefusal("change_lost", "change lost")
        self._apply(change)

    def _apply(self, change: DeskChange) -> None:
        if change.verb == "drop":
            del self.records[change.app][change.name]
            return
        record, field = self.records[change.app][change.name], FIELDS[change.verb]
        if field in LISTS:
            record.setdefault(field, []).append(change.text)
        else:
            record[field] = True if change.verb == "mark" else change.text

    def facts(self, app: str | None = None) -> Facts:
        """The public state of one app (or `desk`), or of everything; lists are copied."""
        found: Facts = {}
        for entity in APPS if app is None else [app] if app in self.records else []:
            for name, record in self.records[entity].items():
                for field, value in record.items():
                    found[entity, name, field] = list(value) if field in LISTS else value
        if app in (None, "desk") and self.answers:
            found["desk", "answers", "text"] = list(self.answers)
        return found

    def digest(self) -> str:
        """Hash of the whole state, hidden parts included."""
        whole = [self.records, self.answers, self.armed, self.pending]
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:16]


def _check(arguments: dict[str, Any], names: list[str]) -> None:
    """Raises DeskRefusal unless there are exactly the named arguments, each a text."""
    # no message says which key the verb would take
    for name in sorted(set(arguments) - set(names)):
        raise DeskRefusal("bad_argument", f"bad argument {name}")
    for name in names:
        if name not in arguments:
            raise DeskRefusal("missing_argument", f"missing argument {name}")
        if not isinstance(arguments[name], str):
            raise DeskRefusal("bad_argument", f"argument {name} is not a text")


def effects(before: Facts, after: Facts) -> list[dict[str, Any]]:
    """The changes from one public state to the next, sorted.

    A record is removed, a field set, an item added to a list.
    """
    gone = {place[:2] for place in before} - {place[:2] for place in after}
    found = [(*record, "record", "remove", None) for record in sorted(gone)]
    for place in sorted(after):
        old, new = before.get(place), after[place]
        if old == new:
            continue
        if isinstance(new, list):
            found += [(*place, "add", value) for value in new[len(old or []) :]]
        else:
            found.append((*place, "set", new))
    fields = ("entity", "key", "field", "op", "value")
    return [dict(zip(fields, effect, strict=True)) for effect in found]


def progress(start: Facts, reached: Facts, wanted: Facts) -> float:
    """Jaccard index, 0–1, of the changes made and wanted since the start.

    A change counts once for its place and once for its value. Doing nothing is 0; 1 means that the
    states are equal.
    """
    made, needed = _changes(start, reached), _changes(start, wanted)
    return len(made & needed) / len(made | needed) if needed else float(made == needed)


def _changes(start: Facts, end: Facts) -> set[tuple]:
    places = [place for place in start.keys() | end.keys() if start.get(place) != end.get(place)]
    values = {(place, json.dumps(end.get(place))) for place in places}
    return {(place,) for place in places} | values
