"""Abstraction with a model: scripted answers, explorations really executed, every claim checked."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import pytest
from abstraction_support import SHOP, execute, variant
from competent_model import FENCE
from msgspec.structs import replace
from scripted_server import EMPTY, ScriptedServer
from shopper_model import obedient, shopper

from coevolve.abstraction.model_writer import ModelWriter, write
from coevolve.environments.client import Pool
from coevolve.environments.replay import ReplayJob, effects_digest, replay
from coevolve.models.options import ServiceOptions
from coevolve.models.service import Models
from coevolve.records import UNSET, Call, Context, Start, Task
from coevolve.runs import Journal

PAD = f"{sys.executable} {Path(__file__).parents[1] / 'code_pad.py'}"
TALKATIVE = variant("talkative")
ERRAND = [
    Call("add", {"item": "milk"}),
    Call("price", {"item": "tea"}),
    Call("add", {"item": "gold"}),
    Call("pay", {"amount": 31}),
]


class Written:
    """What came of it."""

    def __init__(self, tasks, rejects, requests):
        self.tasks, self.rejects, self.requests = tasks, rejects, requests

    @property
    def reasons(self):
        return [rejected.reason for rejected in self.rejects]


def abstracted(env, explored, answer, tmp_path, *, journal=None, faults=None, **options):
    """Runs the stage on explorations made of calls (or given ones), with a model that answers
    so."""
    rejects = []
    said = (
        answer
        if callable(answer)
        else lambda request: answer if isinstance(answer, str) else json.dumps(answer)
    )
    with (
        ScriptedServer(said, faults) as server,
        Models(
            "abstract", ServiceOptions(base_url=server.url, journal=str(tmp_path / "journal"))
        ) as models,
        Pool(env) as pool,
    ):
        given = [
            execute(pool, Start("default"), calls) if isinstance(calls[0], Call) else calls
            for calls in explored
        ]
        flat = [e for one in given for e in (one if isinstance(one, list) else [one])]
        writer = ModelWriter(models, "wise", **options)
        tasks = list(write(flat, lambda name: pool, writer, journal=journal, reject=rejects.append))
    return Written(tasks, rejects, server.requests)


def proposal(*turns, **changes):
    """A proposal of turns (query, steps); a step is a number or an action in full."""
    solution = [[{"step": s} if isinstance(s, int) else s for s in steps] for _, steps in turns]
    said = [{"query": query, "solution": s} for (query, _), s in zip(turns, solution, strict=True)]
    whole = {
        "exploration": 0,
        "turns": said,
        "guideline": "Look it up.",
        "confidence": 0.8,
        **changes,
    }
    return {name: value for name, value in whole.items() if value is not None}


def composed(tool, **arguments):
    return {"step": None, "tool": tool, "arguments": arguments}


PAY = ("I want to pay for my tea.", [1, 3])


def test_a_grounded_proposal_becomes_a_task(tmp_path):
    """Query, executed solution, guideline and confidence; kind, effects and lineage as the other
    writer gives them."""
    written = abstracted(SHOP, [ERRAND], {"tasks": [proposal(PAY)]}, tmp_path)
    (task,) = written.tasks
    assert not written.rejects and task.query == [PAY[0]] and task.kind == "pay/lookup"
    assert task.solution == [[ERRAND[1], ERRAND[3]]]
    assert (task.author.model, task.author.guideline, task.author.confidence) == (
        "wise",
        "Look it up.",
        0.8,
    )
    assert task.author.composed == 0 and task.origin.mode == "random" and task.origin.iteration == 2
    with Pool(SHOP) as pool:
        job = ReplayJob(task.start, task.solution)
        assert task.effects == effects_digest(pool.tools, job, replay(pool, [job])[0])


def test_a_task_without_a_model_has_no_author():
    """The field is absent, not null: records of the program writer keep their bytes."""
    task = Task(id="x", env=SHOP, query=["x"], start=Start("default"))
    assert task.author is UNSET and b"author" not in msgspec.json.encode(task)


BAD = {
    "fabricated": [
        proposal(("I want to pay for my tea.", [1, 9])),
        proposal(
            (
                "I want to pay for my tea.",
                [1, {"step": 3, "tool": "pay", "arguments": {"amount": 30}}],
            )
        ),
        proposal(
            (
                "I want to pay for my tea.",
                [1, {"step": 3, "tool": "add", "arguments": {"item": "tea"}}],
            )
        ),
        proposal(("I want to pay for my tea.", [-1])),
    ],
    "out_of_order": [
        proposal(("I want to pay for my tea.", [3, 1])),
        proposal(("I want tea.", [0, 0])),
    ],
    "failed_step": [proposal(("I need gold and want to pay for my tea.", [1, 2, 3]))],
    "unknown_tool": [proposal(("I want to steal tea.", [composed("steal", item="tea")]))],
    "ungrounded": [
        proposal(("I want to pay for my tea.", [3])),
        proposal(("I want to pay for my tea.", [1, composed("pay", amount=77)])),
        proposal(("I want something on my list.", [0])),
    ],
    "not_reproduced": [proposal(("I need gold.", [composed("add", item="gold")]))],
    "names_tool": [
        proposal(("I want you to use the price tool for my tea and pay.", [1, 3])),
        proposal(("I want pay(31) for my tea.", [1, 3])),
        proposal(("I want `pay` for my tea.", [1, 3])),
    ],
    "third_person": [
        proposal(("The user wants to pay for tea.", [1, 3])),
        proposal(("Tea is needed. The user would like to pay for it.", [1, 3])),
        proposal(("User: I want to pay for my tea.", [1, 3])),
    ],
    "turn_without_effect": [proposal(("I wonder about tea.", [1]))],
    "empty": [
        proposal(("I want nothing.", [])),
        proposal(("  ", [0])),
        proposal(),
        proposal(("I need milk.", [{"step": None}])),
    ],
    "too_many_goals": [proposal(("I need milk.", [0]), PAY)],
    "too_many_steps": [proposal(("I need milk.", [composed("add", item="milk")] * 31))],
    "too_long": [proposal(("I need milk. " * 200, [0]))],
    "no_such_exploration": [proposal(PAY, exploration=1), proposal(PAY, exploration=-1)],
    "low_confidence": [proposal(PAY, confidence=0.4)],
    "bad_proposal": [
        proposal(PAY, confidence=None),
        proposal(PAY, confidence="high"),
        proposal(PAY, confidence=1.2),
        proposal(PAY, confidence=True),
        proposal(PAY, guideline=None),
        proposal(PAY, guideline="half \ud83d a pair"),
        proposal(PAY, ("I need milk.\ud83d", [0])),
    ],
}


GOOD = proposal(("I need milk.", [0]))


def test_what_is_not_grounded_is_rejected_with_its_reason(tmp_path):
    """Every bad proposal of one answer is a reject; the good one beside them is kept."""
    bad = [(reason, one) for reason, all_ in BAD.items() for one in all_]
    bad = [(reason, one) for reason, one in bad if reason != "bad_proposal"]
    answer = {"tasks": [*(one for _, one in bad), GOOD]}
    written = abstracted(SHOP, [ERRAND], answer, tmp_path, per_context=len(bad) + 1)
    queries = [[turn["query"] for turn in one["turns"]] for _, one in bad]
    wanted = list(zip([reason for reason, _ in bad], queries, strict=True))
    assert [(rejected.reason, rejected.query) for rejected in written.rejects] == wanted
    assert [task.query for task in written.tasks] == [["I need milk."]]


@pytest.mark.parametrize("bad", BAD["bad_proposal"])
def test_what_is_no_proposal_is_rejected_with_its_text(bad, tmp_path):
    """The model is asked again; then the bad one is a reject, the good one beside it is kept."""
    written = abstracted(SHOP, [ERRAND], {"tasks": [bad, GOOD]}, tmp_path)
    assert written.reasons == ["bad_proposal"] and PAY[0] in written.rejects[0].detail
    assert [task.query for task in written.tasks] == [["I need milk."]]
    assert len(written.requests) == 2, "asked again, reply kept"
    assert "not the answer that was asked for" in written.requests[1]["messages"][-1]["content"]


def test_a_composed_action_is_executed_before_it_is_believed(tmp_path):
    """It counts as composed; its literal may come from the query or an earlier observation."""
    good = proposal(
        ("I want to pay for my tea and then I need bread.", [1, 3, composed("add", item="bread")])
    )
    (task,) = abstracted(SHOP, [ERRAND], {"tasks": [good]}, tmp_path).tasks
    assert task.author.composed == 1 and task.solution[0][-1] == Call("add", {"item": "bread"})


def test_a_step_left_out_renumbers_what_comes_after(tmp_path):
    """The identifier is taken from the execution by itself, not from the exploration; said in the
    query it is refused."""
    calls = [
        Call("add", {"item": "milk"}),
        Call("add", {"item": "tea"}),
        Call("cancel", {"line_id": 4002}),
    ]
    said = ("I need tea. No, I take it back.", [1, 2])
    spoken = ("I need tea. No, I take back 4002.", [1, 2])
    written = abstracted(
        variant("numbered"), [calls], {"tasks": [proposal(said), proposal(spoken)]}, tmp_path
    )
    (task,) = written.tasks
    assert task.solution == [[Call("add", {"item": "tea"}), Call("cancel", {"line_id": 4001})]]
    assert [(r.reason, r.detail) for r in written.rejects] == [("unknowable", "line_id 4002")]


def test_a_short_identifier_is_one_where_the_environment_said_it_first(tmp_path):
    """Two letters and digits that only an output shows; what the actor said first is the user's to
    say."""
    calls = [Call("price", {"item": "tea"}), Call("pay", {"amount": 31})]
    said = proposal(("I want to pay for my tea; record i20 is next to it.", [0, 1]))
    with Pool(SHOP) as pool:
        plain = execute(pool, Start("default"), calls)

    def seen(*observations: str):
        steps = [
            replace(s, observation=o or s.observation)
            for s, o in zip(plain.steps, observations, strict=True)
        ]
        return [replace(plain, steps=steps)]

    for observed, reasons in (
        (seen("", '{"next": "i20"}'), ["unknowable"]),
        (seen("", "saved beside I20, done"), ["unknowable"]),
        (seen("", "saved beside i201"), []),
        (seen("", ""), []),
    ):
        written = abstracted(SHOP, [observed], {"tasks": [said]}, tmp_path)
        assert written.reasons == reasons and len(written.tasks) == 1 - len(reasons)
    asked = [Call("add", {"item": "i20"}), *calls]
    with Pool(SHOP) as pool:
        own = execute(pool, Start("default"), asked)
    steps = [*own.steps[:2], replace(own.steps[2], observation="i20")]
    said = proposal(("I want to pay for my tea; record i20 is next to it.", [1, 2]))
    assert not abstracted(SHOP, [[replace(own, steps=steps)]], {"tasks": [said]}, tmp_path).rejects


def test_turns_of_a_conversation(tmp_path):
    """As many turns as the environment has goals; each needs an effect or a compared response of
    its own."""
    turns = [("I need milk.", [0]), ("I want to pay for my tea now.", [1, 3])]
    written = abstracted(TALKATIVE, [ERRAND], {"tasks": [proposal(*turns)]}, tmp_path)
    (task,) = written.tasks
    assert [len(actions) for actions in task.solution] == [
        1,
        2,
    ] and task.kind == "add/given+pay/lookup"


def test_all_rounds_of_a_context_are_one_question(tmp_path):
    """Explorations with one signal go together, wherever they lie; at most --per-context of what
    comes back counts."""
    with Pool(SHOP) as pool:
        made = [execute(pool, Start("default"), ERRAND[: 2 + n]) for n in range(3)]
    about = [
        replace(e, context=Context(signal=s, signal_kind="rare"))
        for e, s in zip(made, "aba", strict=True)
    ]
    said = [
        proposal(("I need milk.", [0]), exploration=n)
        if n < 2
        else proposal((f"I need milk {n}.", [0]))
        for n in range(4)
    ]
    written = abstracted(SHOP, [about], {"tasks": said}, tmp_path, per_context=2)
    first, second = (
        [t for _, t in FENCE.findall(r["messages"][0]["content"]) if '"step"' in t]
        for r in written.requests
    )
    assert sorted(map(len, (first, second))) == [1, 2]
    (task,) = written.tasks
    assert sorted(written.reasons) == ["duplicate", "duplicate", "no_such_exploration"]
    assert task.lineage.signals == ["a"] and task.lineage.explorations == [about[0].id, about[2].id]
    assert task.origin.signal == "rare"


def test_another_observation_is_another_task(tmp_path):
    """The query follows the price that the transcript shows."""
    queries = []
    for env in (SHOP, variant("dear")):
        price = 31 if env == SHOP else 62
        calls = [Call("price", {"item": "tea"}), Call("pay", {"amount": price})]
        (task,) = abstracted(env, [calls], shopper, tmp_path).tasks
        queries += task.query
    assert queries == [
        "I want to pay for my tea; it should be 31.",
        "I want to pay for my tea; it should be 62.",
    ]


def test_orders_in_explorations_change_nothing(tmp_path):
    """A model that obeys orders outside the fences writes the same tasks where observations give
    orders."""
    calls = [Call("price", {"item": "tea"}), Call("pay", {"amount": 31})]
    found = [
        abstracted(variant(name), [calls], obedient, tmp_path) for name in ("preaching", "hushed")
    ]
    assert [t.query for t in found[0].tasks] == [t.query for t in found[1].tasks] != []
    assert [t.solution for t in found[0].tasks] == [t.solution for t in found[1].tasks]
    assert "ORDER" in found[0].requests[0]["messages"][0]["content"]


def test_code_keeps_its_indentation(tmp_path):
    """A step of code is taken over character by character; composed code too."""
    code, more = "if True:\n    for n in 'ab':\n\n        write(n)\n", "def f():\n\twrite(1)"
    with Pool(PAD) as pool:
        exploration = replace(execute(pool, Start("default"), [code]), mode="curious")
    said = proposal(
        ("I want the letters ab.", [0]), ("I want more.", [{"step": None, "code": more}])
    )
    written = abstracted(PAD, [[exploration]], {"tasks": [said]}, tmp_path)
    assert written.tasks[0].solution == [[code], [more]] and not written.rejects


@pytest.mark.parametrize(
    "answer",
    ["I see no task here.", '{"tasks": 5}', "[]", "Tasks: {'tasks': [{'guideline': '\\ud83d'}]}"],
)
def test_an_answer_that_is_none_is_one_reject(answer, tmp_path):
    """Asked again once, then a reject that keeps the reply."""
    written = abstracted(SHOP, [ERRAND], answer, tmp_path)
    assert written.reasons == ["bad_proposal"] and len(written.requests) == 2
    assert answer in written.rejects[0].detail and not written.tasks


def test_an_empty_list_is_an_answer(tmp_path):
    """The model may see nothing worth a task."""
    written = abstracted(SHOP, [ERRAND], {"tasks": []}, tmp_path)
    assert not written.tasks and not written.rejects and len(written.requests) == 1


def test_what_has_no_reply_is_asked_again(tmp_path):
    """An empty completion is a reject that no journal keeps; the rest is not asked again."""
    options = {"tmp_path": tmp_path, "answer": shopper}
    other = [Call("price", {"item": "milk"}), Call("pay", {"amount": 17})]
    both = [ERRAND[1:], other]

    def journal():
        return Journal(tmp_path / "abstract", {})

    kept = journal()
    first = abstracted(SHOP, both, journal=kept, faults={0: EMPTY}, **options)
    kept.close(finished=False)
    assert first.reasons == ["no_reply"] and len(first.tasks) == 1
    kept = journal()
    again = abstracted(SHOP, both, journal=kept, **options)
    assert len(again.tasks) == 2 and len(again.requests) == 1 and kept.reused == 1
