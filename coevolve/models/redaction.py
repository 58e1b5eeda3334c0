"""Redacts secrets: the key, and the password or query that stands in an address.

A server may say the key as it is, or escaped in JSON (``\\/``, ``\\u002d``), and in JSON that is
text of other JSON (a call's arguments, a structured answer) several times over, or as an address
holds it (``%2F``). Whoever decodes that text later would have the key, so `Redactor.cut` finds it
with any of its characters escaped, any number of times.
"""

from __future__ import annotations

import re

MIN_CHARACTERS = 5  # A shorter text is no secret, and stands in too many texts by chance
REDACTED = "***"
# It begins where a run of backslashes begins, so that long ones take no time squared.
_ESCAPE = r"(?<!\\)\\+"


class Redactor:
    """Knows how the secrets may be spelled."""

    def __init__(self, *secrets: str):
        long = (secret for secret in secrets if len(secret) >= MIN_CHARACTERS)
        self._secrets = sorted(long, key=len, reverse=True)
        spelled = ("".join(map(_letter_pattern, secret)) for secret in self._secrets)
        self._pattern = re.compile("|".join(spelled))

    def cut(self, text: str) -> str:
        """The text with `REDACTED` in place of each secret."""
        if not self._secrets:
            return text
        if "\\" in text or "%" in text:
            return self._pattern.sub(REDACTED, text)
        # Nothing is escaped: a hundred times as fast, for answers of megabytes.
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        return text


def _letter_pattern(letter: str) -> str:
    code = ord(letter)
    escapes = rf"(?i:u{code:04x}|u{code:08x}|x{code:02x})"
    in_address = "".join(f"%{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape"))
    itself = re.escape(letter)
    return rf"(?:{itself}|(?i:{in_address})|{_ESCAPE}(?:{escapes}|{itself}))"


def public_address(url: str) -> str:
    """An address as a message may hold it: without all before an @ or after a question mark."""
    begin, at, host = url.rpartition("@")
    scheme = re.match(r"[a-z]+://", begin, re.IGNORECASE)
    return re.split(r"[?#]", f"{scheme[0] if scheme else ''}{REDACTED}@{host}" if at else url)[0]
