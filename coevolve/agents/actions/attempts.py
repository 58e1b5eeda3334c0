"""Replies that try a call in no form that is read: what names an offered tool in a place where only a call stands.

| form | example |
|---|---|
| a line of calls and nothing else but signs, labels and fillers | ``Step 1: cd('x')``, ``→ cd('x')``, ``<run>cd('x')</run>`` |
| other brackets | ``cd[x]``, ``cd<folder="x">`` |
| command lines | ``mv a.txt b``, ``cd x && ls -a`` |
| an announced tool or command | ``I'll run `cd x` now.`` |
| JSON or an element that names a tool in a place of its own | ``{"response": "cd('x')"}``, ``<tool name="cd">`` |
| a call in a sentence of another language than English, whose meaning no rule here knows | ``Ich rufe jetzt cd('x') auf.`` |

Nothing of it runs: the policy gets a hint. A reply that asks for leave, or tells of what was done, is prose.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any

from coevolve.agents.actions.calls import Tools, attempted, known, parameters
from coevolve.agents.actions.consent import asks, not_meant
from coevolve.agents.actions.halves import FENCE, unfenced
from coevolve.agents.actions.talk import HEDGED, INTENT, MAX_TRIES, VERBS, told
from coevolve.agents.actions.values import Unreadable, end_of, json_value

_CALL = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*)([(\[{<（])")
_TAG = re.compile(r"</?[A-Za-z][\w:.-]*(?:\s[^<>\n]*)?/?>")
_COMMENT = re.compile(r"(?:#|//).*")
_LABEL = re.compile(r"\A\W*(?:[^\W_]+,?[ ]){0,15}[^\W_]+[*_`]{0,2}(?::|→|[-=]+>)")
_NO_LABEL = re.compile(
    r"\b(?:errors?|usage|notes?|warning|results?|signature|see|tools|functions|available|failed)\b|\bis\W*\Z",
    re.I,
)
_FILLERS = frozenset(
    "a action after and api ai assistant boxed call calling calls code command do execute executes executing finally first"
    " function i invoke invoking is it let me my next now request run running runs second step that the then this to tool"
    " will".split()
)
_ENGLISH = re.compile(
    r"\b(?:the|an?|is|are|was|were|be|it|its|this|that|these|of|to|in|on|for|with|and|or|not|no|i|you|your|he|she|they|we"
    r"|has|have|had|do|does|did|can|will|would|should|there|here|if|as|at|by|from|failed|error|returns?|shows?|lists?)\b",
    re.I,
)
_WORD = re.compile(r"[^\W\d_]+")
_BULLET = re.compile(r"\n[ \t`*\[>-]*(?:\d+[.)])?[ \t`*\[]*\Z")
_FENCE_MARK = re.compile(r"```\w*\n*\Z")
_TOKEN = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|[^\s\"']+")
_JOINED = re.compile(r"&&|\|\||[;|]")
# One command alone may name a folder `lists` or `output` (`halves`); among several lines such words are a sentence's.
_PROSE = re.compile(rf"(?:{VERBS}|had|lists?|output|[a-z]{{3,}}(?:ed|ing))\Z", re.I)
_ARGUMENT = re.compile(r"[-./_=*~\"'\d]")
_WAITS = re.compile(r"\b(?:before|after|until|wait|need|confirmation|unable)\b", re.I)
_SPAN = re.compile(r"`+([A-Za-z_][\w.]*)(?=[\s`])[^`\n]*`")
_USED = re.compile(
    r"\b(?:run|call|use|execute|invoke|with|using|via|calling|running)\s+(?:the\s+)?([A-Za-z_][\w.]*)(?:\s+(?:tool|function|command))?"
    r"(?:\s+(?:now|first|next))?\s*\Z",
    re.I,
)
_WITH = re.compile(
    r"^[^\w\n]*(?:calling|using|running|executing|invoking|calls?)\s+(?:tool:?\s+)?([A-Za-z_][\w.]*)\W*(?:with\b|\Z)",
    re.I | re.M,
)
_ELEMENT = re.compile(
    r"(?<!`)<[\w:-]{1,40}\s[^<>\n]*?\b(?:name|tool|function)\s*=\s*[\"']([^\"'<>]{1,100})[\"']"
)
_ASSIGNED = re.compile(r"\A\W*([A-Za-z_][\w.]*)[:<\s]\s*([A-Za-z_]\w*)\s*=(?!=)")
_KEY = re.compile(r"tool|func|name|call|action|api|command|method", re.I)
_STARTS = re.compile(r"\W*([A-Za-z_][\w.]*)\(")
_SENTENCE = re.compile(r"(?<=[.!?])\s|\n")


def attempt(body: str, tools: Tools) -> str | None:
    """The offered tool that a reply without a call that can be read names as only a call does."""
    if not tools or asks(body):
        return None
    rules = (_lines, _commands, _announced, _elements, _objects)
    return next((name for rule in rules for name in rule(body, tools)), None)


def _lines(body: str, tools: Tools) -> Iterator[str]:
    """Tools of lines that are calls and nothing else."""
    start, tells = 0, False
    foreign = not _ENGLISH.search(body)
    for line in islice(body.split("\n"), 4 * MAX_TRIES):
        calls = list(_calls(line, tools))
        if calls:
            first = start + calls[0][1]
            tells = tells or told(body, first) or told(body, _lead(body, first))
            rest = _without(line, calls)
            words = [word.lower() for word in _WORD.findall(rest)]
            plain = set(words) <= _FILLERS and not re.search(r"\d", rest)
            if not tells and not line.lstrip().startswith("|") and (plain or (foreign and words)):
                yield calls[0][0]
        elif line.strip():
            assigned = _ASSIGNED.match(line)
            if assigned and assigned[2] in parameters(assigned[1], tools):
                yield assigned[1]
            tells = False
        start += len(line) + 1


def _lead(body: str, at: int) -> int:
    """Where the words end that lead to a place: before a bullet, and before the mark of a block."""
    start = max(0, at - 100)
    before = _BULLET.search(body, start, at)
    fence = _FENCE_MARK.search(body, start, before.start() if before else at)
    return fence.start() if fence else before.start() if before else at


def _calls(line: str, tools: Tools) -> Iterator[tuple[str, int, int]]:
    """What is called in a line, from where to where."""
    at = 0
    for _ in range(MAX_TRIES):
        call = _CALL.search(line, at)
        if not call:
            return
        at = call.end()
        end = _end(line, call) if known(call[1], tools) else None
        if end and (call[2] != "(" or attempted(call[1], line[call.start() : end], tools)):
            yield call[1], call.start(), end
            at = end


def _end(line: str, call: re.Match[str]) -> int | None:
    """Where the bracket that a call opens is closed; None for an empty one of another kind than a call's."""
    if call[2] in "<（":
        end = line.find(">" if call[2] == "<" else "）", call.end()) + 1
    else:
        end = end_of(line, call.end() - 1) or 0
    return end if end > call.end() + (call[2] != "(") else None


def _without(line: str, calls: list[tuple[str, int, int]]) -> str:
    """What a line says beside its calls; labels, marks and comments say nothing."""
    before = line[: calls[0][1]]
    label = _LABEL.match(before)
    if (
        label
        and not _NO_LABEL.search(before.removesuffix(":"))
        or re.search(r"\bcall is:\W*\Z", before)
    ):
        before = ""
    between = [line[a[2] : b[1]] for a, b in zip(calls, calls[1:], strict=False)]
    after = _COMMENT.sub("", line[calls[-1][2] :])
    return _TAG.sub(" ", " ".join([_numbered(before), *between, after]))


def _numbered(text: str) -> str:
    """Without the number that leads a list's item or a step."""
    return re.sub(r"\A\W*(?:step\s*)?\d+\W", "", text, flags=re.I)


def _commands(body: str, tools: Tools) -> Iterator[str]:
    """Tools of command lines: the reply, a block that is not told of, or what an announcement leads to."""
    yield from _script(body, tools)
    for fence in islice(FENCE.finditer(body), MAX_TRIES):
        lead = body[: fence.start()].rstrip()
        leads = lead.endswith(":") or INTENT.search(lead.rpartition("\n")[2])
        if not lead or (leads and not told(body, fence.start()) and not not_meant(lead)):
            yield from _script(fence[1], tools)
    lead, colon, rest = body.partition(":\n")
    sentence = _SENTENCE.split(lead)[-1]
    if colon and INTENT.search(sentence) and not HEDGED.search(sentence):
        yield from _script(rest, tools)


def _script(text: str, tools: Tools) -> Iterator[str]:
    lines = [line.strip(" \t\r`") for line in text[:2000].split("\n")]
    parts = [
        part for line in lines if line and not line.startswith("#") for part in _JOINED.split(line)
    ]
    names = [_command(part.strip().lstrip("$>!%# "), tools) for part in parts]
    if names and all(names):
        yield names[0]


def _command(text: str, tools: Tools) -> str | None:
    """The tool of a command line, none for a sentence that begins with its name."""
    name, *rest = _TOKEN.findall(text) or [""]
    if name not in tools or (rest and rest[0].startswith("(")):
        return None
    plain = [token for token in rest if not _ARGUMENT.search(token)]
    last = rest[-1] if rest else ""
    sentence = (last.endswith((".", "!", "?")) and last not in (".", "..")) or any(
        t.endswith(":") for t in rest
    )
    verbs = any(_PROSE.match(token) for token in (rest[:1] if len(plain) < len(rest) else rest[:3]))
    lone = len(rest) == 1 and rest[0].lower() in ("a", "an")
    return None if sentence or (verbs and not lone) or len(plain) > 3 else name


def _announced(body: str, tools: Tools) -> Iterator[str]:
    """Tools and commands that a sentence is about to use."""
    for sentence in islice(_SENTENCE.split(body), MAX_TRIES):
        if INTENT.search(sentence) and not HEDGED.search(sentence) and not _WAITS.search(sentence):
            found = [*_SPAN.finditer(sentence), _USED.search(sentence.strip(" .!…*`\"'"))]
            yield from (use[1] for use in found if use and known(use[1], tools))
    for use in islice(_WITH.finditer(body), MAX_TRIES):
        if known(use[1], tools) and not told(body, use.start()):
            yield use[1]


def _elements(body: str, tools: Tools) -> Iterator[str]:
    return (
        found[1] for found in islice(_ELEMENT.finditer(body), MAX_TRIES) if known(found[1], tools)
    )


def _objects(body: str, tools: Tools) -> Iterator[str]:
    """Tools that JSON names: under a key of calls, as a key of arguments, or in a text that is a call."""
    text = unfenced(body)
    if not text.startswith(("{", "[")):
        return
    try:
        value, _ = json_value(text)
    except Unreadable:
        return
    yield from (name for name in _named(value, "") if known(name, tools))


def _named(value: Any, key: str) -> Iterator[str]:
    level = deque([(key, value)])
    while level:
        key, value = level.popleft()
        if isinstance(value, dict):
            if key == "properties" and all(isinstance(inner, dict) for inner in value.values()):
                return
            yield from (name for name, inner in value.items() if isinstance(inner, dict))
            level += value.items()
        elif isinstance(value, list):
            level += [(key, item) for item in value]
        elif isinstance(value, str):
            begun = _STARTS.match(value)
            yield from (
                [begun[1]] if begun else [value] if _KEY.search(key) and "." not in value else []
            )
