"""The strict gate and its controls where actions are code."""

from __future__ import annotations

import pytest

from coevolve.environments.protocol import CodeSyntax, Description, Language, Opened, Tool
from coevolve.grounding.solutions import first_unknown
from coevolve.records import Start, Step, Task
from coevolve.validation.controls import controls
from coevolve.validation.gates import related

SCHEMA = {
    "type": "object",
    "properties": {"amount": {}, "to": {}, "names": {}, "query": {}, "open": {}},
}
TOOLS = {
    "v.pay": Tool(
        "v.pay", "", SCHEMA, app="v", language=Language(words={"open": {"true": "public"}})
    ),
    "v.find": Tool("v.find", "", SCHEMA, app="v", read_only=True),
}
CODE = CodeSyntax(
    "apis.{tool}({arguments})",
    {"t": "t = apis.v.login()"},
    {"v.find": {"token": "t"}},
    "apis.me.done()",
    ["me.done"],
)


def task(query: str, *programs: str) -> Task:
    return Task(id="t", env="x", query=[query], solution=[list(programs)], start=Start("default"))


@pytest.mark.parametrize(
    ("query", "program", "stated"),
    [
        ("Pay Ann $5.", 'apis.v.pay(amount=5, to=found["email"])', True),
        ("Pay Ann $5.", "apis.v.pay(amount=6)", False),
        ("Pay Ann.", 'apis.v.pay(to="ann@example.com")', False),
        ("Pay Ann and Bo.", 'apis.v.pay(names=["Ann", "Bo"])', True),
        ("Pay Ann.", 'apis.v.pay(names=["Ann", "Bo"])', False),
        ("Make it public.", "apis.v.pay(open=True)", True),
        ("Make it so.", "apis.v.pay(open=False)", False),
        ("Pay.", 'apis.v.find(query="Ann")', False),
        ("Pay.", 'next(row for row in apis.v.find() if row["name"] == "Ann")', False),
        ("Pay.", "apis.v.pay(token='x')", True),
        ("Pay.", "apis.v.pay(to=None)", True),
        ("Pay.", "apis.other.pay(amount=5)", False),
    ],
)
def test_plain_values_of_a_program_are_stated(query, program, stated):
    """Of every API, in the words of the environment; technical arguments are free."""
    steps = [Step(0, program, "")]
    assert (first_unknown(steps, [query], "", TOOLS) is None) == stated


def described(code: CodeSyntax | None = CODE) -> Description:
    harmless = [{"tool": "v.find", "arguments": {"query": "x"}}]
    return Description(
        name="x", version="1", tools=[], actions="code", code=code, harmless=harmless
    )


def test_controls_are_programs_too():
    """Nothing, a look that calls the task complete, and the program without one of its own
    statements at a time."""
    loop = "rows = apis.v.find()\nfor r in rows:\n    print(r)\n"
    program = f"{loop}apis.v.pay(\n    amount=5\n)\napis.me.done()"
    found = {
        control.name: control.job
        for control in controls(task("q", program), Opened(tools=["v.pay"]), described(), TOOLS)
    }
    assert list(found) == ["nothing", "hollow", "drop 0.0.4", "drop 0.0.7"]
    assert found["nothing"].turns == [[]]
    assert found["hollow"].turns == [
        ['t = apis.v.login()\nprint(apis.v.find(query="x", token=t))\napis.me.done()']
    ]
    assert found["drop 0.0.4"].turns == [
        ["rows = apis.v.find()\nfor r in rows:\n    print(r)\napis.me.done()"]
    ]
    assert found["drop 0.0.7"].turns == [[program.removesuffix("\napis.me.done()")]]


def test_two_changes_are_tried_the_other_way_round():
    """The control that has to succeed: changes in reverse order; a program of one change has
    none."""
    program = "apis.v.pay(amount=1)\napis.v.pay(amount=2)\napis.me.done()"
    found = {
        control.name: control
        for control in controls(task("q", program), Opened(), described(), TOOLS)
    }
    assert (
        found["swapped 0.0"].succeeds and sum(control.succeeds for control in found.values()) == 1
    )
    assert found["swapped 0.0"].job.turns == [
        ["apis.v.pay(amount=2)\napis.v.pay(amount=1)\napis.me.done()"]
    ]


@pytest.mark.parametrize(
    ("query", "fits"), [("Do the thing.", False), ("Pay.", False), ("Send money to Ann.", True)]
)
def test_a_query_has_a_word_of_what_its_program_does(query, fits):
    """From the API's name, its description or what people say of it."""
    known = {"v.pay": Tool("v.pay", "Send money to a friend.", SCHEMA, app="v")}
    assert related(task(query, "apis.v.pay()"), known) == fits


def test_an_environment_that_says_nothing_of_its_code_has_fewer_controls():
    """Whole blocks are dropped, and nothing harmless is known to do."""
    found = {
        control.name: control.job
        for control in controls(task("q", "a()", "b()"), Opened(), described(None), TOOLS)
    }
    assert list(found) == ["nothing", "hollow", "drop 0.0", "drop 0.1"] and found["hollow"] is None
    assert found["drop 0.0"].turns == [["b()"]]


def test_a_program_that_does_not_parse_has_nothing_to_drop():
    """It fails by itself; no control is made of it."""
    found = controls(task("q", "not (code"), Opened(), described(), TOOLS)
    assert [control.name for control in found] == ["nothing", "hollow"]
