"""Calls as programs and rows by their names, on hand-made outputs: no environment runs."""

from __future__ import annotations

import ast
import json
import random

import pytest

from coevolve.abstraction.goals import GoalSlice
from coevolve.abstraction.program_writer import check_apart, one_request, write_program
from coevolve.abstraction.references import reference, row_words
from coevolve.abstraction.request_writer import RequestWriter, Unwritable
from coevolve.abstraction.trace import read_trace
from coevolve.abstraction.turns import TurnPlan
from coevolve.environments.protocol import ActionResult, CodeSyntax, Language, Opened, Tool
from coevolve.grounding.sources import ValueSource
from coevolve.records import Call, Effect, Exploration, Start, Step

SONGS = [
    {"song_id": 31, "title": "Cedar", "plays": 1200, "by": {"name": "Ann"}},
    {"song_id": 32, "title": "Lamp", "plays": 3400, "by": {"name": "Bo"}},
    {"song_id": 33, "title": "Lamp", "plays": 5600, "by": {"name": "Cy"}},
]
CODE = CodeSyntax(
    call="apis.{tool}({arguments})",
    setup={"word": 'word = apis.me.word()["word"]', "m_token": "m_token = apis.m.login(word=word)"},
    arguments={"m.like": {"token": "m_token"}, "m.songs": {"limit": "20"}},
    end="apis.me.finish()",
    ends=["me.finish"],
)


def tool(name: str, parameters: list[str], read_only: bool = False, **language) -> Tool:
    schema = {"type": "object", "properties": {p: {} for p in parameters}, "required": parameters}
    return Tool(
        name,
        name,
        schema,
        app=name.partition(".")[0],
        read_only=read_only,
        language=Language(**language),
    )


def tools(rows: str = "{title} by {by.name}") -> dict[str, Tool]:
    found = [
        tool(
            "m.songs",
            [],
            True,
            rows={"song_id": rows},
            facts={"plays": "the plays of the song {title} by {by.name}"},
        ),
        tool("m.like", ["song_id"], do=["like the song {song_id}"], lookup_only=["song_id"]),
        tool(
            "m.tag",
            ["song_id", "labels"],
            do=["tag {song_id} with {labels}"],
            lookup_only=["song_id"],
        ),
        tool("me.finish", ["answer"], do=["tell me {answer}"], lookup_only=["answer"]),
    ]
    return {one.name: one for one in found}


def done(call: Call, told, changed: bool = False) -> Step:
    effects = [Effect("t", "1", "", "add", 1)] if changed else []
    return Step(0, call, json.dumps(told), None, effects, "")


def slice_of(steps: list[Step], known: dict[str, Tool], opened: Opened = Opened()):
    """The trace of the steps, and all of them as one slice."""
    exploration = Exploration(id="e", env="x", mode="curious", start=Start("default"), steps=steps)
    read = read_trace(exploration, opened, known)
    results = {
        n: ActionResult(observation=step.observation, effects=step.effects)
        for n, step in enumerate(steps)
    }
    found = GoalSlice(
        (len(steps) - 1,), frozenset(), {n: step.action for n, step in enumerate(steps)}, results
    )
    return read, found


def written(steps: list[Step], known: dict[str, Tool]) -> tuple[str, str]:
    """(request, program)."""
    read, found = slice_of(steps, known)
    writer = RequestWriter(read, found, random.Random(0))
    turn = TurnPlan(list(found.calls), [len(steps) - 1])
    request = writer.request(turn)
    return request, write_program(read, found, [turn], [request], CODE)


def test_an_identifier_is_said_and_found_by_the_name_of_its_row():
    """The row's own words, from nested keys too; the program selects by the same words, after the
    login that it needs."""
    steps = [
        done(Call("m.songs"), SONGS),
        done(Call("m.like", {"song_id": 32}), {"message": "liked"}, True),
    ]
    request, program = written(steps, tools())
    assert request == "like the song Lamp by Bo"
    assert program.split("\n") == [
        'word = apis.me.word()["word"]',
        "m_token = apis.m.login(word=word)",
        "songs = apis.m.songs(limit=20)",
        'apis.m.like(song_id=next(row for row in songs if row["title"] == "Lamp" '
        'and row["by"]["name"] == "Bo")["song_id"], '
        "token=m_token)",
        "apis.me.finish()",
    ]
    ast.parse(program)


def test_two_rows_of_one_name_are_no_request():
    """Who hears the name could not tell which."""
    steps = [done(Call("m.songs"), SONGS), done(Call("m.like", {"song_id": 32}), {}, True)]
    with pytest.raises(Unwritable, match="ambiguous_reference"):
        written(steps, tools("{title}"))
    steps[1] = done(Call("m.like", {"song_id": 31}), {}, True)
    assert written(steps, tools("{title}"))[0] == "like the song Cedar"


def test_a_fact_is_asked_for_and_the_answer_ends_the_program():
    """The value comes from the row, the completion stands last and only once."""
    steps = [done(Call("m.songs"), SONGS), done(Call("me.finish", {"answer": 3400}), {}, True)]
    request, program = written(steps, tools())
    assert request == "tell me the plays of the song Lamp by Bo"
    assert program.split("\n")[-1].startswith("apis.me.finish(answer=next(row for row in songs if ")
    assert program.count("me.finish") == 1


def test_facts_and_names_do_not_stand_for_other_things():
    """An identifier is no answer, and a number that happens to be equal is no identifier."""
    known = tools()
    asked, _ = slice_of(
        [done(Call("m.songs"), SONGS), done(Call("me.finish", {"answer": 32}), {}, True)], known
    )
    assert asked.problems[1] == "unknowable"
    liked, _ = slice_of(
        [done(Call("m.songs"), SONGS), done(Call("m.like", {"song_id": 3400}), {}, True)], known
    )
    assert liked.problems[1] == "unknowable"


def test_a_row_without_the_words_is_not_referred_to():
    """A key that is missing, or no text, leaves the value unsayable."""
    known = tools()
    for row in (
        {"song_id": 31, "title": "Cedar"},
        {"song_id": 31, "title": "", "by": {"name": "Ann"}},
        {"song_id": 31, "title": 5},
    ):
        step = done(Call("m.songs"), [row])
        assert reference(known, step, (0, "song_id"), "m") is None or row["title"] == "Cedar"
        assert row_words("{title} by {by.name}", [row], (0,)) is None
    assert row_words("{title}", [{"title": "Cedar"}], (0,)) == {"title": "Cedar"}


def test_literals_inside_lists_stay_literals_and_names_are_kept_apart():
    """Lists and texts with quotes are written as they are; two calls of one kind get two names."""
    known = tools()
    steps = [
        done(Call("m.songs"), SONGS[:1]),
        done(Call("m.songs"), SONGS[1:2]),
        done(Call("m.like", {"song_id": 31}), {}, True),
        done(Call("m.tag", {"song_id": 32, "labels": ['a "b"', "c\n"]}), {}, True),
    ]
    read, found = slice_of(steps, known)
    turn = TurnPlan(list(found.calls), [3])
    program = write_program(
        read, found, [turn], ['tag Lamp and Cedar by Ann and Bo: a "b" and c\n'], CODE
    )
    assert "songs = " in program and "songs_2 = " in program
    call = next(
        n for n in ast.walk(ast.parse(program)) if isinstance(n, ast.keyword) and n.arg == "labels"
    )
    assert ast.literal_eval(call.value) == ['a "b"', "c\n"]


def test_people_in_rows_are_found_by_their_names_and_never_by_their_place():
    """Whether the row is the person, holds the person, or stands in another row; what has no name
    has no program."""
    known = tools()
    people = tool(
        "m.people", [], True, rows={"mail": "{name}"}, refer={"mail": "the mail of somebody"}
    )
    known |= {
        "m.people": people,
        "m.write": tool("m.write", ["mail"], do=["write to {mail}"], lookup_only=["mail"]),
    }
    bo, ann = {"name": "Bo", "mail": "b@x"}, {"name": "Ann", "mail": "a@x"}
    for told, expected in (
        ([ann, bo], 'next(row for row in people if row["name"] == "Bo")["mail"]'),
        (
            [{"to": ann}, {"to": bo}],
            'next(row for row in people if row["to"]["name"] == "Bo")["to"]["mail"]',
        ),
        (
            [{"all": [ann]}, {"all": [ann, bo]}],
            'next(row for part in people for row in part["all"] if row["name"] == "Bo")["mail"]',
        ),
    ):
        _, program = written(
            [done(Call("m.people"), told), done(Call("m.write", {"mail": "b@x"}), {}, True)], known
        )
        assert program.split("\n")[1] == f"apis.m.write(mail={expected})"
    with pytest.raises(Unwritable, match="by_place"):
        written(
            [
                done(Call("m.people"), [{"mail": "a@x"}, {"mail": "b@x"}]),
                done(Call("m.write", {"mail": "b@x"}), {}, True),
            ],
            known,
        )


def test_a_look_up_by_words_that_its_clause_lacks_is_not_written():
    """Two groups may have a thing of the same name: the clause has to name the group that was
    looked in."""
    known = tools()
    known["m.inside"] = tool(
        "m.inside", ["song_id"], True, rows={"part_id": "{name}"}, lookup_only=["song_id"]
    )
    known["m.cut"] = tool("m.cut", ["part_id"], do=["cut {part_id}"], lookup_only=["part_id"])
    parts = [{"part_id": 71, "name": "chorus"}]
    steps = [
        done(Call("m.songs"), SONGS),
        done(Call("m.inside", {"song_id": 31}), parts),
        done(Call("m.cut", {"part_id": 71}), {}, True),
    ]
    read, found = slice_of(steps, known)
    turn = TurnPlan([0, 1, 2], [2])
    with pytest.raises(Unwritable, match="unstated_lookup"):
        write_program(read, found, [turn], ["cut chorus"], CODE)
    assert 'row["title"] == "Cedar"' in write_program(
        read, found, [turn], ["cut chorus of Cedar by Ann"], CODE
    )


@pytest.mark.parametrize(
    ("name", "effect", "why"),
    [
        ("m.rename", Effect("t", "1", "title", "set", "New"), "overwrites"),
        ("m.delete", Effect("t", "1", "", "remove", None), "cancels"),
        ("m.delete", Effect("other", "1", "", "remove", None), None),
        ("m.fill", Effect("t", "1", "songs", "set", "New"), None),
    ],
)
def test_what_one_clause_makes_is_not_undone_by_the_next(name, effect, why):
    """Write a note and rename it is one note of another name, make and delete is nothing; filling
    what was made is no such thing."""
    known = tools() | {n: tool(n, ["song_id", "title"]) for n in ("m.make", name)}
    made = Step(
        0,
        Call("m.make", {"title": "Old"}),
        '{"song_id": 44}',
        None,
        [Effect("t", "1", "", "add", {})],
        "",
    )
    later = Step(0, Call(name, {"song_id": 44, "title": "New"}), "{}", None, [effect], "")
    read, found = slice_of([made, later], known)
    read.links[1][("song_id",)] = ValueSource(0, ("song_id",))
    turns = [TurnPlan([0], [0]), TurnPlan([1], [1])]
    if why is None:
        check_apart(read, found, turns)
    else:
        with pytest.raises(Unwritable, match=why):
            check_apart(read, found, turns)


def test_a_program_ends_once():
    """Two answers cannot both be given."""
    known = tools()
    steps = [
        done(Call("m.songs"), SONGS),
        done(Call("me.finish", {"answer": 3400}), {}, True),
        done(Call("me.finish", {"answer": 1200}), {}, True),
    ]
    read, found = slice_of(steps, known)
    with pytest.raises(Unwritable, match="ends_twice"):
        write_program(read, found, [TurnPlan(list(found.calls), [1, 2])], [""], CODE)


@pytest.mark.parametrize(
    ("turns", "request_"),
    [
        (["like the song"], "Like the song."),
        (["what is it?", 'say "no!"'], 'What is it? Also, say "no!".'),
        (["stop.", " go"], "Stop. Also, go."),
    ],
)
def test_turns_become_sentences_of_one_request(turns, request_):
    """Each with its own end and a capital letter."""
    assert one_request(turns) == request_
