"""What a policy wrote, read as tool calls: text or an OpenAI message → calls, plain text, or typed issues with a hint.

| form | example |
|---|---|
| bare JSON: one, several in a row, a list | ``{"name": "ls", "arguments": {"a": true}}`` |
| Hermes/Qwen tags around JSON (or a call list) | ``<tool_call>{"name": "ls"}</tool_call>`` |
| the marks of other model families (`forms`) | ``<function=ls></function>``, ``Action: ls``, … |
| an OpenAI message | its `tool_calls`, or its `function_call` |
| Python call lists, the form of BFCL's prompting models | ``[cd('document'), ls(a=True)]`` |
| any of them in a code fence, after prose, or before it (`prose`) | |

Reasoning (`reasoning`) and end-of-turn tokens are no content; a call inside reasoning is no call, and a reply that is
nothing but reasoning an issue. Text is never evaluated and nothing here raises.

A call is made only where its form is read and nothing around it speaks against it (`talk`, `consent`), and a reply keeps to
one form. What else looks like the attempt of an offered tool gets an `Issue`: a call that may not be meant, different calls in
two forms, an announcement (`talk`), half a call (`halves`), any other form (`attempts`, `expressions`); for a hint costs a
step, a wrong call the episode, and a silent end the turn. Then none of the reply's calls runs, so that a half-understood reply
changes no state. All else is plain text: the policy hands the turn back.
"""

from __future__ import annotations

import re
import unicodedata
from functools import partial
from typing import Any, NamedTuple

import msgspec

from coevolve.agents.actions.attempts import attempt
from coevolve.agents.actions.calls import CALL, NO_TOOLS, Tools, from_json, from_python, items
from coevolve.agents.actions.consent import withheld
from coevolve.agents.actions.expressions import computed
from coevolve.agents.actions.forms import Source, actions, before_actions, marked, unmarked
from coevolve.agents.actions.halves import half
from coevolve.agents.actions.prose import BARE, means_call, written
from coevolve.agents.actions.reasoning import without_reasoning
from coevolve.agents.actions.talk import UNCLEAR, announced, uncalled
from coevolve.agents.actions.values import FORM, Issue, Unreadable, json_value
from coevolve.records import Call

MAX_CALLS = 32
MAX_CHARACTERS = 200_000
MAX_ISSUES = 8
_FOLDED = 4000
"""Characters of a reply that are looked at in another writing of their letters."""

_ONLY_REASONING = Issue(
    "only_reasoning",
    f"The reply holds reasoning and nothing after it. End it by </think>, then answer or call. {FORM}",
)
_MIXED = Issue("mixed_forms", f"The reply writes different calls in two forms, so none ran. Write all of them in one form. {FORM}")  # fmt: skip


class Parsed(NamedTuple):
    calls: list[Call]
    text: str
    """The reply without reasoning and end-of-turn tokens."""
    issues: list[Issue]


_END_OF_TURN = re.compile(
    r"(?:<\|(?!python_tag|tool_calls?_(?:section_)?begin)[a-z_]{1,40}\|>|<｜end▁of▁sentence｜>|<end_of_turn>|</s>)\Z"
)


def parse(text: str, tools: Tools = NO_TOOLS) -> Parsed:
    """Reads a reply's text. `tools` are those of the environment: without them positional arguments cannot be bound."""
    if len(text) > MAX_CHARACTERS:
        return Parsed(
            [], text, [Issue("too_long", f"The reply is longer than {MAX_CHARACTERS} characters.")]
        )
    whole = text.strip()
    if calls := _if_nothing_else(whole, tools):
        return _checked(calls, [], whole)
    body = _content(without_reasoning(text))
    if not body and _content(without_reasoning(text, closed=False)):
        return Parsed([], body, [_ONLY_REASONING])
    sources, rest = _in_marks(body, tools)
    found = written(rest, tools, beside=bool(sources))
    against = withheld(rest, [source.text for source in found.meant or found.unclear])
    if against and not sources:
        return Parsed([], body, [against] if isinstance(against, Issue) else [])
    calls, issues = _read([*sources, *([] if against else found.meant)], tools)
    if not calls and not issues:
        issues = [UNCLEAR] if found.unclear and not sources else _attempted(body, tools)
    return _checked(calls, issues, body)


def _in_marks(body: str, tools: Tools, beside: bool = False) -> tuple[list[Source], str]:
    """The calls of a reply in the marks of model families and in ReAct's lines, and the rest of the reply."""
    in_marks = marked(body, beside)
    rest = unmarked(body)
    in_lines = actions(rest, tools, beside or bool(in_marks))
    return in_marks + in_lines, before_actions(rest) if in_lines else rest


def _attempted(body: str, tools: Tools) -> list[Issue]:
    """The hint for a reply without a call that tries one, in letters of full width, too."""
    for text in dict.fromkeys([body, unicodedata.normalize("NFKC", body[:_FOLDED])]):
        tried = announced(text, tools) or half(text, tools) or attempt(text, tools)
        if tried:
            return [uncalled(tried)]
    expression = computed(body, tools)
    return [expression] if expression else []


def _read(sources: list[Source], tools: Tools) -> tuple[list[Call], list[Issue]]:
    """The calls of the sources, in order. A form that only repeats calls of the first one says nothing; one that adds some
    is an issue."""
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
    if not issues and any(call not in first for calls in others for call in calls):
        issues = [_MIXED]
    return first, issues


def parse_message(message: dict[str, Any], tools: Tools = NO_TOOLS) -> Parsed:
    """Reads an assistant message: its `tool_calls` or `function_call` when it has any, its text otherwise."""
    content = message.get("content") or ""
    content = content if isinstance(content, str) else str(content)
    found = message.get("tool_calls") or message.get("function_call")
    if not found:
        parsed = parse(content, tools)
        silent = not parsed.text and not parsed.issues and bool(message.get("reasoning"))
        return Parsed([], parsed.text, [_ONLY_REASONING]) if silent else parsed
    own = [
        Source("", partial(_own, item), "message")
        for item in (found if isinstance(found, list) else [found])
    ]
    return _checked(*_read([*own, *_beside(content, tools)], tools), content)


def _own(item: Any, text: str, tools: Tools) -> list[Call]:
    return [from_json(item, tools)]


def _beside(content: str, tools: Tools) -> list[Source]:
    """The calls in the text of a message that has calls of its own."""
    sources, rest = _in_marks(
        _content(without_reasoning(content[:MAX_CHARACTERS])), tools, beside=True
    )
    meant = written(rest, tools, beside=True).meant
    return sources if withheld(rest, [source.text for source in meant]) else [*sources, *meant]


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
                "function": {
                    "name": call.tool,
                    "arguments": msgspec.json.encode(call.arguments).decode(),
                },
            }
            for i, call in enumerate(calls)
        ],
    }


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
        if BARE.match(source):
            value, end = json_value(source)
            whole = end == len(source) and means_call(source, tools)
            return [from_json(item, tools) for item in items(value, tools)] if whole else []
        if source.endswith((")", "]")) and CALL.match(source):
            return from_python(source, tools)
    except Unreadable:
        return []
    return []


def _checked(calls: list[Call], issues: list[Issue], text: str) -> Parsed:
    if len(calls) > MAX_CALLS:
        issues.append(Issue("too_many_calls", f"More than {MAX_CALLS} calls in one reply."))
    return Parsed([] if issues else calls, text, issues)
