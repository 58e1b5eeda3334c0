"""The HTTP server of the engine for CPUs, without Ray: a real engine and real requests; what vLLM
refuses, it refuses.
"""

from __future__ import annotations

import asyncio
import threading
import urllib.request

import pytest

import tiny_models
from verl_child import get, post

pytestmark = pytest.mark.verl

CONTEXT = 96
HELLO = [{"role": "user", "content": "put tea on my list"}]
LONG = [{"role": "user", "content": "tea " * 99}]
IMAGE = [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The engine's name and its base URL."""
    from verl_cpu.hf_rollout import EngineActor

    engine = EngineActor(
        str(tiny_models.shop_policy(tmp_path_factory.mktemp("models") / "shop", steps=1)), CONTEXT
    )
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    address = asyncio.run_coroutine_threadsafe(engine.start(), loop).result(60)
    yield engine, f"http://{address}"
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


def ask(server, **changes) -> tuple[int, dict]:
    engine, url = server
    body = {"model": engine.name, "messages": HELLO, "temperature": 0, "max_tokens": 8, **changes}
    return post(f"{url}/v1/chat/completions", body)


def test_an_answer(server):
    """One choice of at most as many tokens as were asked for; parameters at their defaults, nulls
    and a seed are no matter.
    """
    status, answer = ask(
        server, n=1, stream=False, top_p=1.0, stop=None, seed=3, response_format={"type": "text"}
    )
    assert status == 200 and answer["model"] == server[0].name
    assert answer["usage"]["completion_tokens"] <= 8
    parts = [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "put tea "},
                {"type": "text", "text": "on my list"},
            ],
        }
    ]
    assert (
        ask(server, messages=parts)[1]["choices"] == ask(server)[1]["choices"] == answer["choices"]
    )
    assert ask(server, temperature=1e-300)[1]["choices"] == answer["choices"]
    room = CONTEXT - answer["usage"]["prompt_tokens"]
    assert ask(server, max_tokens=room)[0] == 200
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
        f"{server[1]}/health", timeout=60
    ) as told:
        assert told.status == 200


@pytest.mark.parametrize(
    ("changes", "status", "code", "told"),
    [
        ({"model": "another"}, 404, "model_not_found", "The model `another` does not exist."),
        ({"max_tokens": CONTEXT}, 400, "context_length_exceeded", "maximum context length"),
        ({"max_tokens": 10**30}, 400, "context_length_exceeded", "maximum context length"),
        ({"messages": LONG}, 400, "context_length_exceeded", "maximum context"),
        ({"max_tokens": -1}, 400, None, "max_tokens"),
        ({"max_completion_tokens": 0}, 400, None, "max_completion_tokens"),
        ({"temperature": -3}, 400, None, "temperature"),
        ({"temperature": "warm"}, 400, None, "temperature"),
        ({"seed": "s"}, 400, None, "seed"),
        ({"messages": []}, 400, None, "messages"),
        ({"messages": None}, 400, None, "messages"),
        ({"messages": "hello"}, 400, None, "messages"),
        ({"messages": [{"content": "hello"}]}, 400, None, "role"),
        ({"messages": IMAGE}, 400, None, "content"),
        ({"tools": "all"}, 400, None, "tools"),
        ({"stream": True}, 400, None, "stream=True is not supported"),
        ({"n": 3}, 400, None, "n=3 is not supported"),
        ({"logprobs": True}, 400, None, "not supported"),
        ({"response_format": {"type": "json_object"}}, 400, None, "response_format"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_refusals(server, changes, status, code, told):
    """What cannot be answered as asked is refused with vLLM's status, in OpenAI's form, and the
    engine goes on.
    """
    found, answer = ask(server, **changes)
    assert (found, answer["error"]["code"]) == (status, code)
    assert told in answer["error"]["message"] and answer["error"]["type"] == "invalid_request_error"
    assert ask(server)[0] == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"messages":[{"role":"user","content":"\\ud800"}]}',
    ],
)
def test_no_request(server, body):
    """Bytes that are no request are told so."""
    status, answer = get(f"{server[1]}/v1/chat/completions", body or b" ")
    assert status == 400 and answer["error"]["message"].startswith(
        "no chat completion is asked for"
    )


def test_a_failing_engine(server, monkeypatch):
    """An engine's own failure is the server's, and in OpenAI's form, too; so is a route that does
    not exist.
    """
    monkeypatch.setattr(server[0], "_sample", lambda batch: 1 / 0)
    status, answer = ask(server)
    assert (status, answer["error"]["type"]) == (500, "server_error")
    assert "ZeroDivisionError" in answer["error"]["message"]
    status, answer = get(f"{server[1]}/v1/completions")
    assert status == 404 and "/v1/completions" in answer["error"]["message"]
