"""The pool against real worker processes: answers, order, isolation, what is the policy's fault and
what is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coevolve.environments import registry
from coevolve.environments.client import EnvSession, Fault, Pool
from coevolve.environments.protocol import Graded
from coevolve.errors import MissingDependency, Unreachable, UsageError
from coevolve.records import Call, Start, Task, Verifier, task_id

START = Start(config={"n": 1})


def call(tool: str, **arguments: object) -> Call:
    return Call(tool, arguments)


def task(tags: list[str] | None = None) -> Task:
    return Task(id="x", env="strange", query=["q"], start=START, tags=tags or [])


def observe(pool: Pool, session: EnvSession, *calls: Call) -> list[str] | Fault:
    (answer,) = pool.step([(session, 0, list(calls))])
    return answer if isinstance(answer, Fault) else [result.observation for result in answer]


def test_a_session_from_start_to_grade(strange):
    """Start, open, step with effects and states, evaluate, close, on one worker."""
    with Pool(strange) as pool:
        assert (
            pool.name == strange
            and pool.description.version == "1"
            and pool.tools["set"].name == "set"
        )
        assert pool.start("four") == Start(config={"n": 4})
        (session,) = pool.open([START])
        assert session.opened.tools[0] == "set"
        ((first, second),) = pool.step(
            [(session, 2, [call("set", key="a", value=1), call("get", key="a")])]
        )
        assert (
            first.observation == "set on turn 2"
            and first.effects[0].value == 1
            and first.state != session.opened.state
        )
        assert second.observation == "1" and not second.effects and second.state == first.state
        assert pool.evaluate([(session, task())]) == [
            Graded(success=True, score=1.0, reason='{"a": 1, "n": 1}')
        ]
        pool.close([session])
        assert observe(pool, session, call("get", key="a")) == Fault(
            "the session is closed", "closed"
        )


def test_own_tasks_become_records_with_ids(strange):
    """A worker's tasks get environment, version, split and the id that the record type defines."""
    with Pool(strange) as pool:
        first, second = pool.tasks("train")
        assert (first.env, first.env_version, first.split, first.kind) == (
            strange,
            "1",
            "train",
            "set",
        )
        assert first.verifier == Verifier("official") and first.solution == [
            [Call("set", {"key": "a", "value": 1})]
        ]
        assert (
            first.id
            == task_id(strange, first.start, first.query, first.solution, first.verifier)
            != second.id
        )
        with pytest.raises(UsageError, match=r"no split 'test'; it has: train \(2\)"):
            pool.tasks("test")
        with pytest.raises(UsageError, match="no app called nowhere"):
            pool.start("s", ["nowhere"])


def script(pool: Pool, marker: Path) -> list[object]:
    """Nine sessions, three of which break something, stepped in one call after another; everything
    they answer."""
    sessions = pool.open([Start(config={"n": n}) for n in range(9)])
    seen: list[object] = []
    for turn in range(3):
        requests = [
            (s, turn, [call("add", key="a"), call("set", key=str(turn), value=n)])
            for n, s in enumerate(sessions)
        ]
        if turn == 1:
            requests[1] = (
                sessions[1],
                1,
                [call("add", key="a"), call("exit", code=5), call("add", key="a")],
            )
            requests[4] = (sessions[4], 1, [call("fail")])
            requests[5] = (
                sessions[5],
                1,
                [call("exit_once", marker=str(marker)), call("add", key="a")],
            )
        seen += pool.step(requests)
    seen += pool.evaluate([(s, task()) for s in reversed(sessions)])
    return seen


def test_answers_do_not_depend_on_the_number_of_workers(strange, tmp_path):
    """One worker, three and five give the same answers in the order of the requests, deaths and
    faults included."""
    seen = []
    for workers in (1, 3, 5):
        with Pool(strange, workers=workers) as pool:
            seen.append(script(pool, tmp_path / str(workers)))
    assert seen[0] == seen[1] == seen[2]
    answers = seen[0]
    assert [r.observation for r in answers[0]] == ["1", "set on turn 0"]
    assert [r.fatal for r in answers[10]] == [None, "died"] and "exit code 5" in answers[10][
        1
    ].observation
    assert isinstance(answers[13], Fault) and "broken tool" in answers[13].message
    assert [r.observation for r in answers[14]] == ["exit_once on turn 1", "2"]
    assert [r.observation for r in answers[20]] == ["3", "set on turn 2"]
    grades = answers[27:]
    assert grades[7] == Graded(success=False, score=0.0, reason="ended by died") and isinstance(
        grades[4], Fault
    )
    assert grades[0].reason == '{"0": 8, "1": 8, "2": 8, "a": 3, "n": 8}'


@pytest.mark.parametrize(
    ("action", "kind", "text", "seconds"),
    [
        (call("exit", code=0), "died", "exit code 0", 60),
        (call("sleep", seconds=600), "timeout", "did not finish within 2 seconds", 2),
        (call("allocate", mb=400), "memory", "more than 200 MB", 60),
        (call("huge"), "memory", "more than", 60),
    ],
)
def test_an_action_that_breaks_a_limit_twice_is_the_policys_failure(
    strange, action, kind, text, seconds
):
    """Death, time and memory end the session with a fatal result; its neighbours on the worker
    notice nothing."""
    with Pool(strange, call_timeout=seconds, memory_mb=200) as pool:
        before, guilty, after = pool.open([START] * 3)
        for n in (1, 2):
            assert [observe(pool, s, call("add", key="k")) for s in (before, guilty, after)] == [
                [str(n)]
            ] * 3
        answers = pool.step(
            [
                (before, 0, [call("add", key="k")]),
                (guilty, 0, [action, action]),
                (after, 0, [call("add", key="k")]),
            ]
        )
        assert [[r.observation for r in answer] for answer in (answers[0], answers[2])] == [
            ["3"],
            ["3"],
        ]
        (fatal,) = answers[1]
        assert (fatal.fatal, fatal.error) == (kind, kind) and text in fatal.observation
        assert pool.step([(guilty, 1, [call("get", key="k")])]) == [[fatal]]
        (grade,) = pool.evaluate([(guilty, task())])
        assert not grade.success and grade.score == 0
        assert observe(pool, after, call("add", key="k")) == ["4"]


def test_a_death_that_does_not_come_again_is_nobodys_failure(strange, tmp_path):
    """A worker that died or hung once, or between two actions, is replaced, and its sessions are
    replayed unseen."""
    with Pool(strange, call_timeout=2) as pool:
        one, two = pool.open([START] * 2)
        observe(
            pool,
            one,
            call("add", key="k"),
            call("get", key="k"),
            call("add", key="k"),
            call("get", key="k"),
        )
        observe(pool, two, call("set", key="k", value="v"))
        assert (
            observe(pool, one, call("exit_once", marker=str(tmp_path / "a")), call("add", key="k"))[
                1
            ]
            == "3"
        )
        assert (
            observe(pool, two, call("hang_once", marker=str(tmp_path / "b")), call("get", key="k"))[
                1
            ]
            == '"v"'
        )
        first = int(observe(pool, one, call("environment", name=""))[0])
        observe(pool, one, call("die_later", marker=str(tmp_path / "c")))
        os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
        assert observe(pool, one, call("add", key="k")) == ["4"] and observe(
            pool, two, call("get", key="k")
        ) == ['"v"']


def test_faults_of_the_infrastructure_are_faults(strange, capfd):
    """Dying twice while opening or grading, and an exception in a tool, are never a score."""
    with Pool(strange) as pool:
        broken, sound = pool.open([Start(config={"exit": 7}), START])
        assert isinstance(broken, Fault) and "exit code 7" in broken.message
        assert observe(pool, sound, call("add", key="k")) == ["1"]
        graded, again = pool.evaluate([(sound, task(["exit"])), (sound, task())])
        assert isinstance(graded, Fault) and isinstance(again, Fault)
        failing, leaving, other = pool.open([START] * 3)
        assert observe(pool, failing, call("fail")) == Fault(
            "step: RuntimeError: broken tool", "internal"
        )
        assert observe(pool, leaving, call("leave")) == Fault("step: SystemExit: 3", "internal")
        assert isinstance(observe(pool, failing, call("get", key="k")), Fault), (
            "a session with a fault stays one"
        )
        assert observe(pool, other, call("add", key="k")) == ["1"]
    assert "trying once more" in capfd.readouterr().err


@pytest.mark.parametrize("mode", ["text", "id", "shape", "short"])
def test_replies_against_the_protocol_are_faults(raw, mode):
    """Text between replies, a wrong id, a wrong shape and too few results end only the session that
    met them."""
    with Pool(raw(mode)) as pool:
        assert pool.start("any") == Start(name="default"), "no op start"
        odd, sound = pool.open([pool.start("any")] * 2)
        answers = pool.step([(odd, 0, [call("odd")]), (sound, 0, [call("add")])])
        assert answers[0].kind == "garbage" and answers[1][0].observation == "1"
        assert isinstance(pool.evaluate([(odd, task())])[0], Fault)


def test_a_replay_that_leads_elsewhere_is_a_fault(raw):
    """A worker that is not deterministic cannot be replayed: its sessions end as faults, not as
    failures."""
    with Pool(raw("unstable")) as pool:
        one, two = pool.open([Start(name="default")] * 2)
        assert isinstance(observe(pool, one, call("add")), list) and isinstance(
            observe(pool, two, call("add")), list
        )
        assert observe(pool, one, call("odd")).kind == "nondeterministic"
        assert observe(pool, two, call("add")).kind == "nondeterministic"


def test_what_ends_a_session_by_the_worker(strange):
    """A fatal result of the worker is the last of its step, and its grade is a failure."""
    with Pool(strange) as pool:
        (session,) = pool.open([START])
        (results,) = pool.step(
            [(session, 0, [call("add", key="a"), call("corrupt"), call("add", key="a")])]
        )
        assert [r.fatal for r in results] == [None, "corrupt_state"]
        assert pool.evaluate([(session, task())]) == [
            Graded(success=False, score=0.0, reason="ended by corrupt_state")
        ]


def test_arguments_that_are_no_json_are_the_policys_error(strange):
    """They never reach the worker; the actions around them are executed."""
    deep: object = 1
    for _ in range(5000):
        deep = [deep]
    with Pool(strange) as pool:
        (session,) = pool.open([START])
        calls = [
            call("add", key="k"),
            call("set", key="k", value="\ud800"),
            call("set", key="k", value=deep),
            call("add", key="k"),
        ]
        ((first, surrogate, nested, last),) = pool.step([(session, 0, calls)])
        assert (first.observation, last.observation) == ("1", "2")
        assert surrogate.error == nested.error == "bad_argument" and surrogate.state == first.state


def test_prints_and_odd_values_do_not_break_the_protocol(strange):
    """What a tool or its child prints goes to stderr, stdin is empty for it, odd numbers and
    characters arrive as text."""
    with Pool(strange) as pool:
        (session,) = pool.open([START])
        assert observe(pool, session, call("shout")) == [""]
        ((odd,),) = pool.step([(session, 0, [call("nan")])])
        assert odd.observation == "inf ?" and odd.effects[0].value == "nan"


def test_many_threads_share_a_pool(strange):
    """Threads with sessions of their own get their own answers."""
    with Pool(strange, workers=2) as pool, ThreadPoolExecutor(8) as threads:

        def work(n: int) -> list[str]:
            (session,) = pool.open([Start(config={"n": n})])
            seen = [
                text for _ in range(20) for text in observe(pool, session, call("add", key="n"))
            ]
            pool.close([session])
            return seen

        assert list(threads.map(work, range(16))) == [
            [str(n + i) for i in range(1, 21)] for n in range(16)
        ]


def test_long_batches_do_not_block(strange):
    """More requests and replies than pipes hold pass in both directions at once."""
    with Pool(strange, workers=2) as pool:
        sessions = pool.open([START] * 4)
        text = "x" * 100_000
        requests = [
            (s, 0, [call("set", key="k", value=text), call("get", key="k")]) for s in sessions * 10
        ]
        assert {answer[1].observation for answer in pool.step(requests)} == {f'"{text}"'}


def test_the_workers_surroundings(strange, monkeypatch):
    """Fixed hash seed and date for everyone; a worker of the user's own sees the user's variables
    but the models' key and address; a built-in one sees none."""
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:secret@localhost/v1")
    monkeypatch.setenv("MY_OWN_KEY", "mine")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    built_in = registry.find("desk").environment
    assert built_in["PYTHONHASHSEED"] == "0" and not {"OPENAI_API_KEY", "PYTHONPATH"} & set(
        built_in
    )
    with Pool(strange) as pool:
        (session,) = pool.open([START])
        names = (
            "PYTHONHASHSEED",
            "COEVOLVE_DATE",
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL",
            "MY_OWN_KEY",
        )
        seen = observe(pool, session, *(call("environment", name=n) for n in names))
        assert seen == ["0", "2026-01-01", "None", "None", "mine"]


def test_a_worker_that_cannot_start_says_why(strange, raw, monkeypatch, tmp_path):
    """Unreachable, with the worker's own last words; MissingDependency with the line to type."""
    with pytest.raises(Unreachable, match="No such file"):
        Pool(f"{sys.executable} /nowhere.py").__enter__()
    with pytest.raises(Unreachable, match="questions.json was changed"):
        Pool(f"{strange} no-describe").__enter__()
    with pytest.raises(Unreachable, match="speaks protocol 2"):
        Pool(raw("future")).__enter__()
    with pytest.raises(UsageError, match="Did you mean 'desk'"):
        Pool("dsek")
    monkeypatch.setenv("COEVOLVE_HOME", str(tmp_path))
    with pytest.raises(MissingDependency, match="coevolve env install bfcl$"):
        Pool("bfcl")


def test_nothing_outlives_the_pool(strange, gone):
    """Workers and their children end with the block, also when it ends by an exception."""
    pids = []
    with pytest.raises(KeyError), Pool(strange, workers=2) as pool:
        for session in pool.open([START] * 2):
            pids += observe(pool, session, call("environment", name=""), call("spawn"))
        raise KeyError
    assert len(set(pids)) == 4 and all(gone(int(pid)) for pid in pids)


PARENT = """
    import sys
    from coevolve.environments.client import Pool
    from coevolve.records import Call, Start
    with Pool(sys.argv[1], call_timeout=600) as pool:
        session, = pool.open([Start(name="default")])
        results, = pool.step([(session, 0, [Call("environment", {"name": ""}), Call("spawn")])])
        print(*(r.observation for r in results), flush=True)
        pool.step([(session, 0, [Call("sleep", {"seconds": 600, "marker": sys.argv[2]})])])
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_orphans_after_the_parent_is_killed(strange, gone, number, tmp_path):
    """A worker that sleeps in an action, and its child, end with their parent, whatever kills
    it."""
    asleep = tmp_path / "asleep"
    command = [sys.executable, "-c", textwrap.dedent(PARENT), strange, str(asleep)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as parent:
        worker, child = map(int, parent.stdout.readline().split())
        while not asleep.exists():
            assert parent.poll() is None
        parent.send_signal(number)
    assert gone(worker) and gone(child)
