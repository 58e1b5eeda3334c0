"""Policies on tasks through real worker processes, and a chat server on a real socket."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec
import pytest
from scripted_server import EMPTY, NO_CHOICE, Fault, ScriptedServer

import tiny_models
from coevolve.agents.actions.replies import to_text
from coevolve.agents.rollout import make_policy, resumed, rollouts
from coevolve.environments.client import Pool
from coevolve.errors import CoevolveError, Unreachable, UsageError
from coevolve.models.options import ServiceOptions
from coevolve.models.service import Models
from coevolve.records import Call, Start, Task
from coevolve.runs import Journal

SHOP = f"{sys.executable} {Path(__file__).parent.parent / 'grocer.py'}"


@pytest.fixture(scope="module")
def pool():
    with Pool(SHOP, workers=2) as pool:
        yield pool


@pytest.fixture(scope="module")
def shop_policy(tmp_path_factory):
    return str(tiny_models.shop_policy(tmp_path_factory.mktemp("models") / "shop"))


def test_controls(pool):
    """The solution succeeds everywhere, doing nothing and the hollow call nowhere."""
    tasks = tiny_models.shop_tasks(SHOP)
    by_policy = {
        name: list(rollouts(tasks, make_policy(name), pool))
        for name in ("solution", "nothing", "hollow")
    }
    assert all(r.success and r.stop_reason == "done" for r in by_policy["solution"])
    assert [r.tools for r in by_policy["solution"]] == [
        [c.tool for turn in t.solution for c in turn] for t in tasks
    ]
    assert not any(r.success or r.steps for r in by_policy["nothing"])
    assert not any(r.success for r in by_policy["hollow"])
    assert [r.tools for r in by_policy["hollow"]] == [["show"] * len(t.query) for t in tasks]


def test_order_groups_and_ids(pool):
    """Tasks in order, then samples; a task that comes twice makes two groups; all ids differ."""
    tasks = tiny_models.shop_tasks(SHOP, 3)
    played = list(
        rollouts([*tasks, tasks[0]], make_policy("random"), pool, samples=2, iteration=4, step=7)
    )
    assert [r.task_id for r in played] == [t.id for t in [*tasks, tasks[0]] for _ in range(2)]
    assert len({r.id for r in played}) == 8
    assert len({r.group for r in played}) == 4
    assert {(r.iteration, r.step) for r in played} == {(4, 7)}


@pytest.mark.parametrize("name", ["random", "model"])
def test_workers_do_not_matter(name, shop_policy):
    """One worker or three: the same bytes; another seed: others."""
    tasks = tiny_models.shop_tasks(SHOP)
    policy = make_policy(shop_policy if name == "model" else name)

    def play(workers, seed):
        with Pool(SHOP, workers=workers) as pool:
            return msgspec.json.encode(list(rollouts(tasks, policy, pool, samples=4, seed=seed)))

    assert play(1, 0) == play(3, 0) != play(3, 1)


def test_local_model_uses_its_tokens(pool, shop_policy):
    """Token ids, mask and log-probabilities line up with the messages; usage counts them."""
    policy = make_policy(shop_policy)
    tasks = tiny_models.shop_tasks(SHOP)
    played = list(rollouts(tasks, policy, pool, samples=4, keep_tokens=True))
    assert {r.success for r in played} == {True, False}
    decode = policy.model.tokenizer.decode
    for r in played:
        assert len(r.token_ids) == len(r.mask) == len(r.logprobs)
        assert all((p < 0) == bool(m) for p, m in zip(r.logprobs, r.mask, strict=True))
        own = decode([i for i, m in zip(r.token_ids, r.mask, strict=True) if m])
        said = [m["content"] for m in r.messages if m["role"] == "assistant"]
        assert own.split("<|end|>")[: len(said)] == said
        assert r.usage.completion_tokens == sum(r.mask)
        assert r.usage.prompt_tokens + r.usage.completion_tokens == len(r.token_ids)


def test_a_row_does_not_depend_on_its_batch(pool, shop_policy):
    """A task played alone is played as among others."""
    policy = make_policy(shop_policy)
    tasks = tiny_models.shop_tasks(SHOP)
    among = [r for r in rollouts(tasks, policy, pool, samples=2) if r.task_id == tasks[3].id]
    assert [r.messages for r in rollouts([tasks[3]], policy, pool, samples=2)] == [
        r.messages for r in among
    ]


def test_resumption_plays_whole_batches(pool, shop_policy, tmp_path):
    """After an interruption only missing batches are played, made of the same rows."""
    policy = make_policy(shop_policy)
    policy.rows = 8
    tasks = tiny_models.shop_tasks(SHOP, 12)
    batches = []

    def play(rest):
        batches.append([t.id for t in rest])
        return rollouts(rest, policy, pool, samples=2, keep_tokens=True)

    journal = Journal(tmp_path / "journal", {})
    whole = []
    for rollout in resumed(tasks, play, journal, policy, 2):
        whole.append(rollout)
        if len(whole) == 10:  # in the second of three batches
            break
    journal.close(finished=False)
    journal = Journal(tmp_path / "journal", {})
    again = list(resumed(tasks, play, journal, policy, 2))
    journal.close(finished=True)
    assert batches[1] == [t.id for t in tasks[8:]] and journal.reused == 2
    assert again == list(rollouts(tasks, policy, pool, samples=2, keep_tokens=True))


def test_prompt_longer_than_the_context(pool, shop_policy):
    """A task that doesn't fit stops as max_tokens, and the others are played."""
    tasks = tiny_models.shop_tasks(SHOP, 2)
    long = msgspec.structs.replace(tasks[0], id="long", query=["word " * 200])
    played = list(rollouts([long, tasks[1]], make_policy(shop_policy), pool))
    assert played[0].stop_reason == "max_tokens" and "prompt" in played[0].error
    assert played[1].stop_reason == "done"


def test_environment_faults_are_masked(shop_policy):
    """A start state that the environment cannot open is its fault and costs no other rollout."""
    tasks = tiny_models.shop_tasks("desk", 1)
    bad = msgspec.structs.replace(tasks[0], start=Start(name="no-such-state"))
    with Pool("desk") as desk:
        good = desk.tasks("dev")[0]
        for policy in (make_policy("solution"), make_policy(shop_policy)):
            first, second = rollouts([bad, good], policy, desk)
            assert (first.stop_reason, first.score, first.success) == ("env_error", 0.0, False)
            assert first.error
            assert second.stop_reason != "env_error"


def test_wrong_tasks_are_refused(pool):
    """A task of another environment, or without a user turn, is the user's mistake."""
    task = tiny_models.shop_tasks(SHOP, 1)[0]
    with pytest.raises(UsageError, match="is of environment 'desk'"):
        list(rollouts([msgspec.structs.replace(task, env="desk")], make_policy("nothing"), pool))
    with pytest.raises(UsageError, match="no user turn"):
        list(
            rollouts(
                [Task(id="x", env=SHOP, query=[], start=Start())], make_policy("nothing"), pool
            )
        )
    with pytest.raises(UsageError, match="code"):
        list(
            rollouts(
                [msgspec.structs.replace(task, solution=[["print(1)"]])],
                make_policy("solution"),
                pool,
            )
        )
    with pytest.raises(UsageError, match="cannot be loaded"):
        make_policy("./no-such-model")


def shop(request):
    """A model that does what the last user message says."""
    last = request["messages"][-1]
    item = next((i for i in tiny_models.ITEMS if i in last["content"]), None)
    if last["role"] != "user" or not item:
        return "all done"
    call = {"name": "add", "arguments": json.dumps({"item": item})}
    return {"content": None, "tool_calls": [{"id": "c1", "type": "function", "function": call}]}


@pytest.fixture
def shopper(monkeypatch):
    """The server of the model above."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-test")
    with ScriptedServer(shop) as server:
        yield server


def at(server, folder, **options):
    """Models at the server, with a journal of their own."""
    return Models(
        "rollout", ServiceOptions(base_url=server.url, journal=str(folder / "journal"), **options)
    )


def test_server_policy(pool, shopper, tmp_path):
    """Episodes over the API: results linked by call id, tools as schemas, order kept, no key."""
    tasks = tiny_models.shop_tasks(SHOP)
    with at(shopper, tmp_path, concurrency=3) as models:
        policy = make_policy("m", models=models, max_turn_tokens=50)
        first, again = (list(rollouts(tasks, policy, pool, samples=2)) for _ in range(2))
    assert [r.task_id for r in first] == [t.id for t in tasks for _ in range(2)]
    assert all(r.success and r.stop_reason == "done" for r in first)
    assert (
        again == first
        and len(shopper.requests)
        == models.totals()[0].paid.calls
        == models.totals()[0].reused.calls
    )
    assert {t["function"]["name"] for t in shopper.requests[0]["tools"]} == {
        "add",
        "price",
        "pay",
        "show",
    }
    assert shopper.requests[0]["max_tokens"] == 50
    results = [m for r in shopper.requests for m in r["messages"] if m["role"] == "tool"]
    assert results and all(m["tool_call_id"] == "c1" for m in results)
    assert all(r["key"] == "Bearer sk-secret-of-the-test" for r in shopper.requests)
    assert b"secret" not in msgspec.json.encode(first)
    assert all(r.usage.completion_tokens > 0 for r in first)


@pytest.mark.parametrize(("status", "error"), [(401, Unreachable), (422, CoevolveError)])
def test_server_errors_are_one_line_without_the_key(pool, shopper, tmp_path, status, error):
    """A refused key or request ends the command, which does not quote the key."""
    shopper.faults = {0: Fault(status)}
    with pytest.raises(error) as caught, at(shopper, tmp_path) as models:
        list(rollouts(tiny_models.shop_tasks(SHOP, 1), make_policy("m", models=models), pool))
    assert "\n" not in str(caught.value) and "sk-secret-of-the-test" not in str(caught.value)


def test_full_context_ends_the_episode(pool, shopper, tmp_path):
    """A server that says the conversation is too long stops the episode, not the command."""
    shopper.faults = {0: Fault(400, message="maximum context reached")}
    with at(shopper, tmp_path) as models:
        (rollout,) = rollouts(
            tiny_models.shop_tasks(SHOP, 1), make_policy("m", models=models), pool
        )
    assert rollout.stop_reason == "max_tokens"


def test_a_lost_reply_masks_its_episode_only(pool, shopper, tmp_path):
    """A call without an answer is no failure of the policy; a rerun tries only that one again."""
    shopper.faults = {1: NO_CHOICE}
    tasks = tiny_models.shop_tasks(SHOP, 4)
    with at(shopper, tmp_path, concurrency=1) as models:
        played = list(rollouts(tasks, make_policy("m", models=models), pool))
    assert (
        sorted(r.stop_reason for r in played) == ["done"] * 3 + ["env_error"]
        and models.totals()[0].bad == 1
    )
    before = len(shopper.requests)
    with at(shopper, tmp_path, concurrency=1) as models:
        assert all(r.success for r in rollouts(tasks, make_policy("m", models=models), pool))
    lost = next(r for r in played if r.stop_reason == "env_error")
    assert len(shopper.requests) - before == 1 + len(lost.task.query) - sum(
        m["role"] == "tool" for m in lost.messages
    )


def test_an_empty_reply_hands_the_turn_back(pool, shopper, tmp_path):
    """An empty reply is a reply: counted, kept in the journal, not tried again."""
    shopper.faults = {0: EMPTY}
    tasks = [task for task in tiny_models.shop_tasks(SHOP, 4) if len(task.query) == 1][
        :1
    ] or tiny_models.shop_tasks(SHOP, 1)
    with at(shopper, tmp_path, concurrency=1) as models:
        (played,) = rollouts(tasks, make_policy("m", models=models), pool)
        assert (models.totals()[0].silent, models.totals()[0].bad) == (1, 0)
    assert played.stop_reason == "done" and played.error is None and not played.success
    assert (
        played.messages[1] == {"role": "assistant", "content": ""}
        or played.messages[2]["content"] == ""
    )
    before = len(shopper.requests)
    with at(shopper, tmp_path, concurrency=1) as models:
        assert list(rollouts(tasks, make_policy("m", models=models), pool)) == [played]
    assert len(shopper.requests) == before


def test_dotted_tool_names_travel():
    """Names that the API would refuse are renamed on the way out and back."""
    from coevolve.models.chat import ChatRequest
    from coevolve.models.request_body import RequestForm, server_names

    tools = [
        {"type": "function", "function": {"name": n, "parameters": {}}}
        for n in ("farm.set", "farm__set", "ok")
    ]
    names = server_names(tools)
    assert (
        names["ok"] == "ok"
        and len(set(names.values())) == 3
        and not any("." in n for n in names.values())
    )
    message = {
        "role": "assistant",
        "content": to_text(Call("farm.set", {})),
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "farm.set", "arguments": "{}"}}
        ],
    }
    (sent,) = RequestForm().body(ChatRequest(model="m", messages=[message]), names)["messages"]
    assert sent["tool_calls"][0]["function"]["name"] == names["farm.set"]
