"""Calls without marks: objects, fenced blocks and lines in a reply's prose.

A name alone is no call. What counts is a call of an offered tool (or of nearly its name) that
stands for itself: an object with a name and arguments, a block, a line. Whether the reply means it
is for `intent` to say.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from coevolve.agents.actions.calls import (
    ARGUMENTS,
    CALL,
    NAMES,
    Tools,
    from_python,
    items,
    known,
    parameters,
    reads_as_call,
    resembles_tool,
    unwrapped,
)
from coevolve.agents.actions.forms import CallSource, blanked, calls_of, values_end
from coevolve.agents.actions.intent import names_tool
from coevolve.agents.actions.values import FENCE, FORM, Unreadable, end_of, json_value
from coevolve.records import Call

MAX_PLACES = 50  # Places in a reply that look like calls and are looked at
BARE = re.compile(r"\[?\s*\{")
_BEGUN = re.compile(r"[\s\[{]*+(?:[\"']|\Z)")
_CALL_KEY = re.compile(rf"[\"'](?:{'|'.join((*NAMES, *ARGUMENTS))})[\"']\s*:")
_NAMED = re.compile(rf"[\"'{{,\s](?:{'|'.join(NAMES)})[\"']?\s*:\s*[\"']([^\"'\n]{{1,100}})[\"']")
_SCHEMA = re.compile(
    r"[\"']parameters[\"']\s*:\s*\{\s*[\"'](?:type[\"']\s*:\s*[\"'](?:object|dict)|properties[\"'])"
)
_NAME = r"[A-Za-z_][\w.]*"
_BEGINS = re.compile(
    rf"(?P<object>\{{\s*[\"'])|(?P<list>\[\s*(?P<first>{_NAME})\()"
    r"|^[ \t]*(?:(?:>>>|\$)[ \t]*)?`*(?:(?:const|let|var)[ \t]+)?"
    r"(?P<line>(?:[A-Za-z_]\w*[ \t]*=[ \t]*)?(?:await[ \t]+)?(?:print\([ \t]*)?"
    rf"(?P<name>{_NAME})(?P<blank>[ \t]?)\()",
    re.M,
)
_NEXT = re.compile(
    rf"[ \t,;]*(?:\b(?:and|then)[ \t]+)*(?P<call>\[(?=\s*{_NAME}\()|(?<=[ \t,;]){_NAME}\()"
)
_STATEMENT = re.compile(
    r"^[ \t]*(?:if|elif|for|while|with|def|class|try|else|except|finally|async)\b[^\n]*:[ \t]*"
    r"(?:#[^\n]*)?(?=\n[ \t]+\S)",
    re.M,
)
_REST_OF_LINE = re.compile(r"`*[ \t]*+[;,]?[ \t\r]*+(?:\n|\Z)")


class WrittenCall(NamedTuple):
    """Where a reply's text holds calls, in characters, and how they are read."""

    start: int
    end: int
    source: CallSource


def written(body: str, tools: Tools, beside: bool = False) -> list[WrittenCall]:
    """The calls of a reply in JSON or Python, in order; `beside`: it makes others elsewhere."""
    found, at = [], 0
    if not beside and BARE.match(body) and means_call(body, tools):
        at = values_end(body)
        found = [WrittenCall(0, at, CallSource(body[:at], calls_of, "json"))]
    rest = " " * at + body[at:]
    alone = not (beside or found or (tools and FENCE.sub("", rest).strip()))
    spans = []
    for fence in FENCE.finditer(rest):
        block = _block(fence[1].strip(), tools, alone)
        found += [WrittenCall(*fence.span(), block)] if block else []
        spans += [fence.span()] if block or fence[0].endswith("```") else []
    rest = blanked(rest, spans)
    outside = _outside(rest, tools)
    statement = _STATEMENT.search(rest)
    if statement and any(call.source.form == "python" for call in outside):
        source = CallSource(statement[0], _not_a_program, "python")
        outside = [WrittenCall(*statement.span(), source)]
    return sorted([*found, *outside], key=lambda call: call.start)


def _not_a_program(text: str, tools: Tools) -> list[Call]:
    near = repr(text.strip()[:40])
    raise Unreadable("bad_call", f"Only calls are understood, no other code: {near}. {FORM}")


def means_call(text: str, tools: Tools, alone: bool = True) -> bool:
    """Whether objects in JSON have a tool's name.

    Alone, any key of a call will do, or a beginning that cannot be read.
    """
    if _SCHEMA.search(text):
        return False
    try:
        found = items(json_value(text)[0], tools)
    except Unreadable:
        begun = (alone or not tools) and (_CALL_KEY.search(text) or _BEGUN.match(text))
        return bool(begun) or any(known(name, tools) for name in _NAMED.findall(text[:2000]))
    objects = [unwrapped(item) for item in found if isinstance(item, dict)]
    return any(_like_a_call(item, tools, alone) for item in objects)


def _like_a_call(item: dict[str, Any], tools: Tools, alone: bool) -> bool:
    name = next((item[key] for key in NAMES if key in item), None)
    argued = any(key in item for key in ARGUMENTS)
    if not isinstance(name, str) or not name.strip():
        of_one = item and any(item.keys() <= parameters(tool, tools).keys() for tool in tools)
        return alone and bool(argued or of_one or any(key in item for key in NAMES))
    if alone and (argued or not tools or known(name, tools)):
        return True
    own = parameters(name, tools).keys() >= item.keys() - {"id", "type", *NAMES}
    return argued if not tools else resembles_tool(name, tools) and (argued or own)


def _block(inner: str, tools: Tools, alone: bool) -> CallSource | None:
    if BARE.match(inner):
        return CallSource(inner, calls_of, "json") if means_call(inner, tools, alone) else None
    begins = CALL.match(inner)
    calls = begins and (alone or not tools or resembles_tool(begins[1], tools))
    return CallSource(inner, from_python, "python") if calls or names_tool(inner, tools) else None


def _outside(body: str, tools: Tools) -> list[WrittenCall]:
    """Objects, call lists that begin or end a line, and lines that are calls of known tools.

    What follows a call that is never closed is taken as its part, and so is what follows
    `MAX_PLACES` places.
    """
    found: list[WrittenCall] = []
    at = 0
    for _ in range(MAX_PLACES):
        begun = _BEGINS.search(body, at)
        if begun is None:
            return found
        start, after = begun.start(begun.lastgroup), begun.end()
        if begun["object"]:
            end = end_of(body, start)
            if means_call(body[start:end], tools, alone=False):
                source = CallSource(body[start:end], calls_of, "json")
                found.append(WrittenCall(start, end or len(body), source))
            at = end or after
            continue
        spans = _spans(body, start, after, bool(begun["list"]))
        name = begun["first"] or begun["name"]
        offered = known(name, tools) or (not tools and begun["list"])
        if not spans and offered and not begun["blank"]:
            return [*found, _python(body, start, len(body))]
        if spans and _stands_alone(body, begun, spans, tools):
            found += [_python(body, *span) for span in spans]
            at = spans[-1][1]
            if len(found) >= MAX_PLACES:  # more calls than a reply may make
                return found
        else:
            at = after
    rest = not tools or names_tool(body[at:], tools)
    return [*found, _python(body, at, len(body))] if rest else found


def _python(body: str, start: int, end: int) -> WrittenCall:
    return WrittenCall(start, end, CallSource(body[start:end], from_python, "python"))


def _spans(body: str, start: int, after: int, listed: bool) -> list[tuple[int, int]]:
    """Where a call stands, or a list and the calls after it; none if it is never closed."""
    spans: list[tuple[int, int]] = []
    at = start if listed else after - 1
    while len(spans) < MAX_PLACES and (end := end_of(body, at)):
        spans.append((start, end))
        following = _NEXT.match(body, end) if listed else None
        if not following:
            break
        start, at = following.start("call"), following.end() - 1
    return spans


def _stands_alone(
    body: str, begun: re.Match[str], spans: list[tuple[int, int]], tools: Tools
) -> bool:
    """Whether what looks like calls is no part of a sentence or a link."""
    end = spans[-1][1]
    ends_line = bool(_REST_OF_LINE.match(body, end))
    if begun["list"]:
        before = body[body.rfind("\n", 0, begun.start()) + 1 : begun.start()]
        begins_line = not before.strip(" \t\r`")
        offered = ends_line and (not tools or known(begun["first"], tools))
        return not body.startswith("(", end) if begins_line else offered
    text = body[begun.start("name") : end]
    spaced = begun["blank"] and not reads_as_call(begun["name"], text, tools)
    return ends_line and bool(tools) and resembles_tool(begun["name"], tools) and not spaced
