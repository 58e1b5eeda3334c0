"""The check of a start state's configuration, class by class.

No list of its keys is kept here: they are those that a class reads when it loads a scenario, and
what may stand there is learnt from the class's defaults, the official start states and generated
ones. Rows that always have the same fields must have them. The folders and files of
`GorillaFileSystem` have a grammar of their own. `problem` names the first fault; a configuration
without one can be loaded.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from .data import CATEGORIES, CLASSES, entries, source
from .starts import generate

EXAMPLES = 24  # Generated start states to learn from
NO_START = 'a start has a name, or a config {"classes": [...], "state": {...}}'
MAX_DEPTH = 40  # Folders in one another
MAX_NAMES = 5_000  # Files and folders

_NUMBER = "a number"
_KINDS = {bool: "a boolean", int: _NUMBER, float: _NUMBER, str: "a text", list: "a list"}
_KINDS |= {dict: "an object", type(None): "null"}


class Shape:
    """The JSON values that may stand in one place."""

    def __init__(self) -> None:
        self._kinds: dict[str, None] = {}
        self._inner: Shape | None = None
        self._fields: set[str] | None = None
        self._tables = False  # Whether an object may be a table: rows under keys of any name
        self.may_be_empty = False  # Whether an object may hold nothing

    @property
    def learnt(self) -> bool:
        return bool(self._kinds)

    def learn(self, value: Any) -> None:
        self._kinds[_KINDS[type(value)]] = None
        self.may_be_empty |= value == {}
        if isinstance(value, dict) and value:
            if _is_table(value):
                self._tables = True
            else:
                self._fields = set(value) if self._fields is None else self._fields & set(value)
        for _, item in _items(value):
            self._inner = self._inner or Shape()
            self._inner.learn(item)

    def problem(self, value: Any, place: str) -> str | None:
        """The first fault of a value; None if it may stand here."""
        kind = _KINDS[type(value)]
        if kind not in self._kinds:
            return f"{place} must be {' or '.join(self._kinds)}, not {kind}"
        if isinstance(value, dict) and self._fields and not (self._tables and _is_table(value)):
            if missing := sorted(self._fields - set(value)):
                return f"{place} lacks {', '.join(missing)}"
        for key, item in _items(value):
            if self._inner and (found := self._inner.problem(item, f"{place}.{key}")):
                return found
            # A table may have no rows, even where no known one is empty; a row has fields
            if item == {} and self._inner and not self._inner.may_be_empty:
                return f"{place}.{key} must not be empty"
        return None


def _items(value: Any) -> list[tuple[Any, Any]]:
    """Keys and items of an object, or of a list."""
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else []


def _is_table(value: dict) -> bool:
    return all(isinstance(item, dict | list) for item in value.values())


class _Reading(dict):
    """A scenario that notes which keys are asked for, and what stands for an absent one."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, Any] = {}

    def get(self, key: str, default: Any = None) -> Any:
        self.asked[key] = default
        return default

    def __contains__(self, key: object) -> bool:
        self.asked[str(key)] = None
        return False


@cache
def shapes(class_: str) -> dict[str, Shape]:
    """Key that the class reads or a start state has → what a configuration may have there."""
    scenario = _Reading()
    if class_ != "MathAPI":
        getattr(source(class_), class_)()._load_scenario(scenario)
    known: dict[str, Shape] = {key: Shape() for key in scenario.asked}
    for key, default in scenario.asked.items():
        if type(default) in _KINDS:
            known[key].learn(default)
    states = [entry["initial_config"] for name in CATEGORIES for entry in entries(name).values()]
    states += [generate(f"shapes-{number}", [class_])["state"] for number in range(EXAMPLES)]
    for state in states:
        for key, value in state.get(class_, {}).items():
            known.setdefault(key, Shape()).learn(value)
    return {key: shape for key, shape in known.items() if shape.learnt}


def problem(config: Any) -> str | None:
    """The first fault of a configuration {"classes": […], "state": {…}}; None if it has none."""
    classes = config.get("classes") if isinstance(config, dict) else None
    if not isinstance(classes, list) or not classes:
        return NO_START
    if unknown := [name for name in classes if name not in CLASSES]:
        return f"no API class {unknown[0]!r}; there are {', '.join(CLASSES)}"
    if len(set(classes)) < len(classes):
        return f"classes has one twice: {', '.join(classes)}"
    if unknown := sorted(set(config) - {"classes", "state"}):
        return f"a config has classes and state, not {unknown[0]!r}"
    state = config.get("state", {})
    if not isinstance(state, dict):
        return f"state is an object, not {_KINDS[type(state)]}"
    if unknown := [name for name in state if name not in classes]:
        known = ", ".join(classes)
        return f"there is a state for {unknown[0]!r}, which is none of the classes ({known})"
    return _first(_class_problem(class_, state[class_]) for class_ in state)


def _first(problems: Iterable[str | None]) -> str | None:
    return next(filter(None, problems), None)


def _class_problem(class_: str, config: Any) -> str | None:
    if not isinstance(config, dict):
        return f"{class_}: a configuration is an object, not {_KINDS[type(config)]}"
    known = shapes(class_)
    if unknown := [key for key in config if key not in known]:
        there = ", ".join(known) or "nothing that can be set"
        return f"{class_} has no {unknown[0]!r}; it has {there}"
    if class_ == "GorillaFileSystem":
        return _tree_problem(config["root"]) if "root" in config else None
    return _first(known[key].problem(config[key], f"{class_}.{key}") for key in config)


def _tree_problem(root: Any) -> str | None:
    """A root is an object with one folder.

    A folder is {"type": "directory", "contents": {name: node}}, a file {"type": "file", "content":
    text}.
    """
    if not isinstance(root, dict) or not root:
        return "GorillaFileSystem.root must be an object with a folder"
    pending, names = [(f"/{name}", node, 0) for name, node in root.items()], 0
    if wrong := [place for place, node, _ in pending if not _is_node(node, "directory")]:
        folder = '{"type": "directory", "contents": {…}}'
        return f"GorillaFileSystem: {wrong[0]} must be a folder {folder}"
    while pending:
        names += 1
        if names > MAX_NAMES:
            return f"GorillaFileSystem holds more than {MAX_NAMES} names"
        place, node, depth = pending.pop()
        if _is_node(node, "directory") and depth < MAX_DEPTH:
            inside = node["contents"].items()
            pending += [(f"{place}/{name}", item, depth + 1) for name, item in inside]
        elif not _is_node(node, "file"):
            neither = "is neither a folder nor a file with a text, or lies too deep"
            return f"GorillaFileSystem: {place} {neither}"
        if wrong := [name for name in node.get("contents", ()) if not name or "/" in name]:
            return f"GorillaFileSystem: {place} holds the impossible name {wrong[0]!r}"
    return None


def _is_node(node: Any, type_: str) -> bool:
    """Whether it is a well-formed file or directory."""
    key, content = _CONTENT[type_]
    has_type = isinstance(node, dict) and node.get("type") == type_
    return has_type and isinstance(node.get(key), content)


_CONTENT = {"directory": ("contents", dict), "file": ("content", str)}
