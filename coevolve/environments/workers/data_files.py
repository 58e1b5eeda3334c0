"""The one reader of the workers' data files: TOML beside a worker, checked against a Python type.

Standard library only, as all that runs in a benchmark's interpreter. `read_data` gives the content
of a file as the type that is wanted of it:

    class Content(NamedTuple):
        first_names: list[str]
        tickets: list[tuple[str, str]]
        routes: dict[str, list[str]] = {}

    content = read_data(Path(__file__).with_name("content.toml"), Content)

A type is made of str, int, float, bool, `list[T]`, `dict[str, T]`, `tuple[T, U]`, `tuple[T, ...]`,
`T | U`, `Any` and NamedTuple classes. A class stands for a table: its fields are the keys; a field
without a default must be there, and another key must not.

`read_phrases` reads how people ask for tools: one table a tool, with the fields of `ToolPhrases`.
`check_phrases` compares them with the parameters that the tools have.

Every fault raises `BadData`, which names the file, the place in it and what is wrong. Nothing is
cached: a worker that needs a file more than once wraps its own function in `functools.cache`.
"""

from __future__ import annotations

import json
import string
import tomllib
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints


class BadData(Exception):
    """A data file is missing, is no TOML, or does not hold what its reader wants."""


class ToolPhrases(NamedTuple):
    """The phrases for one tool: `protocol.Language`, and what else a worker says of the tool."""

    do: list[str] = []
    optional: dict[str, str] = {}
    refer: dict[str, str] = {}
    rows: dict[str, str] = {}
    facts: dict[str, str] = {}
    words: dict[str, dict[str, str]] = {}
    lookup_only: list[str] = []
    literal: list[str] = []
    absent: dict[str, str] = {}
    words_of: dict[str, str] = {}
    """Parameter → name of values that stand elsewhere (`read_phrases`); they become its `words`."""
    takes: list[str] = []
    """Optional parameters that explorers' calls may use beside those of `optional` and `needs`."""
    needs: list[str] = []  # Optional parameters without which nobody would call the tool
    checked: bool = False
    read_only: bool | None = None  # None where the benchmark's document of the tool says it

    def language(self) -> dict[str, Any]:
        """The fields of `protocol.Language` alone."""
        return {name: getattr(self, name) for name in LANGUAGE_FIELDS}


LANGUAGE_FIELDS = ToolPhrases._fields[: ToolPhrases._fields.index("words_of")]
"""As in `protocol.Language`."""
_OVER_PARAMETERS = ("optional", "absent", "words", "literal", "lookup_only", "takes", "needs")
"""Fields whose keys or items are parameters of the tool."""


def read_data(path: Path, wanted: Any) -> Any:
    """The content of a TOML file as the type `wanted`. Raises BadData."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadData(f"{path.name}: {error}") from error
    return _converted(found, wanted, path.name)


def read_phrases(
    path: Path, texts: Mapping[str, list[str] | dict[str, str]] | None = None
) -> dict[str, ToolPhrases]:
    """Tool → phrases, in the order of the file. Raises BadData.

    `texts` holds what `words_of` names: a list of texts, which are said in quotes, or a table from
    values as JSON to how they are said.
    """
    found: dict[str, ToolPhrases] = read_data(path, dict[str, ToolPhrases])
    texts = texts or {}
    for tool, phrases in found.items():
        words = dict(phrases.words)
        for parameter, name in phrases.words_of.items():
            if name not in texts:
                raise BadData(f"{path.name}: {tool}: words_of: {parameter}: no texts {name!r}")
            words[parameter] = _as_words(texts[name])
        for parameter, said in words.items():
            if wrong := [key for key in said if not _is_json(key)]:
                raise BadData(f"{path.name}: {tool}: words: {parameter}: {wrong[0]!r} is no JSON")
        found[tool] = phrases._replace(words=words)
    return found


def _as_words(texts: list[str] | dict[str, str]) -> dict[str, str]:
    if isinstance(texts, dict):
        return texts
    return {json.dumps(text): f'"{text}"' for text in texts}


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def check_phrases(
    phrases: Mapping[str, ToolPhrases], parameters: Mapping[str, Collection[str]]
) -> None:
    """Raises BadData for a phrase whose slot or key names a parameter that its tool lacks.

    `parameters` holds those of every tool. The slots of `rows` and `facts` are keys of an output
    and are not checked.
    """
    for tool, entry in phrases.items():
        if tool not in parameters:
            raise BadData(f"{tool}: phrases for a tool that does not exist")
        known = parameters[tool]
        for place, name in _named(entry):
            if name not in known:
                there = ", ".join(known) or "none"
                raise BadData(f"{tool}: {place}: no parameter {name!r} of the tool; it has {there}")


def _named(entry: ToolPhrases) -> Iterator[tuple[str, str]]:
    """The parameters that phrases name, each with its place."""
    for field in _OVER_PARAMETERS:
        yield from ((field, name) for name in getattr(entry, field))
    for field in ("optional", "absent", "refer"):
        for key, template in getattr(entry, field).items():
            yield from ((f"{field}: {key}", name) for name in _slots(template))
    for template in entry.do:
        yield from (("do", name) for name in _slots(template))


def _slots(template: str) -> list[str]:
    try:
        return [slot for _, slot, _, _ in string.Formatter().parse(template) if slot is not None]
    except ValueError as error:
        raise BadData(f"{template!r}: {error}") from error


def _converted(value: Any, wanted: Any, place: str) -> Any:
    """The value as `wanted`, with tables and arrays as NamedTuples and tuples. Raises BadData."""
    origin, arguments = get_origin(wanted), get_args(wanted)
    if wanted is Any:
        return value
    if origin in (Union, UnionType):
        return _one_of(value, arguments, place)
    if wanted in (str, int, float, bool, NoneType):
        if type(value) is wanted:
            return value
    elif origin is dict and isinstance(value, dict):
        return {k: _converted(v, arguments[1], f"{place}: {k}") for k, v in value.items()}
    elif origin is list and isinstance(value, list):
        return [_converted(v, arguments[0], f"{place}[{i}]") for i, v in enumerate(value)]
    elif origin is tuple and isinstance(value, list):
        types = arguments[:1] * len(value) if arguments[-1] is ... else arguments
        if len(types) == len(value):
            pairs = enumerate(zip(value, types, strict=True))
            return tuple([_converted(v, t, f"{place}[{i}]") for i, (v, t) in pairs])
    elif hasattr(wanted, "_fields") and isinstance(value, dict):
        return _record(value, wanted, place)
    raise BadData(f"{place}: must be {_name(wanted)}, not {value!r:.60}")


def _one_of(value: Any, types: tuple[Any, ...], place: str) -> Any:
    for wanted in types:
        try:
            return _converted(value, wanted, place)
        except BadData:
            continue
    raise BadData(f"{place}: must be {' or '.join(map(_name, types))}, not {value!r:.60}")


def _record(table: dict[str, Any], wanted: Any, place: str) -> Any:
    hints = _hints(wanted)
    if unknown := [key for key in table if key not in hints]:
        raise BadData(f"{place}: unknown key {unknown[0]!r}; there are {', '.join(hints)}")
    if missing := [key for key in hints if key not in table and key not in wanted._field_defaults]:
        raise BadData(f"{place}: the key {missing[0]!r} is missing")
    return wanted(**{key: _converted(v, hints[key], f"{place}: {key}") for key, v in table.items()})


_hints = cache(get_type_hints)


def _name(wanted: Any) -> str:
    return wanted.__name__ if get_origin(wanted) is None else str(wanted)
