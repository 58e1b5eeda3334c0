"""Reads the dates and the times of day that a text states.

| text | reads |
|---|---|
| `July 4th, 2025`, `4 July 2025`, `4th of Jul. 2025`, `2025-07-04`, `2025/7/4` | 2025-07-04 |
| `07/25/2025`, `25.7.2025`, `4/4/2025` | the only date that it can be |
| `07/04/2025`, `July 4th` | none: two dates, or no year |
| `3:30 pm`, `15:30`, `15:30:00`, `noon`, `3pm` | a time of the day |
| `8:20` | 08:20 alone, never 20:20 |
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, time
from functools import lru_cache

_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_MONTH = (
    r"(?P<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sep(?:t(?:ember)?)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY, _YEAR = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?", r"(?P<year>\d{4})"
_SHAPES = (
    rf"{_MONTH}\s+{_DAY}(?:\s*,\s*|\s+)(?:of\s+)?{_YEAR}",
    rf"{_DAY}(?:\s+of\s+|[\s-]+){_MONTH}(?:\s*,\s*|[\s-]+){_YEAR}",
    rf"{_YEAR}(?P<joint>[-/.])(?P<month>\d{{1,2}})(?P=joint)(?P<day>\d{{1,2}})",
    rf"(?P<one>\d{{1,2}})(?P<joint>[-/.])(?P<other>\d{{1,2}})(?P=joint){_YEAR}",
)
_DATES = [
    re.compile(rf"(?<![\w.:/-]){shape}(?:(?=T\d)|(?!\w|[-/.:]\d))", re.IGNORECASE)
    for shape in _SHAPES
]
_TIME = re.compile(
    r"(?:(?<=\dT)|(?<![\w.:/]))(?P<hour>\d{1,2})(?::(?P<minute>\d\d)(?::(?P<second>\d\d))?)?"
    r"(?:\s*(?P<half>[ap])(?:\.m\.|m\b))?Z?(?!\w|[:./]\d)|\b(?P<name>noon|midnight)\b",
    re.IGNORECASE,
)


@lru_cache(maxsize=128)
def dates(text: str) -> frozenset[date]:
    return frozenset(found for _, found in _dates(text))


@lru_cache(maxsize=128)
def times(text: str) -> frozenset[time]:
    return frozenset(found for _, found in _times(text))


@lru_cache(maxsize=128)
def moment(value: str) -> tuple[frozenset[date], frozenset[time]] | None:
    """The date, the time, or both that a value is and nothing else; None for any other value."""
    read = [*_dates(value), *_times(value)]
    rest = list(value)
    for (first, end), _ in read:
        rest[first:end] = " " * (end - first)
    if not read or "".join(rest).strip(" T,") or len(dates(value)) > 1 or len(times(value)) > 1:
        return None
    return dates(value), times(value)


def _dates(text: str) -> Iterator[tuple[tuple[int, int], date]]:
    for shape in _DATES:
        for found in shape.finditer(text):
            parts = found.groupdict()
            if "one" in parts:
                one, other = int(parts["one"]), int(parts["other"])
                if one <= 12 and other <= 12 and one != other:
                    continue  # the day and the month could be exchanged
                month, day = sorted((one, other))
            else:
                day = int(parts["day"])
                named = (parts.get("name") or "").lower()[:3]
                month = _MONTHS.index(named) + 1 if named else int(parts["month"])
            try:
                yield found.span(), date(int(parts["year"]), month, day)
            except ValueError:
                continue  # no such day


def _times(text: str) -> Iterator[tuple[tuple[int, int], time]]:
    for found in _TIME.finditer(text):
        if found["name"]:
            yield found.span(), time(12 if found["name"].lower() == "noon" else 0)
            continue
        hour, half = int(found["hour"]), (found["half"] or "").lower()
        if not (found["minute"] or half) or (half and not 1 <= hour <= 12):
            continue
        if half:
            hour = hour % 12 + (12 if half == "p" else 0)
        try:
            yield found.span(), time(hour, int(found["minute"] or 0), int(found["second"] or 0))
        except ValueError:
            continue  # no such time
