"""A policy's reply: text or an OpenAI message → tool calls, plain text, or issues with a hint.

| form | example |
|---|---|
| bare JSON: one, several in a row, a list | ``{"name": "ls", "arguments": {"a": true}}`` |
| marks of model families (`forms`) | ``<tool_call>{"name": "ls"}</tool_call>``, ``Action: ls`` |
| an OpenAI message | its `tool_calls`, or its `function_call` |
| Python call lists, the form of BFCL's prompting models | ``[cd('document'), ls(a=True)]`` |
| JSON or Python in a code fence, after prose, or before it (`prose`) | |

Reasoning (`reasoning`) and end-of-turn tokens are no content: a call inside reasoning is no call,
and a reply that is nothing but reasoning is an issue. Text is never evaluated and nothing here
raises.

None of a reply's calls runs where one cannot be read, where different calls stand in two forms, or
where the reply does not plainly mean those in its prose (`intent`): the policy gets a hint, which
costs it a step. So does a reply that tries a call in a form that is not read. Any other reply
without a call hands the turn back.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any, NamedTuple

import msgspec

from coevolve.agents.actions.calls import CALL, NO_TOOLS, Tools, from_json, from_python, items
from coevolve.agents.actions.forms import CallSource, actions, marked
from coevolve.agents.actions.intent import UNCLEAR, announced, asks, attempt, withdrawn
from coevolve.agents.actions.prose import BARE, WrittenCall, means_call, written
from coevolve.agents.actions.reasoning import without_reasoning
from coevolve.agents.actions.values import FORM, MAX_CALLS, Issue, Unreadable, json_value
from coevolve.records import Call

MAX_CHARACTERS = 200_000
MAX_ISSUES = 8
_ONLY_REASONING = Issue(
    "only_reasoning",
    "The reply holds reasoning and nothing after it. End it by </think>, then answer or call. "
    f"{FORM}",
)
_MIXED = Issue(
    "mixed_forms",
    "The reply writes different calls in two forms, so none ran. Write all of them in one form. "
    f"{FORM}",
)
_TOO_MANY = Issue("too_many_calls", f"More than {MAX_CALLS} calls in one reply.")
_TOO_LONG = Issue("too_long", f"The reply is longer than {MAX_CHARACTERS} characters.")
_END_OF_TURN = re.compile(
    r"(?:<\|(?!python_tag|tool_calls?_(?:section_)?begin)[a-z_]{1,40}\|>"
    r"|<｜end▁of▁sentence｜>|<end_of_turn>|</s>)\Z"
)


class ParsedReply(NamedTuple):
    calls: list[Call]
    text: str  # The reply without reasoning and end-of-turn tokens
    issues: list[Issue]


def parse(text: str, tools: Tools = NO_TOOLS) -> ParsedReply:
    """Reads a reply's text. Without the environment's `tools` no positional argument is bound."""
    if len(text) > MAX_CHARACTERS:
        return ParsedReply([], text, [_TOO_LONG])
    whole = text.strip()
    if calls := _if_nothing_else(whole, tools):
        return _checked(calls, [], whole)
    body = _content(without_reasoning(text))
    if not body and _content(without_reasoning(text, closed=False)):
        return ParsedReply([], body, [_ONLY_REASONING])
    sources, rest = _in_marks(body, tools)
    places = written(rest, tools, beside=bool(sources))
    clear = _clear(rest, places)
    if places and not clear and not sources:
        return ParsedReply([], body, [] if asks(rest) else [UNCLEAR])
    calls, issues = _read([*sources, *(place.source for place in places if clear)], tools)
    if not calls and not issues and (tried := attempt(body, tools)):
        issues = [tried]
    return _checked(calls, issues, body)


def parse_message(message: dict[str, Any], tools: Tools = NO_TOOLS) -> ParsedReply:
    """Reads an assistant message: its `tool_calls` or `function_call`, else its text."""
    content = message.get("content") or ""
    content = content if isinstance(content, str) else str(content)
    found = message.get("tool_calls") or message.get("function_call")
    if not found:
        parsed = parse(content, tools)
        silent = not parsed.text and not parsed.issues and message.get("reasoning")
        return ParsedReply([], parsed.text, [_ONLY_REASONING]) if silent else parsed
    made = found if isinstance(found, list) else [found]
    own = [CallSource("", partial(_own, item), "message") for item in made]
    body = _content(without_reasoning(content[:MAX_CHARACTERS]))
    sources, rest = _in_marks(body, tools, beside=True)
    places = written(rest, tools, beside=True)
    beside = [*sources, *(place.source for place in places if _clear(rest, places))]
    return _checked(*_read([*own, *beside], tools), content)


def _own(item: Any, text: str, tools: Tools) -> list[Call]:
    return [from_json(item, tools)]


def to_text(call: Call) -> str:
    """The compact JSON form of a call."""
    return msgspec.json.encode({"name": call.tool, "arguments": call.arguments}).decode()


def to_message(calls: list[Call], content: str = "") -> dict[str, Any]:
    """An OpenAI assistant message that makes the calls; call ids count from 0."""
    made = []
    for number, call in enumerate(calls):
        arguments = msgspec.json.encode(call.arguments).decode()
        function = {"name": call.tool, "arguments": arguments}
        made.append({"id": f"call_{number}", "type": "function", "function": function})
    return {"role": "assistant", "content": content, "tool_calls": made}


def _if_nothing_else(source: str, tools: Tools) -> list[Call]:
    """The calls of a text that is nothing but calls, whatever their strings hold; else none."""
    try:
        if BARE.match(source):
            value, end = json_value(source)
            whole = end == len(source) and means_call(source, tools)
            return [from_json(item, tools) for item in items(value, tools)] if whole else []
        if source.endswith((")", "]")) and CALL.match(source):
            return from_python(source, tools)
    except Unreadable:
        return []
    return []


def _content(text: str) -> str:
    """The text without blanks around it and end-of-turn tokens after it."""
    text = text.strip()
    end = len(text)
    while match := _END_OF_TURN.search(text, max(0, end - 50), end):
        end = match.start()
        while end and text[end - 1].isspace():
            end -= 1
    return text[:end]


def _in_marks(body: str, tools: Tools, beside: bool = False) -> tuple[list[CallSource], str]:
    """The calls of a reply in marks and in ReAct's lines, and the rest of the reply."""
    in_marks, rest = marked(body, beside)
    in_lines, prose = actions(rest, tools, beside or bool(in_marks))
    return in_marks + in_lines, prose


def _clear(body: str, places: list[WrittenCall]) -> bool:
    """Whether a reply plainly means all calls in its prose."""
    ends = [0, *(place.end for place in places)]
    leads = [body[end : place.start] for end, place in zip(ends, places, strict=False)]
    return all(map(announced, leads)) and not withdrawn(body[ends[-1] :])


def _read(sources: list[CallSource], tools: Tools) -> tuple[list[Call], list[Issue]]:
    """The calls of the sources, in order, and what is wrong with them."""
    found: dict[str, list[Call]] = {}
    issues: list[Issue] = []
    for source in sources:
        if sum(map(len, found.values())) > MAX_CALLS or len(issues) == MAX_ISSUES:
            break
        try:
            found.setdefault(source.form, []).extend(source.read(source.text, tools))
        except Unreadable as error:
            issues.append(error.issue)
    first, *others = [calls for calls in found.values() if calls] or [[]]
    # A form that only repeats calls of the first one adds nothing.
    if not issues and any(call not in first for calls in others for call in calls):
        issues = [_MIXED]
    return first, issues


def _checked(calls: list[Call], issues: list[Issue], text: str) -> ParsedReply:
    if len(calls) > MAX_CALLS:
        issues = [*issues, _TOO_MANY]
    return ParsedReply([] if issues else calls, text, issues)
