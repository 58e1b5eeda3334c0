"""What a server's refusal of a request says: the conversation is too long, or something else is
wrong.

Every server words it differently, so the message is read by its structure: it names the input, a
measure of length and an excess. The names of parameters (`max_tokens`, `context_window`) are left
out, for a message about those is about the request. Neither is a limit by time (tokens per minute),
nor one that a number of the request itself exceeds (a `max_tokens` above the context): no shorter
conversation would help there. tests/models/refusals.json has the wordings that this is measured on.
"""

from __future__ import annotations

import re
from typing import Any

TOO_LONG = (400, 413, 422)  # HTTP statuses by which servers refuse a conversation for its length
_PARAMETER = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b|\bmessages\[", re.IGNORECASE)
_CODE = re.compile(r"context_?(?:length|size|window)\w*(?:error|exceeded)", re.IGNORECASE)
_INPUT = re.compile(r"\b(?:prompt|inputs?|context|conversation|messages|(?<!per )request)\b", re.I)
_MEASURE = re.compile(r"\b(?:tokens?|length|too long|longer|context)\b", re.IGNORECASE)
_EXCESS = re.compile(
    r"\b(?:exceed\w*|max|maximum|limit|longer|too (?:large|long|many)|range|greater|less|only)\b"
    r"|[<>]",
    re.IGNORECASE,
)
_RATE = re.compile(r"\bper (?:second|min|minute|hour|day)\b|rate.?limit|\bTP[MD]\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w])")


def is_too_long(status: int | None, message: str, body: dict[str, Any]) -> bool:
    """Tells whether a refusal means that the conversation is longer than the model's context.

    `message` is all that the server said, `body` the request.
    """
    if status not in TOO_LONG or _RATE.search(message):
        return False
    numbers = {int(number) for number in _NUMBER.findall(message)} - {status}
    if max(numbers, default=0) in _numbers_of(body):
        return False
    if _CODE.search(message):
        return True
    plain = _PARAMETER.sub("", message)
    return all(pattern.search(plain) for pattern in (_INPUT, _MEASURE, _EXCESS))


def _numbers_of(body: dict[str, Any]) -> list[int]:
    """The parameters of a request that are whole numbers, without its seed."""
    return [v for name, v in body.items() if type(v) is int and v > 0 and name != "seed"]
