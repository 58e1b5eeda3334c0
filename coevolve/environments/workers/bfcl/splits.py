"""Official tasks as task records, their tags, and the split into a half for training and a half for testing.

The halves are lists of numbers, the same for the four categories (entry 17 of one is a variant of entry 17 of the others): for
each category there is `X` (all 200), `X_train`, `X_test`, and `X_excluded`: tasks of the training half that are left out of
`X_train`, because nobody could derive their reference. The halves were drawn by the seed "coevolve-bfcl-split-2": strata are the
sets of classes, 25 and 25 of each main class, never by position; entries that share a start state or their first words are in
the same half. `DIGESTS` are sha256 over the ids, one a line, so that a report can name exactly what it was measured on.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from . import data

TRAIN = frozenset(
    int(number)
    for number in (
        "3 4 7 10 11 12 13 15 17 20 24 25 27 28 29 30 31 33 35 36 39 40 43 44 48 55 56 59 60 61 64 67 68 72 73 75 76 78 79 81 "
        "83 85 87 88 90 92 93 95 98 99 101 105 107 109 112 115 116 118 121 122 123 125 129 131 132 133 135 136 138 139 140 143 "
        "145 147 149 150 151 152 153 155 159 160 161 162 164 166 167 168 170 171 172 174 175 177 178 181 182 184 186 193"
    ).split()
)
"""Numbers of the training half."""

UNDERIVABLE = {
    4: "asks for a sorted text that sorting does not give (gorilla#1367)",
    176: "the user's date and the reference's description disagree (gorilla#1256)",
    187: "the description's wording is not stated (gorilla#1256)",
}
"""Base entries whose reference cannot be reached from the user's words, read by hand; their variants inherit the fault."""

DIGESTS = {
    "base": "455c88a069131d3e",
    "base_train": "a629665ed221d14b",
    "base_test": "638ca6c42bfd9a9e",
    "base_excluded": "238884cea6e8cae4",
    "long_context": "15821da9a5633d88",
    "long_context_train": "29084d17a7009a14",
    "long_context_test": "24363a1e61acbacd",
    "long_context_excluded": "5bc88b59b8e1654a",
    "miss_func": "ff3adbe7b53a23bd",
    "miss_func_train": "d4c915c6c59067ab",
    "miss_func_test": "febf1e6ca71223fb",
    "miss_func_excluded": "89acf07a408a4f6e",
    "miss_param": "f8ca2e30398f65d2",
    "miss_param_train": "b363e8c8f02e9583",
    "miss_param_test": "ea1bf970d8f27679",
    "miss_param_excluded": "62a5e14c8222aeb9",
}
"""Split → first 16 hex digits of sha256 over its ids."""


def sizes() -> dict[str, int]:
    """Split → number of tasks."""
    return {name: len(ids(name)) for category in data.CATEGORIES for name in _names(category)}


def _names(category: str) -> Iterator[str]:
    yield category
    yield from (f"{category}_{part}" for part in ("train", "test", "excluded"))


@cache
def ids(split: str) -> tuple[str, ...]:
    """The entries of a split, in file order. Raises KeyError for an unknown split."""
    category, _, part = split.rpartition("_")
    if split in data.CATEGORIES:
        return tuple(data.entries(split))
    chosen = _PARTS[part]
    return tuple(name for name in data.entries(category) if chosen(data.number(name)))


_PARTS = {
    "train": lambda number: number in TRAIN and number not in UNDERIVABLE,
    "test": lambda number: number not in TRAIN,
    "excluded": lambda number: number in TRAIN and number in UNDERIVABLE,
}


def tasks(split: str) -> list[dict]:
    """Task records of a split, without schema, id, env and env_version."""
    return [_task(data.entry(name), split) for name in ids(split)]


def main_class(entry: dict) -> str:
    return next(class_ for class_ in data.MAIN if class_ in entry["involved_classes"])


def _task(entry: dict, split: str) -> dict:
    return {
        "kind": main_class(entry),
        "tags": [*entry["involved_classes"], *_faults(entry)],
        "split": split,
        "query": data.turns(entry),
        "solution": data.answer(entry["id"]),
        "start": {"name": entry["id"]},
        "verifier": {"kind": "official"},
    }


def _faults(entry: dict) -> Iterator[str]:
    """What a trainer or a reader of results may want to know of a task."""
    solution = data.answer(entry["id"])
    if data.number(entry["id"]) in UNDERIVABLE:
        yield "underivable"
    if not all(solution):
        yield "empty_turn"
    if max(map(len, solution)) > 20:
        yield "many_calls"
    if _malformed(entry["initial_config"]):
        yield "malformed_state"


def _malformed(state: dict[str, dict]) -> bool:
    """Whether legal calls raise on this start state: rows without an id or an owner, inboxes of lists, counters that collide."""
    inbox = state.get("MessageAPI", {}).get("inbox", [])
    tickets = state.get("TicketAPI", {})
    rows = tickets.get("ticket_queue", [])
    trading = state.get("TradingBot", {})
    return (
        any(not isinstance(text, str) for message in inbox for text in _values(message))
        or any("id" not in row or "created_by" not in row for row in rows)
        or tickets.get("ticket_counter") in [row.get("id") for row in rows]
        or str(trading.get("order_counter")) in trading.get("orders", {})
        or any(
            "card_id" not in row
            for row in _values(state.get("TravelAPI", {}).get("booking_record", {}))
        )
        or bool(state.get("TwitterAPI", {}).get("comments"))
    )


def _values(table: object) -> list:
    return list(table.values()) if isinstance(table, dict) else [None]
