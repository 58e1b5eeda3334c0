"""Which values of a solution a solver who has only the request can know."""

from __future__ import annotations

import json

import pytest

from coevolve.environments.protocol import Language, Tool
from coevolve.grounding.arguments import FEW_CHOICES
from coevolve.grounding.solutions import judged
from coevolve.grounding.texts import states
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


def unknown(steps, queries, observation="", tools=TOOLS):
    """The unknown values of executed steps, by name."""
    values = judged(steps, queries, observation, tools)
    return [value.name for value in values if value.grounding.kind == "unknown"]


def missing(query, *steps, observation=""):
    """The values that nothing gives, in a solution of (call, observation) pairs."""
    made = [Step(0, Call(name, arguments), json.dumps(shown)) for name, arguments, shown in steps]
    return [json.loads(name.partition(" = ")[2]) for name in unknown(made, [query], observation)]


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
    assert len(CITIES) > FEW_CHOICES


def test_the_order_counts(query="Pay for tea."):
    """A look-up that comes after gives nothing; nor does a later turn's request."""
    look, pay = ("look", {"name": "tea"}, {"price": 31}), ("pay", {"amount": 31}, {})
    assert missing(query, pay, look) == [31]
    steps = [Step(0, Call("pay", {"amount": 31}), "{}"), Step(1, Call("pay", {"amount": 32}), "{}")]
    assert unknown(steps, ["Pay.", "Pay 31 and 32."]) == ["pay.amount = 31"]


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
    steps = [Step(0, Call("lock", {"n": 7}), "")]
    assert not unknown(steps, ["Take the lucky one."], tools=tools)
    assert unknown(steps, ["Take one."], tools=tools)


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
        (
            "apis.shop.pay(amount=32, to='Ann', note='quick')",
            ["shop.pay: amount", "shop.pay: note"],
        ),
        (
            "who = 'Bob'\nfor n in [1]:\n    print(apis.shop.pay(amount=31, to=who))",
            ["Bob", "shop.pay: to"],
        ),
        (
            "who = ''\nwho = apis.shop.look(name='Ann', page_limit=20)['id']\n"
            "apis.shop.pay(amount=31, to=who)",
            [],
        ),
        ("apis.shop.pay(amount=-31, to='Ann')", ["shop.pay: amount"]),
        ("apis.shop.pay(amount=31, to=f'{123}')\nother(name='Bob')", ["shop.pay: to", "Bob"]),
        ("apis.shop.pay(amount=32, to='Bob'", []),
    ],
)
def test_constants_of_a_program(code, lost):
    """Each has to be stated or shown, as an argument directly or through a variable."""
    assert unknown([Step(0, code, "")], ["Pay Ann 31."], tools=CODE_TOOLS) == lost
    looked = [
        Step(0, "print(apis.shop.look(name='Ann'))", "Bob asks for 32, not -31, quick, 123"),
        Step(0, code, ""),
    ]
    assert not unknown(looked, ["Pay Ann 31."], tools=CODE_TOOLS)


def test_a_truth_value_has_no_form_of_its_own():
    """`true` in a text states none; the forms of texts and numbers are in `forms.toml`."""
    assert not states("it is true", True) and not states("it is null", None)
