"""Tasks of code from the real AppWorld, without a model: the demo root's explorations become
programs that validation accepts, in every order that keeps what a call needs before it, and nothing
less than the whole passes."""

from __future__ import annotations

import ast
import json
import random
import re
from collections import Counter
from collections.abc import Iterator

import pytest

from coevolve.abstraction.abstract import abstract
from coevolve.agents.code.calls import api_calls
from coevolve.environments.client import Pool
from coevolve.environments.replay import ReplayJob, replay
from coevolve.exploration.explore import explore
from coevolve.exploration.settings import ExploreSettings
from coevolve.records import Call, Exploration, Step, Task, content_id
from coevolve.validation.validate import validate

pytestmark = pytest.mark.appworld


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool("appworld", setup_timeout=300) as running:
        yield running


@pytest.fixture(scope="module")
def explored(pool) -> list[Exploration]:
    return list(explore([], pool, ExploreSettings("curious", episodes=2, max_actions=24, seed=4)))


@pytest.fixture(scope="module")
def tasks(pool, explored) -> list[Task]:
    """Synthesised, and valid by the strict gate."""
    written = list(abstract(explored, lambda env: pool))
    verdicts = list(validate(written, lambda env: pool))
    assert all(
        verdict.controls.get("nothing") == 0.0 for verdict in verdicts if verdict.verdict == "valid"
    )
    assert all(
        verdict.controls["hollow"] == 0.0 for verdict in verdicts if verdict.verdict == "valid"
    )
    return [
        task for task, verdict in zip(written, verdicts, strict=True) if verdict.verdict == "valid"
    ]


def test_calls_log_in_by_themselves_and_try_more_than_one_app(explored):
    """Explorers say no tokens, and much of what they do works."""
    steps = [step for exploration in explored for step in exploration.steps]
    assert all("access_token" not in step.action.arguments for step in steps)
    assert sum(step.error is None for step in steps) > len(steps) / 2
    assert len({step.action.tool.partition(".")[0] for step in steps}) >= 5


def test_a_task_is_one_request_and_one_program(tasks, pool):
    """Natural words, no API names, no identifiers; the program logs in, looks things up by name and
    completes the task."""
    assert len(tasks) >= 4 and any("+" in task.kind for task in tasks)
    for task in tasks:
        (query,), ((program,),) = task.query, task.solution
        assert query[0].isupper() and not any(
            tool in query or tool.partition(".")[2] + "(" in query for tool in pool.tools
        )
        assert "_id" not in query and "{" not in query
        calls = api_calls(program)
        assert calls[-1] == "supervisor.complete_task" and set(calls) <= set(pool.tools)
        assert any(name.endswith(".login") for name in calls) and "access_token=" in program
        for tool in (part.rpartition("/")[0] for part in task.kind.split("+")):
            assert tool in calls


def test_the_reference_passes_in_every_order_that_keeps_its_needs(tasks, pool):
    """Statements of different apps change places, as far as no name is used before it is bound: the
    verifier accepts each order."""
    jobs, moved = [], Counter()
    for task in tasks:
        for order in orders(task.solution[0][0], seed=task.id, count=2):
            jobs.append(ReplayJob(task.start, [[order]], task))
            moved[task.id] += order != task.solution[0][0]
    for job, episode in zip(jobs, replay(pool, jobs), strict=True):
        assert episode.failure is None and episode.graded.success, (
            job.turns,
            episode.graded.reason,
        )
    assert sum(moved.values()) >= 2


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("collateral damage", lambda lines: [*lines[:-1], *NOTE, lines[-1]]),
        ("no completion", lambda lines: lines[:-1]),
        (
            "failure declared",
            lambda lines: [*lines[:-1], 'apis.supervisor.complete_task(status="fail")'],
        ),
        ("only completion", lambda lines: lines[-1:]),
    ],
)
def test_less_or_more_than_the_task_fails(name, change, tasks, pool):
    """Whatever the program does beside, or leaves out, is no success."""
    jobs = [
        ReplayJob(task.start, [["\n".join(change(task.solution[0][0].split("\n")))]], task)
        for task in tasks
    ]
    episodes = replay(pool, jobs)
    answers = ["answer=" in task.solution[0][0] for task in tasks]
    for task, episode, asked in zip(tasks, episodes, answers, strict=True):
        if not (asked and name == "only completion"):  # its last line alone cannot run
            assert episode.failure is None, episode.flat
        assert not episode.graded.success, task.query


def test_a_question_becomes_an_answer(pool):
    """What an API told is asked for in words and handed over by the call that completes the task; a
    guess is not accepted."""
    start = pool.start("question")
    (session,) = pool.open([start])
    (looked,) = pool.step([(session, 0, [Call("spotify.show_song_library", {})])])
    song = json.loads(looked[0].observation)[2]
    calls = [
        Call("spotify.show_song_library", {}),
        Call("supervisor.complete_task", {"answer": song["duration"]}),
    ]
    (told,) = pool.step([(session, 0, calls[1:])])
    pool.close([session])
    steps = [
        Step(0, call, result.observation, result.error, result.effects, result.state)
        for call, result in zip(calls, [*looked, *told], strict=True)
    ]
    exploration = Exploration(
        id=content_id("q"), env=pool.name, mode="curious", start=start, steps=steps
    )
    (task,) = abstract([exploration], lambda env: pool)
    assert f'the length in seconds of the song "{song["title"]}"' in task.query[0]
    program = task.solution[0][0]
    assert f'if row["title"] == "{song["title"]}")["duration"])' in program.split("\n")[-1]
    (verdict,) = validate([task], lambda env: pool)
    assert verdict.verdict == "valid", verdict.reason
    guesses = [
        f"apis.supervisor.complete_task(answer={answer})"
        for answer in (song["duration"] + 1, '"unknown"')
    ]
    for episode in replay(pool, [ReplayJob(start, [[guess]], task) for guess in guesses]):
        assert not episode.graded.success


NOTE = [
    "rows = apis.supervisor.show_account_passwords()",
    'word = next(row["password"] for row in rows if row["account_name"] == "simple_note")',
    'name = apis.supervisor.show_profile()["email"]',
    'key = apis.simple_note.login(username=name, password=word)["access_token"]',
    'apis.simple_note.create_note(title="Not asked for", content="at all", access_token=key)',
]


RECEIVERS = {"gmail", "file_system"}
"""Apps that other apps write to: receipts and notices."""
READS = re.compile(r"\.(?:show|search|login)")


def orders(program: str, *, seed: str, count: int) -> Iterator[str]:
    """Random orders of a program's statements: names are bound before they are used, each app keeps
    its own order, what arrives by email or as a file is looked at after the calls that may send it,
    and the completion stays last."""
    statements = ast.parse(program).body
    needs = [_needs(statements, index) for index in range(len(statements))]
    rng = random.Random(seed)
    for _ in range(count):
        done: list[int] = []
        while len(done) < len(statements):
            done.append(
                rng.choice(
                    [i for i in range(len(statements)) if i not in done and needs[i] <= set(done)]
                )
            )
        yield "\n".join(ast.unparse(statements[i]) for i in done)


def _needs(statements: list[ast.stmt], index: int) -> set[int]:
    mine = statements[index]
    if index == len(statements) - 1:
        return set(range(index))
    apps = {name.partition(".")[0] for name in api_calls(ast.unparse(mine))}
    used = {node.id for node in ast.walk(mine) if isinstance(node, ast.Name)}
    found = set()
    for earlier in range(index):
        bound = {
            node.id
            for node in ast.walk(statements[earlier])
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        own = {name.partition(".")[0] for name in api_calls(ast.unparse(statements[earlier]))}
        notifies = (
            apps & RECEIVERS
            and own
            and not READS.search(" ".join(api_calls(ast.unparse(statements[earlier]))))
        )
        if used & bound or (apps & own) - {"supervisor"} or notifies:
            found.add(earlier)
    return found
