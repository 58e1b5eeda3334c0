"""The state of an API object as comparable cells.

`cells` flattens the public attributes to {(key, field): value}: a file is ``("/home/notes.txt",
"file")``, a row of a table ``("orders/1204", "price")``, a plain attribute ``("", "fuelLevel")``.
`hidden` gives the private attributes that later calls depend on (current folder, brake force),
which the official checker never compares. The position of random generators and caches are no part
of the state.

A state that is cyclic or too large raises `CorruptState`: folders copied into themselves become so.
"""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 50  # Folders in one another
MAX_NODES = 20_000  # Cells of a file system
MAX_CHARS = 8_000_000  # Characters in all files together

_PRIVATE = ("_parkingBrakeForce", "_slopeAngle", "_brakePedalForce")

Cells = dict[tuple[str, str], Any]

MUTABLE = (dict, list, set)
SCALARS = {str, int, float, bool, type(None)}


class CorruptState(Exception):
    """A state that nothing can be compared with."""


def cells(instance: Any) -> Cells:
    """The public state, flattened. Raises `CorruptState`."""
    found: Cells = {}
    for name, value in vars(instance).items():
        if is_public(name):
            found |= attribute_cells(name, value)
    return found


def is_public(name: str) -> bool:
    """Whether an attribute belongs to the state that the official checker compares."""
    return name[0] != "_" and name != "long_context"


def attribute_cells(name: str, value: Any) -> Cells:
    """The cells of one attribute. Raises `CorruptState`."""
    if type(value) in SCALARS:
        return {("", name): value}
    found: Cells = {}
    if hasattr(value, "contents"):
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
            raise CorruptState("the file system contains itself or has grown beyond all bounds")
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
        and all([isinstance(v, dict) and "id" in v for v in value])
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
    return cells_ | {key: copied(value) for key, value in cells_.items() if type(value) in MUTABLE}


def copied(value: Any) -> Any:
    """A copy of JSON data, or of a set; `copy.deepcopy` takes five times as long."""
    kind = type(value)
    if kind is dict:
        return {key: copied(v) if type(v) in MUTABLE else v for key, v in value.items()}
    if kind is list:
        return [copied(v) if type(v) in MUTABLE else v for v in value]
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
