"""Does a text name a tool, as no user would? Its name as it is written (`create_ticket`, pay(31)), or its words in its place:

    Do it with create ticket.                 names it
    Use the create ticket function.           names it
    Please create a ticket. Create ticket 4.  does not: that is what people say

A name counts however its parts are joined (`mail.read`, `mail__read` as servers are sent it, `mail->read`, `mailRead`), and whatever
is hidden in it (zero width, full width). A call's argument (`owner=Ann`) names its parameter.

In words a name of several parts that begins with a verb counts where a tool would stand: right after a word for using something,
or before a word for a tool. So `trading_login` and `square_root`, which are things, may stand there. Of a dotted name the part
after the dot counts where it is called or called a tool ("Call read with …", "the read tool"), and both parts in a row do after
a word for calling ("use mail read").
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import lru_cache

from coevolve.environments.protocol import Tool

_IDENTIFIER = re.compile(r"[._]|[a-z][A-Z]")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
_TOOL = r"\s+(?:tool|function|command|API)\b"
_CALLING = (
    r"\b(?:us(?:e|es|ing)|via|call(?:s|ing)?|invok(?:e|es|ing)|run(?:s|ning)?|execut(?:e|es|ing))\s+(?:the\s+)?[\"'`]?"
)
_INVOKING = r"\b(?:call(?:s|ing)?|invok(?:e|es|ing))\s+(?:the\s+)?"
_JOINT = r"(?:\.|_+|\s+\.\s*|\s*(?:->|::)\s*)"
_USING = r"\b(?:with|using|via|through|us(?:e|es)|call(?:s|ing)?|invok(?:e|es|ing)|run(?:s|ning)?|execut(?:e|es|ing))\s+[\"'`]?"
VERBS = frozenset(
    "accept activate add adjust answer approve archive assign authenticate book buy calculate cancel change check close compute "
    "contact convert copy create deactivate decline delete disable display download edit enable estimate execute fetch fill "
    "filter find follow fund get invite like list load lock make mark move notify open pay place play post press purchase "
    "read register reject release remove rename reply reset resolve retrieve round save schedule search send set share show "
    "sort start stop submit sum transfer unfollow unlike unlock update upload verify view withdraw write".split()
)


def named_tool(text: str, tools: Mapping[str, Tool], offered: Sequence[str]) -> str | None:
    """The tool or parameter that a text names; a plain word only where it is written as a call or called a tool."""
    text = _plain(text)
    parameters = sorted({n for tool in tools.values() for n in tool.parameters.get("properties", {})})
    for name in [*offered, *(n for n in parameters if "_" in n)]:
        if _written(name).search(text):
            return name
    if "=" in text:
        given = next((n for n in parameters if len(n) > 2 and _given(n).search(text)), None)
        if given:
            return given
    return next((name for name in offered if any(pattern.search(text) for pattern in _in_words(name))), None)


def _plain(text: str) -> str:
    """As it is read: without characters that show nothing, in the usual width."""
    return "".join(c for c in unicodedata.normalize("NFKC", text) if unicodedata.category(c) != "Cf")


@lru_cache(maxsize=4096)
def _written(name: str) -> re.Pattern[str]:
    form, words = re.escape(name), _words(name)
    alone = rf"|(?<!\w)(?i:{form}|{_JOINT.join(words)})(?!\w)" if _IDENTIFIER.search(name) else ""
    humps = "".join(word.capitalize() for word in words)
    camel = rf"|\b[{humps[0]}{humps[0].lower()}]{re.escape(humps[1:])}\b" if len(words) > 1 else ""
    return re.compile(rf"(?<![\w.])(?:{form}\(|`{form}`|\b{form}{_TOOL}){alone}{camel}")


@lru_cache(maxsize=4096)
def _given(parameter: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w?&]){re.escape(parameter)}=(?=[\w\"'\[{{-])")


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


@lru_cache(maxsize=4096)
def _in_words(name: str) -> tuple[re.Pattern[str], ...]:
    app, dot, last = name.rpartition(".")
    words = _words(last)
    said, patterns = r"[\s-]+".join(words), []
    if len(words) > 1 and words[0] in VERBS:
        patterns.append(rf"{_USING}{said}\b|\b{said}{_TOOL}")
    if dot:
        both = r"[\s-]+".join([*_words(app), *words])
        patterns.append(rf"{_CALLING}{both}\b|\b{said}\s+(?:tool|function)\b")
        patterns.append(rf"{_INVOKING}`?{said}`?(?:\(|\s+(?:with|on|from|in|for)\b)|{_CALLING}(?<=`){said}`")
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)
