"""Policies on tasks through real worker processes, and a chat server on a real socket."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest

import tiny_models
from coevolve.agents.actions import to_text
from coevolve.agents.rollout import make_policy, resumed, rollouts
from coevolve.environments.client import Pool
from coevolve.errors import CoevolveError, Unreachable, UsageError
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
    by_policy = {name: list(rollouts(tasks, make_policy(name), pool)) for name in ("solution", "nothing", "hollow")}
    assert all(r.success and r.stop_reason == "done" for r in by_policy["solution"])
    assert [r.tools for r in by_policy["solution"]] == [[c.tool for turn in t.solution for c in turn] for t in tasks]
    assert not any(r.success or r.steps for r in by_policy["nothing"])
    assert not any(r.success for r in by_policy["hollow"])
    assert [r.tools for r in by_policy["hollow"]] == [["show"] * len(t.query) for t in tasks]


def test_order_groups_and_ids(pool):
    """Tasks in order, then samples; a task that comes twice makes two groups; all ids differ."""
    tasks = tiny_models.shop_tasks(SHOP, 3)
    played = list(rollouts([*tasks, tasks[0]], make_policy("random"), pool, samples=2, iteration=4, step=7))
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
    assert [r.messages for r in rollouts([tasks[3]], policy, pool, samples=2)] == [r.messages for r in among]


def test_resumption_plays_whole_batches(pool, shop_policy, tmp_path):
    """After an interruption only the batches that are missing are played, made of the same rows as before."""
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
    """A start state that the environment cannot open is its fault, not the policy's, and costs no other rollout."""
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
        list(rollouts([Task(id="x", env=SHOP, query=[], start=Start())], make_policy("nothing"), pool))
    with pytest.raises(UsageError, match="code"):
        list(rollouts([msgspec.structs.replace(task, solution=[["print(1)"]])], make_policy("solution"), pool))
    with pytest.raises(UsageError, match="cannot be loaded"):
        make_policy("./no-such-model")


class Shopper(BaseHTTPRequestHandler):
    """A chat server whose model does what the last user message says; it forgets nothing it was sent."""

    requests: list[dict] = []
    status = 200

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append({**request, "key": self.headers["Authorization"]})
        last = request["messages"][-1]
        item = next((i for i in tiny_models.ITEMS if i in last["content"]), None)
        message = {"role": "assistant", "content": "all done"}
        if last["role"] == "user" and item:
            call = {"name": "add", "arguments": json.dumps({"item": item})}
            message = {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": call}],
            }
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}
        body = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice], "usage": usage}
        if self.status != 200:
            body = {"error": {"message": f"maximum context reached with key {self.headers['Authorization']}"}}
        data = json.dumps(body).encode()
        self.send_response(self.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def shopper(monkeypatch):
    """The server and its address."""
    handler = type("Handler", (Shopper,), {"requests": []})
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-test")
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield handler, f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def test_server_policy(pool, shopper):
    """Episodes over the API: results linked by call id, tools as schemas, order kept, the key in no record."""
    handler, url = shopper
    policy = make_policy("m", base_url=url, concurrency=3, max_turn_tokens=50)
    tasks = tiny_models.shop_tasks(SHOP)
    for _ in range(2):  # a policy can be played again, in another event loop
        played = list(rollouts(tasks, policy, pool, samples=2))
        assert [r.task_id for r in played] == [t.id for t in tasks for _ in range(2)]
        assert all(r.success and r.stop_reason == "done" for r in played)
    assert {t["function"]["name"] for t in handler.requests[0]["tools"]} == {"add", "price", "pay", "show"}
    assert handler.requests[0]["max_tokens"] == 50
    results = [m for r in handler.requests for m in r["messages"] if m["role"] == "tool"]
    assert results and all(m["tool_call_id"] == "c1" for m in results)
    assert all(r["key"] == "Bearer sk-secret-of-the-test" for r in handler.requests)
    assert b"secret" not in msgspec.json.encode(played)
    assert all(r.usage.completion_tokens == 3 * sum(m["role"] == "assistant" for m in r.messages) for r in played)


@pytest.mark.parametrize(("status", "error"), [(401, Unreachable), (422, CoevolveError)])
def test_server_errors_are_one_line_without_the_key(pool, shopper, status, error):
    """A refused key or request ends the command; the key isn't quoted where the server might echo it."""
    handler, url = shopper
    handler.status = status
    with pytest.raises(error) as caught:
        list(rollouts(tiny_models.shop_tasks(SHOP, 1), make_policy("m", base_url=url), pool))
    assert "\n" not in str(caught.value) and "sk-secret-of-the-test" not in str(caught.value)


def test_full_context_ends_the_episode(pool, shopper):
    """A server that says the conversation is too long stops the episode, not the command."""
    handler, url = shopper
    handler.status = 400
    (rollout,) = rollouts(tiny_models.shop_tasks(SHOP, 1), make_policy("m", base_url=url), pool)
    assert rollout.stop_reason == "max_tokens"


def test_dotted_tool_names_travel(shopper):
    """Names that the API would refuse are renamed on the way out and back."""
    from coevolve.models.openai_chat import _names, _outgoing

    tools = [{"type": "function", "function": {"name": n, "parameters": {}}} for n in ("farm.set", "farm__set", "ok")]
    names = _names(tools)
    assert names["ok"] == "ok" and len(set(names.values())) == 3 and not any("." in n for n in names.values())
    message = {"role": "assistant", "content": to_text(Call("farm.set", {})), "tool_calls": [{"id": "1", "type": "function", "function": {"name": "farm.set", "arguments": "{}"}}]}  # fmt: skip
    assert _outgoing([message], names)[0]["tool_calls"][0]["function"]["name"] == names["farm.set"]
    assert _outgoing([{"role": "tool", "content": "hint"}], names) == [{"role": "user", "content": "hint"}]
