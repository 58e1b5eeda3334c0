"""Calls over a real socket: the journal, the budget, concurrency, and a server that misbehaves in
every way it can."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Annotated

import msgspec
import pytest
from scripted_server import (
    BROKEN,
    CUT,
    EMPTY,
    HALF,
    NO_CHOICE,
    TOO_MANY,
    Fault,
    ScriptedServer,
    completion,
)

from coevolve.errors import BudgetReached, CoevolveError, Unreachable, UsageError, WriteFailed
from coevolve.models.chat import AnswerRejected, BadReply, CallFailed, ChatRequest, ContextFull
from coevolve.models.options import ServiceOptions
from coevolve.models.service import RESERVED_FIELDS, Models
from coevolve.models.spending import Price
from coevolve.records import Usage


def question(text: object, **options) -> ChatRequest:
    return ChatRequest(model="m", messages=[{"role": "user", "content": str(text)}], **options)


def echo(request: dict) -> str:
    return f"you said {request['messages'][-1]['content']}"


def ask_all(models: Models, texts) -> list[str]:
    async def one(text):
        return (await models.chat(question(text))).text

    return list(models.each(texts, one))


def without_retries(models: Models) -> None:
    for server in models._client._servers:
        for client in server.clients:
            client.max_retries = 0


@pytest.fixture
def journal(tmp_path) -> str:
    return str(tmp_path / "journal")


def test_a_rerun_calls_nothing(journal):
    """The second run has the same answers, in order, and no call; a third one, offline, needs no
    server."""
    with ScriptedServer(echo) as server:
        for run in range(2):
            with Models("s", ServiceOptions(base_url=server.url, journal=journal)) as models:
                assert ask_all(models, range(20)) == [f"you said {i}" for i in range(20)]
                (totals,) = models.totals()
            assert (totals.paid.calls, totals.reused.calls) == ((20, 0), (0, 20))[run]
        assert len(server.requests) == 20
    with Models("s", ServiceOptions(journal=journal, offline=True)) as models:
        assert ask_all(models, range(20)) == [f"you said {i}" for i in range(20)]


def test_offline_names_what_is_missing(tmp_path):
    """A question that the cassette lacks is an error that says which; nothing is created."""
    with Models("s", ServiceOptions(journal=str(tmp_path / "none"), offline=True)) as models:
        with pytest.raises(
            CoevolveError, match=r"--offline.*model m, prompt v7, sample 2.*what now"
        ) as caught:
            next(models.each([question("what\nnow", sample=2, prompt_version="v7")], models.chat))
        assert question("what\nnow", sample=2, prompt_version="v7").key() in str(caught.value)
    assert not (tmp_path / "none").exists()


def test_samples_are_calls_of_their_own_and_twins_are_one(journal):
    """Two samples are two calls; the same question twice at a time is one."""
    with (
        ScriptedServer(echo, latency=0.05) as server,
        Models("s", ServiceOptions(base_url=server.url, journal=journal)) as models,
    ):
        list(
            models.each(
                [question("a"), question("a", sample=1), question("a"), question("a", sample=1)],
                models.chat,
            )
        )
        assert len(server.requests) == 2


def test_results_come_in_order_and_the_width_holds(journal):
    """However long each takes, results keep the order of the items, and no more than the limit are
    in flight."""
    now, most, lock, four = 0, 0, threading.Lock(), threading.Barrier(4)

    def answer(request):
        nonlocal now, most
        number = int(request["messages"][-1]["content"])
        with lock:
            now += 1
            most = max(most, now)
        if number < 4:
            four.wait()
        time.sleep(0.05 if number % 5 == 0 else 0.005)
        with lock:
            now -= 1
        return echo(request)

    with ScriptedServer(answer) as server:
        with Models(
            "s", ServiceOptions(base_url=server.url, journal=journal, concurrency=4)
        ) as models:

            async def one(text):
                return (await models.chat(question(text))).text

            assert list(models.each(range(40), one, width=20)) == [
                f"you said {i}" for i in range(40)
            ]
    assert most == 4


@pytest.mark.parametrize("fault", [TOO_MANY, BROKEN, CUT], ids=["429", "500", "cut"])
def test_passing_faults_are_retried_by_the_client(journal, fault):
    """Too many requests, an internal error, a cut connection: the right answers, one retry each."""
    with ScriptedServer(echo, {1: fault, 4: fault}) as server:
        with Models("s", ServiceOptions(base_url=server.url, journal=journal)) as models:
            assert ask_all(models, range(6)) == [f"you said {i}" for i in range(6)]
        (totals,) = models.totals()
    assert (totals.paid.calls, totals.paid.retries, len(server.requests)) == (6, 2, 8)


def test_a_hang_is_retried_by_the_client(journal):
    """An attempt that is over time is tried again; a busy machine may need more than one retry."""
    with ScriptedServer(echo, {0: Fault(hang=600)}) as server:
        options = ServiceOptions(base_url=server.url, journal=journal, timeout=1, concurrency=1)
        with Models("s", options) as models:
            assert ask_all(models, range(2)) == ["you said 0", "you said 1"]
        (totals,) = models.totals()
    assert totals.paid.calls == 2 and 1 <= totals.paid.retries == len(server.requests) - 2


def test_retry_after_is_waited_for(journal):
    """In seconds and in milliseconds, either longer than the client would wait by itself."""
    arrived = []

    def answer(request):
        arrived.append(time.monotonic())
        waits = {1: {"Retry-After": "1"}, 2: {"retry-after-ms": "1200"}}
        return Fault(429, waits[len(arrived)]) if len(arrived) in waits else echo(request)

    with (
        ScriptedServer(answer) as server,
        Models("s", ServiceOptions(base_url=server.url, journal=journal)) as models,
    ):
        assert ask_all(models, [1]) == ["you said 1"]
    first, second, third = arrived
    assert second - first >= 1 and third - second >= 1.2


@pytest.mark.parametrize("fault", [HALF, NO_CHOICE, EMPTY], ids=["half", "no choice", "empty"])
def test_no_reply_is_not_kept_and_asked_again_by_a_rerun(journal, fault):
    """An answer without content is an error; the others are kept, and the rerun pays for the
    missing one only."""

    async def one(models, text):
        try:
            return (await models.chat(question(text))).text
        except BadReply as error:
            return error

    with ScriptedServer(echo, {2: fault}) as server:
        options = ServiceOptions(base_url=server.url, journal=journal, concurrency=1)
        with Models("s", options) as models:
            found = list(models.each(range(5), lambda text: one(models, text)))
            assert [isinstance(f, BadReply) for f in found] == [False, False, True, False, False]
            (totals,) = models.totals()
            assert (totals.bad, totals.paid.calls, totals.paid.estimated) == (1, 5, 1), (
                "it was paid, whatever it was"
            )
        with Models("s", options) as models:
            assert ask_all(models, range(5)) == [f"you said {i}" for i in range(5)]
            assert models.totals()[0].paid.calls == 1


@pytest.mark.parametrize(
    ("fault", "error", "says"),
    [
        (Fault(401), Unreachable, "OPENAI_API_KEY"),
        (Fault(503, {"retry-after-ms": "1"}), Unreachable, "after 4 retries: HTTP 503: scripted"),
        (
            Fault(429, {"Retry-After": "3600"}),
            Unreachable,
            "HTTP 429 from model m: it asks to be left alone for 3600 s",
        ),
        (
            Fault(429, {"Retry-After": "3600.5"}),
            Unreachable,
            "HTTP 429 from model m: it asks to be left alone for 36.. seconds: scripted",
        ),
        (
            Fault(429, {"Retry-After": "Tue, 01 Jan 2999 00:00:00 GMT"}),
            Unreachable,
            r"HTTP 429 from model m: it asks to be left alone for \d{11} seconds: scripted",
        ),
        (Fault(422), CoevolveError, "refuses the request .HTTP 422.: scripted"),
        (Fault(400, message="maximum context length is 3"), ContextFull, "context"),
    ],
)
def test_lasting_faults_end_the_stage(journal, monkeypatch, fault, error, says):
    """One line, without the key that the server echoes; what was answered before is kept."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")
    with ScriptedServer(echo, {n: fault for n in range(1, 99)}) as server:
        options = ServiceOptions(base_url=server.url, journal=journal, concurrency=1)
        with pytest.raises(error, match=says) as caught, Models("s", options) as models:
            ask_all(models, range(5))
        assert "planted" not in str(caught.value) and "\n" not in str(caught.value)
        server.faults = {}
        with Models("s", options) as models:
            ask_all(models, range(5))
            assert models.totals()[0].paid.calls == 4


POISON = [Fault(400), Fault(422), Fault(500, {"retry-after-ms": "1"})]


def poisoned(fault: Fault, poison, lives=lambda: True):
    """A server that fails the questions that are `poison`, or all once it does not live."""

    def answer(request):
        text = request["messages"][-1]["content"]
        return fault if text in map(str, poison) or not lives() else echo(request)

    return answer


def found_of(models: Models, texts, samples: int = 1) -> list[str]:
    """Answers in order; "lost" for an item whose call failed."""

    async def one(item):
        try:
            return (await models.chat(question(item[0], sample=item[1]))).text
        except CallFailed as error:
            assert "scripted" in str(error)
            return "lost"

    return list(models.each([(text, i) for text in texts for i in range(samples)], one))


@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("fault", POISON, ids=["400", "422", "500"])
def test_a_poisoned_item_is_lost_and_the_rest_goes_on(journal, fault, concurrency):
    """The first, the last and one in the middle: counted, named, not paid; a rerun asks for those
    only, and loses them again, without taking the server for dead."""
    wanted = [f"you said {i}" if i not in (0, 5, 11) else "lost" for i in range(12)]
    with ScriptedServer(poisoned(fault, [0, 5, 11])) as server:
        options = ServiceOptions(base_url=server.url, journal=journal, concurrency=concurrency)
        for paid in (9, 0):
            with Models("s", options) as models:
                assert found_of(models, range(12)) == wanted
                (totals,) = models.totals()
                assert (totals.failed, totals.bad, totals.paid.calls) == (3, 0, paid)
                assert "3 failed" in totals.line()
                assert re.search("model m, .* the last: (0|5|11): http.*scripted", models.failed)
        assert len(lines(journal)) == 9


@pytest.mark.parametrize("fault", POISON, ids=["400", "422", "500"])
def test_the_samples_of_a_poisoned_task_are_one_failure(journal, fault):
    """Twelve in a row of one conversation say nothing of the server."""
    with ScriptedServer(poisoned(fault, ["a"])) as server:
        options = ServiceOptions(base_url=server.url, journal=journal, concurrency=2)
        with Models("s", options) as models:
            assert found_of(models, "ab", 12) == ["lost"] * 12 + ["you said b"] * 12


@pytest.mark.parametrize(
    ("fault", "error"),
    list(zip(POISON, (CoevolveError, CoevolveError, Unreachable), strict=True)),
    ids=["400", "422", "500"],
)
@pytest.mark.parametrize("count", [1, 3, 40])
def test_a_server_that_answers_nothing_is_dead(journal, fault, error, count):
    """Its failure ends the work, after a few items at the latest."""
    with ScriptedServer(lambda _: fault) as server:
        options = ServiceOptions(base_url=server.url, journal=journal, concurrency=1)
        with pytest.raises(error, match="scripted") as caught, Models("s", options) as models:
            found_of(models, range(count))
        assert type(caught.value) is error and len(server.requests) <= 5 * 5


@pytest.mark.parametrize(("texts", "samples"), [(range(60), 1), ("abc", 90)])
def test_a_server_that_dies_is_noticed(journal, texts, samples):
    """Several items in a row, or many of few, after the last answer: what was paid is kept."""
    dead = Fault(503, {"retry-after-ms": "1"})
    answer = poisoned(dead, [], lambda: len(server.requests) <= 8)
    with ScriptedServer(answer) as server:
        options = ServiceOptions(base_url=server.url, journal=journal, concurrency=2)
        with pytest.raises(Unreachable, match="HTTP 503"), Models("s", options) as models:
            found_of(models, texts, samples)
        assert len(server.requests) <= 8 + 66 * 5
    assert len(lines(journal)) == 8


@pytest.mark.parametrize("status", [401, 403, 407, 429])
def test_who_asks_and_how_often_is_no_matter_of_an_item(journal, status):
    """The run ends at once, whatever was answered before."""
    fault = Fault(status, {"retry-after-ms": "1"})
    with ScriptedServer(poisoned(fault, [3])) as server:
        options = ServiceOptions(base_url=server.url, journal=journal, concurrency=1)
        with pytest.raises(Unreachable, match=f"HTTP {status}"), Models("s", options) as models:
            found_of(models, range(9))
        assert len(server.requests) == (8 if status == 429 else 4)


@pytest.mark.parametrize(
    "url", [None, "", "ftp://x", "127.0.0.1:8101/v1", "http://[bad/v1", "http://127.0.0.1:99999/v1"]
)
def test_no_address_no_call(url, journal, monkeypatch):
    """Without a server's address nothing is sent anywhere: a usage error before the first call."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(UsageError, match="--base-url"):
        Models("s", ServiceOptions(base_url=url, journal=journal)).__enter__()


@pytest.mark.parametrize(
    "price",
    ["prompt = nan\ncompletion = 1", "prompt = -1\ncompletion = 1", "prompt = 1\ncompletion = inf"],
)
def test_a_price_is_a_finite_number(price, journal, tmp_path):
    """A table that no budget could be kept by is refused."""
    (tmp_path / "prices.toml").write_text(f"[m]\n{price}\n")
    with pytest.raises(UsageError, match="finite"):
        Models(
            "s",
            ServiceOptions(
                base_url="http://127.0.0.1:9/v1",
                journal=journal,
                prices=str(tmp_path / "prices.toml"),
            ),
        ).__enter__()


KEY = "sk/planted-7\\x"


def spelled(text: str) -> str:
    """As some servers write JSON."""
    return (
        json.dumps(text)[1:-1].replace("/", "\\/").replace("-", "\\u002D").replace("p", "\\u0070")
    )


def echoes(request: dict) -> Fault:
    """Says the key in a text, in its reasoning, and in a call's arguments, where it is JSON in JSON
    in JSON."""
    inner = json.dumps({"text": "@", "more": json.dumps({"deep": "@"})}).replace("@", spelled(KEY))
    call = {"id": KEY, "type": "function", "function": {"name": "say", "arguments": inner}}
    message = {
        "content": [{"text": f"it is {KEY[:4]}"}, {"text": KEY[4:]}],
        "reasoning": KEY,
        "tool_calls": [call],
    }
    body = json.dumps(completion(message, request)).replace(json.dumps(KEY)[1:-1], spelled(KEY))
    return Fault(body=body.encode())


def everything(value: object) -> str:
    """All texts in a value, JSON in texts read as often as it can be."""
    if isinstance(value, dict):
        return "\n".join(map(everything, value.values()))
    if isinstance(value, list):
        return "\n".join(map(everything, value))
    try:
        return value + "\n" + everything(json.loads(value))
    except (TypeError, ValueError):
        return str(value)


def test_the_key_is_cut_however_it_is_spelled(journal, monkeypatch):
    """Escaped as JSON allows it, in parts, in JSON inside JSON: nothing that is kept decodes to
    it."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with (
        ScriptedServer(echoes) as server,
        Models("s", ServiceOptions(base_url=server.url, journal=journal)) as models,
    ):
        (found,) = models.each([question("x")], models.chat)
    assert KEY in everything(json.loads(echoes({"messages": []}).body)), "the server did say it"
    assert found.text == "it is ***" and found.tool_calls[0]["function"]["name"] == "say"
    for kept in (msgspec.to_builtins(found), lines(journal)):
        assert "***" in everything(kept) and "planted" not in everything(kept)


def test_a_password_in_the_address_goes_out_and_nowhere_else(journal):
    """It is the authorization of the request; errors and answers do not have it."""
    said = [Fault(400, message="you are u:s3cret-pw"), "s3cret-pw it is"]
    with ScriptedServer(lambda request: said.pop(0)) as server:
        url = server.url.replace("://", "://u:s3cret%2Dpw@")
        with pytest.raises(CoevolveError, match="you are u:") as caught:
            with Models("s", ServiceOptions(base_url=url, journal=journal)) as models:
                ask_all(models, [1])
        assert "s3cret" not in str(caught.value)
        with Models("s", ServiceOptions(base_url=url, journal=journal)) as models:
            assert ask_all(models, [1]) == ["*** it is"]
        assert server.requests[0]["key"] == "Basic " + base64.b64encode(b"u:s3cret-pw").decode()
    for wrong in (
        "ftp://u:s3cret@h",
        "u:s3cret@h/v1",
        "http://u:s3/cret?@h:x/v1",
        "http://h:0/v1?key=s3cret",
    ):
        with pytest.raises(UsageError) as refused:
            Models("s", ServiceOptions(base_url=wrong, journal=journal))
        assert "s3" not in str(refused.value)


def test_an_attempt_ends_however_slowly_the_server_speaks(journal):
    """A byte now and then keeps no attempt alive: it is over time, and tried again."""

    def serve(listening):
        connection, _ = listening.accept()
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        with contextlib.suppress(OSError):
            while True:
                connection.sendall(b" ")
                time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, args=(listening,), daemon=True).start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        with pytest.raises(
            Unreachable, match="no answer from model m: an attempt took longer than 0.5 s"
        ):
            with Models("s", ServiceOptions(base_url=url, journal=journal, timeout=0.5)) as models:
                without_retries(models)
                ask_all(models, [1])


@pytest.mark.parametrize(
    "count", ["1e400", "NaN", '"many"', "-3", "1e30", "9007199254740993000", "true", "1.5", "null"]
)
def test_a_count_that_is_none_is_estimated(journal, count):
    """Numbers of tokens that no server can have counted are no usage."""
    details = '"prompt_tokens_details": {"cached_tokens": @}'
    usage = f'{{"prompt_tokens": @, "completion_tokens": @, {details}}}'
    body = f'{{"choices": [{{"message": {{"content": "ok"}}}}], "usage": {usage}}}'
    with ScriptedServer(lambda request: Fault(body=body.replace("@", count).encode())) as server:
        with Models("s", ServiceOptions(base_url=server.url, journal=journal)) as models:
            assert ask_all(models, [1]) == ["ok"]
        (totals,) = models.totals()
    assert (
        totals.paid.estimated == 1
        and 0 < totals.paid.tokens < 100
        and totals.paid.cached_tokens == 0
    )


@pytest.mark.parametrize(
    "limits", [{"budget_tokens": 250}, {"budget_cost": 0.25}], ids=["tokens", "cost"]
)
def test_answers_that_cannot_be_used_are_paid(journal, tmp_path, limits):
    """They end the budget, and the journal knows of them, so that reruns with the same budget come
    to ask nothing more."""
    prices = tmp_path / "prices.toml"
    prices.write_text("[m]\nprompt = 1000\ncompletion = 1000\n")
    answer = {
        "choices": [{"message": {"content": ""}}],
        "usage": {"prompt_tokens": 90, "completion_tokens": 10},
    }
    options = {"journal": journal, "concurrency": 1, "prices": str(prices)}

    async def one(models, text):
        try:
            return (await models.chat(question(text))).text
        except BadReply:
            return None

    with ScriptedServer(lambda request: Fault(body=json.dumps(answer).encode())) as server:
        asked, paid = [], []
        for _ in range(5):
            with pytest.raises(BudgetReached, match="reached") as caught:
                with Models(
                    "s", ServiceOptions(base_url=server.url, **limits, **options)
                ) as models:
                    list(models.each(range(8), lambda text: one(models, text)))
            asked.append(len(server.requests))
            paid.append(
                [(totals.bad, totals.paid.calls, totals.paid.tokens) for totals in models.totals()]
            )
        assert asked == [3, 4, 5, 5, 5], (
            "what a question took in vain is taken from each later budget"
        )
        assert paid[:2] == [[(3, 3, 300)], [(1, 1, 100)]] and paid[4] == []
        assert "300 tokens by earlier answers that could not be used" in str(caught.value)
        assert sum(line["reply"]["usage"]["prompt_tokens"] for line in lines(journal)) == 5 * 90
    with ScriptedServer(echo) as server:
        with Models("s", ServiceOptions(base_url=server.url, **options)) as models:
            assert ask_all(models, range(8)) == [f"you said {i}" for i in range(8)]
        with Models("s", ServiceOptions(base_url=server.url, budget_tokens=1, **options)) as models:
            assert ask_all(models, range(8)) == [f"you said {i}" for i in range(8)]
        assert len(server.requests) == 8


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_and_not_sent_back(journal, field):
    """The journal has the thought; the conversation goes on without it, in every form that servers
    know."""

    def answer(request):
        return {"content": "yes", field: "a thought"}

    with (
        ScriptedServer(answer) as server,
        Models("s", ServiceOptions(base_url=server.url, journal=journal)) as models,
    ):
        (first,) = models.each([question("well?")], models.chat)
        (entry,) = lines(journal)
        assert first.reasoning == entry["reply"]["reasoning"] == "a thought" and first.text == "yes"
        more = [*question("well?").messages, first.message, {"role": "user", "content": "sure?"}]
        list(models.each([ChatRequest(model="m", messages=more)], models.chat))
        assert (
            "a thought" not in json.dumps(server.requests)
            and server.requests[1]["messages"][1]["content"] == "yes"
        )


def test_no_server():
    """Nobody listens: unreachable, and no word about the password in the address."""
    with pytest.raises(Unreachable, match="no answer from model m: Connection refused") as caught:
        with Models(
            "s",
            ServiceOptions(
                base_url="http://user:pass@127.0.0.1:9/v1", journal="/tmp/coevolve-none"
            ),
        ) as models:
            without_retries(models)
            ask_all(models, [1])
    assert "pass" not in str(caught.value)


@pytest.mark.parametrize(
    "limits",
    [{"budget_calls": 3}, {"budget_tokens": 20}, {"budget_cost": 0.02}],
    ids=["calls", "tokens", "cost"],
)
def test_budgets_stop_and_are_resumable(journal, tmp_path, limits):
    """A limit stops before the next call, keeps what is in flight, and a rerun goes on from
    there."""
    prices = tmp_path / "prices.toml"
    prices.write_text("[m]\nprompt = 1000\ncompletion = 1000\ncached = 0\n")
    with ScriptedServer(echo, latency=0.05) as server:
        options = ServiceOptions(
            base_url=server.url, journal=journal, concurrency=2, **limits, prices=str(prices)
        )
        reached = 0
        while reached < 20:
            try:
                with Models("s", options) as models:
                    assert ask_all(models, range(8)) == [f"you said {i}" for i in range(8)]
                    break
            except BudgetReached as error:
                assert "reached" in str(error)
                reached += 1
        (totals,) = models.totals()
        assert 1 <= reached < 8 and len(server.requests) == server.answered == 8
        assert totals.paid.calls + totals.reused.calls == 8
        assert totals.reused.cost > 0


def uncounted(request: dict) -> Fault:
    """The echo, without usage: llama.cpp and proxies leave it out."""
    answer = completion(echo(request), request)
    answer.pop("usage")
    return Fault(body=json.dumps(answer).encode())


@pytest.mark.parametrize(
    "limits", [{"budget_tokens": 50}, {"budget_cost": 0.05}], ids=["tokens", "cost"]
)
def test_a_server_that_counts_nothing_still_meets_the_budget(journal, tmp_path, limits):
    """Tokens are estimated from the bytes and said to be; the limit stops by them; what it cost is
    unknown, not 0."""
    prices = tmp_path / "prices.toml"
    prices.write_text("[m]\nprompt = 1000\ncompletion = 1000\n")
    with ScriptedServer(uncounted) as server:
        options = {
            "base_url": server.url,
            "journal": journal,
            "concurrency": 1,
            "prices": str(prices),
        }
        with pytest.raises(
            BudgetReached, match=r"reached \(by estimate: \d calls came without usage\)"
        ):
            with Models("s", ServiceOptions(**limits, **options)) as models:
                ask_all(models, range(8))
        (totals,) = models.totals()
        asked, said = (
            json.dumps([[{"content": "0", "role": "user"}], [], None]),
            json.dumps(["you said 0", ""]),
        )
        a_call = len(asked.replace(" ", "")) / 3 + len(said) / 3
        assert abs(totals.paid.tokens / totals.paid.calls - a_call) < 3
        assert 1 <= totals.paid.calls == totals.paid.estimated == len(server.requests) < 8
        assert totals.paid.cost is None and "cost" not in totals.line()
        assert f"{totals.paid.calls} without usage (tokens estimated)" in totals.line()
        with Models("s", ServiceOptions(**options)) as models:
            ask_all(models, range(8))
        (totals,) = models.totals()
        assert totals.reused.estimated + totals.paid.estimated == 8 == len(server.requests)
        assert totals.reused.cost is None and totals.reused.tokens > 0


def test_what_a_server_counts_is_not_estimated(journal):
    """Usage stands as it is; cached tokens are a part of the prompt's, whatever a server says."""
    answer = json.loads(json.dumps(completion("ok", {"messages": []})))
    answer["usage"] = {
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 99},
    }
    with ScriptedServer(lambda request: Fault(body=json.dumps(answer).encode())) as server:
        with Models("s", ServiceOptions(base_url=server.url, journal=journal)) as models:
            ask_all(models, [1])
        (totals,) = models.totals()
        assert (totals.paid.tokens, totals.paid.estimated) == (12, 0)
    assert Price(prompt=2, cached=1, completion=3).of(Usage(10, 2), 99) == (10 * 1 + 2 * 3) / 1e6


@pytest.mark.parametrize("field", RESERVED_FIELDS)
@pytest.mark.parametrize("value", [None, "x"])
def test_extra_fields_are_not_the_stages_own(journal, field, value):
    """Model, messages, tools, n and stream are neither set nor removed by --request-extra."""
    with pytest.raises(UsageError, match=rf"--request-extra: {field} "):
        Models(
            "s",
            ServiceOptions(
                base_url="http://127.0.0.1:9/v1", journal=journal, request_extra={field: value}
            ),
        )
    assert not Path(journal).exists()


def test_a_cost_limit_needs_a_price(journal, tmp_path):
    """Without the model's price nothing is paid; a broken table says what is wrong with it."""
    prices = tmp_path / "prices.json"
    prices.write_text('{"other": {"prompt": 1, "completion": 1}}')
    with ScriptedServer(echo) as server:
        options = ServiceOptions(
            base_url=server.url, journal=journal, budget_cost=1.0, prices=str(prices)
        )
        with pytest.raises(UsageError, match="price of m"), Models("s", options) as models:
            ask_all(models, [1])
        assert not server.requests
    prices.write_text('{"m": {"promt": 1, "completion": 1}}')
    with pytest.raises(UsageError, match="price table"):
        Models("s", options)


def test_cost_is_null_without_a_table(journal):
    """No price, no figure."""
    with (
        ScriptedServer(echo) as server,
        Models("s", ServiceOptions(base_url=server.url, journal=journal)) as models,
    ):
        ask_all(models, [1])
        models.kept = 2
        (totals,) = models.totals()
        assert totals.paid.cost is None and "cost" not in totals.line()
        assert "per record written 0.5 calls" in totals.line()


class Idea(msgspec.Struct):
    query: str
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)]


def test_structured_answers(journal):
    """A good answer costs one call, a bad one two and shows the model its error, a twice bad one is
    refused with its reply."""

    def answer(request):
        first, last = request["messages"][0]["content"], request["messages"][-1]["content"]
        corrected = last != first and "missing required field `confidence`" in last
        good = '{"query": "q", "confidence": 0.5}'
        if first == "good" or (first == "second" and corrected):
            return good
        return "```\n" + good + "\n```" if first == "fenced" else '{"query": "q"}'

    async def one(models, text):
        try:
            return await models.ask(question(text), Idea)
        except AnswerRejected as error:
            return error

    with ScriptedServer(answer) as server:
        for _ in range(2):  # from the journal all goes the same way
            with Models(
                "s", ServiceOptions(base_url=server.url, journal=journal, concurrency=1)
            ) as models:
                texts = ["good", "fenced", "second", "bad"]
                *ideas, rejected = models.each(texts, lambda text: one(models, text))
            assert ideas == [Idea("q", 0.5)] * 3
            assert "confidence" in rejected.reason and rejected.reply == '{"query": "q"}'
            (totals,) = models.totals()
            assert (totals.repaired, totals.reasked, totals.rejected) == (1, 2, 1)
        assert len(server.requests) == 6
        assert server.requests[0]["response_format"]["json_schema"]["name"] == "Idea"


@pytest.mark.parametrize("status", [400, 404, 422, 501])
def test_a_server_without_structured_answers(journal, status):
    """It refuses response_format once, and is asked without from then on."""

    def answer(request):
        if "response_format" in request:
            return Fault(
                status, {"x-should-retry": "false"}, message="response_format is not supported"
            )
        return '{"query": "q", "confidence": 0.5}'

    with ScriptedServer(answer) as server:
        with Models(
            "s", ServiceOptions(base_url=server.url, journal=journal, concurrency=1)
        ) as models:
            asked = list(models.each(["a", "b"], lambda text: models.ask(question(text), Idea)))
        assert asked == [Idea("q", 0.5)] * 2
        assert ["response_format" in r for r in server.requests] == [True, False, False]


@pytest.mark.parametrize("takes", [True, False])
def test_results_of_calls_without_ids_are_tool_messages(journal, takes):
    """What answers a call in a reply's text has the role that it has in training; a server that
    refuses it gets user messages from then on."""

    def answer(request):
        if not takes and any(message["role"] == "tool" for message in request["messages"]):
            needs = "must be a response to a preceding message with 'tool_calls'"
            return Fault(400, message=f"messages with role 'tool' {needs}")
        return "done"

    call = {"role": "assistant", "content": '{"name": "ls", "arguments": {}}'}
    said = [{"role": "user", "content": "list"}, call, {"role": "tool", "content": "a.txt"}]
    with ScriptedServer(answer) as server:
        with Models(
            "s", ServiceOptions(base_url=server.url, journal=journal, concurrency=1)
        ) as models:
            for messages in (said, [*said, call, {"role": "tool", "content": "b.txt"}]):
                (said_back,) = models.each([ChatRequest(model="m", messages=messages)], models.chat)
                assert said_back.text == "done"
        roles = [
            [message["role"] for message in request["messages"]][2::2]
            for request in server.requests
        ]
    if takes:
        assert roles == [["tool"], ["tool", "tool"]]
        assert all(
            m["tool_call_id"] for r in server.requests for m in r["messages"] if m["role"] == "tool"
        )
    else:
        assert roles == [["tool"], ["user"], ["user", "user"]]


def test_extra_fields_reach_the_server_and_the_key(journal):
    """`--request-extra` adds fields, takes away with null, and makes another call of it."""
    request = question("x", temperature=0.5, max_tokens=7)
    extra = {"temperature": None, "reasoning_effort": "low"}
    with ScriptedServer(echo) as server:
        for more in ({}, extra):
            with Models(
                "s", ServiceOptions(base_url=server.url, journal=journal, request_extra=more)
            ) as models:
                next(models.each([request], models.chat))
        assert [r.get("temperature") for r in server.requests] == [0.5, None]
        assert (
            server.requests[1]["reasoning_effort"] == "low"
            and server.requests[1]["max_tokens"] == 7
        )


@pytest.fixture
def asker(journal):
    """Starts processes that wait for a line on stdin, then ask (`asker.py`)."""
    started = []

    def start(server: ScriptedServer) -> subprocess.Popen:
        command = [sys.executable, Path(__file__).with_name("asker.py"), server.url, journal]
        started.append(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        assert started[-1].stdout.readline() == "ready\n"
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


ANSWERS = [f"you said {i}" for i in range(10)]


def test_two_processes_pay_once(asker):
    """Both ask the same at the same time: each question is one call, the second process waits for
    the answer."""
    with ScriptedServer(echo, latency=0.2) as server:
        both = [asker(server) for _ in range(2)]
        for process in both:
            process.stdin.write("go\n")
            process.stdin.flush()
        assert [process.communicate()[0].splitlines() for process in both] == [ANSWERS, ANSWERS]
        assert len(server.requests) == 10


def test_a_killed_process_leaves_its_questions_to_the_other(asker):
    """kill -9 of the process whose calls are in flight: the one that waits for its answers asks
    them itself, once."""
    first_is_dead = threading.Event()

    def answer(request):
        return echo(request) if first_is_dead.is_set() else Fault(hang=60)

    with ScriptedServer(answer) as server:
        first, second = asker(server), asker(server)
        first.stdin.write("go\n")
        first.stdin.flush()
        while len(server.requests) < 10:
            time.sleep(0.01)
        second.stdin.write("go\n")
        second.stdin.flush()
        time.sleep(0.2)
        assert len(server.requests) == 10, "it waits"
        first_is_dead.set()
        first.kill()
        assert second.communicate()[0].splitlines() == ANSWERS
        assert len(server.requests) == 20


def lines(journal: str) -> list[dict]:
    """All that a journal holds."""
    files = sorted(Path(journal).glob("*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_bytes().splitlines()]


@pytest.mark.parametrize(
    "kept", [0, 20, -1, -30], ids=["nothing", "the key's beginning", "no newline", "half"]
)
def test_a_torn_line_is_asked_again(journal, kept):
    """What a killed process left of a line is no answer, and the line that follows it is whole."""
    with ScriptedServer(echo) as server:
        options = ServiceOptions(base_url=server.url, journal=journal)
        with Models("s", options) as models:
            ask_all(models, [1])
        (entry,) = lines(journal)
        assert entry["asked"]["last"] == "1" and entry["reply"]["text"] == "you said 1"
        path = Path(journal) / f"{entry['key'][0]}.jsonl"
        path.write_bytes(path.read_bytes()[:kept])
        for calls in (2, 2):
            with Models("s", options) as models:
                assert ask_all(models, [1]) == ["you said 1"]
            assert len(server.requests) == calls


def test_a_damaged_line_is_said(journal, capsys):
    """A line whose middle is gone is a miss, with a warning."""
    with ScriptedServer(echo) as server:
        options = ServiceOptions(base_url=server.url, journal=journal)
        with Models("s", options) as models:
            ask_all(models, [1])
        path = Path(journal) / f"{lines(journal)[0]['key'][0]}.jsonl"
        path.write_bytes(path.read_bytes().replace(b'"reply":{', b'"reply":'))
        with Models("s", options) as models:
            assert ask_all(models, [1]) == ["you said 1"]
        assert "asking again" in capsys.readouterr().err
        with Models("s", options) as models:
            ask_all(models, [1])
        assert len(server.requests) == 2


def test_a_journal_that_cannot_be_written(tmp_path):
    """Before anything is paid."""
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteFailed):
        Models("s", ServiceOptions(base_url="http://127.0.0.1:9", journal=str(tmp_path / "file")))


def test_an_abandoned_iterator_leaves_no_calls_running(journal):
    """A consumer that stops early ends the items in flight; their answers are still kept."""
    with ScriptedServer(echo, latency=0.1) as server:
        with Models(
            "s", ServiceOptions(base_url=server.url, journal=journal, concurrency=4)
        ) as models:

            async def one(text):
                if text == 0:
                    raise ValueError("the consumer's own")
                await asyncio.sleep(0)
                return await models.chat(question(text))

            with pytest.raises(ValueError, match="own"):
                list(models.each(range(8), one))
        assert len(lines(journal)) == server.answered
