"""What a policy wrote, read as tool calls: text or an OpenAI message → calls, plain text, or typed issues with a hint.

| form | example |
|---|---|
| bare JSON: one, several in a row, a list | ``{"name": "ls", "arguments": {"a": true}}`` |
| Hermes/Qwen tags around JSON (or a call list) | ``<tool_call>{"name": "ls"}</tool_call>`` |
| an OpenAI message | its `tool_calls` |
| Python call lists, the form of BFCL's prompting models | ``[cd('document'), ls(a=True)]`` |
| any of them in a code fence, after prose, or before it | |

Reasoning (``<think>``) and end-of-turn tokens are no content; a call inside reasoning is no call. Prose that mentions a call in
a sentence is prose. Text is never evaluated and nothing here raises.

A reply without a call is plain text: the policy hands the turn back. A reply that tried to call and failed gives an
`Issue`, never a silent nothing; then none of the reply's calls runs, so that a half-understood reply changes no state.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

from coevolve.agents.action_calls import NO_TOOLS, Tools, from_json, from_python
from coevolve.agents.action_values import FORM, Issue, Unreadable, end_of, json_value, skip
from coevolve.records import Call

MAX_CALLS = 32
MAX_CHARACTERS = 200_000
MAX_ISSUES = 8
MAX_TRIES = 50


class Parsed(NamedTuple):
    calls: list[Call]
    text: str
    """The reply without reasoning and end-of-turn tokens."""
    issues: list[Issue]


_REASONING = re.compile(r"<think>.*?(?:</think>|\Z)", re.S)
_END_OF_TURN = re.compile(r"(?:<\|[a-z_]{1,40}\|>|</s>)\Z")
_TAG = re.compile(r"<(tool_call|TOOLCALL)>(.*?)(?:</\1>|(?=<\1>)|\Z)", re.S)
_FENCE = re.compile(r"```(?:\w+(?=[\s{\[]))?(.*?)(?:```|\Z)", re.S)
_BARE = re.compile(r"\[?\s*\{")
_IN_PROSE = re.compile(r'\{\s*"(?:name|function)"\s*:\s*"[^"]*"\s*,\s*"(?:arguments|parameters)"\s*:')
_CALL = re.compile(r"\[?\s*([A-Za-z_][\w.]*)\(")
_LIST = re.compile(r"\[\s*([A-Za-z_][\w.]*)\(")
_LINE = re.compile(r"^[ \t]*([A-Za-z_][\w.]*)\(", re.M)
_REST_OF_LINE = re.compile(r"[ \t]*[;,]?[ \t\r]*(?:\n|\Z)")


def parse(text: str, tools: Tools = NO_TOOLS) -> Parsed:
    """Reads a reply's text. `tools` are those of the environment: without them positional arguments cannot be bound."""
    if len(text) > MAX_CHARACTERS:
        return Parsed([], text, [Issue("too_long", f"The reply is longer than {MAX_CHARACTERS} characters.")])
    whole = text.strip()
    if calls := _if_nothing_else(whole, tools):
        return _checked(calls, whole, [])
    body = _content(without_reasoning(text))
    calls, issues = [], []
    for source in _sources(body, tools):
        if len(calls) > MAX_CALLS or len(issues) == MAX_ISSUES:
            break
        try:
            calls += _calls(source, tools)
        except Unreadable as error:
            issues.append(error.issue)
    return _checked(calls, body, issues)


def parse_message(message: dict[str, Any], tools: Tools = NO_TOOLS) -> Parsed:
    """Reads an assistant message: its `tool_calls` when it has any, its text otherwise."""
    content = message.get("content") or ""
    if not message.get("tool_calls"):
        return parse(content, tools)
    calls: list[Call] = []
    issues: list[Issue] = []
    for item in message["tool_calls"]:
        try:
            calls.append(from_json(item, tools))
        except Unreadable as error:
            issues.append(error.issue)
    return _checked(calls, content, issues)


def to_text(call: Call) -> str:
    """The compact JSON form of a call."""
    return msgspec.json.encode({"name": call.tool, "arguments": call.arguments}).decode()


def to_message(calls: list[Call], content: str = "") -> dict[str, Any]:
    """An OpenAI assistant message that makes the calls; call ids count from 0."""
    return {
        "role": "assistant",
        "content": content,
        "tool_calls": [
            {
                "id": f"call_{i}",
                "type": "function",
                "function": {"name": call.tool, "arguments": msgspec.json.encode(call.arguments).decode()},
            }
            for i, call in enumerate(calls)
        ],
    }


def without_reasoning(text: str) -> str:
    """Drops ``<think>`` blocks; a template may have opened the first one in the prompt, and the last may be cut off."""
    head, closed, tail = text.partition("</think>")
    if closed and "<think>" not in head:
        text = tail
    return _REASONING.sub("", text)


def _content(text: str) -> str:
    """The text without blanks around it and end-of-turn tokens after it."""
    text = text.strip()
    end = len(text)
    while match := _END_OF_TURN.search(text, max(0, end - 50), end):
        end = match.start()
        while end and text[end - 1].isspace():
            end -= 1
    return text[:end]


def _if_nothing_else(source: str, tools: Tools) -> list[Call]:
    """The calls of a text that is nothing but calls, whatever marks their strings hold; else none."""
    try:
        if _BARE.match(source):
            value, end = json_value(source)
            return [from_json(i, tools) for i in _items(value)] if end == len(source) else []
        if source.endswith((")", "]")) and _CALL.match(source):
            return from_python(source, tools)
    except Unreadable:
        return []
    return []


def _sources(body: str, tools: Tools) -> list[str]:
    """The parts of a reply that are meant as calls."""
    if tags := [inner for _, inner in _TAG.findall(body)]:
        return tags
    fences = [inner for inner in map(str.strip, _FENCE.findall(body)) if _BARE.match(inner) or _CALL.match(inner)]
    if fences:
        return fences
    if _BARE.match(body):
        return [body]
    if lists := _python(body, tools):
        return lists
    found = _IN_PROSE.search(body)
    return [body[found.start() :]] if found else []


def _python(body: str, tools: Tools) -> list[str]:
    """Call lists that begin or end a line, and lines that are calls of known tools; a list that is never closed, too.

    After `MAX_TRIES` places that look like calls, the rest is taken for one.
    """
    found: list[str] = []
    at = 0
    for _ in range(MAX_TRIES):
        places = [match for match in (_LIST.search(body, at), _LINE.search(body, at)) if match]
        if not places:
            return found
        match = min(places, key=re.Match.start)
        end = end_of(body, match.start() if match[0].startswith("[") else match.end() - 1)
        if end is None and _known(match[1], tools, not tools and match[0].startswith("[")):
            return [*found, body[match.start() :]]
        meant = end is not None and _stands_alone(body, match, end, tools)
        if meant:
            found.append(body[match.start() : end])
        at = end if meant else match.end()
    return [*found, body[at:]]


def _known(name: str, tools: Tools, otherwise: bool) -> bool:
    return name in tools or name.rpartition(".")[2] in tools or otherwise


def _stands_alone(body: str, match: re.Match[str], end: int, tools: Tools) -> bool:
    """Whether what looks like calls is meant as such, and no part of a sentence or a link."""
    ends_line = bool(_REST_OF_LINE.match(body, end))
    if not match[0].startswith("["):
        return ends_line and _known(match[1], tools, False)
    begins_line = not body[body.rfind("\n", 0, match.start()) + 1 : match.start()].strip()
    if begins_line:
        return not body.startswith("(", end)
    return ends_line and _known(match[1], tools, not tools)


def _calls(source: str, tools: Tools) -> list[Call]:
    """All calls of a source: Python, or a run of JSON values; what follows the last value is prose."""
    if _CALL.match(source.strip()):
        return from_python(source, tools)
    calls: list[Call] = []
    at = skip(source, 0)
    if source[at : at + 1] not in ("{", "["):
        raise Unreadable("bad_json", f"No JSON object in the call. {FORM}")
    while source[at : at + 1] in ("{", "["):
        value, at = json_value(source, at)
        calls += [from_json(item, tools) for item in _items(value)]
        at = skip(source, at)
    return calls


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _checked(calls: list[Call], text: str, issues: list[Issue]) -> Parsed:
    if len(calls) > MAX_CALLS:
        issues.append(Issue("too_many_calls", f"More than {MAX_CALLS} calls in one reply."))
    return Parsed([] if issues else calls, text, issues)
