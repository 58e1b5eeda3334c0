"""Calls without marks: objects, fenced blocks and lines in a reply's prose.

A name alone is no call. What counts is a call of an offered tool (or of nearly its name) that stands for itself: an object with
name and arguments, a block, a line. Whether it is meant is for the sentence before it to say (`talk`).
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
from coevolve.agents.actions.forms import Source, blanked, calls_of, values_end
from coevolve.agents.actions.talk import MAX_TRIES, Sense
from coevolve.agents.actions.talk import sense as sense_of
from coevolve.agents.actions.values import FORM, Unreadable, end_of, json_value, repaired, tree
from coevolve.records import Call

BARE = re.compile(r"\[?\s*\{")
_BEGUN = re.compile(r"[\s\[{]*+(?:[\"']|\Z)")
_CALL_KEY = re.compile(rf"[\"'](?:{'|'.join((*NAMES, *ARGUMENTS))})[\"']\s*:")
_NAMED = re.compile(rf"[\"'{{,\s](?:{'|'.join(NAMES)})[\"']?\s*:\s*[\"']([^\"'\n]{{1,100}})[\"']")
_SCHEMA = re.compile(
    r"[\"']parameters[\"']\s*:\s*\{\s*[\"'](?:type[\"']\s*:\s*[\"'](?:object|dict)|properties[\"'])"
)
_OBJECT = re.compile(r"\{\s*[\"']")
_FENCE = re.compile(r"```(?:\w+(?=[\s{\[]))?(.*?)(?:```|\Z)", re.S)
_LIST = re.compile(r"\[\s*([A-Za-z_][\w.]*)\(")
_NEXT = re.compile(
    r"[ \t,;]*(?:\b(?:and|then)[ \t]+)*(?P<call>\[(?=\s*[A-Za-z_][\w.]*\()|(?<=[ \t,;])[A-Za-z_][\w.]*\()"
)
_LISTED_OR_LINE = re.compile(r"(?:^[ \t`>$]*|\[\s*)([A-Za-z_][\w.]*)[ \t]?\(", re.M)
_WORD = re.compile(r"\w")
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


class Written(NamedTuple):
    """What a reply's text holds of calls, in order."""

    meant: list[Source]
    unclear: list[Source]
    """Those that the sentences before them may not mean."""


class _Place(NamedTuple):
    start: int
    end: int
    source: Source


def written(body: str, tools: Tools, beside: bool = False) -> Written:
    """The calls of a reply in JSON or Python. `beside`: the reply makes calls in another form, or in a field of its own."""
    found = [] if beside else _bare(body, tools)
    return _sorted_out(
        body, [*found, *_places(body, found[0].end if found else 0, tools, beside or bool(found))]
    )


def _bare(body: str, tools: Tools) -> list[_Place]:
    """JSON that a reply begins with, if that is meant as calls."""
    if not (BARE.match(body) and means_call(body, tools)):
        return []
    end = values_end(body)
    return [_Place(0, end, Source(body[:end], calls_of, "json"))]


def _sorted_out(body: str, places: list[_Place]) -> Written:
    """Places whose sentences mean them, and those where it is not clear; what stands right after another call shares its
    sense."""
    written, at, sense = Written([], []), 0, Sense.MEANT
    ends = bool(places) and not _WORD.search(body, places[-1].end)
    for place in places:
        if not at or _WORD.search(body, at, place.start):
            sense = sense_of(body[at : place.start])
        at = place.end
        if sense is Sense.MEANT or (sense is Sense.LIKELY and ends):
            written.meant.append(place.source)
        elif sense is not Sense.TOLD and (sense is not Sense.REPORTED or ends):
            written.unclear.append(place.source)
    return written


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
        return alone and (
            argued or any(key in inner for key in NAMES) or _arguments_of_one(inner, tools)
        )
    if not tools:
        return argued or alone
    own = set(parameters(name, tools)).issuperset(inner.keys() - {"id", "type", *NAMES})
    return (meant(name, tools) and (argued or own)) or (alone and (argued or known(name, tools)))


def _arguments_of_one(item: dict[str, Any], tools: Tools) -> bool:
    """Whether an object without a name holds arguments of some tool."""
    return bool(item) and any(item.keys() <= parameters(name, tools).keys() for name in tools)


def _places(body: str, at: int, tools: Tools, beside: bool) -> list[_Place]:
    """Blocks, lines and objects of a reply from a position on that may be meant as calls, in order."""
    rest = " " * at + body[at:]
    alone = not (beside or (tools and _FENCE.sub("", rest).strip()))
    fences, spans = [], []
    for fence in _FENCE.finditer(rest):
        block = _block(fence[1].strip(), tools, alone)
        fences += [_Place(*fence.span(), block)] if block else []
        spans += [fence.span()] if block or fence[0].endswith("```") else []
    rest = blanked(rest, spans)
    lines = _lines(rest, tools)
    controlled = _CONTROL.search(rest) if lines else None
    if controlled:
        lines = [_Place(*controlled.span(), Source(controlled[0], _not_a_program, "python"))]
    objects = _objects(blanked(rest, [(line.start, line.end) for line in lines]), tools)
    return sorted([*fences, *lines, *objects], key=lambda place: place.start)


def _not_a_program(text: str, tools: Tools) -> list[Call]:
    raise Unreadable(
        "bad_call", f"Only calls are understood, no other code: {text.strip()[:40]!r}. {FORM}"
    )


def _block(inner: str, tools: Tools, alone: bool) -> Source | None:
    if BARE.match(inner):
        return Source(inner, calls_of, "json") if means_call(inner, tools, alone) else None
    return Source(inner, from_python, "python") if _program(inner, tools, alone) else None


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
    called = {
        name for node in ast.walk(module) if isinstance(node, ast.Call) for name in _path(node.func)
    } - own
    if any(known(name, tools) for name in called):
        return True
    begins = CALL.match(source)
    return bool(begins) and begins[1] not in own and (alone or meant(begins[1], tools))


def _bound(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom) and node.module in PREFIXES:
        return []
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(name.asname or name.name).partition(".")[0] for name in node.names]
    return (
        [node.name]
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
        else []
    )


def _path(function: ast.expr) -> list[str]:
    """The dotted name of what is called; none for anything else."""
    try:
        name = ast.unparse(function) if isinstance(function, ast.Name | ast.Attribute) else ""
    except RecursionError:
        return []
    return [name] if re.fullmatch(r"[\w.]+", name) else []


def _lines(body: str, tools: Tools) -> list[_Place]:
    """Call lists that begin or end a line, and lines that are calls of known tools; a list that is never closed, too.

    After `MAX_TRIES` places that look like calls, the rest is taken for one if it has one of a known tool.
    """
    found: list[_Place] = []
    at = 0
    for _ in range(MAX_TRIES):
        seen = _next_seen(body, at)
        if seen is None:
            return found
        if not seen.spans:
            if not seen.blank and (known(seen.name, tools) or (not tools and seen.listed)):
                return [*found, _python(body, seen.start, len(body))]
            at = seen.after
        elif not _stands_alone(body, seen, tools):
            at = max(seen.after, at)
        else:
            found += [_python(body, start, end) for start, end in seen.spans]
            at = found[-1].end
    more = any(known(name, tools) for name in _LISTED_OR_LINE.findall(body, at))
    return [*found, _python(body, at, len(body))] if more or not tools else found


def _python(body: str, start: int, end: int) -> _Place:
    return _Place(start, end, Source(body[start:end], from_python, "python"))


class _Seen(NamedTuple):
    """What looks like a call, or several after a list on its line."""

    name: str
    after: int
    """Where its first parenthesis has opened."""
    spans: list[tuple[int, int]]
    """Where it stands, or each of several; empty: it is never closed."""
    start: int
    listed: bool
    blank: bool


def _next_seen(body: str, at: int) -> _Seen | None:
    listed, line = _LIST.search(body, at), _LINE.search(body, at)
    if listed and (line is None or listed.start() <= line.start("call")):
        start = listed.start()
        return _Seen(listed[1], listed.end(), _spans(body, start), start, True, False)
    if line is None:
        return None
    start = line.start("call")
    end = end_of(body, body.index("(", start))
    return _Seen(
        line["name"], line.end(), [(start, end)] if end else [], start, False, bool(line["blank"])
    )


def _spans(body: str, start: int) -> list[tuple[int, int]]:
    """Where a list stands, and what is called right after it on its line."""
    spans: list[tuple[int, int]] = []
    at = start
    while len(spans) < MAX_TRIES and (end := end_of(body, at)):
        spans.append((start, end))
        following = _NEXT.match(body, end)
        if not following:
            break
        start, at = following.start("call"), following.end() - 1
    return spans


def _stands_alone(body: str, place: _Seen, tools: Tools) -> bool:
    """Whether what looks like calls is meant as such, and no part of a sentence or a link."""
    ends_line = bool(_REST_OF_LINE.match(body, place.spans[-1][1]))
    if not place.listed:
        named = ends_line and bool(tools) and meant(place.name, tools)
        return named and (
            not place.blank or attempted(place.name, body[place.start : place.spans[0][1]], tools)
        )
    begins_line = not body[body.rfind("\n", 0, place.start) + 1 : place.start].strip(" \t\r`")
    if begins_line:
        return not body.startswith("(", place.spans[-1][1])
    return ends_line and (not tools or known(place.name, tools))


def _objects(body: str, tools: Tools) -> list[_Place]:
    """JSON objects in a sentence that are calls."""
    found: list[_Place] = []
    at = 0
    for _ in range(MAX_TRIES):
        place = _OBJECT.search(body, at)
        if place is None:
            break
        end = end_of(body, place.start())
        text = body[place.start() : end]
        line = body[body.rfind("\n", 0, place.start()) + 1 : place.start()]
        in_table = line.lstrip().startswith("|")
        if not in_table and means_call(text, tools, alone=False):
            found.append(
                _Place(place.start(), place.start() + len(text), Source(text, calls_of, "json"))
            )
        if end is None:
            break
        at = end
    return found
