"""Whether a reply speaks against the calls that stand in its text: it refuses them, asks before it makes them, or quotes them.

| what is said | the reply |
|---|---|
| a question for leave (``Shall I …``, ``once you confirm``, ``please confirm``), or a question at the end | hands back |
| a refusal of the call (``I won't do this:``, ``I am not allowed to call:``) | hands back |
| whose the text is (``The last line of log.txt reads:``) | hands back |
| a refusal of something, a condition or a possibility, and no word that announces the call | gets a hint |

For calls in text only: a call in the marks of a model's own format is made, whatever is said around it. English only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from coevolve.agents.actions.talk import INTENT, UNCLEAR
from coevolve.agents.actions.values import Issue

_ASKS = re.compile(
    r"(?<!what )(?<!which )(?<!how )(?<!where )\b(?:shall|should|may) (?:I|we)\b|\b(?:do|would) you (?:want|like)\b|\bare you sure\b"
    r"|\b(?:once|after|if|when|as soon as|until|unless) you(?:['’]ve| have)? (?:confirm|agree|approve|consent|accept|allow)"
    r"|\bplease confirm\b|\b(?:can|could) you confirm\b|\bto confirm:|\blet me know (?:if|whether) I\b"
    r"|\b(?:pending|await(?:ing)?|need|wait(?:ing)? for|without|upon) your (?:confirmation|approval|permission|consent|go-ahead)\b"
    r"|\bis (?:that|this) (?:ok|okay|all ?right|correct)\b",
    re.I,
)
_NOT = (
    r"(?:\bI (?:won['’]t|will not|can(?:not|['’]t| not)|must not|should(?: not|n['’]t)|would(?: not|n['’]t)|refuse|decline"
    r"|do(?: not|n['’]t) want|am (?:not|unable))|\bI['’]m (?:not|unable)|\bnever\b|\bdo(?: not|n['’]t))"
)
_REFUSES = re.compile(
    rf"{_NOT}(?: \w+){{0,3}}? (?:do|run|call|execute|perform|use|make|issue|invoke|proceed)\b(?: with)?"
    r"(?: (?:this|that|it|these|them|the following|following))?(?: (?:call|command|action)s?)?\W*\Z",
    re.I,
)
_DECLINED = re.compile(
    rf"{_NOT}(?: \w+){{0,2}}? (?:do|run|call|execute|perform|proceed|make)\b(?: with)? (?:this|that|it)\b",
    re.I,
)
_AGAINST = re.compile(
    r"\bI (?:won['’]t|will not|must not|should(?: not|n['’]t)|refuse|decline|do(?: not|n['’]t) want|am (?:not|unable)"
    r"|can(?:not|['’]t| not) (?!find|see|know|tell|determine|locate|be))|\bI['’]m (?:not|unable)|\bif you(?:['’]d)? (?:want|wish|like|prefer)\b",
    re.I,
)
_DOUBTFUL = re.compile(
    r"\b(?:rather not|confirm|approv\w+|permission|(?:would|could|might)(?! (?:be|look|need)\b)|someone|from (?:your|his|her|their)"
    r"|(?:reply|say|type|answer) (?:yes|ok))\b",
    re.I,
)
_QUOTES = re.compile(
    r"\b(?:files?|lines?|logs?|scripts?|documents?|contents?|messages?|notes?|pages?|tweets?|posts?|transcripts?|e-?mails?)\b"
    r"(?:[^.,!?\n]|\.(?=\w)){0,60}\b(?:is|are|has|had|contains?|reads?|says?|shows?|holds?|includes?)\W*\Z"
    r"|\b(?:contains?|reads|says|shows|prints|states|includes|(?<!was )(?<!were )(?<!been )(?:printed|returned))"
    r"(?: (?:the|this|these|only|just|following|lines?|texts?|calls?|commands?|code))*\W*\Z"
    r"|(?<!\bI )(?<!\bwe )\bfound (?:the|this|these|an?)\b[^,!?\n]{0,60}\Z"
    r"|\b(?:assistant|user|agent|model|script|program|you|he|she|they)(?: \w+){0,2} (?:called|ran|used|wrote|posted|sent|executed"
    r"|entered|typed)\W*\Z"
    r"|\b(?:lack|missing|unavailable|not available|(?:does not|doesn['’]t) exist)\b[^.,!?\n]{0,20}\Z",
    re.I,
)
_PURPOSE = re.compile(
    r"\b(?:what|whether|which|how|check|see)\b|\A\W*(?:since|because|given|as|now that)\b", re.I
)
_BEFORE_CALL = re.compile(r"(?:```\w{0,20}\s{0,20}|<[\w|:/]{1,40}>\s{0,20})\Z")
_QUOTED_MARK = re.compile(r"[`\"'“]<[\w|:/]{1,40}>\s{0,20}\Z")
_WORD = re.compile(r"\w")
_SENTENCE = re.compile(r"[.!?](?=\s|\Z)|\n")
_REACH = 2000
"""Characters before a call that are looked at."""


def asks(text: str) -> bool:
    """Whether a reply asks for leave, or ends with a question."""
    return bool(_ASKS.search(text)) or text.rstrip(" \n\t`*\"'").endswith("?")


def withheld(body: str, calls: Iterable[str]) -> bool | Issue:
    """Whether the calls of a reply, given as they stand in it, are not meant to be made (True) or may not be (the hint)."""
    leads, tail, at = [], "", 0
    for call in calls:
        place = body.find(call, at)
        if place < 0:
            continue
        leads.append(body[max(at, place - _REACH) : place])
        at = place + len(call)
        tail = body[at:]
    if any(_ASKS.search(lead) for lead in leads) or asks(tail):
        return True
    if any(not_meant(lead) for lead in leads) or _DECLINED.search(tail):
        return True
    if any(_QUOTED_MARK.search(lead) for lead in leads):
        return bool(_WORD.search(_QUOTED_MARK.sub("", leads[0]))) or UNCLEAR
    if any(INTENT.search(_last(lead)) for lead in leads):
        return False
    said = _AGAINST.search(" ".join([*leads, tail])) or any(map(_doubtful, leads))
    return UNCLEAR if said else False


def _doubtful(lead: str) -> bool:
    """Whether the words that lead to a call are a question, or tell of a possibility."""
    return _bare(lead).endswith("?") or bool(_DOUBTFUL.search(_last(lead)))


def _last(lead: str) -> str:
    """The sentence that leads to a call."""
    lead = _bare(lead)
    return _SENTENCE.split(lead.rstrip(".!?"))[-1]


def _bare(lead: str) -> str:
    return _BEFORE_CALL.sub("", lead).rstrip(" \t\r\n`*[")


def not_meant(lead: str) -> bool:
    """Whether the words that lead to a call refuse it, or say whose it is."""
    sentence = _last(lead)
    if INTENT.search(sentence):
        return bool(_REFUSES.search(sentence))
    finished = _bare(lead).endswith((".", "!", "?"))
    quoted = not finished and _QUOTES.search(sentence) and not _PURPOSE.search(sentence)
    return bool(quoted or (not finished and _REFUSES.search(sentence)))
