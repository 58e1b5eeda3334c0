"""Whether a reply means the calls in its prose, and whether one without a call tries to make one.

A call in the marks of a model's own format, or alone in its reply, is made. One in prose is made
only where the sentence before it announces it (``I'll look:``) or does nothing but introduce it
(``Here is the function call:``). Any other sentence may be a report, an offer, a refusal or a
quotation, so the policy is asked back by a hint.

A reply without a call that was read gets a hint where it names an offered tool as a call does:

| where the name stands | example |
|---|---|
| before a bracket | ``cd('x')`` in any sentence, ``cd[x]`` |
| first in a line, or after one label | ``cd x && ls``, ``name: cd``, ``<cd folder="x"/>`` |
| quoted in brackets | ``getattr(fs, 'ls')()``, ``call_tool("cd", …)`` |
| in a sentence that announces a call | ``Let me check the files with ls.`` |

A reply that ends with a question asks the user: it hands the turn back. The words are English: a
sentence in another language announces nothing, so its call is asked back.
"""

from __future__ import annotations

import ast
import re
import unicodedata

from coevolve.agents.actions.calls import Tools, known
from coevolve.agents.actions.values import FENCE, FORM, Issue, Unreadable, repaired, tree

_TO_END = "To end the turn: write no call."
UNCLEAR = Issue(
    "announced",
    "It is not clear that the call in the reply is to be made, so nothing ran. "
    f"To call: {FORM} {_TO_END}",
)
_REACH = 400  # Characters before a call that may belong to its sentence
_FOLDED = 4000  # Characters of a reply that are also looked at in the plain form of their letters
_LONGEST = 2000  # Characters of a reply that may be one expression
_ANNOUNCES = re.compile(
    r"\b(?:I|we)(?:['’]ll| will| shall| must| should|(?: am| are|['’]m|['’]re)(?: now)? \w+ing"
    r"| (?:need|have|want) to|(?: would|['’]d) like to)\b|\blet(?: me| us|['’]s)\b"
    r"|\A\W*here are the(?: \w+)? calls\Z|\A\W*(?:now )?(?:calling|running|executing|invoking)\b",
    re.I,
)
_OFFERS = re.compile(r"\b(?:I|we) can\b(?!['’])", re.I)
_QUALIFIES = re.compile(
    r"\b(?:have(?! to\b)|has|had|was|were|been|did|done|made|not|never"
    r"|if|once|when|unless|until|after|before)\b|['’]ve\b",
    re.I,
)
_NEGATES = re.compile(r"\b(?:not|never|cannot)\b|n['’]t\b", re.I)
_INTRODUCES = frozenset(
    "a action and answer await be call certainly code command const finally first following"
    " function here i is it json let my next now ok okay python response s so step sure that the"
    " then this to tool var would".split()
)
_SENTENCE = re.compile(r"[.!?](?=\s)|\n")
_ENDING = re.compile(r"\W+\Z")
_CLOSING = re.compile(r"</[\w:-]{1,40}>")
_WORD = re.compile(r"\w*[^\W\d]\w*")
_MARKS = " \t\r\n`*[>(\"'"
_BRACKET = re.compile(r"(?<![\w./])([A-Za-z_][\w.]*)[(\[{<]")
_FIRST = re.compile(
    r"^[^\w\n]*([A-Za-z_][\w.]*)(?:[\w ]{0,24}[^\w\n]{0,4}[:=(][^\w\n]{0,8}([A-Za-z_][\w.]*))?",
    re.M,
)
_QUOTED = re.compile(r"[(\[,]\s*[\"']([A-Za-z_][\w.]*)[\"']\s*[)\],]")
_NAME = re.compile(r"(?<![\w.])[A-Za-z_][\w.]*\w")


def asks(text: str) -> bool:
    """Whether a text ends with a question."""
    return text.rstrip(_MARKS).endswith("?")


def announced(lead: str) -> bool:
    """Whether the last sentence before a call means the call."""
    lead = _ENDING.sub("", _CLOSING.sub("", lead[-_REACH:]))
    sentence = _SENTENCE.split(lead)[-1]
    if {word.lower() for word in _WORD.findall(sentence)} <= _INTRODUCES:
        return True
    means = _ANNOUNCES.search(sentence) or _OFFERS.search(sentence)
    return bool(means) and not _QUALIFIES.search(sentence)


def withdrawn(tail: str) -> bool:
    """Whether what follows the last call takes it back, or asks the user."""
    return asks(tail) or bool(_NEGATES.search(tail[:_REACH]))


def names_tool(text: str, tools: Tools) -> bool:
    """Whether an offered tool's name stands before a bracket."""
    return any(_offered(found[1], tools) for found in _BRACKET.finditer(text))


def attempt(body: str, tools: Tools) -> Issue | None:
    """The hint for a reply in which no call was read and which tries one."""
    if not tools or asks(body):
        return None
    # Letters of full width and their like are read as the plain ones.
    for text in dict.fromkeys([body, unicodedata.normalize("NFKC", body[:_FOLDED])]):
        if name := _named(text, tools):
            hint = f"The reply speaks of {name} and calls nothing. To call it: {FORM} {_TO_END}"
            return Issue("announced", hint)
    return _expression(body)


def _named(text: str, tools: Tools) -> str | None:
    """The offered tool that stands where a call's name does."""
    for pattern in (_BRACKET, _FIRST, _QUOTED):
        for found in pattern.finditer(text):
            for name in filter(None, found.groups()):
                if _offered(name, tools):
                    return name
    for sentence in _SENTENCE.split(text):
        if _ANNOUNCES.search(sentence) and not asks(sentence):
            for name in _NAME.findall(sentence):
                if known(name, tools):
                    return name
    return None


def _offered(name: str, tools: Tools) -> bool:
    return known(name, tools) or name.partition(".")[0] in tools


def _expression(body: str) -> Issue | None:
    """The hint for a reply that is nothing but a call of what is no tool."""
    fence = FENCE.fullmatch(body)
    text = (fence[1] if fence else body).strip(" `;\t\r\n")
    if len(text) > _LONGEST or not re.fullmatch(r"\[?[\w(][^ ]*\(.*\)\]?", text, re.S):
        return None
    try:
        statements = tree(repaired(text)).body
    except Unreadable:
        return None
    values = [node.value if isinstance(node, ast.Expr) else None for node in statements]
    if not all(isinstance(value, ast.Call | ast.List) for value in values):
        return None
    return Issue("bad_call", f"{text[:60]!r} calls no tool by its name. {FORM}")
