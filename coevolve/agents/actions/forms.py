"""Calls in the marks of model families: the parts of a reply that a mark opens, with their readers.

| mark | written by | inside |
|---|---|---|
| ``<tool_call>``, ``<tools>``, … | Qwen, Hermes, Cohere, GLM | JSON, Python, ``<arg_key>`` pairs |
| ``<function=f>`` | Llama 3, Qwen3-Coder | ``<parameter=a>1</parameter>`` or a JSON object |
| ``<invoke name="f">`` | Claude, MiniMax, DeepSeek V3.2 | ``<parameter name="a">1</parameter>`` |
| ``<|tool_call_begin|>`` | Kimi, DeepSeek | name, separator, JSON object, fenced or not |
| ``<|python_tag|>`` | Llama 3 | JSON or Python calls |
| ``[TOOL_CALLS]`` | Mistral | a JSON list, or ``f[ARGS]{…}`` |
| ``to=functions.f … <|message|>`` | gpt-oss | a JSON object |
| ``Action: f``, ``Action Input: …`` | ReAct | a JSON object, ``a=1``, or an only value |

Source: the chat templates and tool parsers of these models. A mark ends at its closing mark, at the
next opening one, or with the reply. One right after a backtick or a quotation mark is quoted and no
mark. A reply that holds a mark tries to call: what cannot be read inside raises `Unreadable`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise, takewhile, zip_longest
from typing import Any, NamedTuple

from coevolve.agents.actions.calls import (
    CALL,
    Tools,
    from_json,
    from_python,
    items,
    known,
    parameters,
    resembles_tool,
    tool_name,
    typed,
)
from coevolve.agents.actions.values import FENCE, FORM, Unreadable, json_value, pairs, skip
from coevolve.records import Call


class CallSource(NamedTuple):
    """A part of a reply that is meant as calls."""

    text: str
    read: Callable[[str, Tools], list[Call]]
    form: str  # `message`, `mark`, `action`, `json` or `python`; one reply keeps to one form


def calls_of(text: str, tools: Tools) -> list[Call]:
    """The calls of a text: Python, or JSON values and prose after them. Raises Unreadable."""
    if CALL.match(text.strip()):
        return from_python(text, tools)
    if not _begins_json(text, skip(text, 0)):
        raise Unreadable("bad_json", f"No JSON object in the call. {FORM}")
    values = (item for value, _ in _json_values(text) for item in items(value, tools))
    return [from_json(item, tools) for item in values]


def values_end(text: str) -> int:
    """Where the JSON values end that a text begins with; the text's end if they cannot be read."""
    try:
        return max((end for _, end in _json_values(text)), default=0)
    except Unreadable:
        return len(text)


def _json_values(text: str) -> Iterator[tuple[Any, int]]:
    """The JSON values that a text begins with, and where each ends."""
    at = skip(text, 0)
    while _begins_json(text, at):
        value, end = json_value(text, at)
        yield value, end
        at = skip(text, end)


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
    """The call of a name and of a JSON object, fenced or not, as text. Raises Unreadable."""
    fenced = FENCE.match(arguments.strip())
    return from_json({"name": name, "arguments": fenced[1] if fenced else arguments}, tools)


def _pairs(name: str, found: list[tuple[str, str]], tools: Tools) -> Call:
    """A call whose arguments are text between marks: read as the tool's schema says."""
    tool = from_json({"name": name}, tools).tool
    given = [(key.strip(), typed(tool, key.strip(), text, tools)) for key, text in found]
    return from_json({"name": tool, "arguments": pairs(given)}, tools)


Reader = Callable[[re.Match[str], str, Tools], list[Call]]
_TAGS = "tool_calls?|TOOLCALL|toolcall|function_calls?|functioncall|tools|tool_code"
_SPACE = r"(?:[\w-]{1,40}:|｜DSML｜)?"
_FAMILIES: dict[str, tuple[str, str, Reader]] = {
    "tag": (
        rf"<{_SPACE}(?:{_TAGS})>|<\|(?:tool_call|START_ACTION)\|?>|<start_function_call>",
        rf"</{_SPACE}(?:{_TAGS})>|<\|(?:/tool_call|END_ACTION)\|>|<tool_call\|>"
        r"|<end_function_call>",
        _tagged,
    ),
    "function": (
        r"<function(?:=|\s+name\s*=\s*)[\"']?(?P<called>[^\s\"'<>]+)[\"']?\s*>",
        r"</function>",
        _function,
    ),
    "invoke": (
        rf"<{_SPACE}invoke\s+name\s*=\s*[\"'](?P<invoked>[^\"'<>]*)[\"']\s*>",
        rf"</{_SPACE}invoke>",
        _function,
    ),
    "begin": (r"<[|｜]tool[_▁]call[_▁]begin[|｜]>", r"<[|｜]tool[_▁]call[_▁]end[|｜]>", _begun),
    "section": (
        r"<[|｜]tool[_▁]calls[_▁](?:section[_▁])?begin[|｜]>",
        r"<[|｜]tool[_▁]calls[_▁](?:section[_▁])?end[|｜]>",
        _begun,
    ),
    "python": (r"<\|python_tag\|>", r"<\|(?:eom_id|eot_id)\|>", _tagged),
    "mistral": (r"\[TOOL_CALLS\]", r"</s>", _mistral),
    "harmony": (
        r"\bto=(?P<addressed>[\w.-]{1,100})(?:[^{}\n]{0,80}?<\|message\|>| (?:code|json)(?=\s*\{))",
        r"<\|(?:call|end|start|return)\|>",
        _harmony,
    ),
}
"""Pattern of the opening mark, pattern of the closing one, and what reads the text between them."""
_OPENS = "|".join(f"(?P<{name}>{opens})" for name, (opens, _, _) in _FAMILIES.items())
_MARKS = re.compile(f"(?<![`\"'“])(?:{_OPENS})")
_CLOSES = {name: re.compile(closes) for name, (_, closes, _) in _FAMILIES.items()}


def marked(body: str, beside: bool = False) -> tuple[list[CallSource], str]:
    """What stands in marks, in order, and the reply with blanks in place of it.

    A mark with nothing in it counts only where there is no other, and no call elsewhere (`beside`).
    What follows JSON in a mark stays in the reply.
    """
    full, empty, spans = [], [], []
    marks = list(_MARKS.finditer(body))
    for mark, following in zip_longest(marks, marks[1:]):
        family = next(name for name in _FAMILIES if mark[name])
        end = following.start() if following else len(body)
        closing = _CLOSES[family].search(body, mark.end(), end)
        if not closing and family in ("function", "invoke"):
            closing = _CLOSES["tag"].search(body, mark.end(), end)
        text = body[mark.end() : closing.start() if closing else end]
        source = CallSource(text, partial(_FAMILIES[family][2], mark), "mark")
        named = any(mark[name] for name in ("called", "invoked", "addressed"))
        (full if named or text.strip() else empty).append(source)
        called = values_end(text) if _begins_json(text, skip(text, 0)) else len(text)
        spans.append((mark.start(), mark.end() + called))
    return full or empty[: not beside], blanked(body, spans)


def blanked(body: str, spans: list[tuple[int, int]]) -> str:
    """The text with blanks in place of its spans, so that places keep their numbers."""
    parts, at = [], 0
    for start, end in spans:
        parts += [body[at:start], " " * (end - start)]
        at = end
    return "".join([*parts, body[at:]])


_FIELD = re.compile(
    r"^[ \t*_]{0,8}(action[ _]?(?:input|arguments|parameters|args)"
    r"|(?:tool[ _])?(?:input|arguments|parameters|args|params)"
    r"|action|observation|thought|final answer)[ \t*_]{0,4}:[ \t*_]{0,4}",
    re.I | re.M,
)
_GIVEN = ("input", "arguments", "parameters", "args", "params")
_KEYWORD = re.compile(r"(\w+)\s*=(?!=)")
_NOTHING = re.compile(r"\W*(?:none|nothing|n/?a|null|no\b|finish|final|done|stop|answer)", re.I)


def actions(body: str, tools: Tools, beside: bool = False) -> tuple[list[CallSource], str]:
    """ReAct's pairs of lines, up to an invented observation, and the reply before them.

    An action of no tool's name is prose; where there are calls elsewhere (`beside`), so is one
    without an input.
    """
    marks = list(_FIELD.finditer(body))
    ends = [*(mark.start() for mark in marks[1:]), len(body)]
    fields = [
        (mark[1].lower(), body[mark.end() : end]) for mark, end in zip(marks, ends, strict=False)
    ]
    seen = takewhile(lambda field: field[0] != "observation", fields)
    found = []
    for (label, text), (following, given) in pairwise([*seen, ("", "")]):
        if label == "action":
            found += _action(text, given if following.endswith(_GIVEN) else None, tools, beside)
    return found, body[: marks[0].start()] if found else body


def _action(text: str, given: str | None, tools: Tools, beside: bool) -> list[CallSource]:
    name = text.partition("\n")[0].strip(" \t\r\n*_`\"'")
    call = CALL.match(name)
    if call and known(call[1], tools):
        return [CallSource(text.strip(" \t\r\n*_`"), from_python, "action")]
    if given is None:
        alone = name in tools and not beside
        return [CallSource("", partial(_with_input, name), "action")] if alone else []
    if not resembles_tool(name, tools) and (
        _NOTHING.match(name) or not re.fullmatch(r"[\w.]+", name)
    ):
        return []
    return [CallSource(given.strip(), partial(_with_input, name), "action")]


def _with_input(name: str, given: str, tools: Tools) -> list[Call]:
    """The call whose input is an object, or the value of the tool's only parameter."""
    fenced = FENCE.match(given)
    given = (fenced[1] if fenced else given).strip("`* \n")
    only = list(parameters(tool_name(name, tools), tools))
    keyword = _KEYWORD.match(given)
    if keyword and keyword[1] in only:
        return from_python(f"{name}({given})", tools)
    if given.lower() in ("", "none", "null", "n/a"):
        return [from_json({"name": name}, tools)]
    if given.startswith("{") or len(only) != 1:
        return [named(name, given, tools)]
    value = typed(name, only[0], given.strip("\"'"), tools)
    return [from_json({"name": name, "arguments": {only[0]: value}}, tools)]
