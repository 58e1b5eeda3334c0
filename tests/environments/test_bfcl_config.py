"""Start states: what cannot be loaded, or holds what no class reads, is refused in words before an
episode begins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from environments.bfcl_worker import CLASSES, opened

from coevolve.environments.client import Fault, Pool
from coevolve.records import Start

pytestmark = pytest.mark.bfcl


@pytest.fixture(scope="module")
def bfcl() -> Iterator[Pool]:
    with Pool("bfcl") as pool:
        yield pool


def refusal(pool: Pool, start: Start) -> str:
    (answer,) = pool.open([start])
    assert isinstance(answer, Fault) and answer.kind == "bad_request", answer
    return answer.message


@pytest.mark.parametrize("class_", CLASSES)
@pytest.mark.parametrize(
    ("config", "says"),
    [
        ([1, 2], "not a list"),
        (7, "not a number"),
        ("x", "not a text"),
        (None, "not null"),
        ({"nonsense": 1}, "has no 'nonsense'"),
    ],
)
def test_no_class_takes_what_is_no_configuration_or_has_keys_that_nobody_reads(
    bfcl, class_, config, says
):
    """A list, a number, a text, null, an unknown key, for each of the eight classes."""
    found = refusal(bfcl, Start(config={"classes": [class_], "state": {class_: config}}))
    assert class_ in found and says in found


def folder(contents: Any) -> dict:
    return {"type": "directory", "contents": contents}


def deep(levels: int) -> dict:
    node: dict = {"type": "file", "content": ""}
    for _ in range(levels):
        node = folder({"d": node})
    return node


@pytest.mark.parametrize(
    ("class_", "config", "says"),
    [
        ("GorillaFileSystem", {"root": {}}, "root must be"),
        (
            "GorillaFileSystem",
            {"root": {"a": {"type": "file", "content": "x"}}},
            "/a must be a folder",
        ),
        ("GorillaFileSystem", {"root": {"a": folder([])}}, "/a must be a folder"),
        (
            "GorillaFileSystem",
            {"root": {"a": folder({"f": {"type": "file", "content": 1}})}},
            "/a/f is neither",
        ),
        ("GorillaFileSystem", {"root": {"a": folder({"f": {"type": "link"}})}}, "/a/f is neither"),
        (
            "GorillaFileSystem",
            {"root": {"a": folder({"x/y": folder({})})}},
            "impossible name 'x/y'",
        ),
        ("GorillaFileSystem", {"root": {"a": deep(60)}}, "too deep"),
        (
            "GorillaFileSystem",
            {"root": {"a": folder({f"{n}": folder({}) for n in range(6000)})}},
            "more than 5000 names",
        ),
        ("MathAPI", {"numbers": "many"}, "numbers must be a list"),
        ("MessageAPI", {"user_map": ["Alice"]}, "user_map must be an object"),
        ("MessageAPI", {"user_map": {"Alice": 1}}, "user_map.Alice must be a text"),
        ("MessageAPI", {"generated_ids": [1]}, "has no 'generated_ids'"),
        ("TwitterAPI", {"authenticated": 1}, "authenticated must be a boolean"),
        (
            "TwitterAPI",
            {"tweets": {"0": {"id": 0, "username": "a", "content": "b"}}},
            "tweets.0 lacks",
        ),
        ("TwitterAPI", {"retweets": {"a": ["0"]}}, "retweets.a.0 must be a number"),
        ("TicketAPI", {"ticket_queue": {}}, "ticket_queue must be a list"),
        ("TicketAPI", {"ticket_counter": True}, "ticket_counter must be a number"),
        ("TradingBot", {"stocks": {"X": {"price": 1.0}}}, "stocks.X lacks"),
        (
            "TradingBot",
            {"account_info": {}},
            "account_info lacks account_id, balance, binding_card",
        ),
        ("TradingBot", {"stocks": {}}, "TradingBot cannot be read: stocks must not be empty"),
        ("MessageAPI", {"inbox": [{"USR002": "hi"}, {}]}, "MessageAPI.inbox.1 must not be empty"),
        ("TicketAPI", {"ticket_queue": [{}]}, "TicketAPI.ticket_queue.0 must not be empty"),
        ("TravelAPI", {"booking_record": {"b": {}}}, "booking_record.b must not be empty"),
        ("TradingBot", {"watch_list": [["X"]]}, "watch_list.0 must be a text"),
        ("TravelAPI", {"access_token": 5}, "access_token must be null or a text"),
        ("TravelAPI", {"credit_card_list": {"1": {}}}, "credit_card_list.1 lacks balance"),
        ("VehicleControlAPI", {"fuelLevel": "full"}, "fuelLevel must be a number"),
        ("VehicleControlAPI", {"doorStatus": {"driver": "locked"}}, "doorStatus lacks passenger"),
    ],
)
def test_what_stands_in_a_configuration_is_of_its_kind(bfcl, class_, config, says):
    """Wrong kinds of values, missing fields of rows, impossible trees: the message has the
    place."""
    assert says in refusal(bfcl, Start(config={"classes": [class_], "state": {class_: config}}))


@pytest.mark.parametrize(
    ("start", "says"),
    [
        (Start(config={"classes": []}), "a name, or a config"),
        (Start(config={"classes": "MathAPI"}), "a name, or a config"),
        (Start(config={"classes": [["MathAPI"]]}), "no API class"),
        (Start(config={"classes": ["MathAPI", "MathAPI"]}), "twice"),
        (Start(config={"classes": ["MathAPI"], "seed": 1}), "not 'seed'"),
        (Start(config={"classes": ["MathAPI"], "state": [1, 2]}), "not a list"),
        (Start(config={"classes": ["MathAPI"], "state": {"TravelAPI": {}}}), "none of the classes"),
        (Start("multi_turn_base_0", {"classes": ["MathAPI"]}), "not both"),
    ],
)
def test_what_is_no_start_is_refused(bfcl, start, says):
    """Classes and states that do not fit together."""
    assert says in refusal(bfcl, start)


def test_official_and_generated_states_pass(bfcl):
    """The environment's own entries open by name, and so do generated starts of every class, alone
    and together."""
    entries = [
        task.start
        for split in ("base", "long_context", "miss_func", "miss_param")
        for task in bfcl.tasks(split)[::9]
    ]
    made = [
        bfcl.start(f"config-{n}", [class_] if n % 2 else None)
        for n in range(12)
        for class_ in CLASSES
    ]
    assert [answer for answer in bfcl.open(entries + made) if isinstance(answer, Fault)] == []


def test_a_class_without_a_configuration_has_its_own(bfcl):
    """An absent state is the class's default, as in 26 official entries."""
    for class_ in CLASSES:
        assert opened(bfcl, Start(config={"classes": [class_]})).opened.tools
