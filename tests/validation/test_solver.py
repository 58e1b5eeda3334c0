"""Validation by an agent that sees only the query: program policies with known solve rates, and a
scripted model."""

from __future__ import annotations

import json

import msgspec
import pytest
from abstraction_support import SHOP, variant
from competent_model import act
from scripted_server import NO_CHOICE, ScriptedServer

from coevolve.agents.drivers import ProgramPolicy
from coevolve.agents.policies import nothing, solution
from coevolve.agents.rollout import make_policy
from coevolve.environments.client import Pool
from coevolve.records import UNSET, Call, Origin, Start, Task, Verdict, Verifier, task_id
from coevolve.validation.solver import Solver
from coevolve.validation.validate import validate


def task(env, item="tea", amount=31):
    query, start = [f"I want to pay for {item}."], Start("default")
    actions = [[Call("price", {"item": item}), Call("pay", {"amount": amount})]]
    id_ = task_id(env, start, query, actions, Verifier())
    return Task(
        id=id_, env=env, query=query, solution=actions, start=start, origin=Origin("synthesis")
    )


def judge(env, tasks, program, **options):
    gate = options.pop("gate", "strict")
    solver = Solver(ProgramPolicy("agent", program), **options)
    with Pool(env) as pool:
        return list(validate(tasks, lambda name: pool, gate=gate, solver=solver))


def sometimes(share):
    """Does the task in the trials whose sample number says so."""
    return lambda episode, pool: (
        solution(episode, pool) if episode.sample % share == 0 else nothing(episode, pool)
    )


@pytest.mark.parametrize(
    ("program", "successes"), [(solution, 6), (sometimes(2), 3), (sometimes(3), 2), (nothing, 0)]
)
def test_the_solve_rate_is_counted(program, successes):
    """As many successes as the policy has by construction; the execution alone decides, unless
    successes are asked for."""
    (verdict,) = judge(SHOP, [task(SHOP)], program, trials=6)
    assert verdict.verdict == "valid"
    assert (verdict.attempts.learner, verdict.attempts.successes, verdict.attempts.trials) == (
        "agent",
        successes,
        6,
    )
    (verdict,) = judge(SHOP, [task(SHOP)], program, trials=6, min_solved=3)
    assert verdict.verdict == ("valid" if successes >= 3 else "invalid")
    assert verdict.reason == (
        "" if successes >= 3 else f"solved {successes} of 6 times, fewer than 3"
    )


def test_only_what_the_gate_passed_is_tried():
    """A task that fails its replay keeps its verdict and has no attempts."""
    wrong = task(SHOP, "gold")
    failed, fine = judge(SHOP, [wrong, task(SHOP)], solution, trials=2)
    assert failed.verdict == "invalid" and failed.attempts is UNSET
    assert fine.verdict == "valid" and fine.attempts.successes == 2


def test_the_papers_two_clauses():
    """Success of an attempt, or a positive reward of one; neither is a discard."""
    assert judge(SHOP, [task(SHOP)], sometimes(3), gate="paper", trials=3)[0].verdict == "valid"
    (verdict,) = judge(SHOP, [task(SHOP)], nothing, gate="paper", trials=3)
    assert verdict.verdict == "invalid" and verdict.reason == "no attempt succeeds or has a reward"
    dense = variant("dense")
    (verdict,) = judge(dense, [task(dense)], nothing, gate="paper", trials=1)
    assert verdict.verdict == "valid" and verdict.attempts.successes == 0


def buyer(request):
    """Pays for what the query names."""

    def plan(item):
        yield "pay", {"amount": (yield "price", {"item": item})["price"]}

    return act(plan(request["messages"][0]["content"].split()[-1].strip(".")), request)


def test_a_model_sees_only_the_query(coevolve, tmp_path):
    """The command with a scripted model: no request holds the solution; the solve rate is the
    task's difficulty."""
    tasks = [task(SHOP), task(SHOP, "milk", 17)]
    (tmp_path / "tasks.jsonl").write_bytes(b"".join(msgspec.json.encode(t) + b"\n" for t in tasks))
    with ScriptedServer(buyer) as server:
        options = [
            "--model",
            "wise",
            "--samples",
            "3",
            "--base-url",
            server.url,
            "--journal",
            tmp_path / "journal",
        ]
        options += [
            "--env",
            SHOP,
            "--verdicts",
            tmp_path / "verdicts.jsonl",
            tmp_path / "tasks.jsonl",
        ]
        result = coevolve("validate", *options)
        for request in server.requests:
            assert request["messages"][0] == {
                "role": "user",
                "content": request["messages"][0]["content"],
            }
            assert request["messages"][0]["content"] in [t.query[0] for t in tasks]
            if len(request["messages"]) == 1:
                shown = json.dumps([request["messages"], request["tools"]])
                assert "31" not in shown and "17" not in shown
        asked = len(server.requests)
        assert asked == 2 * 3 * 3 and coevolve("validate", *options).stdout == result.stdout
        assert len(server.requests) == asked, "a rerun pays for nothing"
    for line in result.stdout.splitlines():
        kept = msgspec.json.decode(line, type=Task)
        assert (kept.difficulty.learner, kept.difficulty.successes, kept.difficulty.trials) == (
            "wise",
            3,
            3,
        )
    verdicts = [
        msgspec.json.decode(v, type=Verdict)
        for v in (tmp_path / "verdicts.jsonl").read_bytes().splitlines()
    ]
    assert [verdict.attempts.successes for verdict in verdicts] == [3, 3]


def test_attempts_that_the_server_failed_are_no_trials(tmp_path):
    """A lost attempt is not counted; a task without any other is an error, not invalid."""
    from coevolve.models.options import ServiceOptions
    from coevolve.models.service import Models

    for faults, expected in (
        ({0: NO_CHOICE}, ("valid", 1, 1)),
        ({0: NO_CHOICE, 1: NO_CHOICE}, ("error", 0, 0)),
    ):
        place = tmp_path / str(len(faults))
        with (
            ScriptedServer(buyer, faults) as server,
            Models(
                "validate", ServiceOptions(base_url=server.url, journal=str(place), concurrency=1)
            ) as models,
            Pool(SHOP) as pool,
        ):
            solver = Solver(make_policy("wise", models=models), trials=2)
            (verdict,) = validate([task(SHOP)], lambda name: pool, solver=solver)
        tried = (
            (verdict.attempts.successes, verdict.attempts.trials) if verdict.attempts else (0, 0)
        )
        assert (verdict.verdict, *tried) == expected
