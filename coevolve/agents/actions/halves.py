"""Half a call and nothing else: what names an offered tool in a form that nobody writes in a sentence.

| form | example |
|---|---|
| the name alone, or names in brackets | ``ls``, ``[ls]`` |
| a name and its arguments without the marks of a call | ``cd {"folder": "x"}``, ``"name": "cd", "arguments": {…}`` |
| a label or sign before the name | ``Tool: cd``, ``-> cd('x')``, ``/ls`` |
| a command line of one to three words | ``cd document`` |
| an element of the tool's name | ``<cd folder="x"/>`` |
| a call of another function with the name as its first argument | ``call_tool("cd", …)`` |

Nothing of it runs: the policy gets a hint.
"""

from __future__ import annotations

import re

from coevolve.agents.actions.calls import Tools, attempted, known, parameters
from coevolve.agents.actions.talk import VERBS
from coevolve.agents.actions.values import Unreadable, end_of, json_value

FENCE = re.compile(r"```\w*\n([^`]*)(?:```|\Z)")
_LABEL = r"(?:[-=]*>+|[@/$]|(?:tool|function|action|command|name|tool[ _]call|function[ _]call|call|run)[\"'`*_✿ ]{0,4}:)"
_LABELLED = re.compile(
    rf"[\"'`*_✿ ]{{0,4}}(?:{_LABEL})?[\"'`*_✿ ]{{0,4}}([A-Za-z_][\w.]*)[\"'`*_,]{{0,4}}(?=\s|[({{:;.]|\Z)",
    re.I,
)
_ARGUED = re.compile(
    r"(?::\d+)?[\s,:]*(?:[\"'`*_✿]{0,4}(?:arguments|args|parameters|params|input)[\"'`*_✿]{0,4}\s*:|[({])",
    re.I,
)
_COUNTER = re.compile(r"\A\d+\s*")
_ELEMENT = re.compile(r"^[ \t]*<([A-Za-z_][\w.]*)(?:\s[^<>\n]*)?/?>", re.M)
_WORD = rf"[ \t]+(?!(?:{VERBS}|\w+(?:ed|ing))(?![\w./-]))[^\s:]+"
_WORDS = re.compile(rf"{_WORD}(?:{_WORD}){{0,2}}")
_ROUTED = re.compile(r"[A-Za-z_][\w.]*\(\s*[\"']([A-Za-z_][\w.]*)[\"']\s*[,)]")


def unfenced(body: str) -> str:
    """What a reply says that may be one block and nothing else."""
    fence = FENCE.fullmatch(body)
    return (fence[1] if fence else body).strip()


def half(body: str, tools: Tools) -> str | None:
    """The offered tool of which a reply begins with half a call."""
    text = unfenced(body)
    element, routed = _ELEMENT.search(text), _ROUTED.match(text)
    for found in (element, routed):
        if found and known(found[1], tools):
            return found[1]
    names = (
        [name.strip(" `*\"'") for name in text.strip("[]()").split(",")] if len(text) < 1000 else []
    )
    if names and all(name in tools for name in names):
        return names[0]
    text = text.lstrip("[( ").removeprefix("- ")
    start = _LABELLED.match(text)
    if not start or not known(start[1], tools):
        return None
    rest = text[start.end() :]
    labelled = not text.startswith(start[1])
    if _ARGUED.match(rest):
        return start[1] if labelled or not _other_object(rest, start[1], tools) else None
    if labelled and not rest.strip("`*;. \n"):
        return start[1]
    return start[1] if _WORDS.fullmatch(rest) and not rest.endswith((".", "!", "?", ":")) else None


def _other_object(text: str, tool: str, tools: Tools) -> bool:
    """Whether an object that follows a tool's name holds other keys than the tool's parameters, or a bracket is a remark."""
    text = text.lstrip(" \t\n:,")
    if text.startswith("("):
        return end_of(text, 0) != len(text) or not attempted(tool, tool + text, tools)
    try:
        value, _ = json_value(_COUNTER.sub("", text))
    except Unreadable:
        return False
    return (
        not isinstance(value, dict)
        or not value.keys() <= parameters(tool.rpartition(".")[2], tools).keys()
    )
