"""Calls without marks: objects, fenced blocks and lines in a reply's prose.

A name alone is no call. What counts is a call of an offered tool (or of nearly its name) that stands for itself: an object with
name and arguments, a block, a line. One that the sentence before it tells of (`talk`) is not meant.
"""

from __future__ import annotations

import ast
import re
from typing import Any, NamedTuple

from coevolve.agents.actions.calls import (
    ARGUMENTS,
    CALL,
    NAMES,
    PREFIXES,
    Tools,
    attempted,
    from_python,
    items,
    known,
    meant,
    parameters,
    unwrapped,
)
from coevolve.agents.actions.forms import Source, calls_of
from coevolve.agents.actions.talk import MAX_TRIES, told
from coevolve.agents.actions.values import FORM, Unreadable, end_of, json_value, repaired, skip, tree
from coevolve.records import Call

BARE = re.compile(r"\[?\s*\{")
_BEGUN = re.compile(r"[\s\[{]*+(?:[\"']|\Z)")
_CALL_KEY = re.compile(rf"[\"'](?:{'|'.join((*NAMES, *ARGUMENTS))})[\"']\s*:")
_NAMED = re.compile(rf"[\"'{{,\s](?:{'|'.join(NAMES)})[\"']?\s*:\s*[\"']([^\"'\n]{{1,100}})[\"']")
_SCHEMA = re.compile(r"[\"']parameters[\"']\s*:\s*\{\s*[\"'](?:type[\"']\s*:\s*[\"'](?:object|dict)|properties[\"'])")
_OBJECT = re.compile(r"\{\s*[\"']")
_FENCE = re.compile(r"```(?:\w+(?=[\s{\[]))?(.*?)(?:```|\Z)", re.S)
_LIST = re.compile(r"\[\s*([A-Za-z_][\w.]*)\(")
_LINE = re.compile(
    r"^[ \t]*(?:(?:>>>|\$)[ \t]*)?`*(?:(?:const|let|var)[ \t]+)?"
    r"(?P<call>(?:[A-Za-z_]\w*[ \t]*=[ \t]*)?(?:await[ \t]+)?(?:print\([ \t]*)?(?P<name>[A-Za-z_][\w.]*)(?P<blank>[ \t]?)\()",
    re.M,
)
_CONTROL = re.compile(
    r"^[ \t]*(?:if|elif|for|while|with|def|class|try|else|except|finally|async)\b[^\n]*:[ \t]*(?:#[^\n]*)?(?=\n[ \t]+\S)",
    re.M,
)
_REST_OF_LINE = re.compile(r"`*[ \t]*+[;,]?[ \t\r]*+(?:\n|\Z)")


def bare(body: str, tools: Tools) -> list[Source]:
    """A reply that begins with JSON, if that is meant as calls."""
    if not (BARE.match(body) and means_call(body, tools)):
        return []
    return [Source(body if body.endswith(("}", "]")) else body[: _values_end(body)], calls_of)]


def _values_end(body: str) -> int:
    """Where the JSON values end that a reply begins with, and its prose begins; its end if they cannot be read."""
    at = skip(body, 0)
    try:
        while body[at : at + 1] in ("{", "["):
            end = json_value(body, at)[1]
            at = skip(body, end)
    except Unreadable:
        return len(body)
    return end


def means_call(text: str, tools: Tools, alone: bool = True) -> bool:
    """Whether JSON is meant as calls: its objects have a tool's name; alone, any key of a call will do, or a beginning that
    cannot be read."""
    if _SCHEMA.search(text):
        return False
    try:
        found = items(json_value(text)[0], tools)
    except Unreadable:
        names = _NAMED.findall(text[:2000])
        begun = (alone or not tools) and (_CALL_KEY.search(text) or _BEGUN.match(text))
        return bool(begun) or any(known(name, tools) for name in names)
    return any(_like_a_call(item, tools, alone) for item in found)


def _like_a_call(item: Any, tools: Tools, alone: bool) -> bool:
    if not isinstance(item, dict):
        return False
    inner = unwrapped(item)
    name = next((inner[key] for key in NAMES if key in inner), None)
    argued = any(key in inner for key in ARGUMENTS)
    if not isinstance(name, str) or not name.strip():
        return alone and (argued or any(key in inner for key in NAMES) or _arguments_of_one(inner, tools))
    if not tools:
        return argued or alone
    own = set(parameters(name, tools)).issuperset(inner.keys() - {"id", "type", *NAMES})
    return (meant(name, tools) and (argued or own)) or (alone and (argued or known(name, tools)))


def _arguments_of_one(item: dict[str, Any], tools: Tools) -> bool:
    """Whether an object without a name holds arguments of some tool."""
    return bool(item) and any(item.keys() <= parameters(name, tools).keys() for name in tools)


def prose(body: str, tools: Tools) -> list[Source]:
    """Blocks, lines and objects of a reply that are meant as calls, in order."""
    found: list[tuple[int, Source]] = []
    spans: list[tuple[int, int]] = []
    alone = not (tools and _FENCE.sub("", body).strip())
    for fence in _FENCE.finditer(body):
        block = None if told(body, fence.start()) else _block(fence[1].strip(), tools, alone)
        found += [(fence.start(), block)] if block else []
        spans += [fence.span()] if block or fence[0].endswith("```") else []
    rest = _blanked(body, spans)
    lines = _lines(rest, tools)
    controlled = _CONTROL.search(rest) if lines else None
    found += [(controlled.start(), Source(controlled[0], _not_a_program))] if controlled else lines
    return [source for _, source in sorted(found or _objects(rest, tools), key=lambda place: place[0])]


def _not_a_program(text: str, tools: Tools) -> list[Call]:
    raise Unreadable("bad_call", f"Only calls are understood, no other code: {text.strip()[:40]!r}. {FORM}")


def _blanked(body: str, spans: list[tuple[int, int]]) -> str:
    """The text with blanks in place of its spans, so that places keep their numbers."""
    parts, at = [], 0
    for start, end in spans:
        parts += [body[at:start], " " * (end - start)]
        at = end
    return "".join([*parts, body[at:]])


def _block(inner: str, tools: Tools, alone: bool) -> Source | None:
    if BARE.match(inner):
        return Source(inner, calls_of) if means_call(inner, tools, alone) else None
    return Source(inner, from_python) if _program(inner, tools, alone) else None


def _program(source: str, tools: Tools, alone: bool) -> bool:
    """Whether Python text calls a tool; names that it imports or defines itself are none."""
    try:
        module = tree(repaired(source))
    except Unreadable:
        begins = CALL.match(source)
        return bool(begins and (alone or not tools)) or any(
            known(line["name"], tools) for line in _LINE.finditer(source)
        )
    own = {name for node in ast.walk(module) for name in _bound(node)}
    called = {name for node in ast.walk(module) if isinstance(node, ast.Call) for name in _path(node.func)} - own
    if any(known(name, tools) for name in called):
        return True
    begins = CALL.match(source)
    return bool(begins) and begins[1] not in own and (alone or meant(begins[1], tools))


def _bound(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom) and node.module in PREFIXES:
        return []
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(name.asname or name.name).partition(".")[0] for name in node.names]
    return [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) else []


def _path(function: ast.expr) -> list[str]:
    """The dotted name of what is called; none for anything else."""
    try:
        name = ast.unparse(function) if isinstance(function, ast.Name | ast.Attribute) else ""
    except RecursionError:
        return []
    return [name] if re.fullmatch(r"[\w.]+", name) else []


def _lines(body: str, tools: Tools) -> list[tuple[int, Source]]:
    """Call lists that begin or end a line, and lines that are calls of known tools; a list that is never closed, too.

    After `MAX_TRIES` places that look like calls, the rest is taken for one if it has a line that is one of a known tool.
    """
    found: list[tuple[int, Source]] = []
    at, told_to = 0, 0
    for _ in range(MAX_TRIES):
        place = _next_place(body, at)
        if place is None:
            return found
        if place.end is None and not place.blank and (known(place.name, tools) or (not tools and place.listed)):
            return [*found, (place.start, Source(body[place.start :], from_python))]
        if place.end is None or not _stands_alone(body, place, tools):
            at = place.after if place.end is None else max(place.after, at)
            continue
        at = place.end
        if told(body, place.start) or (told_to and not body[told_to : place.start].strip(" \t\r\n,;`>$")):
            told_to = place.end
        else:
            found.append((place.start, Source(body[place.start : place.end], from_python)))
    more = any(known(line["name"], tools) for line in _LINE.finditer(body, at))
    return [*found, (at, Source(body[at:], from_python))] if more or not tools else found


class _Place(NamedTuple):
    """What looks like a call."""

    name: str
    start: int
    after: int
    """Where its first parenthesis has opened."""
    end: int | None
    """None: it is never closed."""
    listed: bool
    blank: bool


def _next_place(body: str, at: int) -> _Place | None:
    listed, line = _LIST.search(body, at), _LINE.search(body, at)
    if listed and (line is None or listed.start() <= line.start("call")):
        return _Place(listed[1], listed.start(), listed.end(), end_of(body, listed.start()), True, False)
    if line is None:
        return None
    start = line.start("call")
    return _Place(line["name"], start, line.end(), end_of(body, body.index("(", start)), False, bool(line["blank"]))


def _stands_alone(body: str, place: _Place, tools: Tools) -> bool:
    """Whether what looks like calls is meant as such, and no part of a sentence or a link."""
    ends_line = bool(_REST_OF_LINE.match(body, place.end))
    if not place.listed:
        named = ends_line and bool(tools) and meant(place.name, tools)
        return named and (not place.blank or attempted(place.name, body[place.start : place.end], tools))
    begins_line = not body[body.rfind("\n", 0, place.start) + 1 : place.start].strip(" \t\r`")
    if begins_line:
        return not body.startswith("(", place.end)
    return ends_line and (not tools or known(place.name, tools))


def _objects(body: str, tools: Tools) -> list[tuple[int, Source]]:
    """JSON objects in a sentence that are calls."""
    found: list[tuple[int, Source]] = []
    at = 0
    for _ in range(MAX_TRIES):
        place = _OBJECT.search(body, at)
        if place is None:
            break
        end = end_of(body, place.start())
        text = body[place.start() : end]
        line = body[body.rfind("\n", 0, place.start()) + 1 : place.start()]
        in_table = line.lstrip().startswith("|")
        if not in_table and means_call(text, tools, alone=False) and not told(body, place.start()):
            found.append((place.start(), Source(text, calls_of)))
        if end is None:
            break
        at = end
    return found
