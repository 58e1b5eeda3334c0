"""Finds the name of a tool in a text, where no user would have put it: as it is written
(`create_ticket`, pay(31)), or its words where a tool would stand.

    Do it with create ticket.                 names it
    Use the create ticket function.           names it
    Please create a ticket. Create ticket 4.  does not: that is what people say

A name counts however its parts are joined (`mail.read`, `mail__read` as servers are sent it,
`mail->read`, `mail/read`, `mailRead`, `fill-fuel-tank`), and whatever is hidden in it (zero width,
full width, Cyrillic letters that look Latin). A parameter of several parts counts as it is written
(`ticket_id`, `fuelAmount`), any where an argument is given (`owner=Ann`). A name that is a word of
shells and not of English (`mkdir`, `ls`) counts wherever it stands, one of both before a file (`cat
a.txt`); a plain word where it is called (`price(tea)`, "run sort").

In words a name of several parts that begins with a verb counts where a tool would stand: right
after a word for using something, or before a word for a tool. So `trading_login` and `square_root`,
which are things, may stand there. Of a dotted name the part after the dot counts where it is called
or called a tool ("Call read with …", "the read tool"), and both parts in a row do after a word for
calling ("use mail read").
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from coevolve.environments.protocol import Tool
from coevolve.grounding.sources import words_of

_IDENTIFIER = re.compile(r"[._]|[a-z][A-Z]")
_TOOL = r"\s+(?:tool|function|command|API)\b"
_INVOKE = r"call(?:s|ing)?|invok(?:e|es|ing)"
_RUN = r"run(?:s|ning)?|execut(?:e|es|ing)"
_CALLING = rf"\b(?:us(?:e|es|ing)|via|{_INVOKE}|{_RUN})\s+(?:the\s+)?[\"'`]?"
_INVOKING = rf"\b(?:{_INVOKE})\s+(?:the\s+)?"
_RUNNING = rf"\b(?:{_RUN}|invok(?:e|es|ing))\s+"
_USING = rf"\b(?:with|using|via|through|us(?:e|es)|{_INVOKE}|{_RUN})\s+[\"'`]?"
_JOINT = r"(?:\.|_+|\s+\.\s*|\s*(?:->|::)\s*)"
_DOT = r"(?:[._/:#>|\\+-]+|\s+\.\s*|\s*(?:->|::)\s*)"
_CALL = r"\((?!e?s\))"  # A bracket right after a word; "file(s)" is no call
SQUASHED_LETTERS = 10
"""From so many letters on a name without its joints ("createticket") is no ordinary word."""
_DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
SHELL, COMMANDS, VERBS = (frozenset(_DATA[n].split()) for n in ("shell", "commands", "verbs"))
LOOKALIKES = str.maketrans(*_DATA["lookalikes"])


def named_tool(text: str, tools: Mapping[str, Tool], offered: Sequence[str]) -> str | None:
    """The tool or parameter that a text names; a plain word only where it is called."""
    text = _plain(text)
    lowered = text.lower()
    parameters = sorted({n for t in tools.values() for n in t.parameters.get("properties", {})})
    compound = [name for name in parameters if _IDENTIFIER.search(name)]
    # most names share no word with the text, which is found out much faster than by their patterns
    offered, compound = ([n for n in ns if _in_reach(n, lowered)] for ns in (offered, compound))
    for names, pattern in ((offered, _written), (compound, _parameter)):
        for name in names:
            if pattern(_plain(name)).search(text):
                return name
    for name in parameters if "=" in text else ():
        if len(name) > 2 and _given(name).search(text):
            return name
    return next((n for n in offered if any(p.search(text) for p in _in_words(n))), None)


def _in_reach(name: str, lowered: str) -> bool:
    """Whether a text in lower case has every word of a name, but for its app."""
    return all(word in lowered for word in _own_words(name))


@lru_cache(maxsize=4096)
def _own_words(name: str) -> tuple[str, ...]:
    return words_of(_plain(name).rpartition(".")[2])


def _plain(text: str) -> str:
    """The text without accents and invisible characters, in the usual width, in Latin letters."""
    if text.isascii():
        return text
    whole = unicodedata.normalize("NFKD", text)
    shown = "".join(c for c in whole if unicodedata.category(c) not in ("Cf", "Mn"))
    return shown.translate(LOOKALIKES)


@lru_cache(maxsize=4096)
def _written(name: str) -> re.Pattern[str]:
    """The name, however its parts are joined; a plain word where it is called, or is no word."""
    form, words = re.escape(name), words_of(name)
    forms = [rf"{form}{_CALL}", rf"`{form}`", rf"\b{form}{_TOOL}"]
    if name in SHELL:
        forms.append(rf"\b{form}(?!\w)")
    if name in COMMANDS:
        forms.append(rf"\b{form}\s+(?:-\w|[\w~-]*[./]\w)")
    if _IDENTIFIER.search(name):
        forms.append(rf"(?<!\w)(?i:{form}|{_joined(name, words)})(?!\w)")
    if len(words) > 1:
        forms.append(_camel(words))
    return re.compile(rf"(?<![\w.])(?:{'|'.join(forms)})")


def _joined(name: str, words: Sequence[str]) -> str:
    """The parts of a name with anything between them that nobody puts between words."""
    joined = [_JOINT.join(words)]
    app, dot, last = name.rpartition(".")
    own, does = words_of(last), len(words) > 1 and words[0] in VERBS
    if dot and own and own[0] in VERBS:
        joined.append(_DOT.join([*words_of(app), r"[\s_-]?".join(own)]))
    if len(words) > 2 or does:
        joined.append("-".join(words))
    if does and sum(map(len, words)) >= SQUASHED_LETTERS:
        joined.append("".join(words))
    return "|".join(joined)


def _camel(words: Sequence[str]) -> str:
    humps = "".join(word.capitalize() for word in words)
    return rf"\b[{humps[0]}{humps[0].lower()}]{re.escape(humps[1:])}\b"


@lru_cache(maxsize=4096)
def _parameter(name: str) -> re.Pattern[str]:
    """A parameter of several parts as it is written; `userName` is no "username"."""
    words, own = words_of(name), re.escape(name)
    snake = rf"(?i:{own if '_' in name else '_+'.join(words)}|{_JOINT.join(words)})"
    return re.compile(rf"(?<![\w.])(?:{own}|{snake}|{_camel(words)})(?!\w)")


@lru_cache(maxsize=4096)
def _given(parameter: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w?&]){re.escape(parameter)}=(?=[\w\"'\[{{-])")


@lru_cache(maxsize=4096)
def _in_words(name: str) -> tuple[re.Pattern[str], ...]:
    app, dot, last = name.rpartition(".")
    words = words_of(last)
    in_row, own, patterns = r"[\s-]+".join(words), re.escape(last), []
    if not dot and len(words) == 1:
        patterns.append(rf"{_RUNNING}[\"'`]?{own}\b(?![-'’]\w)")
    if len(words) > 1 and words[0] in VERBS:
        patterns.append(rf"{_USING}{in_row}\b|\b{in_row}{_TOOL}")
    if dot:
        both = r"[\s-]+".join([*words_of(app), *words])
        called = rf"\b{in_row}\s+(?:tool|function)\b|(?<![\w.]){own}{_CALL}"
        patterns += [rf"{_CALLING}{both}\b|{called}", rf"{_CALLING}(?<=`){in_row}`"]
        patterns.append(rf"{_INVOKING}`?{in_row}`?(?:\(|\s+(?:with|on|from|in|for)\b)")
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)
