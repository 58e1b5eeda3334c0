"""Hostile and odd calls to the BFCL worker: nothing is evaluated, nothing leaks, every call is
bounded and answered."""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
from pathlib import Path

import pytest
from environments.bfcl_worker import CLASSES, act, made, opened, run

from coevolve.environments import install
from coevolve.environments.client import Pool
from coevolve.environments.workers import launch
from coevolve.errors import Unreachable
from coevolve.records import Call, Start

pytestmark = pytest.mark.bfcl
TOOLKIT = Path(__file__).parents[2]

FILES = {
    "GorillaFileSystem": {
        "root": {
            "top": {"type": "directory", "contents": {"d": {"type": "directory", "contents": {}}}}
        }
    }
}
START = Start(config={"classes": list(CLASSES), "state": FILES})
TWEETS = Start(config={"classes": ["TwitterAPI"], "state": {"TwitterAPI": {"authenticated": True}}})

NAMES = [
    "__import__('os').system",
    "inspect.os.system",
    "cd.__self__",
    "_load_scenario",
    "__class__",
    "__init__",
    "GorillaFileSystem.cd",
    "vars",
    "exit",
    "",
    "cd\n",
    "ls()",
]


@pytest.mark.parametrize("name", NAMES)
def test_only_documented_functions_can_be_called(bfcl, name):
    """Attribute chains, private methods and builtins are names of no tool."""
    (result,) = act(bfcl, opened(bfcl, START), (name, {}))
    assert (result.error, result.effects, result.fatal) == ("unknown_tool", [], None)


@pytest.mark.parametrize(
    ("tool", "arguments", "error"),
    [
        ("cd", {"folder": "d", "__class__": 1}, "bad_argument"),
        ("cd", {}, "bad_argument"),
        ("cd", {"folder": ["d"]}, "bad_argument"),
        ("ls", {"a": "yes"}, "bad_argument"),
        ("add", {"a": True, "b": 1}, "bad_argument"),
        ("mean", {"numbers": ["1", "2"]}, "bad_argument"),
        ("fillFuelTank", {"fuelAmount": "10"}, "bad_argument"),
        ("touch", {"file_name": "x" * 30_000}, "too_large"),
        ("mean", {"numbers": [1] * 5_000}, "too_large"),
        ("power", {"base": 10, "exponent": 2_000_000}, "too_large"),
        ("power", {"base": 7, "exponent": -900_000}, "too_large"),
        ("logarithm", {"value": 10, "base": 3, "precision": 300_000}, "too_large"),
        ("square_root", {"number": 2, "precision": 300_000}, "too_large"),
        ("round_number", {"number": 5, "decimal_places": -1_000_000_000}, "too_large"),
        ("add", {"a": 2**80, "b": 1}, "too_large"),
        (
            "edit_ticket",
            {"ticket_id": 1, "updates": {"title": {"a": {"b": {"c": {"d": {"e": {"f": {}}}}}}}}},
            "too_large",
        ),
    ],
)
def test_arguments_are_checked_before_anything_runs(bfcl, tool, arguments, error):
    """Wrong names, wrong types and what would take minutes come back as a readable refusal."""
    session = opened(bfcl, START)
    (result,) = act(bfcl, session, (tool, arguments))
    assert (result.error, result.effects, result.fatal, result.state) == (
        error,
        [],
        None,
        session.opened.state,
    )
    assert len(json.loads(result.observation)["error"]) > 10


def test_a_refusal_says_how_to_call_the_tool(bfcl):
    """The policy can learn from it: near names for an unknown tool, the parameters for a wrong
    argument."""
    unknown, wrong = act(bfcl, opened(bfcl, START), ("list_user", {}), ("wc", {"file": "a"}))
    assert "list_users" in unknown.observation
    assert "file_name: text" in wrong.observation and "mode: text (optional)" in wrong.observation


def test_texts_reach_the_tool_verbatim_and_nothing_is_run(bfcl, tmp_path):
    """Code inside an argument stays text: written, read back equal, and no file appears outside the
    session."""
    proof = tmp_path / "proof"
    text = f"__import__('pathlib').Path({str(proof)!r}).write_text('x') or sort(data) and {{0}} %s"
    results = act(
        bfcl,
        opened(bfcl, START),
        ("touch", {"file_name": "a"}),
        ("echo", {"content": text, "file_name": "a"}),
        ("cat", {"file_name": "a"}),
    )
    assert json.loads(results[-1].observation) == {"file_content": text}
    assert not proof.exists()


ITSELF = [("cp", {"source": "d", "destination": "d"})]
DOUBLING = [
    call
    for name in (f"e{number}" for number in range(30))
    for call in (
        ("cp", {"source": "d", "destination": name}),
        ("mv", {"source": name, "destination": "d"}),
    )
]


@pytest.mark.parametrize("calls", [ITSELF, DOUBLING], ids=["itself", "doubling"])
def test_a_state_without_bounds_ends_the_episode_and_not_the_worker(bfcl, calls):
    """A folder copied into itself, or doubled with every step, is the policy's failure; other
    sessions go on."""
    session, other = opened(bfcl, START), opened(bfcl, START)
    task = made(START, [("mkdir", {"dir_name": "x"})])
    results = act(bfcl, session, ("mkdir", {"dir_name": "x"}), *calls)
    assert results[-1].fatal == "corrupt_state"
    (grade,) = bfcl.evaluate([(session, task)])
    assert (grade.success, grade.score) == (False, 0.0) and "corrupt_state" in grade.reason
    (fine,) = act(bfcl, other, ("mkdir", {"dir_name": "x"}))
    assert fine.error is None and bfcl.evaluate([(other, task)])[0].success


HOSTILE = [
    ("__import__('os').system", {"command": "touch /tmp/x"}),
    ("inspect.os.system", {"command": "touch /tmp/x"}),
    ("ls.__globals__", {}),
    ("__class__", {}),
    ("eval", {"source": "1"}),
    ("open", {"file": "/etc/passwd"}),
    ("getattr", {"object": "cd", "name": "__self__"}),
    ("cd", {"folder": "__import__('os').getcwd()"}),
    ("cd", {"folder": "../../../../etc"}),
    ("cat", {"file_name": "/etc/passwd"}),
    ("touch", {"file_name": "../../tmp/x"}),
    ("echo", {"content": "{0.__class__}", "file_name": "/tmp/x"}),
    ("ls", {"__import__('os').system('touch /tmp/x')": True}),
    ("ls", {"a": {"$eval": "1"}}),
    ("mean", {"numbers": [[1]] * 500}),
    ("mean", {"numbers": []}),
    ("divide", {"a": 1, "b": 0}),
    ("power", {"base": 9**15, "exponent": 9**9}),
    ("power", {"base": 1.5, "exponent": 1e300}),
    ("power", {"base": 0, "exponent": -1}),
    ("logarithm", {"value": 10, "base": 3, "precision": 300_000}),
    ("square_root", {"number": 2, "precision": 300_000}),
    ("square_root", {"number": -4, "precision": 1000}),
    ("round_number", {"number": 1e308, "decimal_places": 10**12}),
    ("standard_deviation", {"numbers": [1e308, -1e308] * 400}),
    ("find", {"path": "/" * 19_000, "name": "x"}),
    ("grep", {"file_name": "none", "pattern": "(a+)+$" * 900}),
    ("rm", {"file_name": "."}),
    ("rm", {"file_name": ".."}),
    ("cp", {"source": ".", "destination": "d"}),
    ("add_contact", {"user_name": "\x00\ud800"}),
    ("send_message", {"receiver_id": "USR001", "message": "sort(x) __import__('os')"}),
    ("edit_ticket", {"ticket_id": 1, "updates": {"__class__": "x", "id": 2}}),
    ("get_ticket", {"ticket_id": 10**18}),
    ("get_tweet", {"tweet_id": -1}),
    ("place_order", {"order_type": "Buy", "symbol": "AAPL", "price": -1e300, "amount": -(10**15)}),
    ("estimate_distance", {"cityA": "x" * 10_000, "cityB": "y" * 10_000}),
    ("fillFuelTank", {"fuelAmount": -1e308}),
    ("set_budget_limit", {"access_token": "x", "budget_limit": 1e308}),
    ("lockDoors", {"unlock": True, "door": ["__class__"] * 900}),
]

ODD = [
    ("logarithm", {"value": -1, "base": 0, "precision": -5}),
    ("logarithm", {"value": 1e308, "base": 1.0000000001, "precision": 1000}),
    ("sum_values", {"numbers": [1e308] * 900}),
    ("si_unit_conversion", {"value": 1e308, "unit_in": "km", "unit_out": "nm"}),
    ("display_log", {"messages": ["(a+)+$" * 900] * 900}),
    ("mkdir", {"dir_name": "x" * 19_999}),
    ("mv", {"source": "d", "destination": "d"}),
]
"""Strange, yet calls of documented functions with arguments of the documented types: they may
work."""


def test_a_corpus_of_hostile_calls_leaves_everything_as_it_was():
    """Each in a session of its own beside an innocent one, in workers that may take two seconds and
    512 MB a call: every hostile call ends with a typed error and without effects, no worker is
    replaced, no file appears, nobody else notices."""
    with Pool("bfcl", workers=2, call_timeout=2, memory_mb=512) as pool:
        (innocent,) = pool.open([START])
        state = act(pool, innocent, ("mkdir", {"dir_name": "mine"}))[0].state
        sessions = pool.open([START] * len(HOSTILE + ODD))
        answers = pool.step(
            [(s, 0, [Call(*call)]) for s, call in zip(sessions, HOSTILE + ODD, strict=True)]
        )
        results = [answer[0] for answer in answers]
        assert [result.fatal for result in results if result.fatal] == []
        assert [
            call
            for call, result in zip(HOSTILE, results, strict=False)
            if not result.error or result.effects
        ] == []
        assert [slot.generation for slot in pool._slots] == [0, 0]
        (last,) = act(pool, innocent, ("pwd", {}))
        assert (last.state, last.observation) == (state, '{"current_working_directory": "/top"}')
    assert "x" not in os.listdir("/tmp")


def test_a_call_that_takes_minutes_ends_its_episode_and_not_its_neighbours():
    """Under strict parity a number in a text is not looked at: the pool's clock ends the call,
    after a second try; the worker's other session goes on from where it was."""
    with Pool("bfcl-strict", call_timeout=1) as pool:
        slow, other = pool.open([START, START])
        act(pool, other, ("mkdir", {"dir_name": "mine"}))
        (result,) = act(pool, slow, ("logarithm", {"value": 10, "base": 3, "precision": "300000"}))
        assert (result.error, result.fatal) == ("timeout", "timeout")
        (listing,) = act(pool, other, ("ls", {}))
        assert "mine" in listing.observation


def test_numbers_that_cost_minutes_do_not_mask_an_episode_under_strict_parity():
    """They are refused, so that grading, which makes all calls again, ends in time."""
    slow = [
        Call("logarithm", {"value": 10, "base": 3, "precision": 40_000}),
        Call("power", {"base": 10, "exponent": 10**9}),
        Call("round_number", {"number": 5, "decimal_places": -(10**9)}),
    ]
    mean = ("mean", {"numbers": [1, 2]})
    with Pool("bfcl-strict", call_timeout=30, setup_timeout=15) as pool:
        start = Start(config={"classes": ["MathAPI"]})
        session = opened(pool, start)
        ((*results,),) = pool.step([(session, 0, [*slow * 5, Call(*mean)])])
        (grade,) = pool.evaluate([(session, made(start, [mean]))])
    assert {result.error for result in results[:-1]} == {"too_large"}
    assert grade.success


def test_a_default_list_of_one_tweet_is_not_another_tweets(bfcl):
    """Posting and then mentioning must not leave the mention in every tweet to come, in any
    session."""
    first, second = opened(bfcl, TWEETS), opened(bfcl, TWEETS)
    act(
        bfcl,
        first,
        ("post_tweet", {"content": "hi"}),
        ("mention", {"tweet_id": 0, "mentioned_usernames": ["@bob"]}),
    )
    (result,) = act(bfcl, second, ("post_tweet", {"content": "hi"}))
    assert json.loads(result.observation)["mentions"] == []
    task = made(
        TWEETS,
        [
            ("post_tweet", {"content": "hi"}),
            ("mention", {"tweet_id": 0, "mentioned_usernames": ["@bob"]}),
        ],
    )
    assert run(bfcl, task, task.solution).success


def test_a_precision_is_of_one_call_only(bfcl):
    """A logarithm prints alike whatever another session asked for in between."""
    one, other = opened(bfcl, START), opened(bfcl, START)
    short = ("logarithm", {"value": 10, "base": 3, "precision": 6})
    before = act(bfcl, one, short)[0].observation
    act(
        bfcl,
        other,
        ("logarithm", {"value": 10, "base": 3, "precision": 60}),
        ("square_root", {"number": 2, "precision": 60}),
    )
    assert act(bfcl, one, short)[0].observation == before
    exact = act(bfcl, one, ("square_root", {"number": 2, "precision": 6}))[0].observation
    assert exact == "{'result': Decimal('1.41421')}"


def test_infinite_results_are_text(bfcl):
    """What the API prints as Infinity stays inside the observation; the protocol's JSON is
    strict."""
    (result,) = act(bfcl, opened(bfcl, START), ("multiply", {"a": 1e308, "b": 10.0}))
    assert result.observation == '{"result": Infinity}'


def test_an_error_of_the_api_is_an_error_of_the_result(bfcl):
    """Error objects, error lists, refusals and exceptions all have a kind; an answer that is no
    error has none."""
    calls = [
        ("cat", {"file_name": "none.txt"}, "not_found"),
        ("post_tweet", {"content": "hi"}, "denied"),
        ("get_watchlist", {}, "denied"),
        ("get_user_tickets", {}, "denied"),
        ("startEngine", {"ignitionMode": "START"}, "precondition"),
        ("authenticate_twitter", {"username": "john", "password": "wrong"}, "refused"),
        (
            "get_flight_cost",
            {
                "travel_from": "XXX",
                "travel_to": "LAX",
                "travel_date": "2026-05-01",
                "travel_class": "first",
            },
            "exception",
        ),
        ("mkdir", {"dir_name": "d"}, "conflict"),
        ("pwd", {}, None),
        ("posting_get_login_status", {}, None),
    ]
    results = act(bfcl, opened(bfcl, START), *[(tool, arguments) for tool, arguments, _ in calls])
    assert [result.error for result in results] == [error for _, _, error in calls]


def test_a_changed_file_of_the_benchmark_is_noticed_and_named(tmp_path):
    """A worker whose package differs from the release in one character does not start, and says
    where."""
    site = next((install.python("bfcl").parent.parent / "lib").glob("python*/site-packages"))
    for source in (site / "bfcl_eval").rglob("*.*"):
        if source.is_file() and "__pycache__" not in source.parts:
            target = tmp_path / source.relative_to(site)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.symlink(source, target)
    changed = tmp_path / "bfcl_eval/data/possible_answer/BFCL_v4_multi_turn_base.json"
    text = changed.read_text()
    changed.unlink()
    changed.write_text(text.replace("archive", "Archive", 1))
    worker = shlex.join(launch.command(install.python("bfcl"), "bfcl.worker"))
    with pytest.raises(Unreachable, match="possible_answer/BFCL_v4_multi_turn_base.json differs"):
        with Pool(f"env PYTHONPATH={tmp_path} {worker}"):
            pass


def test_unknown_requests_are_refused_in_words(bfcl):
    """An unknown class, entry or split is a bad request that names what there is."""
    for start in (
        Start(name="multi_turn_base_999"),
        Start(config={"classes": ["NoSuchAPI"]}),
        Start(),
    ):
        (answer,) = bfcl.open([start])
        assert answer.kind == "bad_request"
    with pytest.raises(Exception, match="base_train"):
        bfcl.tasks("nonsense")


def test_actions_that_are_no_calls_are_answered(bfcl):
    """A block of code is no tool call: it gets the refusal of an unknown tool."""
    session = opened(bfcl, START)
    (results,) = bfcl.step([(session, 0, ["import os; os.getcwd()", Call("pwd")])])
    assert [result.error for result in results] == ["unknown_tool", None]


ANYTHING = [None, True, 3.5, -1, 0, 10**18, 1e308, "", "x", "..", ".", "/", "\x00", "\u2028"]
ANYTHING += [
    [],
    [1],
    ["a"],
    [[1]],
    {},
    {"x": 1},
    {"id": [1]},
    {"id": None},
    {"status": [1]},
    {"title": {"a": [{}]}},
]


@pytest.mark.parametrize("env", ["bfcl", "bfcl-strict"])
def test_no_argument_of_any_type_breaks_a_session_or_its_grading(env):
    """Random calls, each argument a known value or anything that JSON can hold: results and grades,
    never a fault."""
    with Pool(env) as pool:
        for seed in range(80):
            draw = random.Random(f"anything-{seed}")
            start = pool.start(str(seed))
            session = opened(pool, start)
            calls = []
            for name in draw.choices(session.opened.tools, k=20):
                known = session.opened.values
                arguments = {
                    parameter: draw.choice(
                        ANYTHING + 2 * known.get(f"{name}.{parameter}", known.get(parameter, []))
                    )
                    for parameter in pool.tools[name].parameters["properties"]
                    if parameter not in ("precision", "exponent")
                }
                calls.append((name, arguments))
            act(pool, session, *calls)
            grade = pool.evaluate([(session, made(start, calls))])[0]
            assert 0 <= grade.progress <= 1, (seed, grade)


SNAPSHOT = """
import json, sys
sys.path.append(sys.argv[1])
from coevolve.environments.workers.bfcl.session import BfclSession
from coevolve.environments.workers.bfcl.world import BfclStart
state = json.loads(sys.argv[2])
def order(session, amount):
    symbol = next(iter(state["TradingBot"]["stocks"]))
    arguments = {"order_type": "Buy", "symbol": symbol, "price": 20, "amount": amount}
    return session.step(0, {"tool": "place_order", "arguments": arguments})
one = BfclSession(BfclStart(["TradingBot"], state))
one.step(0, {"tool": "trading_login", "arguments": {"username": "a", "password": "b"}})
order(one, 1)
snapshot = one.snapshot()
other, third = BfclSession.restore(snapshot), BfclSession.restore(snapshot)
assert one.state() == other.state() and one.turns == other.turns
first, second = order(one, 2), order(other, 2)
assert first == second and one.state() == other.state() != third.state()
order(one, 3)
assert one.state() != other.state() and len(other.turns[0]) == 3 and len(third.turns[0]) == 2
print("apart")
"""


def test_a_restored_episode_goes_on_as_the_original_and_apart_from_it(bfcl):
    """From one snapshot in the middle of an episode: equal calls give equal results, and neither
    sees the other."""
    state = json.dumps(bfcl.start("snapshot", ["TradingBot"]).config["state"])
    command = [install.python("bfcl"), "-c", SNAPSHOT, str(TOOLKIT), state]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "apart\n", done.stderr
