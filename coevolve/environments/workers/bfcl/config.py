"""What the configuration of a start state may hold, class by class.

No list of it is kept here: the keys are those that a class reads when it loads a scenario, and what may stand there is learnt
from the class's defaults, the official start states and generated ones. Rows that always have the same fields must have them. The
folders and files of `GorillaFileSystem` have a grammar of their own. `problem` names the first fault; what it passes can be loaded.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from .data import CATEGORIES, CLASSES, entries, source
from .starts import generate

EXAMPLES = 24
"""Generated start states from which is learnt."""
NO_START = 'a start has a name, or a config {"classes": [...], "state": {...}}'
MAX_DEPTH = 40
MAX_NAMES = 5_000

_KINDS = {bool: "a boolean", int: "a number", float: "a number", str: "a text", list: "a list", dict: "an object", type(None): "null"}  # fmt: skip


class Shape:
    """The JSON values that may stand in one place."""

    def __init__(self) -> None:
        self._kinds: dict[str, None] = {}
        self._inner: Shape | None = None
        self._fields: set[str] | None = None
        self._tables = False
        """Whether an object may be a table: rows under keys of any name."""

    @property
    def learnt(self) -> bool:
        return bool(self._kinds)

    def learn(self, value: Any) -> None:
        self._kinds[_KINDS[type(value)]] = None
        if isinstance(value, dict) and value:
            if _is_table(value):
                self._tables = True
            else:
                self._fields = set(value) if self._fields is None else self._fields & set(value)
        for item in _items(value):
            self._inner = self._inner or Shape()
            self._inner.learn(item)

    def problem(self, value: Any, place: str) -> str | None:
        """What is wrong with a value; None if it may stand here."""
        kind = _KINDS[type(value)]
        if kind not in self._kinds:
            return f"{place} must be {' or '.join(self._kinds)}, not {kind}"
        if isinstance(value, dict) and self._fields and not (self._tables and _is_table(value)):
            if missing := sorted(self._fields - set(value)):
                return f"{place} lacks {', '.join(missing)}"
        keys = (
            value
            if isinstance(value, dict)
            else range(len(value))
            if isinstance(value, list)
            else ()
        )
        for key, item in zip(keys, _items(value), strict=True):
            if self._inner and (found := self._inner.problem(item, f"{place}.{key}")):
                return found
        return None


def _items(value: Any) -> list[Any]:
    return (
        list(value.values())
        if isinstance(value, dict)
        else value
        if isinstance(value, list)
        else []
    )


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
    """Key → what a configuration may have there; of the keys that the class reads or a start state has."""
    scenario = _Reading()
    if class_ != "MathAPI":
        getattr(source(class_), class_)()._load_scenario(scenario)
    known: dict[str, Shape] = {key: Shape() for key in scenario.asked}
    for key, default in scenario.asked.items():
        if type(default) in _KINDS:
            known[key].learn(default)
    official = [
        entry["initial_config"] for category in CATEGORIES for entry in entries(category).values()
    ]
    for state in official + [
        generate(f"shapes-{number}", [class_])["state"] for number in range(EXAMPLES)
    ]:
        for key, value in state.get(class_, {}).items():
            known.setdefault(key, Shape()).learn(value)
    return {key: shape for key, shape in known.items() if shape.learnt}


def problem(config: Any) -> str | None:
    """What is wrong with the configuration {"classes": […], "state": {…}} of a start; None if nothing is."""
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
        return f"there is a state for {unknown[0]!r}, which is none of the classes ({', '.join(classes)})"
    return next(
        (found for class_ in state if (found := _class_problem(class_, state[class_]))), None
    )


def _class_problem(class_: str, config: Any) -> str | None:
    if not isinstance(config, dict):
        return f"{class_}: a configuration is an object, not {_KINDS[type(config)]}"
    known = shapes(class_)
    if unknown := [key for key in config if key not in known]:
        return f"{class_} has no {unknown[0]!r}; it has {', '.join(known) or 'nothing that can be set'}"
    if class_ == "GorillaFileSystem":
        return _tree_problem(config["root"]) if "root" in config else None
    return next(
        (found for key in config if (found := known[key].problem(config[key], f"{class_}.{key}"))),
        None,
    )


def _tree_problem(root: Any) -> str | None:
    """A root is an object with one folder; a folder {"type": "directory", "contents": {name: node}}, a file
    {"type": "file", "content": text}."""
    if not isinstance(root, dict) or not root:
        return "GorillaFileSystem.root must be an object with a folder"
    pending = [(f"/{name}", node, 0) for name, node in root.items()]
    if wrong := next((place for place, node, _ in pending if not _is_folder(node)), None):
        return f'GorillaFileSystem: {wrong} must be a folder {{"type": "directory", "contents": {{…}}}}'
    names = 0
    while pending:
        names += 1
        if names > MAX_NAMES:
            return f"GorillaFileSystem holds more than {MAX_NAMES} names"
        place, node, depth = pending.pop()
        if _is_folder(node) and depth < MAX_DEPTH:
            pending += [
                (f"{place}/{name}", item, depth + 1) for name, item in node["contents"].items()
            ]
        elif not (
            isinstance(node, dict)
            and node.get("type") == "file"
            and isinstance(node.get("content"), str)
        ):
            return f"GorillaFileSystem: {place} is neither a folder nor a file with a text, or lies too deep"
        if wrong := next(
            (name for name in node.get("contents", ()) if not name or "/" in name), None
        ):
            return f"GorillaFileSystem: {place} holds the impossible name {wrong!r}"
    return None


def _is_folder(node: Any) -> bool:
    return (
        isinstance(node, dict)
        and node.get("type") == "directory"
        and isinstance(node.get("contents"), dict)
    )
