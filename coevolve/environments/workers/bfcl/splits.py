"""Official tasks as task records, their tags, and their split into halves to train and to test on.

splits.toml holds the halves as numbers, the same for the four categories (entry 17 of one is a
variant of entry 17 of the others). Each category has the splits `X` (all 200), `X_train`, `X_test`
and `X_excluded`: tasks of the training half whose reference nobody could derive, left out of
`X_train`. The seed "coevolve-bfcl-split-2" drew the halves: strata are the sets of classes, 25 and
25 of each main class, never the position; entries that share a start state or their first words are
in the same half. The digests of the ids let a report name exactly what it was measured on.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..data_files import read_data
from . import data


class SplitFile(NamedTuple):
    """The tables of splits.toml, which says what each holds."""

    train: list[int]
    underivable: dict[str, str]
    digests: dict[str, str]


_FILE: SplitFile = read_data(Path(__file__).with_name("splits.toml"), SplitFile)
_TRAIN, _UNDERIVABLE = frozenset(_FILE.train), {int(number) for number in _FILE.underivable}


def sizes() -> dict[str, int]:
    """Split → number of tasks."""
    parts = ("", "_train", "_test", "_excluded")
    names = [f"{category}{part}" for category in data.CATEGORIES for part in parts]
    return {name: len(ids(name)) for name in names}


@cache
def ids(split: str) -> tuple[str, ...]:
    """The entries of a split, in file order."""
    if split in data.CATEGORIES:
        return tuple(data.entries(split))
    category, _, part = split.rpartition("_")
    return tuple(name for name in data.entries(category) if _part(data.number(name)) == part)


def _part(number: int) -> str:
    if number not in _TRAIN:
        return "test"
    return "excluded" if number in _UNDERIVABLE else "train"


def tasks(split: str) -> list[dict]:
    """Task records of a split, without schema, id, env and env_version."""
    return [_task(data.entry(name), split) for name in ids(split)]


def _task(entry: dict, split: str) -> dict:
    classes, solution = entry["involved_classes"], data.answer(entry["id"])
    faults = {
        "underivable": data.number(entry["id"]) in _UNDERIVABLE,
        "empty_turn": not all(solution),
        "many_calls": max(map(len, solution)) > 20,
        "malformed_state": _is_malformed(entry["initial_config"]),
    }
    return {
        "kind": next(class_ for class_ in data.MAIN if class_ in classes),
        "tags": [*classes, *(tag for tag, there in faults.items() if there)],
        "split": split,
        "query": data.turns(entry),
        "solution": solution,
        "start": {"name": entry["id"]},
        "verifier": {"kind": "official"},
    }


def _is_malformed(state: dict[str, dict]) -> bool:
    """Whether legal calls raise on this start state.

    They do with rows that lack an id or an owner, inboxes of lists, and counters that collide.
    """

    def part(class_: str, key: str, default: Any) -> Any:
        return state.get(class_, {}).get(key, default)

    inbox, bookings = part("MessageAPI", "inbox", []), part("TravelAPI", "booking_record", {})
    tickets, orders = part("TicketAPI", "ticket_queue", []), part("TradingBot", "orders", {})
    return (
        any(not isinstance(text, str) for message in inbox for text in _values(message))
        or any("id" not in row or "created_by" not in row for row in tickets)
        or part("TicketAPI", "ticket_counter", None) in [row.get("id") for row in tickets]
        or str(part("TradingBot", "order_counter", None)) in orders
        or any("card_id" not in row for row in _values(bookings))
        or bool(part("TwitterAPI", "comments", None))
    )


def _values(table: object) -> list:
    return list(table.values()) if isinstance(table, dict) else [None]
