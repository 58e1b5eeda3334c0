"""The numbers that a text says, each as what it is read as:

| text | says |
|---|---|
| `1,500`, `$1500.00`, `1.5 thousand`, `1.5e3` | 1500 |
| `-4`, `minus 4`, `minus four` | -4 |
| `9 minus 4`, `nine minus four` | 9 and 4; `the price minus 4` 4 or -4 |
| `2-5`, `2,5 and 7`, `25 or twenty-five` | each |
| `20.5`, `20,000`, `20 thousand`, `-20`, `twenty-five`, `three hundred` | itself, and no 20, 5 or 3 |
| `8:20`, `20/11/1999`, `1999-11-20`, `2.5.1`, `B17`, `B-17`, `20th`, `007` | none |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

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
_DIGITS = rf"(?!0\d)(?P<digits>(?:\d{{1,3}}(?:{_GROUP}\d{{3}})+|\d+)(?:\.\d+)?)(?:[eE](?P<exponent>[+-]?\d{{1,3}}))?"
_END = rf"(?!\w|\.\d|{_GROUP}\d{{3}}(?!\d)|\s(?:000|dozen)\b|\s+\d+/\d|\s+and\s+a\s+half\b)"
_NUMBER = re.compile(
    rf"{_NO_NUMBER}|(?:{_MINUS}|{_START}){_DIGITS}{_END}(?:\s+(?P<scale>(?i:{'|'.join(_SCALES)}))\b)?"
)
_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen "
    "nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_WORDS = {word: value for value, word in enumerate(_SMALL)} | {
    word: 10 * n for n, word in enumerate(_TENS, 2)
}
_OTHER = "point half halves thirds? quarters? fifths? tenths? dozen".split()
_WORD = rf"(?:{'|'.join([*_WORDS, *_SCALES, *_OTHER])})"
_SPELLED = re.compile(
    rf"\b(?P<minus>(?:minus|negative)\s+)?(?P<words>{_WORD}(?:(?:\s+and\s+a\s+|\s+|-){_WORD})*)\b",
    re.IGNORECASE,
)


def says_number(text: str, value: int | float) -> bool:
    """Whether one of the text's numbers is the value."""
    wanted = Decimal(value) if isinstance(value, int) else Decimal(repr(value))
    return any(number == wanted for number in numbers(text))


def numbers(text: str) -> Iterator[Decimal]:
    """Those in digits, then those in words; of what is taken away from something both the number and its negative."""
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
    """A number below a hundred; None for a longer one."""
    values = [_WORDS.get(word, -1) for word in words]
    if len(values) == 2 and values[0] >= 20 and 0 < values[1] < 10:
        return sum(values)
    return values[0] if len(values) == 1 and values[0] >= 0 else None
