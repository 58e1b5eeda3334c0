"""The words of a request, template by template, against sentences written by hand."""

import json
import random

import pytest

from coevolve.abstraction.goals import GoalSlice
from coevolve.abstraction.request_writer import MAX_TURN_CHARACTERS, RequestWriter, Unwritable
from coevolve.abstraction.trace import ExplorationTrace
from coevolve.abstraction.turns import TurnPlan
from coevolve.environments.protocol import ActionResult, Language, Opened, Tool
from coevolve.grounding.sources import ValueSource
from coevolve.records import Call, Start, Step

PROPERTIES = {"a": {}, "b": {}, "unlock": {}, "lines": {"default": 10}, "doors": {}}


def tool(name, **language):
    parameters = {"type": "object", "properties": PROPERTIES}
    return Tool(
        name=name, description="Does it.", parameters=parameters, language=Language(**language)
    )


def request(tools, calls, links=None, observations=None, clauses=None):
    """The request of one turn that holds all calls; the last one is the clause unless told
    otherwise."""
    steps = [
        Step(turn=0, action=c, observation=json.dumps((observations or {}).get(i, {})))
        for i, c in enumerate(calls)
    ]
    links = [(links or {}).get(i, {}) for i in range(len(calls))]
    known = {t.name: t for t in tools}
    trace = ExplorationTrace(
        Start("s"), Opened(), known, steps, links, [None] * len(calls), [True] * len(calls)
    )
    results = {i: ActionResult(observation=step.observation) for i, step in enumerate(steps)}
    found = GoalSlice((len(calls) - 1,), frozenset(), dict(enumerate(calls)), results)
    writer = RequestWriter(trace, found, random.Random("words"))
    return writer.request(TurnPlan(list(range(len(calls))), clauses or [len(calls) - 1]))


def test_slots_optionals_and_words():
    """Values as text, an optional argument appended, words for a truth value, a list joined as
    people do."""
    go = tool(
        "go",
        do=["{unlock} {doors}"],
        optional={"a": " at {a}"},
        words={"unlock": {"false": "lock"}},
    )
    arguments = {"unlock": False, "doors": ["left", "right", "rear"], "a": 2.50}
    assert request([go], [Call("go", arguments)]) == "lock left, right and rear at 2.5"
    assert request([go], [Call("go", {"unlock": True, "doors": ["left"]})]) == "true left"
    whole = tool("go", do=["open {doors}"], words={"doors": {'["left","right"]': "both doors"}})
    assert request([whole], [Call("go", {"doors": ["left", "right"]})]) == "open both doors"


def test_the_template_that_fits_the_arguments_is_taken():
    """A template with a slot that the call lacks, or that leaves an argument unstated, is none."""
    go = tool("go", do=["move {a}", "move {b}", "move {a} and {b}"])
    assert request([go], [Call("go", {"b": "x"})]) == "move x"
    assert request([go], [Call("go", {"a": "y", "b": "x"})]) == "move y and x"
    assert request([go], [Call("go", {"a": "y", "lines": 10})]) == "move y", (
        "a default may stay unstated"
    )
    with pytest.raises(Unwritable, match="unstated_argument"):
        request([go], [Call("go", {"a": "y", "lines": 11})])


def test_observed_values_are_said_as_the_phrase_of_their_call():
    """Recursively: the price of the thing that the note of Ann names."""
    tools = [
        tool("read", refer={"text": "what the note of {a} names"}),
        tool("cost", refer={"price": "the price of {b}"}),
        tool("pay", do=["pay {a}"]),
    ]
    calls = [Call("read", {"a": "Ann"}), Call("cost", {"b": "tea"}), Call("pay", {"a": 31})]
    links = {1: {("b",): ValueSource(0, ("text",))}, 2: {("a",): ValueSource(1, ("price",))}}
    said = request(tools, calls, links, {0: {"text": "tea"}, 1: {"price": 31}})
    assert said == "pay the price of what the note of Ann names"


def test_a_phrase_is_not_wedged_into_another():
    """At its end a phrase may hold another one, in its middle a bare name alone: who would untangle
    the rest?"""
    tools = [
        tool("rate", refer={"value": "the value of {a} in {b}"}),
        tool("named", refer={"key": "{a}"}),
        tool("pay", do=["pay {a}"]),
    ]
    calls = [
        Call("rate", {"a": 7, "b": "EUR"}),
        Call("rate", {"a": 12, "b": "YEN"}),
        Call("pay", {"a": 19}),
    ]
    links = {1: {("a",): ValueSource(0, ("value",))}, 2: {("a",): ValueSource(1, ("value",))}}
    with pytest.raises(Unwritable, match="nested_lookup"):
        request(tools, calls, links, {0: {"value": 12}, 1: {"value": 19}})
    calls[0], links[1] = Call("named", {"a": "Ann"}), {("a",): ValueSource(0, ("key",))}
    said = request(tools, calls, links, {0: {"key": 12}, 1: {"value": 19}})
    assert said == "pay the value of Ann in YEN"


def test_a_phrase_that_two_outputs_answer_differently_is_none():
    """The one from logging in, after logging in twice: which? Where both outputs agree, it does not
    matter."""
    tools = [
        tool("login", do=["log in"], refer={"token": "the one from logging in"}),
        tool("pay", do=["pay {a}"]),
    ]
    calls = [Call("login", {}), Call("login", {}), Call("pay", {"a": "t2"})]
    links = {2: {("a",): ValueSource(1, ("token",))}}
    with pytest.raises(Unwritable, match="ambiguous_reference"):
        request(tools, calls, links, {0: {"token": "t1"}, 1: {"token": "t2"}})
    assert (
        request(tools, calls, links, {0: {"token": "t2"}, 1: {"token": "t2"}})
        == "pay the one from logging in"
    )


def test_a_default_that_matters_is_said():
    """What the language says of an absent argument stands where the argument would."""
    go = tool(
        "count",
        do=["count the"],
        optional={"lines": " {lines}"},
        absent={"lines": " lines", "doors": " here"},
    )
    assert request([go], [Call("count", {"lines": "words"})]) == "count the words here"
    assert request([go], [Call("count", {})]) == "count the lines here"


def test_an_observed_value_inside_an_object_is_not_said():
    """Its text would tell what the user cannot know; a member of a list has its own phrase."""
    tools = [tool("cost", refer={"price": "the price of {b}"}), tool("pay", do=["pay {a}"])]
    calls = [Call("cost", {"b": "tea"}), Call("pay", {"a": {"sum": 31}})]
    with pytest.raises(Unwritable, match="unknowable"):
        request(tools, calls, {1: {("a", "sum"): ValueSource(0, ("price",))}}, {0: {"price": 31}})
    calls[1] = Call("pay", {"a": [5, 31]})
    assert (
        request(tools, calls, {1: {("a", 1): ValueSource(0, ("price",))}}, {0: {"price": 31}})
        == "pay 5 and the price of tea"
    )
    calls[1] = Call("pay", {"a": [31, 31]})
    assert (
        request(tools, calls, {1: {("a",): ValueSource(0, ("price",))}}, {0: {"price": [31, 31]}})
        == "pay the price of tea"
    )


def test_a_helper_says_nothing_that_nobody_says():
    """A helper's given argument must stand in the words of its turn."""
    tools = [tool("open"), tool("go", do=["go to {a}"])]
    assert request(tools, [Call("open", {"a": "left"}), Call("go", {"a": "left"})]) == "go to left"
    with pytest.raises(Unwritable, match="unstated_argument"):
        request(tools, [Call("open", {"a": "rear"}), Call("go", {"a": "left"})])


def test_clauses_are_joined():
    """What the goal needs and a user asks for comes first."""
    tools = [tool("cd", do=["go into {a}"]), tool("touch", do=["make the file {b}"])]
    calls = [Call("cd", {"a": "docs"}), Call("touch", {"b": "x.txt"})]
    assert request(tools, calls, clauses=[0, 1]) == "go into docs, then make the file x.txt"


@pytest.mark.parametrize(
    "name, named", [("farm.set", True), ("place_order", True), ("lockDoors", True), ("find", False)]
)
def test_no_request_names_a_tool(name, named):
    """A name with a dot, an underscore or an inner capital is a tool's; a plain word is a word."""
    go = tool(name, do=["use {a}"])
    if named:
        with pytest.raises(Unwritable, match="names_tool"):
            request([go], [Call(name, {"a": name})])
        assert request([go], [Call(name, {"a": f"x{name}x"})]) == f"use x{name}x"
    else:
        assert request([go], [Call(name, {"a": name})]) == f"use {name}"


def test_requests_without_words_or_end_are_refused():
    """An empty value says nothing; more than a paragraph is no request."""
    go = tool("go", do=["say {a}"])
    for value, reason in (
        (" ", "empty_value"),
        ([], "empty_value"),
        ("x" * MAX_TURN_CHARACTERS, "too_long"),
    ):
        with pytest.raises(Unwritable, match=reason):
            request([go], [Call("go", {"a": value})])
