"""`abstract` and `validate` answer alike whether a solver who has only the query can know a value.

A row is a value and a request; its place is an argument of a call, a member of a nested argument,
or a constant of a program. The check of the model's writer and the strict gate both get it; a
request that does not state the value is refused by both.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from coevolve.abstraction.checks import ExecutedSolution, RejectedProposal, check_grounded
from coevolve.environments.protocol import ActionResult, Description, Graded, Language, Opened, Tool
from coevolve.environments.replay import ReplayedEpisode
from coevolve.records import Call, Effect, Origin, Start, Step, Task
from coevolve.validation import gates

FORMS = tomllib.loads((Path(__file__).parent / "forms.toml").read_text())
ACT = Tool("v.act", "Perform something.", {"properties": {"value": {}}}, app="v")


def both(query, action, tool=ACT, start="", earlier=()):
    """What the model's writer and the strict gate say of a task of one turn; `earlier` holds calls
    and their outputs."""
    tools = {tool.name: tool, "v.look": Tool("v.look", "", {"properties": {}}, app="v")}
    actions = [*(Call("v.look") for _ in earlier), action]
    results = [
        *(ActionResult(observation=text) for text in earlier),
        ActionResult(observation="", effects=[Effect("t", "1", "", "add", 1)]),
    ]
    query, opened = f"Perform this: {query}", Opened(observation=start)
    steps = [
        Step(0, one, result.observation, None, result.effects)
        for one, result in zip(actions, results, strict=True)
    ]
    description = Description(name="x", version="1", tools=[])
    try:
        executed = ExecutedSolution([actions], [results], steps)
        check_grounded(executed, [query], opened, description, tools)
        written = True
    except RejectedProposal as rejected:
        assert rejected.reason == "ungrounded"
        written = False
    task = Task(
        id="t",
        env="x",
        query=[query],
        solution=[actions],
        start=Start("s"),
        origin=Origin("synthesis"),
    )
    episode = ReplayedEpisode(opened, [results], Graded(success=True, score=1))
    failure = gates.strict(task, tools, [episode, episode])
    assert failure is None or failure.reason.startswith("ungrounded")
    return written, failure is None


def at_places(value):
    """The value as an argument of a call and of a program, inside one, and through a variable."""
    yield Call("v.act", {"value": value})
    yield Call("v.act", {"value": {"a": {"b": [value]}}})
    yield f"apis.v.act(value={value!r})"
    yield f"apis.v.act(value={ {'a': {'b': [value]}}!r})"
    if not isinstance(value, list):
        yield f"x = {value!r}\napis.v.act(value=[x])"


@pytest.mark.parametrize(("value", "query"), FORMS["stated"])
def test_forms_that_people_use(value, query):
    """Both stages take the value, at each place."""
    for action in at_places(value):
        assert both(query, action) == (True, True), action


@pytest.mark.parametrize(("value", "query"), FORMS["unknown"])
def test_near_misses(value, query):
    """Neither stage takes what only looks like the value."""
    for action in at_places(value):
        assert both(query, action) == (False, False), action


@pytest.mark.parametrize(
    ("place", "query", "known"),
    [
        (0, "take it", True),
        (-1, "take it", True),
        (1, "take the second", True),
        (1, "take the 2nd", True),
        (-2, "the second from the end", True),
        (3, "take the fourth", True),
        (1, "take the first", False),
        (1, "take 2", False),
        (4, "take the fourth", False),
        (10, "the 11th", True),
    ],
)
def test_places_in_lists(place, query, known):
    """An ordinal states a place of a program's list; the first and the last need none."""
    assert both(query, f"apis.v.act(value=apis.v.look()[{place}])") == (known, known)


CHOICES = {
    "truth value": ({}, True),
    "choice": ({"enum": ["on", "off", "auto"]}, "on"),
    "default": ({"default": 7}, 7),
    "nothing": ({}, ""),
    "null": ({}, None),
    "no members": ({}, []),
    "all members": ({"items": {"enum": ["l", "r"]}}, ["r", "l"]),
}
DECISIONS = {
    "other than the default": ({"default": False}, True),
    "choice other than the default": ({"default": "off", "enum": ["on", "off"]}, "on"),
    "some members": ({"items": {"enum": ["l", "r"]}}, ["l"]),
    "one of many": ({"enum": list("abcde")}, "a"),
    "no choice": ({"enum": ["on"]}, "far"),
}


@pytest.mark.parametrize(
    ("schema", "value", "free"),
    [(*row, True) for row in CHOICES.values()] + [(*row, False) for row in DECISIONS.values()],
    ids=[*CHOICES, *DECISIONS],
)
def test_what_nobody_has_to_state(schema, value, free):
    """Defaults, truth values and a choice of few ways are free; what departs from a default is
    not."""
    tool = Tool("v.act", "Perform something.", {"properties": {"value": schema}}, app="v")
    for action in (Call("v.act", {"value": value}), f"apis.v.act(value={value!r})"):
        assert both("do", action, tool) == (free, free)


@pytest.mark.parametrize(
    ("value", "query", "known"),
    [(True, "make it public", True), (False, "make it so", False), (True, "make it so", False)],
)
def test_the_environments_own_words(value, query, known):
    """Where the environment has words for a parameter, a truth value is stated by them."""
    words = Language(words={"value": {"true": "public"}})
    tool = Tool("v.act", "Perform it.", {"properties": {"value": {}}}, app="v", language=words)
    for action in (Call("v.act", {"value": value}), f"apis.v.act(value={value!r})"):
        assert both(query, action, tool) == (known, known)


@pytest.mark.parametrize("required", [True, False])
def test_a_call_has_to_choose_a_required_truth_value(required):
    """So that people need not state it in the environment's words; an optional one is left out."""
    words, required_names = Language(words={"value": {"true": "public"}}), ["value"] * required
    schema = {"properties": {"value": {}}, "required": required_names}
    tool = Tool("v.act", "Perform it.", schema, app="v", language=words)
    for action in (Call("v.act", {"value": True}), "apis.v.act(value=True)"):
        assert both("let everybody see it", action, tool) == (required, required)


def test_a_departure_from_a_default_is_stated_by_its_name():
    """A truth value has one other way, so that the parameter's name is enough."""
    schema = {"properties": {"overwrite": {"type": "boolean", "default": False}}}
    tool = Tool("v.act", "Perform something.", schema, app="v")
    action = Call("v.act", {"overwrite": True})
    assert both("overwrite it", action, tool) == (True, True)
    assert both("write it", action, tool) == (False, False)


def test_a_call_that_shows_a_value_informs():
    """In words too; not where the query states the value."""
    tools = {"v.act": ACT, "v.look": Tool("v.look", "", {"properties": {}}, app="v")}
    actions = [[Call("v.look"), Call("v.act", {"value": 31})]]
    results = [[ActionResult(observation="tea costs 31"), ActionResult(observation="")]]
    episode = ReplayedEpisode(Opened(), results)
    for query, informing in (("Pay for tea.", {(0, 0)}), ("Pay 31 for tea.", set())):
        task = Task(id="t", env="x", query=[query], solution=actions, start=Start("s"))
        assert gates.informing(task, tools, episode) == informing


@pytest.mark.parametrize(
    ("value", "start", "earlier", "known"),
    [
        (31, "", ["tea costs 31 today"], True),
        (31, "", ["tea costs 310"], False),
        (31, "You owe 31.", [], True),
        (200, "", ["[100, 200]"], True),
        ("2025-07-04", "", ["It is July 4th, 2025."], True),
        ("./papers/a.txt", "", ['["a.txt"]', "in papers"], True),
        ("./papers/a.txt", "", ['["a.txt"]'], False),
        (20, "", ['{"since": "1999-11-20", "sum": 20.5}'], False),
    ],
)
def test_what_the_environment_shows(value, start, earlier, known):
    """At the start or in an earlier output, as JSON or in words."""
    assert both("do", Call("v.act", {"value": value}), ACT, start, earlier) == (known, known)
