"""docs/bfcl.md, row by row: what the official executor does, what `bfcl` does instead, and that
`bfcl-strict` does the former.

The official side is the package's own executor and checker in a process of their own
(bfcl_official.py).
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from environments.bfcl_worker import act, made, opened, run
from msgspec import structs

from coevolve.agents.episode import Episode, PolicyReply
from coevolve.environments import install
from coevolve.environments.client import Pool
from coevolve.environments.protocol import EpisodeLimits
from coevolve.records import Call, Rollout, Start, Task

pytestmark = pytest.mark.bfcl

DOCUMENT = Path(__file__).parents[2] / "docs" / "bfcl.md"
Action = tuple[str, dict]
Official = Callable[..., dict[str, Any]]

FOLDER = {
    "root": {"top": {"type": "directory", "contents": {"d": {"type": "directory", "contents": {}}}}}
}
FILES = {"classes": ["GorillaFileSystem"], "state": {"GorillaFileSystem": FOLDER}}
TWEETS = {
    "classes": ["TwitterAPI"],
    "state": {"TwitterAPI": {"authenticated": True, "tweet_counter": 0, "tweets": {}}},
}
MATH = {"classes": ["MathAPI"], "state": {}}


@pytest.fixture(scope="module")
def strict() -> Iterator[Pool]:
    with Pool("bfcl-strict", call_timeout=2) as pool:
        yield pool


@pytest.fixture(scope="module")
def official() -> Iterator[Official]:
    """Asks the official code: outputs of the turns, and the verdict on them where there is a
    reference."""
    command = [install.python("bfcl"), Path(__file__).with_name("bfcl_official.py")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:

        def ask(
            entry: dict, turns: list[list[Action]], reference: list[list[Action]] | None = None
        ) -> dict:
            request = {
                "entry": entry,
                "turns": listed(turns),
                "reference": reference and listed(reference),
            }
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()


def listed(turns: list[list[Action]]) -> list[list[dict]]:
    return [[{"tool": tool, "arguments": arguments} for tool, arguments in turn] for turn in turns]


def entry(config: dict) -> dict:
    return {
        "id": "synthetic_0",
        "initial_config": config["state"],
        "involved_classes": config["classes"],
    }


def task_of(config: dict, reference: list[list[Action]]) -> Task:
    return made(Start(config=config), *reference)


def observed(pool: Pool, config: dict, *calls: Action) -> list[str]:
    return [result.observation for result in act(pool, opened(pool, Start(config=config)), *calls)]


def judged(pool: Pool, task: Task, turns: list[list[Action]]) -> str:
    grade = run(pool, task, [[Call(*action) for action in turn] for turn in turns])
    return "valid" if grade.success else grade.reason.partition(" in turn")[0]


def agree(official: Official, strict: Pool, config: dict, *calls: Action) -> list[str]:
    """The official outputs, which strict parity must give too."""
    (theirs,) = official(entry(config), [list(calls)])["outputs"]
    assert observed(strict, config, *calls) == theirs
    return theirs


def text(default: Pool, strict: Pool, official: Official) -> None:
    note = ("echo", {"content": "first sort (x), then cd(y)"})
    (theirs,) = agree(official, strict, FILES, note)
    assert "policy_synthetic_0_GorillaFileSystem_instance.sort(x)" in theirs
    assert json.loads(observed(default, FILES, note)[0]) == {
        "terminal_output": "first sort (x), then cd(y)"
    }
    solution = [[note]]
    assert official(entry(FILES), solution, solution)["verdict"] == "execution_response_mismatch"
    assert judged(strict, task_of(FILES, solution), solution) == "execution_response_mismatch"
    assert judged(default, task_of(FILES, solution), solution) == "valid"


def tweet(default: Pool, strict: Pool, official: Official) -> None:
    post, mention = (
        ("post_tweet", {"content": "hi"}),
        ("mention", {"tweet_id": 0, "mentioned_usernames": ["@bob"]}),
    )
    theirs = agree(official, strict, TWEETS, post, mention, post)
    assert json.loads(theirs[2])["mentions"] == ["@bob"]
    assert json.loads(observed(default, TWEETS, post, mention, post)[2])["mentions"] == []
    solution = [[post, mention]]
    found = official(entry(TWEETS), solution, solution)["verdict"]
    assert (
        found
        == "execution_response_mismatch"
        == judged(strict, task_of(TWEETS, solution), solution)
    )
    assert judged(default, task_of(TWEETS, solution), solution) == "valid"


def argument(default: Pool, strict: Pool, official: Official) -> None:
    calls = [
        ("add", {"a": "x", "b": "y"}),
        ("add", {"a": True, "b": 1}),
        ("add", {"a": 1}),
        ("add", {"a": 1, "b": 2, "c": 3}),
    ]
    agree(official, strict, MATH, *calls)
    errors = [result.error for result in act(default, opened(default, Start(config=MATH)), *calls)]
    assert errors == ["bad_argument"] * 4


def function(default: Pool, strict: Pool, official: Official) -> None:
    calls = [("list_file", {}), ("remove", {})]
    theirs = agree(official, strict, FILES, *calls)
    assert theirs == [
        f"Error during execution: {end}"
        for end in ("name 'list_file' is not defined", "Function call remove is not allowed.")
    ]
    results = act(default, opened(default, Start(config=FILES)), *calls)
    assert [result.error for result in results] == ["unknown_tool"] * 2


def size(default: Pool, strict: Pool, official: Official) -> None:
    long = ("power", {"base": 10, "exponent": 5000})
    agree(official, strict, MATH, long)
    endless = ("logarithm", {"value": 10, "base": 3, "precision": 300_000})
    assert [r.error for r in act(default, opened(default, Start(config=MATH)), long, endless)] == [
        "too_large"
    ] * 2
    (result,) = act(strict, opened(strict, Start(config=MATH)), endless)
    assert (result.error, result.fatal) == ("too_large", None)
    for within in [
        ("logarithm", {"value": 10, "base": 3, "precision": 5_000}),
        ("power", {"base": 2, "exponent": 500_000}),
        ("round_number", {"number": 5, "decimal_places": -100_000}),
        ("round_number", {"number": 5, "decimal_places": True}),
    ]:
        agree(official, strict, MATH, within)


def output(default: Pool, strict: Pool, official: Official) -> None:
    calls = [("touch", {"file_name": "a"})]
    calls += [("echo", {"content": "x" * 19_000, "file_name": "a"}), ("cat", {"file_name": "a"})]
    agree(official, strict, FILES, *calls)
    many = [("display_log", {"messages": ["y" * 15_000] * 20})]
    car = {"classes": ["VehicleControlAPI"], "state": {}}
    (whole,) = agree(official, strict, car, *many)
    (cut,) = observed(default, car, *many)
    assert (
        len(whole) > 300_000
        and len(cut) < 201_000
        and cut.startswith(whole[:200_000])
        and "more characters" in cut
    )


def overrun(default: Pool, strict: Pool, official: Official) -> None:
    last = ("mkdir", {"dir_name": "a"})
    assert official(entry(FILES), [[("pwd", {})] * 20 + [last]], [[last]])["verdict"] == "valid"
    for pool in (default, strict):
        found = [
            played(pool, task_of(FILES, [[last]]), [("pwd", {})] * reads + [last])
            for reads in (19, 20)
        ]
        assert [(rollout.success, rollout.stop_reason) for rollout in found] == [
            (True, "done"),
            (False, "max_steps"),
        ]
        # with an empty last turn, which the user never came to, and all of the reference done
        early = structs.replace(pool.description.limits, max_steps=1)
        rollout = played(pool, task_of(FILES, [[last], []]), [last, last], early)
        assert (rollout.success, rollout.score, rollout.stop_reason) == (False, 0.0, "max_steps")


def played(
    pool: Pool, task: Task, calls: list[Action], limits: EpisodeLimits | None = None
) -> Rollout:
    """An episode whose policy makes one call a reply, and then says that it is done."""
    episode = Episode(task, limits or pool.description.limits, tools=pool.tools)
    episode.open(opened(pool, task.start))
    for number, (tool, arguments) in enumerate(calls):
        function = {"name": tool, "arguments": json.dumps(arguments)}
        message = {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": str(number), "type": "function", "function": function}],
        }
        if actions := episode.reply(PolicyReply(message)):
            (results,) = pool.step([(episode.session, 0, actions)])
            episode.observe(results)
        if episode.done:
            break
    else:
        episode.reply(PolicyReply({"role": "assistant", "content": "Done."}))
    episode.grade(pool.evaluate([(episode.session, task)])[0])
    return episode.record(policy="script", iteration=0, step=0, seed=0)


def offer(default: Pool, strict: Pool, official: Official) -> None:
    task = next(
        task for task in default.tasks("miss_func") if task.start.name == "multi_turn_miss_func_0"
    )
    call = Call("sort", {"file_name": "no.txt"})
    early = {
        pool.name: act(pool, opened(pool, task.start), ("sort", call.arguments), turn=0)[0]
        for pool in (default, strict)
    }
    assert (
        early["bfcl"].error == "unknown_tool" and "No such file" in early["bfcl-strict"].observation
    )
    (name,) = opened(strict, task.start).opened.later.values()
    assert name == ["sort"]


def clock(default: Pool, strict: Pool, official: Official) -> None:
    config = {
        "classes": ["TravelAPI"],
        "state": {"TravelAPI": {"user_first_name": "A", "user_last_name": "B"}},
    }
    born = {
        "first_name": "A",
        "last_name": "B",
        "passport_number": "US1",
        "date_of_birth": "2008-01-02",
    }
    check = ("verify_traveler_information", born)
    agree(official, strict, config, check)
    (early,) = observed(default, config, check)
    (adult,) = observed(default, config, (check[0], {**born, "date_of_birth": "2008-01-01"}))
    assert "at least 18" in early and json.loads(adult) == {"verification_status": True}


def table(default: Pool, strict: Pool, official: Official) -> None:
    """The reference pays with a card of the module's table after the policy has: it sees another
    balance."""
    task = next(
        task
        for task in default.tasks("long_context")
        if task.start.name == "multi_turn_long_context_150"
    )
    session = opened(default, task.start)
    (cards,) = act(default, session, ("get_all_credit_cards", {}))
    card = list(json.loads(cards.observation)["credit_card_list"])[-1]
    token = {"access_token": session.opened.values["access_token"][0]}
    flight = {
        "travel_from": "LAX",
        "travel_to": "JFK",
        "travel_date": "2026-05-01",
        "travel_class": "economy",
    }
    limit = ("set_budget_limit", {"budget_limit": 1.0, **token})
    book = ("book_flight", {**flight, "card_id": card, **token})
    balance = ("get_credit_card_balance", {"card_id": card, **token})
    solution = [[limit, book, balance]]
    state = json.loads(LONG_CONTEXT.read_text().splitlines()[150])
    assert official(state, solution, solution)["verdict"] == "execution_response_mismatch"
    own = made(task.start, *solution)
    assert judged(strict, own, solution) == "execution_response_mismatch"
    assert judged(default, own, solution) == "valid"


def number(default: Pool, strict: Pool, official: Official) -> None:
    reference, written = [[("add", {"a": 1, "b": 2})]], [[("add", {"a": 1.0, "b": 2.0})]]
    assert official(entry(MATH), written, reference)["verdict"] == "execution_response_mismatch"
    assert judged(strict, task_of(MATH, reference), written) == "execution_response_mismatch"
    assert judged(default, task_of(MATH, reference), written) == "valid"


LONG_CONTEXT = next(
    (install.directory(install.RECIPES["bfcl"]) / "lib").glob(
        "python*/site-packages/bfcl_eval/data"
    ),
    Path(),
) / ("BFCL_v4_multi_turn_long_context.json")
ROWS = (text, tweet, argument, function, size, output, overrun, offer, clock, table, number)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
def test_the_row_of_the_table_is_true(bfcl, strict, official, row):
    """The official column against the official code, the other two against the running
    environments."""
    row(bfcl, strict, official)


def test_the_table_has_a_test_for_every_row():
    """A difference that is written down is checked, and the other way round."""
    written = re.findall(r"^\| (\w+) \|", DOCUMENT.read_text(), re.MULTILINE)
    assert written[1:] == [row.__name__ for row in ROWS]
