"""Texts that must not be kept: the key, and the password or query that stands in an address.

A server may say the key as it is, or escaped in JSON (``\\/``, ``\\u002d``), and in JSON that is
text of other JSON (a call's arguments, a structured answer) several times over, or as an address
holds it (``%2F``). Whoever decodes that text later would have the key, so `Secrets.cut` finds it
with any of its characters escaped, any number of times.
"""

from __future__ import annotations

import re

SHORTEST = 5
"""Characters; what is shorter is no secret, and stands in too many texts by chance."""
_ESCAPE = r"(?<!\\)\\+"
"""Begins where a run of backslashes begins, so that long ones take no time squared."""
REDACTED = "***"


class Redactor:
    """Knows how the secrets may be spelled."""

    def __init__(self, *secrets: str):
        self._secrets = sorted(
            (secret for secret in secrets if len(secret) >= SHORTEST), key=len, reverse=True
        )
        self._pattern = re.compile("|".join(map(_spelled, self._secrets)))

    def cut(self, text: str) -> str:
        """The text with `REDACTED` in place of each secret."""
        if "\\" in text or "%" in text:
            return self._pattern.sub(REDACTED, text) if self._secrets else text
        for (
            secret
        ) in self._secrets:  # nothing is escaped: a hundred times as fast, for answers of megabytes
            text = text.replace(secret, REDACTED)
        return text


def _spelled(secret: str) -> str:
    return "".join(_letter(letter) for letter in secret)


def _letter(letter: str) -> str:
    code = ord(letter)
    escapes = rf"(?i:u{code:04x}|u{code:08x}|x{code:02x})"
    in_address = "".join(f"%{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape"))
    itself = re.escape(letter)
    return rf"(?:{itself}|(?i:{in_address})|{_ESCAPE}(?:{escapes}|{itself}))"


def public_address(url: str) -> str:
    """Any text that was given as an address, as a message may hold it: nothing before an @, nothing
    after a question mark."""
    begin, at, host = url.rpartition("@")
    scheme = re.match(r"[a-z]+://", begin, re.IGNORECASE)
    return re.split(r"[?#]", f"{scheme[0] if scheme else ''}{REDACTED}@{host}" if at else url)[0]
