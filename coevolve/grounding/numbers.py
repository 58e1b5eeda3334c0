"""Reads the numbers that a text states, each as what it is read as:

| text | reads |
|---|---|
| `1,500`, `$1500.00`, `1.5 thousand`, `1.5e3`, `fifteen hundred` | 1500 |
| `-4`, `minus 4`, `minus four` | -4 |
| `9 minus 4`, `nine minus four` | 9 and 4; `the price minus 4` 4 or -4 |
| `2-5`, `2,5 and 7`, `25 or twenty-five` | each |
| `20.5`, `20,000`, `20 thousand`, `-20`, `twenty-five`, `three hundred and two` | itself, no 20 |
| `8:20`, `20/11/1999`, `1999-11-20`, `2.5.1`, `B17`, `B-17`, `20th`, `007` | none |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache

_SCALES = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9}
_GROUP = "[,'\u00a0\u202f\u2009]"
"""Between thousands. Between other groups of digits it separates numbers."""
_NO_NUMBER = r"(?<!\w)\d+(?P<joint>[-/.:])\d+(?:(?P=joint)\d+)+|(?<!\w)\d+[/:]\d+"
_MINUS = r"(?P<minus>(?:(?<![\w)\]])[-−–]|\b(?i:minus|negative)\s+)[$€£]?)"
_SIGNED = frozenset(
    "a about and around as at be below by from is it of or than the to was with".split()
)
"""Words after which `minus` is a sign; after any other it may take away: "my balance minus 20"."""
_START = rf"(?<![\w.])(?<![A-Z]-)(?:(?<!\d{_GROUP})|(?!\d{{3}}(?!\d)))"
_DIGITS = (
    rf"(?!0\d)(?P<digits>(?:\d{{1,3}}(?:{_GROUP}\d{{3}})+|\d+)(?:\.\d+)?)"
    r"(?:[eE](?P<exponent>[+-]?\d{1,3}))?"
)
_END = rf"(?!\w|\.\d|{_GROUP}\d{{3}}(?!\d)|\s(?:000|dozen)\b|\s+\d+/\d|\s+and\s+a\s+half\b)"
_NUMBER = re.compile(
    rf"{_NO_NUMBER}|(?:{_MINUS}|{_START}){_DIGITS}{_END}(?:\s+(?P<scale>(?i:{'|'.join(_SCALES)}))\b)?"
)
_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_WORDS = dict(zip(_SMALL, range(20), strict=True)) | dict(
    zip(_TENS, range(20, 100, 10), strict=True)
)
_OTHER = "point half halves thirds? quarters? fifths? tenths? dozen".split()
_WORD = rf"(?:{'|'.join([*_WORDS, *_SCALES, *_OTHER])})"
_JOINT = rf"(?:\s+and\s+a\s+|{'|'.join(rf'(?<={scale}) and ' for scale in _SCALES)}|\s+|-)"
_SPELLED = re.compile(
    rf"\b(?P<minus>(?:minus|negative)\s+)?(?P<words>{_WORD}(?:{_JOINT}{_WORD})*)\b", re.IGNORECASE
)
_PLAIN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")


def states_number(text: str, value: int | float | Decimal) -> bool:
    """Whether one of the text's numbers is the value."""
    wanted = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    return any(number == wanted for number in _read(text))


@lru_cache(maxsize=128)
def _read(text: str) -> tuple[Decimal, ...]:
    return tuple(numbers(text))


def read_number(value: str) -> Decimal | None:
    """The number that a text of digits alone is; None for any other text, as for `007`."""
    return Decimal(value) if _PLAIN.fullmatch(value) else None


def numbers(text: str) -> Iterator[Decimal]:
    """Those in digits, then those in words; an amount taken away reads as itself and negative."""
    for found in _NUMBER.finditer(text):
        if found["digits"]:
            power = int(found["exponent"] or 0) + _SCALES.get((found["scale"] or "").lower(), 0)
            yield from _signed(Decimal(f"{re.sub(_GROUP, '', found['digits'])}e{power}"), found)
    for found in _SPELLED.finditer(text):
        value = _spelled(re.split(r"[\s-]+", found["words"].lower()))
        if value is not None:
            yield from _signed(Decimal(value), found)


def _signed(number: Decimal, found: re.Match[str]) -> Iterator[Decimal]:
    sign = found["minus"]
    before = found.string[max(0, found.start() - 20) : found.start()].split()[-1:]
    taken_away = sign and sign[0].isalpha() and before and re.fullmatch(r".*[\w%)°]", before[0])
    if not sign or (taken_away and before[0].lower() not in _SIGNED):
        yield number
    if sign and not (
        taken_away
        and (before[0][-1] in "%)°" or before[0][-1].isdigit() or before[0].lower() in _WORDS)
    ):
        yield number.copy_negate()


def _spelled(words: list[str]) -> int | None:
    """The number that words mean: `two thousand and five`; None where they mean none or several."""
    total, current, least = 0, 0, None
    for place, word in enumerate(word for word in words if word != "and"):
        value, power = _WORDS.get(word), _SCALES.get(word)
        if value is not None:
            room = current % 100
            fits = room == 0 or (room >= 20 and room % 10 == 0 and 0 < value < 10)
            if not fits or (value == 0 and place):
                return None
            current += value
        elif power == 2 and 0 < current < 100:
            current *= 100
        elif power and current and (least is None or power < least):
            total, current, least = total + current * 10**power, 0, power
        else:
            return None
    return total + current
