"""Rows and facts in what an explorer sees: identifiers are passed on, facts are told to the user,
and neither is taken for the other."""

from __future__ import annotations

import json
import random

from coevolve.environments.protocol import Language, Opened, Tool
from coevolve.exploration.arguments import KnownValues, draw
from coevolve.exploration.episode import ExplorerEpisode
from coevolve.exploration.explorers import answer_user
from coevolve.exploration.memory import Memory, called, goals_of
from coevolve.records import Call, Start, Step, Task


def tool(name: str, parameters: dict, read_only: bool = False, **language) -> Tool:
    schema = {"type": "object", "properties": parameters, "required": list(parameters)}
    return Tool(
        name,
        name,
        schema,
        app=name.partition(".")[0],
        read_only=read_only,
        language=Language(**language),
    )


NUMBER = {"type": ["number", "string"]}
TOOLS = {
    one.name: one
    for one in (
        tool(
            "m.show",
            {},
            True,
            rows={"song_id": "{title}"},
            facts={"plays": "the plays of {title}", "stars": "the stars of {title}"},
        ),
        tool(
            "m.like",
            {"song_id": {"type": "integer"}},
            do=["like {song_id}"],
            lookup_only=["song_id"],
        ),
        tool("me.finish", {"answer": NUMBER}, do=["tell me {answer}"], lookup_only=["answer"]),
    )
}
SHOWN = Step(
    0, Call("m.show"), json.dumps([{"song_id": 4711, "title": "Lamp", "plays": 3400, "stars": 4}])
)


def told(seed: int) -> list[Call]:
    """What the explorer calls after it saw the row."""
    here = ExplorerEpisode(Opened(), Memory(TOOLS), random.Random(seed))
    here.record(SHOWN)
    explorer, calls = answer_user(here), []
    for call in explorer:
        calls.append(call)
        here.record(Step(0, call, '{"message": "done"}'))
        break
    return calls


def test_facts_are_told_and_nothing_else():
    """Now and then, with the value just read; never an identifier, never a number that everything
    equals."""
    calls = [call for seed in range(60) for call in told(seed)]
    assert 10 <= len(calls) <= 50
    assert {(call.tool, call.arguments["answer"]) for call in calls} == {("me.finish", 3400)}


def test_an_identifier_is_drawn_from_its_rows_and_an_answer_from_facts():
    """`draw` gives a song id to what wants one, and a fact to what takes anything that is looked
    up."""
    known = KnownValues({})
    known.see(SHOWN, TOOLS["m.show"])
    rng = random.Random(1)
    assert {draw(rng, TOOLS["m.like"], "song_id", known) for _ in range(20)} == {4711}
    assert {draw(rng, TOOLS["me.finish"], "answer", known) for _ in range(20)} <= {3400, 4}


def test_a_task_of_code_teaches_the_tools_that_it_calls():
    """Coverage counts the APIs of programs, and their goals are the goals of a task whose kind
    names none."""
    code = "songs = apis.m.show()\napis.m.like(song_id=songs[0])\napis.me.finish()"
    task = Task(
        id="t", env="x", kind="benchmark", query=["q"], solution=[[code]], start=Start("default")
    )
    assert called(task) == ["m.show", "m.like", "me.finish"] and goals_of(task, TOOLS) == [
        "m.like",
        "me.finish",
    ]
    memory = Memory(TOOLS)
    memory.learn_task(task)
    assert memory.used["m.like"] > memory.used["m.show"] > 0
