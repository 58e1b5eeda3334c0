"""What a policy wrote, read as tool calls: text or an OpenAI message → calls, plain text, or typed issues with a hint.

Forms: bare JSON ``{"name": ..., "arguments": {...}}`` (one, several in a row, or a list), the same inside Hermes/Qwen
``<tool_call>`` tags or a code fence, and the `tool_calls` of an OpenAI message. Reasoning (``<think>``) and end-of-turn
tokens are no content; a call inside reasoning is no call. Text is never evaluated and nothing here raises.

A reply without a call is plain text: the policy hands the turn back. A reply that tried to call and failed gives an
`Issue`, never a silent nothing; then none of the reply's calls runs, so that a half-understood reply changes no state.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple

import msgspec

from coevolve.records import Call

MAX_CALLS = 32
MAX_DEPTH = 32
MAX_CHARACTERS = 200_000
FORM = 'Write {"name": "<tool>", "arguments": {...}} as JSON.'


class Issue(NamedTuple):
    """Why a reply could not be read as calls, in words for the policy."""

    kind: str
    """`bad_json`, `bad_call`, `too_many_calls`, `too_long`, `unknown_format`."""
    hint: str


class Parsed(NamedTuple):
    calls: list[Call]
    text: str
    """The reply without reasoning and end-of-turn tokens."""
    issues: list[Issue]


_REASONING = re.compile(r"<think>.*?(?:</think>|\Z)", re.S)
_END_OF_TURN = re.compile(r"(?:\s|<\|[a-z_]+\|>|</s>)+\Z")
_TAG = re.compile(r"<tool_call>(.*?)(?:</tool_call>|(?=<tool_call>)|\Z)", re.S)
_FENCE = re.compile(r"```\w*\s*(\[?\s*\{.*?)(?:```|\Z)", re.S)
_BARE = re.compile(r"\[?\s*\{")
_IN_PROSE = re.compile(r'\{\s*"name"\s*:\s*"[^"]*"\s*,\s*"(?:arguments|parameters)"\s*:')
_PYTHON_CALLS = re.compile(r"(?:```\w*\s*)?\[\s*[A-Za-z_][\w.]*\(.*\)\s*\](?:\s*```)?", re.S)
_BETWEEN = re.compile(r"[\s,;]*")


class _Unreadable(ValueError):
    def __init__(self, kind: str, hint: str):
        super().__init__(hint)
        self.issue = Issue(kind, hint)


def parse(text: str) -> Parsed:
    """Reads a reply's text."""
    if len(text) > MAX_CHARACTERS:
        return Parsed([], text, [Issue("too_long", f"The reply is longer than {MAX_CHARACTERS} characters.")])
    whole = text.strip()
    if _BARE.match(whole) and (calls := _if_nothing_else(whole)):
        return _checked(calls, whole, [])
    body = _END_OF_TURN.sub("", without_reasoning(text)).strip()
    calls: list[Call] = []
    issues: list[Issue] = []
    for source in _sources(body):
        try:
            calls += _calls(source)
        except _Unreadable as error:
            issues.append(error.issue)
    if not calls and not issues and _PYTHON_CALLS.fullmatch(body):
        issues.append(Issue("unknown_format", f"Calls written as Python are not understood. {FORM}"))
    return _checked(calls, body, issues)


def parse_message(message: dict[str, Any]) -> Parsed:
    """Reads an assistant message: its `tool_calls` when it has any, its text otherwise."""
    content = message.get("content") or ""
    if not message.get("tool_calls"):
        return parse(content)
    calls: list[Call] = []
    issues: list[Issue] = []
    for item in message["tool_calls"]:
        try:
            calls.append(_call(item))
        except _Unreadable as error:
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


def _sources(body: str) -> list[str]:
    """The parts of a reply that are meant as calls."""
    if "<tool_call>" in body:
        return _TAG.findall(body)
    if fences := _FENCE.findall(body):
        return fences
    if _BARE.match(body):
        return [body]
    found = _IN_PROSE.search(body)
    return [body[found.start() :]] if found else []


def _calls(source: str) -> list[Call]:
    """All calls of a run of JSON values; what follows the last value is prose."""
    calls: list[Call] = []
    at = _BETWEEN.match(source).end()
    if source[at : at + 1] not in ("{", "["):
        raise _Unreadable("bad_json", f"No JSON object in the call. {FORM}")
    while source[at : at + 1] in ("{", "["):
        value, at = _decode(source, at)
        for item in value if isinstance(value, list) else [value]:
            calls.append(_call(item))
        at = _BETWEEN.match(source, at).end()
    return calls


def _if_nothing_else(source: str) -> list[Call]:
    """The calls of a text that is nothing but calls, whatever marks their strings hold; else none."""
    try:
        value, end = _decode(source, 0)
        return [_call(item) for item in (value if isinstance(value, list) else [value])] if end == len(source) else []
    except _Unreadable:
        return []


def _call(item: Any) -> Call:
    """One call from its JSON object, also wrapped as ``{"type": "function", "function": {...}}``."""
    if isinstance(item, dict) and isinstance(item.get("function"), dict):
        item = item["function"]
    if not isinstance(item, dict) or not isinstance(item.get("name"), str) or not item["name"].strip():
        raise _Unreadable("bad_call", f"A call needs the name of a tool. {FORM}")
    name = item["name"].strip().removeprefix("functions.")
    arguments = item.get("arguments", item.get("parameters"))
    if isinstance(arguments, str):
        arguments = _decode(arguments, 0)[0] if arguments.strip() else {}
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, dict):
        raise _Unreadable("bad_call", f"The arguments of {name} must be a JSON object. {FORM}")
    _check(name, arguments)
    return Call(name, arguments)


def _check(name: str, arguments: dict[str, Any]) -> None:
    """Refuses what no record could hold: lone surrogates and bottomless nesting."""
    if _depth(arguments) > MAX_DEPTH:
        raise _Unreadable("bad_call", f"The arguments of {name[:80]} are nested deeper than {MAX_DEPTH} levels.")
    try:
        json.dumps([name, arguments], ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _Unreadable("bad_json", "The call holds half of a surrogate pair.") from None


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            child
            for node in level
            if isinstance(node, (dict, list))
            for child in (node.values() if isinstance(node, dict) else node)
            if isinstance(child, (dict, list))
        ]
    return depth


def _checked(calls: list[Call], text: str, issues: list[Issue]) -> Parsed:
    if len(calls) > MAX_CALLS:
        issues.append(Issue("too_many_calls", f"More than {MAX_CALLS} calls in one reply."))
    return Parsed([] if issues else calls, text, issues)


def _decode(source: str, at: int) -> tuple[Any, int]:
    try:
        return _decoder.raw_decode(source, _BETWEEN.match(source, at).end())
    except _Unreadable:
        raise
    except json.JSONDecodeError as error:
        hint = f"{error.msg} at character {error.pos}: {source[error.pos : error.pos + 30]!r}. {FORM}"
        raise _Unreadable("bad_json", f"The call is not valid JSON: {hint}") from None
    except RecursionError:
        raise _Unreadable("bad_json", "The call is nested too deeply.") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Unreadable("bad_json", "A key occurs twice in one object.")
    return found


def _integer(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= (value := int(text)) < 2**63:
        raise _Unreadable("bad_json", f"The number {text[:20]}… is too large.")
    return value


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Unreadable("bad_json", f"The number {text[:20]} is too large.")
    return value


def _constant(text: str) -> None:
    raise _Unreadable("bad_json", f"{text} is not a JSON value.")


_decoder = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant, strict=False
)
