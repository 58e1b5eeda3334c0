"""Calls in the marks of model families: the parts of a reply that a mark opens, each with what reads it.

| mark | written by | inside |
|---|---|---|
| ``<tool_call>``, ``<TOOLCALL>``, ``<tools>``, ``<function_calls>``, ``<|tool_call|>``, … | Qwen, Hermes, Granite, Phi, Cohere, GLM | JSON, Python calls, ``<arg_key>`` pairs, or another mark |
| ``<function=f>…</function>`` | Llama 3, Qwen3-Coder | ``<parameter=a>1</parameter>`` or a JSON object |
| ``<invoke name="f">…</invoke>`` | Claude, MiniMax, DeepSeek V3.2 | ``<parameter name="a">1</parameter>`` |
| ``<|tool_call_begin|>``, ``<｜tool▁call▁begin｜>`` | Kimi, DeepSeek | name, separator, JSON object, fenced or not |
| ``<|python_tag|>`` | Llama 3 | JSON or Python calls |
| ``[TOOL_CALLS]`` | Mistral | a JSON list, or ``f[ARGS]{…}`` |
| ``to=functions.f … <|message|>`` | gpt-oss | a JSON object |
| ``Action: f``, ``Action Input: {…}`` (lines) | ReAct prompts | a JSON object, ``a=1``, or the only parameter's value |

CallSource: the chat templates and tool parsers of these models. A mark ends at its closing mark, at the next opening one, or with
the reply. A mark right after a backtick or quotation mark is quoted and no mark. A reply that holds a mark tries to call: what cannot be read
inside raises `Unreadable`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise, takewhile
from typing import Any, NamedTuple

from coevolve.agents.actions.calls import (
    CALL,
    Tools,
    from_json,
    from_python,
    items,
    known,
    meant,
    parameters,
    tool_name,
    typed,
)
from coevolve.agents.actions.values import FENCE, FORM, Unreadable, json_value, pairs, skip
from coevolve.records import Call


class CallSource(NamedTuple):
    """A part of a reply that is meant as calls."""

    text: str
    read: Callable[[str, Tools], list[Call]]
    form: str
    """How it is written: `message`, `mark`, `action`, `json` or `python`; one reply keeps to one form."""


def calls_of(text: str, tools: Tools) -> list[Call]:
    """All calls of a text: Python, or a run of JSON values; what follows the last value is prose. Raises Unreadable."""
    if CALL.match(text.strip()):
        return from_python(text, tools)
    calls: list[Call] = []
    at = skip(text, 0)
    if not _begins_json(text, at):
        raise Unreadable("bad_json", f"No JSON object in the call. {FORM}")
    while _begins_json(text, at):
        value, at = json_value(text, at)
        calls += [from_json(item, tools) for item in items(value, tools)]
        at = skip(text, at)
    return calls


def values_end(text: str) -> int:
    """Where the JSON values end that a text begins with, and its prose begins; its end if they cannot be read."""
    end, at = 0, skip(text, 0)
    try:
        while _begins_json(text, at):
            end = json_value(text, at)[1]
            at = skip(text, end)
    except Unreadable:
        return len(text)
    return end


def _begins_json(text: str, at: int) -> bool:
    return text[at : at + 1] in ("{", "[") and not CALL.match(text, at)


_PAIR = re.compile(
    r"<arg_key>([^<]{1,200})</arg_key>\s*<arg_value>(.*?)(?:</arg_value>|(?=<arg_key>)|\Z)", re.S
)
_PARAMETER = re.compile(
    r"<(?:[\w-]{1,40}:|｜DSML｜)?parameter(?:\s*=\s*|\s+name\s*=\s*)[\"']?([^\s\"'<>]+)[\"']?[^<>]*>"
    r"(.*?)(?:</(?:[\w-]+:|｜DSML｜)?parameter>|(?=<(?:[\w-]{1,40}:|｜DSML｜)?parameter\b)|\Z)",
    re.S,
)
_SEPARATOR = re.compile(r"<[|｜]tool[_▁](?:sep|call[_▁]argument[_▁]begin)[|｜]>")
_COUNTED = re.compile(r"(?P<name>[^\s:{}]+)(?::\d+)?")
_ARGS = re.compile(r"\s*+([\w.-]+)\s*+(?:\[CALL_ID\]\s*+[\w-]+\s*+)?(?:\[ARGS\])?\s*+(?=\{)")


def _tagged(mark: re.Match[str], text: str, tools: Tools) -> list[Call]:
    name, found, rest = text.partition("<arg_key>")
    if found or name.strip() in tools:
        return [_pairs(name.strip(), _PAIR.findall(found + rest), tools)]
    return calls_of(text, tools)


def _function(mark: re.Match[str], text: str, tools: Tools) -> list[Call]:
    name = mark["called"] or mark["invoked"]
    parameters = _PARAMETER.findall(text)
    return [_pairs(name, parameters, tools) if parameters else named(name, text, tools)]


def _begun(mark: re.Match[str], text: str, tools: Tools) -> list[Call]:
    if text.lstrip().startswith(("{", "[")):
        return calls_of(text, tools)
    parts = [part.strip() for part in _SEPARATOR.split(text)]
    head, _, rest = "\n".join(parts[1:] if parts[0] == "function" else parts).partition("\n")
    name = _COUNTED.fullmatch(head.strip())
    if not name:
        raise Unreadable("bad_call", f"A call needs the name of a tool. {FORM}")
    return [named(name["name"], rest, tools)]


def _mistral(mark: re.Match[str], text: str, tools: Tools) -> list[Call]:
    found = _ARGS.match(text)
    return [named(found[1], text[found.end() :], tools)] if found else calls_of(text, tools)


def _harmony(mark: re.Match[str], text: str, tools: Tools) -> list[Call]:
    return [named(mark["addressed"], text, tools)]


def named(name: str, arguments: str, tools: Tools) -> Call:
    """A call of a name and the text of its arguments, a JSON object that may stand in a fence. Raises Unreadable."""
    fenced = FENCE.match(arguments.strip())
    return from_json({"name": name, "arguments": fenced[1] if fenced else arguments}, tools)


def _pairs(name: str, found: list[tuple[str, str]], tools: Tools) -> Call:
    """A call whose arguments are text between marks: read as the tool's schema says."""
    call = from_json({"name": name}, tools)
    given: list[tuple[str, Any]] = [
        (key.strip(), typed(call.tool, key.strip(), text, tools)) for key, text in found
    ]
    return from_json({"name": call.tool, "arguments": pairs(given)}, tools)


class _Family(NamedTuple):
    opens: str
    closes: str
    read: Callable[[re.Match[str], str, Tools], list[Call]]


_NAMES = "tool_calls?|TOOLCALL|toolcall|function_calls?|functioncall|tools|tool_code"
_FAMILIES = {
    "tag": _Family(
        rf"<(?:[\w-]{1, 40}:|｜DSML｜)?(?:{_NAMES})>|<\|(?:tool_call|START_ACTION)\|?>|<start_function_call>",
        rf"</(?:[\w-]+:|｜DSML｜)?(?:{_NAMES})>|<\|(?:/tool_call|END_ACTION)\|>|<tool_call\|>|<end_function_call>",
        _tagged,
    ),
    "function": _Family(
        r"<function(?:=|\s+name\s*=\s*)[\"']?(?P<called>[^\s\"'<>]+)[\"']?\s*>",
        r"</function>",
        _function,
    ),
    "invoke": _Family(
        r"<(?:[\w-]{1,40}:|｜DSML｜)?invoke\s+name\s*=\s*[\"'](?P<invoked>[^\"'<>]*)[\"']\s*>",
        r"</(?:[\w-]+:|｜DSML｜)?invoke>",
        _function,
    ),
    "begin": _Family(
        r"<[|｜]tool[_▁]call[_▁]begin[|｜]>", r"<[|｜]tool[_▁]call[_▁]end[|｜]>", _begun
    ),
    "section": _Family(
        r"<[|｜]tool[_▁]calls[_▁](?:section[_▁])?begin[|｜]>",
        r"<[|｜]tool[_▁]calls[_▁](?:section[_▁])?end[|｜]>",
        _begun,
    ),
    "python": _Family(r"<\|python_tag\|>", r"<\|(?:eom_id|eot_id)\|>", _tagged),
    "mistral": _Family(r"\[TOOL_CALLS\]", r"</s>", _mistral),
    "harmony": _Family(
        r"\bto=(?P<addressed>[\w.-]{1,100})(?:[^{}\n]{0,80}?<\|message\|>| (?:code|json)(?=\s*\{))",
        r"<\|(?:call|end|start|return)\|>",
        _harmony,
    ),
}
_MARKS = re.compile(
    "(?<![`\"'“])(?:" + "|".join(f"(?P<{name}>{f.opens})" for name, f in _FAMILIES.items()) + ")"
)
_CLOSES = {name: re.compile(family.closes) for name, family in _FAMILIES.items()}


def marked(body: str, beside: bool = False) -> list[CallSource]:
    """What stands in marks, in order; one with nothing in it counts only where there is nothing else (`beside`: there is)."""
    found = list(_spans(body))
    full = [
        span
        for span in found
        if span[1].strip() or any(span[0][name] for name in ("called", "invoked", "addressed"))
    ]
    return [
        CallSource(text, partial(read, mark), "mark")
        for mark, text, read in full or found[: not beside]
    ]


def unmarked(body: str) -> str:
    """The reply with blanks in place of its marks and of the calls in them; what follows JSON in a mark stays."""
    return blanked(
        body, [(mark.start(), mark.end() + _called(text)) for mark, text, _ in _spans(body)]
    )


def _called(text: str) -> int:
    """Where a call in a mark ends."""
    return values_end(text) if _begins_json(text, skip(text, 0)) else len(text)


def blanked(body: str, spans: list[tuple[int, int]]) -> str:
    """The text with blanks in place of its spans, so that places keep their numbers."""
    parts, at = [], 0
    for start, end in spans:
        parts += [body[at:start], " " * (end - start)]
        at = end
    return "".join([*parts, body[at:]])


def _spans(body: str) -> Iterator[tuple[re.Match[str], str, Callable[..., list[Call]]]]:
    mark = _MARKS.search(body)
    while mark:
        name = next(name for name in _FAMILIES if mark[name])
        following = _MARKS.search(body, mark.end())
        end = following.start() if following else len(body)
        closing = _CLOSES[name].search(body, mark.end(), end)
        if not closing and name in ("function", "invoke"):
            closing = _CLOSES["tag"].search(body, mark.end(), end)
        yield mark, body[mark.end() : closing.start() if closing else end], _FAMILIES[name].read
        mark = following


_FIELD = re.compile(
    r"[ \t*_]{0,8}(action[ _]?(?:input|arguments|parameters|args)|(?:tool[ _])?(?:input|arguments|parameters|args|params)"
    r"|action|observation|thought|final answer)[ \t*_]{0,4}:[ \t*_]{0,4}(.*)",
    re.I | re.S,
)
_GIVEN = ("input", "arguments", "parameters", "args", "params")
_KEYWORD = re.compile(r"(\w+)\s*=(?!=)")
_NOTHING = re.compile(r"\W*(?:none|nothing|n/?a|null|no\b|finish|final|done|stop|answer)", re.I)


def actions(body: str, tools: Tools, beside: bool = False) -> list[CallSource]:
    """ReAct's pairs of lines, up to what the reply invents as an observation; an action of no tool's name is prose, and
    `beside` marks so is one without an input."""
    found = []
    for (kind, lines), (following, given) in pairwise([*_fields(body), ("", [])]):
        source = (
            _action(lines, "".join(given) if following.endswith(_GIVEN) else None, tools)
            if kind == "action"
            else None
        )
        found += [source] if source and not (beside and source.read is _alone) else []
    return found


def before_actions(body: str) -> str:
    """The reply up to its first line that ReAct's form labels."""
    lines = takewhile(lambda line: not _FIELD.match(line), body.splitlines(keepends=True))
    return "".join(lines)


def _fields(body: str) -> list[tuple[str, list[str]]]:
    """The labelled lines with what follows each."""
    fields: list[tuple[str, list[str]]] = []
    for line in body.splitlines(keepends=True):
        field = _FIELD.match(line)
        if field and field[1].lower() == "observation":
            break
        if field:
            fields.append((field[1].lower(), [field[2]]))
        elif fields:
            fields[-1][1].append(line)
    return fields


def _action(lines: list[str], given: str | None, tools: Tools) -> CallSource | None:
    name = lines[0].strip(" \t\r\n*_`\"'")
    call = CALL.match(name)
    if call and known(call[1], tools):
        return CallSource("".join(lines).strip(" \t\r\n*_`"), from_python, "action")
    if given is None:
        return CallSource(name, _alone, "action") if name in tools else None
    if not meant(name, tools) and (_NOTHING.match(name) or not re.fullmatch(r"[\w.]+", name)):
        return None
    return CallSource(given.strip(), partial(_with_input, name), "action")


def _alone(name: str, tools: Tools) -> list[Call]:
    return [from_json({"name": name}, tools)]


def _with_input(name: str, given: str, tools: Tools) -> list[Call]:
    """The input is an object, or the value of the only parameter that the tool has."""
    fenced = FENCE.match(given)
    given = (fenced[1] if fenced else given).strip("`* \n")
    only = list(parameters(tool_name(name, tools), tools))
    keyword = _KEYWORD.match(given)
    if keyword and keyword[1] in only:
        return from_python(f"{name}({given})", tools)
    if given.lower() in ("", "none", "null", "n/a"):
        return [from_json({"name": name}, tools)]
    if not given.startswith("{") and len(only) == 1:
        return [
            from_json(
                {
                    "name": name,
                    "arguments": {only[0]: typed(name, only[0], given.strip("\"'"), tools)},
                },
                tools,
            )
        ]
    return [named(name, given, tools)]
