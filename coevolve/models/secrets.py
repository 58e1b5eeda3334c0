"""Texts that must not be kept: the key, and a password that stands in an address.

A server may say the key as it is, or escaped in JSON (``\\/``, ``\\u002d``), and in JSON that is text of other JSON (a call's
arguments, a structured answer) several times over. Whoever decodes that text later would have the key, so `Secrets.cut` finds
it with any of its characters escaped, any number of times.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

SHORTEST = 5
"""Characters; what is shorter is no secret, and stands in too many texts by chance."""
_ESCAPE = r"(?<!\\)\\+"
"""Begins where a run of backslashes begins, so that long ones take no time squared."""
CUT = "***"


class Secrets:
    """Knows how the secrets may be spelled."""

    def __init__(self, *secrets: str):
        parts = [_spelled(secret) for secret in sorted(secrets, key=len, reverse=True) if len(secret) >= SHORTEST]
        self._pattern = re.compile("|".join(parts)) if parts else None

    def cut(self, text: str) -> str:
        """The text with `CUT` in place of each secret."""
        return self._pattern.sub(CUT, text) if self._pattern else text


def _spelled(secret: str) -> str:
    return "".join(_letter(letter) for letter in secret)


def _letter(letter: str) -> str:
    code = ord(letter)
    escapes = rf"(?i:u{code:04x}|u{code:08x}|x{code:02x})"
    itself = re.escape(letter)
    return rf"(?:{itself}|{_ESCAPE}(?:{escapes}|{itself}))"


class Address(NamedTuple):
    """Of a server; `user` and `password` are None where the address had none."""

    url: str
    user: str | None
    password: str | None


def without_password(url: str) -> Address:
    """An address that can be read, without the user and password in it; and those, decoded."""
    parts = urlsplit(url)
    given, at, host = parts.netloc.rpartition("@")
    user, _, password = given.partition(":")
    plain = parts._replace(netloc=host).geturl()
    return Address(plain, unquote(user), unquote(password)) if at else Address(plain, None, None)


def shown(url: str) -> str:
    """Any text that was given as an address, as a message may hold it: nothing before an @, nothing after a question mark."""
    begin, at, host = url.rpartition("@")
    scheme = re.match(r"[a-z]+://", begin, re.IGNORECASE)
    return re.split(r"[?#]", f"{scheme[0] if scheme else ''}{CUT}@{host}" if at else url)[0]
