"""What can be stated, and what must be referred to: hand-made steps, hand-written answers."""

import json

import pytest

from coevolve.abstraction.references import OutputPhrase, reference
from coevolve.abstraction.trace import read_trace
from coevolve.environments.protocol import Language, Opened, Tool
from coevolve.grounding.sources import ValueSource
from coevolve.grounding.texts import ORDINALS
from coevolve.records import Call, Exploration, Start, Step


def tool(name, app, *parameters, **more):
    schema = {"type": "object", "properties": {p: {"type": "string"} for p in parameters}}
    return Tool(
        name=name, description=f"Does {name}. And more.", parameters=schema, app=app, **more
    )


TOOLS = {
    t.name: t
    for t in [
        tool("farm.find", "farm", "name", language=Language(refer={"id": "{name}"})),
        tool("mail.find", "mail", "name", language=Language(refer={"id": "{name}"})),
        tool("mail.list", "mail", language=Language(refer={"subjects": "my subjects"})),
        tool("mail.read", "mail", "name", language=Language(refer={"text": "the note of {name}"})),
        tool(
            "farm.set",
            "farm",
            "id",
            "text",
            language=Language(do=["set {id} to {text}"], lookup_only=["id"]),
        ),
        tool(
            "mail.send",
            "mail",
            "to",
            "text",
            language=Language(do=["send {text} to {to}"], literal=["text"]),
        ),
        tool("plain", "other", "text"),
    ]
}


def traced(*pairs, values=None):
    steps = [
        Step(
            turn=0,
            action=Call(name, arguments),
            observation=json.dumps(out),
            error=error[0] if error else None,
        )
        for name, arguments, out, *error in pairs
    ]
    exploration = Exploration(id="e", env="x", mode="random", start=Start("default"), steps=steps)
    return read_trace(exploration, Opened(values=values or {}), TOOLS)


def test_a_looked_up_key_is_linked_within_its_app_only():
    """The id that the farm's find gave is Ann; the same text from the mail's find is nobody of the
    farm."""
    good = traced(
        ("farm.find", {"name": "Ann"}, {"id": "i12"}),
        ("farm.set", {"id": "i12", "text": "red"}, {}),
    )
    assert good.links[1] == {("id",): ValueSource(0, ("id",))} and good.problems[1] is None
    other = traced(
        ("mail.find", {"name": "Bob"}, {"id": "i12"}),
        ("farm.set", {"id": "i12", "text": "red"}, {}),
    )
    assert other.links[1] == {} and other.problems[1] == "unknowable"


def test_a_value_that_users_do_not_know_must_be_observed():
    """An id out of nowhere is lookup_only, unless the start state's user knows it."""
    assert traced(("farm.set", {"id": "i12", "text": "red"}, {})).problems == ["lookup_only"]
    known = traced(("farm.set", {"id": "i12", "text": "red"}, {}), values={"farm.set.id": ["i12"]})
    assert known.problems == [None] and known.links == [{}]


def test_an_observed_value_without_a_phrase_is_unknowable_unless_known():
    """A text that stood in an output which nobody refers to; stated if the user knows it."""
    steps = [("farm.find", {"name": "Ann"}, {"label": "amber"}), ("plain", {"text": "amber"}, {})]
    assert traced(*steps).problems[1] == "unknowable"
    assert traced(*steps, values={"text": ["amber"]}).problems[1] is None


def test_a_literal_parameter_is_stated_or_unusable():
    """A message is no look-up, though a phrase for the value exists; it may be one that the user
    knows."""
    steps = [
        ("mail.read", {"name": "Ann"}, {"text": "amber"}),
        ("mail.send", {"to": "Bob", "text": "amber"}, {}),
    ]
    assert (traced(*steps).links[1], traced(*steps).problems[1]) == ({}, "unknowable")
    known = traced(*steps, values={"mail.send.text": ["amber"]})
    assert (known.links[1], known.problems[1]) == ({}, None)


def test_an_item_of_a_list_is_not_referred_to_but_a_whole_list_is():
    """Two subjects in a list of three would have to be told apart from the third; all of them are
    "my subjects"."""
    listed = ("mail.list", {}, {"subjects": ["red", "blue"]})
    whole = traced(
        listed, ("farm.set", {"id": "i1", "text": ["red", "blue"]}, {}), values={"id": ["i1"]}
    )
    assert whole.links[1] == {("text",): ValueSource(0, ("subjects",))}
    part = traced(
        listed, ("farm.set", {"id": "i1", "text": ["blue", "green"]}, {}), values={"id": ["i1"]}
    )
    assert (part.links[1], part.problems[1]) == ({}, "unknowable")


def test_failed_unknown_and_coded_steps_are_unusable():
    """They are no part of any solution."""
    assert traced(("farm.find", {"name": "Bo"}, {}, "not_found"), ("gone", {}, {})).problems == [
        "failed",
        "unknown_tool",
    ]


@pytest.mark.parametrize("place", [0, 1, 9])
def test_a_member_of_a_list_is_referred_to_by_its_place(place):
    """The first to the tenth of the subjects; the eleventh is too far to count."""
    step = Step(
        turn=0,
        action=Call("mail.list"),
        observation=json.dumps({"subjects": [f"s{n}" for n in range(11)]}),
    )
    assert reference(TOOLS, step, ("subjects", place), "farm") == OutputPhrase(
        f"the {ORDINALS[place]} of my subjects", False
    )
    assert reference(TOOLS, step, ("subjects", 10), "farm") is None


def test_a_tool_without_language_is_referred_to_by_its_description():
    """The first sentence and the arguments of the call stand for the output."""
    step = Step(turn=0, action=Call("plain", {"text": "red"}), observation='{"total_cost": 12}')
    assert (
        reference(TOOLS, step, ("total_cost",), "farm").template
        == "the total cost from this: does plain (text: {text})"
    )
