"""Whether a sentence of a reply means a call, tells of one, or announces one.

| the sentence before a call | example | the call |
|---|---|---|
| says what follows, or nothing | ``Let me look:`` | is made |
| has a word of the past or the possible before a colon | ``As it was empty, moving on:``, ``The call would be:`` | is made if nothing follows it, else a hint |
| offers it, or has such a word and no colon | ``You can call:``, ``if it is there:`` | gets a hint |
| reports it | ``I ran:`` | gets a hint, or is told if the reply goes on |
| gives an example or sums up | ``For example:``, ``These were the steps:`` | is told: the reply is prose |

A sentence in the first person that is about to call an offered tool, without if and but, announces it: ``I will call
f(a=1).``, as does a reply that is a list of calls. Rules of the language, English only: a sentence that none of them knows
says nothing.
"""

from __future__ import annotations

import re
from enum import Enum
from itertools import islice

from coevolve.agents.actions.calls import Tools, attempted, known
from coevolve.agents.actions.values import FORM, Issue, end_of

MAX_TRIES = 50
"""Places in a reply that look like calls and are looked at."""
_REACH = 400
"""Characters before and after a call that may belong to its sentence."""
_DID = "ran|called|used|did|made|executed|performed|invoked|tried|issued"
_REPORT = re.compile(
    rf"\b(?:I|we)(?: already| just| first| then| also)* (?:{_DID})\b"
    rf"|\b(?:I|we)(?:['’]ve| have| had)(?: already| just| first| then| also)* (?:run|done|{_DID})\b"
    rf"|\b(?:calls?|functions?|tools?|commands?|actions?)(?: (?:has|have) been)? (?:run|done|{_DID})\W*\Z",
    re.I,
)
_RECAP = re.compile(
    r"\b(?:these|those) were the\b|\bthe (?:calls?|commands?|steps?|actions?|functions?|tools?)(?: \w+)? (?:was|were)\W*\Z",
    re.I,
)
_EXAMPLE = re.compile(
    r"\b(?:an?|one|another|some|for) examples?\W*\Z|\A\W*examples?\W*\Z"
    r"|\byou(?:['’]d| can| could| may| might| should| would)\b.*\byourself\b",
    re.I,
)
_OFFER = re.compile(
    r"(?<!call )(?<!function )(?<!command )(?<!action )(?<!tool )(?<!one )(?<!that )(?<!which )(?<!what )"
    r"\byou(?:['’]d| can| could| may| might| should| would)\b|\be\.g\.|\b(?:would|could|might) (?:have|call|use|run)\b"
    r"|\b(?:an?|one|another|some|for)(?: \w+)? examples?\b(?! (?:format|syntax|style))|\A\W*(?:if|unless|in case|examples?)\b"
    r"|\b(?:not|no longer) (?:needed|necessary|required|allowed)\b",
    re.I,
)
_LIKELY = re.compile(
    r"\bwas\b|\bwere\b|\byou(?:['’]d| can| could| may| might| should| would| need to| want)\b|\bexamples?\b|\blooks? like\b"
    r"|\bsyntax\b|\b(?:would|could|might) (?:be|look)\b",
    re.I,
)
INTENT = re.compile(
    r"\b(?:I(?:['’]ll| will| shall|(?: am|['’]m) (?:now )?(?:going to|calling|running|using)| need to| have to| must| should"
    r"| want to| would like to|['’]d like to)|let me|let us|let['’]s|calling|running|executing|invoking)\b",
    re.I,
)
_ONWARD = re.compile(r"\b(?:now|next|then)\b", re.I)
HEDGED = re.compile(
    r"\b(?:if|unless|whenever|when|once|would|could|might|may|not|never|cannot|already|example|such as|know|remember|recommend"
    r"|suggest|explain|mention|you (?:can|could|may|might|want|wish|need|should|will|would|have|had))\b|\be\.g\.|n['’]t\b|\?",
    re.I,
)
_LIKING = re.compile(r"\b(?:I would|I['’]d) like to\b", re.I)
_BEFORE = re.compile(
    r"(?:\b(?:call|use|run|invoke|execute|try|do|issue|make|perform|with|via|by|function|tool|command)|(?:call|us|runn|invok"
    r"|execut|try)ing\b|:)(?: (?:the|this|function|tool|command|now|following))*[\s`'\"*\[:]*\Z",
    re.I,
)
_GERUND = re.compile(r"\W*(?:calling|running|executing|invoking)\b", re.I)
_ALONE = re.compile(r"[`'\"*\]\s]*(?:(?:right )?now|first|next)?[\s.…!]*\Z")
_INLINE = re.compile(r"(?<![\w.])([A-Za-z_][\w.]*) ?\(")
_BULLET = re.compile(r"[ \t]*(?:[-*•]|\d+[.)])[ \t]+[`*]*([A-Za-z_][\w.]*) ?\(")
_END = re.compile(r"[.!?](?=\s|\Z)|\n")
VERBS = r"is|are|was|were|has|have|the|an?|of|to|for|and|or|in|my|your|found|gave|shows?|says?|order|done"
"""Words of a sentence that begins with a tool's name; a command line has none of them."""


class Sense(Enum):
    """What the sentence that leads to a call says of it."""

    MEANT = "it says nothing against the call"
    LIKELY = "it has a word of the past or the possible, and ends by a colon: meant, if the call ends the reply"
    UNCLEAR = "it may be about another call than one to make"
    REPORTED = "the speaker made the call: told, if the reply goes on after it, else unclear"
    TOLD = "it gives an example, or sums up"


def sense(lead: str) -> Sense:
    """What the words that lead to a call say of it; those of its sentence count."""
    lead = lead[-_REACH:].rstrip(" \t\r\n`*")
    sentence = _END.split(lead.rstrip(".!?"))[-1]
    if lead.lower().endswith("e.g."):
        return Sense.UNCLEAR
    if lead.endswith((".", "!", "?")) or INTENT.search(sentence):
        return Sense.MEANT
    if _EXAMPLE.search(sentence) or _RECAP.search(sentence):
        return Sense.TOLD
    if _REPORT.search(sentence) and not _ONWARD.search(sentence):
        return Sense.REPORTED
    if _OFFER.search(sentence):
        return Sense.UNCLEAR
    if not _LIKELY.search(sentence):
        return Sense.MEANT
    return Sense.LIKELY if lead.endswith(":") else Sense.UNCLEAR


def told(body: str, start: int) -> bool:
    """Whether the sentence that leads to a place is about past or possible calls."""
    return sense(body[max(0, start - _REACH) : start]) in (
        Sense.TOLD,
        Sense.REPORTED,
        Sense.UNCLEAR,
    )


def announced(body: str, tools: Tools) -> str | None:
    """The tool of a reply that only says that it is about to call."""
    return next(iter(_listed(body, tools) or _inline(body, tools)), None)


def uncalled(name: str) -> Issue:
    """The hint for a reply that is about a call and makes none."""
    return Issue("announced", f"The reply speaks of {name} and calls nothing. To call it: {FORM}")


UNCLEAR = Issue(
    "announced",
    f"It is not clear that the call in the reply is to be made, so nothing ran. To call: {FORM} To end the turn: write no call.",
)
"""The hint for a reply whose calls are told of, refused or doubted."""


def _inline(body: str, tools: Tools) -> list[str]:
    calls = islice(_INLINE.finditer(body), MAX_TRIES)
    return [call[1] for call in calls if known(call[1], tools) and _announces(body, call, tools)]


def _announces(body: str, call: re.Match[str], tools: Tools) -> bool:
    end = end_of(body, call.end() - 1)
    if end is None or not attempted(call[1], body[call.start() : end], tools):
        return False
    before = _END.split(body[max(0, call.start() - _REACH) : call.start()])[-1]
    stop = _END.search(body, end, end + _REACH)
    after = body[end : stop.end() if stop else end + _REACH]
    if not INTENT.search(before) or not _BEFORE.search(before):
        return False
    if _GERUND.match(before) and not _ALONE.match(after):
        return False
    return not HEDGED.search(_LIKING.sub("", before) + " " + after)


def _listed(body: str, tools: Tools) -> list[str]:
    """The tools of a reply that is nothing but a list of calls, with a line before it that means them."""
    lines = [line for line in body.split("\n") if line.strip()]
    if (
        len(lines) > 1
        and lines[0].rstrip().endswith(":")
        and INTENT.search(lines[0])
        and not HEDGED.search(lines[0])
    ):
        lines = lines[1:]
    found = [_BULLET.match(line) for line in lines[: MAX_TRIES + 1]]
    calls = [
        (line, bullet)
        for line, bullet in zip(lines, found, strict=False)
        if bullet and known(bullet[1], tools)
    ]
    whole = all(
        (end := end_of(line, bullet.end() - 1)) and not line[end:].strip(" `*;,.\r")
        for line, bullet in calls
    )
    return [bullet[1] for _, bullet in calls] if whole and len(calls) == len(lines) else []
