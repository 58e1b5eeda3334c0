"""Which values of a solution can be found by somebody who has only the request."""

from __future__ import annotations

import json

import pytest

from coevolve.abstraction.literals import FEW, says, unseen
from coevolve.environments.protocol import Language, Tool
from coevolve.records import Call, Step


def tool(name, /, **properties):
    return Tool(name, "", {"type": "object", "properties": properties})


CITIES = ["Rome", "Paris", "Oslo", "Bonn", "Graz", "Lyon"]
TOOLS = {
    t.name: t
    for t in (
        tool("look", name={"type": "string"}),
        tool("pay", amount={"type": "integer"}, note={"type": "string", "default": "none"}),
        tool("light", mode={"enum": ["on", "off", "auto"]}, city={"enum": CITIES}),
        tool(
            "lock",
            doors={"type": "array", "items": {"enum": ["left", "right"]}},
            shut={"type": "boolean"},
        ),
        tool("copy", path={"type": "string"}),
    )
}


def missing(query, *steps, observation=""):
    """The values that nothing gives, in a solution of (call, observation) pairs."""
    made = [Step(0, Call(name, arguments), json.dumps(shown)) for name, arguments, shown in steps]
    return [value for _, _, value in unseen(made, [query], observation, TOOLS)]


@pytest.mark.parametrize(
    ("query", "steps", "lost"),
    [
        ("Pay 31.", [("pay", {"amount": 31}, {})], []),
        ("Pay it.", [("pay", {"amount": 31}, {})], [31]),
        (
            "Pay for tea.",
            [("look", {"name": "tea"}, {"price": 31}), ("pay", {"amount": 31}, {})],
            [],
        ),
        (
            "Pay for tea.",
            [("look", {"name": "tea"}, "tea costs 31 today"), ("pay", {"amount": 31}, {})],
            [],
        ),
        (
            "Pay for tea.",
            [("look", {"name": "tea"}, "tea costs 310"), ("pay", {"amount": 31}, {})],
            [31],
        ),
        (
            "Pay for it.",
            [("look", {"name": "tea"}, {"price": 31}), ("pay", {"amount": 31}, {})],
            ["tea"],
        ),
        ("Pay 31.", [("pay", {"amount": 31, "note": "none"}, {})], []),
        ("Pay 31.", [("pay", {"amount": 31, "note": "thanks"}, {})], ["thanks"]),
        ("Light, please.", [("light", {"mode": "on"}, {})], []),
        ("Light, please.", [("light", {"mode": "on", "city": "Oslo"}, {})], ["Oslo"]),
        ("Light in oslo, please.", [("light", {"mode": "on", "city": "Oslo"}, {})], []),
        ("Lock up.", [("lock", {"doors": ["right", "left"], "shut": True}, {})], []),
        ("Lock up.", [("lock", {"doors": ["left"], "shut": True}, {})], ["left"]),
        (
            "Copy it into papers.",
            [("look", {"name": ""}, ["a.txt"]), ("copy", {"path": "./papers/a.txt"}, {})],
            [],
        ),
        ("Pay it.", [("look", {"name": ""}, [100, 200]), ("pay", {"amount": 200}, {})], []),
        ("Pay 20,000.", [("pay", {"amount": 20}, {})], [20]),
        (
            "Pay by 8:20.",
            [
                ("look", {"name": ""}, {"since": "1999-11-20", "sum": 20.5}),
                ("pay", {"amount": 20}, {}),
            ],
            [20],
        ),
        (
            "Copy it.",
            [("look", {"name": ""}, ["a.txt"]), ("copy", {"path": "./papers/a.txt"}, {})],
            ["./papers/a.txt"],
        ),
    ],
)
def test_what_can_be_found(query, steps, lost):
    """By being said, looked up, a default, or a choice of few ways; nothing else."""
    assert missing(query, *steps) == lost
    assert len(CITIES) > FEW


def test_the_order_counts(query="Pay for tea."):
    """A look-up that comes after gives nothing; nor does a later turn's request."""
    look, pay = ("look", {"name": "tea"}, {"price": 31}), ("pay", {"amount": 31}, {})
    assert missing(query, pay, look) == [31]
    steps = [Step(0, Call("pay", {"amount": 31}), "{}"), Step(1, Call("pay", {"amount": 32}), "{}")]
    found = unseen(steps, ["Pay.", "Pay 31 and 32."], "", TOOLS)
    assert [(turn, name) for turn, name, _ in found] == [(0, "pay.amount")]


def test_what_is_shown_at_the_start_is_seen():
    """The first observation is before the eyes of whoever solves the task."""
    assert missing("Pay what I owe.", ("pay", {"amount": 31}, {}), observation="You owe 31.") == []


def test_the_environments_own_words():
    """`Language.words` says a value, as it does for the writer without a model."""
    tools = {
        "lock": Tool(
            "lock",
            "",
            {"properties": {"n": {}}},
            language=Language(words={"n": {"7": "the lucky one"}}),
        )
    }
    assert not list(
        unseen([Step(0, Call("lock", {"n": 7}), "")], ["Take the lucky one."], "", tools)
    )
    assert list(unseen([Step(0, Call("lock", {"n": 7}), "")], ["Take one."], "", tools))


CODE_TOOLS = {
    "shop.pay": Tool(
        "shop.pay",
        "",
        {"properties": {"amount": {}, "note": {}, "to": {}}, "required": ["amount", "to"]},
    ),
    "shop.look": Tool(
        "shop.look", "", {"properties": {"name": {}, "limit": {}}, "required": ["name"]}
    ),
}


@pytest.mark.parametrize(
    ("code", "lost"),
    [
        ("apis.shop.pay(amount=31, to='Ann')", []),
        ("apis.shop.pay(amount=32, to='Ann', note='quick')", [("shop.pay.amount", 32)]),
        (
            "who = 'Bob'\nfor n in [1]:\n    print(apis.shop.pay(amount=31, to=who))",
            [("shop.pay.to", "Bob")],
        ),
        (
            "who = 'Bob'\nwho = apis.shop.look(name='Ann', limit=20)['id']\napis.shop.pay(amount=31, to=who)",
            [],
        ),
        ("apis.shop.pay(amount=-31, to='Ann')", [("shop.pay.amount", -31)]),
        ("apis.shop.pay(amount=31, to=f'{1}')\nother(name='Bob')", []),
        ("apis.shop.pay(amount=32, to='Bob'", []),
    ],
)
def test_constants_of_a_program(code, lost):
    """What it passes to tools as a required argument, directly or through a variable, has to be said or shown."""
    found = unseen([Step(0, code, "")], ["Pay Ann 31."], "", CODE_TOOLS)
    assert [(name, value) for _, name, value in found] == lost
    looked = [
        Step(0, "print(apis.shop.look(name='Ann'))", "Bob asks for 32, not -31"),
        Step(0, code, ""),
    ]
    assert not list(unseen(looked, ["Pay Ann 31."], "", CODE_TOOLS))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("I pay 1,500 dollars", 1500),
        ("I pay $1500.00", 1500.0),
        ("it is 2.5 km", 2.5),
        ("I have three cats", 3),
        ("minus 4 degrees", -4),
        ("from 2-5 people", 5),
        ("on July 4th, 2025 at noon", "2025-07-04"),
        ("on the 22nd of March 2025", "2025-03-22"),
        ("set the Parking Brake", "parkingBrake"),
        ("he said ‘I’m late’", "I'm late."),
        ("put it  into\nmy notes", "into my notes"),
    ],
)
def test_forms_of_a_value(text, value):
    """People write a value in other ways than a program."""
    assert says(text, value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("room 15000", 1500), ("version 2.5.1", 2.5), ("USR31 is mine", 31), ("31st", 31), ("someone", 1), ("true", True),
        ("on July 14th, 2025", "2025-07-04"), ("the brake", "parkingBrake"), ("teapot", "tea"), ("-4 degrees", -5),
    ],
)  # fmt: skip
def test_what_only_looks_like_it(text, value):
    """A part of a longer word or number is something else."""
    assert not says(text, value)
