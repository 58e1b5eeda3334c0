"""What goes to a server besides the question, what a server may do to the client, and what is said
when it fails."""

from __future__ import annotations

import base64
import contextlib
import errno
import gzip
import json
import os
import socket
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from scripted_server import Fault, ScriptedServer

from coevolve.errors import CoevolveError, MissingDependency, Unreachable, UsageError
from coevolve.models.chat import BadReply, ChatReply, ChatRequest
from coevolve.models.http_client import MAX_BYTES, root_cause
from coevolve.models.options import ServiceOptions
from coevolve.models.service import Models

NOBODY = "http://127.0.0.1:9/v1"
VARIABLES = (
    "OPENAI_API_KEY",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
)


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    """No key and no proxy, whatever this machine has."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def ask(url: str, tmp_path: Path, retries: int = 4, **options) -> ChatReply:
    """One question to the server; fails as the command would."""
    with Models(
        "s", ServiceOptions(base_url=url, journal=str(tmp_path / "journal"), **options)
    ) as models:
        for server in models._client._servers:
            for client in server.clients:
                client.max_retries = retries
        (found,) = models.each(
            [ChatRequest(model="m", messages=[{"role": "user", "content": "hello"}])], models.chat
        )
        return found


def kept(tmp_path: Path) -> str:
    """All that the journal holds."""
    return "".join(path.read_text() for path in sorted((tmp_path / "journal").glob("*.jsonl")))


TOKEN = base64.b64encode(b"u:secretPASS/x").decode()
SPELLINGS = (
    f"secretPASS/x secretPASS%2Fx %73ecretPASS%2fx secretPASS\\/x Basic {TOKEN} {TOKEN.rstrip('=')}"
)


@pytest.mark.parametrize("status", [200, 401])
def test_a_password_is_cut_in_every_spelling(tmp_path, status):
    """The header's token, the address's own spelling and the decoded one: none is in an error, an
    answer or the journal."""

    def answer(_):
        return SPELLINGS if status == 200 else Fault(status, message=SPELLINGS)

    with ScriptedServer(answer) as server:
        url = server.url.replace("://", "://u:secretPASS%2Fx@")
        if status == 200:
            said = ask(url, tmp_path).text
            assert said == "*** *** *** *** Basic ***= ***"
        else:
            with pytest.raises(
                Unreachable, match="refuses the user and password in its address .HTTP 401"
            ) as caught:
                ask(url, tmp_path)
            said = str(caught.value)
        assert server.requests[0]["key"] == f"Basic {TOKEN}"
    for text in (said, kept(tmp_path)):
        assert "PASS" not in text and TOKEN.rstrip("=") not in text


@pytest.mark.parametrize(
    ("key", "query", "says"),
    [
        ("sk-planted", "", r"refuses the key in OPENAI_API_KEY \(HTTP 403"),
        (None, "", r"refuses a call without a key, for OPENAI_API_KEY is not set \(HTTP 403"),
        (
            "sk-planted",
            "?code=planted",
            r"refuses the key in OPENAI_API_KEY, or the query of its address \(HTTP 403",
        ),
    ],
)
def test_the_credential_that_was_refused_is_named(tmp_path, monkeypatch, key, query, says):
    """Nobody looks for a key that was never set."""
    if key:
        monkeypatch.setenv("OPENAI_API_KEY", key)
    with (
        ScriptedServer(lambda _: Fault(403)) as server,
        pytest.raises(Unreachable, match=says) as caught,
    ):
        ask(server.url + query, tmp_path)
    assert "planted" not in str(caught.value)


def test_a_query_goes_out_with_every_request(tmp_path):
    """It follows the path, and its values are cut like a password, but for a version, which is a
    date."""
    with ScriptedServer(lambda _: "2024-02-01 qu/ery-word qu%2Fery-word another+word") as server:
        query = "?api-version=2024-02-01&code=qu%2Fery-word&code=another+word&empty="
        assert ask(server.url + query, tmp_path).text == "2024-02-01 *** *** ***"
        path, _, sent = server.requests[0]["path"].partition("?")
        assert path == "/v1/chat/completions"
        assert sent.replace("%20", "+") == query[1:]
    assert "ery-word" not in kept(tmp_path)


def test_a_fragment_is_no_part_of_an_address():
    """It would go nowhere."""
    with pytest.raises(UsageError, match="is no address"):
        Models("s", ServiceOptions(base_url="http://127.0.0.1:9/v1#part"))


def test_headers_of_the_environment_are_refused(tmp_path, monkeypatch):
    """OPENAI_CUSTOM_HEADERS could be another key: nothing is sent, and its value is not said."""
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer planted")
    with pytest.raises(UsageError, match="OPENAI_CUSTOM_HEADERS is not sent") as caught:
        ask(NOBODY, tmp_path)
    assert "planted" not in str(caught.value)


def test_other_variables_of_the_package_do_not_go_out(tmp_path, monkeypatch):
    """Keys of other services stay here, whole requests considered; the organization and the project
    go, and no key is sent."""
    for name in (
        "OPENAI_ADMIN_KEY",
        "OPENAI_WEBHOOK_SECRET",
        "AZURE_OPENAI_API_KEY",
        "AZURE_OPENAI_AD_TOKEN",
    ):
        monkeypatch.setenv(name, "planted")
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "planted")
    monkeypatch.setenv("OPENAI_ORG_ID", "an-organization")
    heard = b""

    def serve(listening):
        nonlocal heard
        connection, _ = listening.accept()
        while b"hello" not in heard:
            heard += connection.recv(65536)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        with pytest.raises(CoevolveError, match="HTTP 400"):
            ask(f"http://127.0.0.1:{listening.getsockname()[1]}/v1", tmp_path)
        thread.join()
    assert b"an-organization" in heard and b"Bearer none" in heard and b"planted" not in heard


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("OPENAI_API_KEY", "ké-planted", UsageError),
        ("OPENAI_ORG_ID", "orgé-planted", UsageError),
        ("OPENAI_PROJECT_ID", "a\nplanted", UsageError),
        ("ALL_PROXY", "socks5h://u:planted@127.0.0.1:9", MissingDependency),
        ("HTTP_PROXY", "gopher://u:planted@127.0.0.1:9", UsageError),
        ("HTTP_PROXY", "http://u:planted@127.0.0.1:port", UsageError),
        ("SSL_CERT_FILE", "/nonexistent-planted.pem", UsageError),
        ("SSL_CERT_FILE", __file__, UsageError),
        ("SSLKEYLOGFILE", "/nonexistent/planted", UsageError),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(tmp_path, monkeypatch, name, value, error):
    """Before anything is sent, and without its value, which may hold a password."""
    monkeypatch.setenv(name, value)
    if error is MissingDependency:
        monkeypatch.setitem(sys.modules, "socksio", None)
    with pytest.raises(error, match=name) as caught:
        ask(NOBODY, tmp_path)
    assert "planted" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "61"},
        {"Retry-After": "90"},
        {"Retry-After": "inf"},
        {"retry-after-ms": "90000"},
    ],
    ids=str,
)
@pytest.mark.parametrize("status", [429, 503])
def test_a_long_rest_ends_the_call_at_once(tmp_path, headers, status):
    """A server that asks for more than a minute is asked once, whatever it says of another try."""
    with ScriptedServer(lambda _: Fault(status, {**headers, "x-should-retry": "true"})) as server:
        with pytest.raises(
            Unreachable,
            match=rf"HTTP {status} from model m: it asks to be left alone for (61|90|inf) s",
        ):
            ask(server.url, tmp_path)
        assert len(server.requests) == 1


def test_a_server_that_wants_no_other_try_is_not_said_to_have_had_one(tmp_path):
    """`x-should-retry: false` is obeyed, and the message counts the retries that were made."""
    with ScriptedServer(lambda _: Fault(503, {"x-should-retry": "false"})) as server:
        with pytest.raises(Unreachable, match="no answer from model m: HTTP 503: scripted"):
            ask(server.url, tmp_path)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("url", "proxy", "says"),
    [
        (NOBODY, None, "^http://127.0.0.1:9/v1: no answer from model m: Connection refused$"),
        ("http://no-such-host.invalid/v1", None, "model m: .*(not known|resolution|No address)"),
        (
            NOBODY,
            "u:planted@127.0.0.1:10",
            r"refused \(by way of the proxy http://\*\*\*@127.0.0.1:10\)$",
        ),
    ],
    ids=["port", "host", "proxy"],
)
def test_the_cause_of_a_failed_connection_is_said(tmp_path, monkeypatch, url, proxy, says):
    """In the system's words, and with the proxy in between."""
    if proxy:
        monkeypatch.setenv("http_proxy", proxy)
    with pytest.raises(Unreachable, match=says):
        ask(url, tmp_path, retries=0)


def test_what_a_proxy_says_of_its_password_is_cut(tmp_path, monkeypatch):
    """A proxy that refuses who asks and shows the header: its address is named, its password is
    not."""
    shown = "no pl/anted, Basic " + base64.b64encode(b"u:pl/anted").decode()
    with ScriptedServer(lambda _: Fault(407, message=shown)) as server:
        monkeypatch.setenv(
            "http_proxy", server.url.replace("://", "://u:pl%2Fanted@").removesuffix("/v1")
        )
        with pytest.raises(
            Unreachable,
            match=r"the proxy http://\*\*\*@127.*refuses who asks.*no \*\*\*, Basic \*\*\*",
        ):
            ask("http://elsewhere.invalid/v1", tmp_path)


def test_of_several_attempts_at_a_connection_the_first_tells_the_cause():
    """As where a name has two addresses, with the words of the layers in between left out."""
    error = Exception("Connection error.")
    error.__cause__ = OSError("All connection attempts failed")
    error.__cause__.__cause__ = ExceptionGroup(
        "two", [OSError(errno.EHOSTUNREACH, "::1"), OSError(errno.EPERM, "no")]
    )
    assert root_cause(error) == os.strerror(errno.EHOSTUNREACH)
    error.__cause__ = ValueError("no words of the system's")
    assert root_cause(error) == "no words of the system's"


def test_of_several_servers_the_dead_one_is_named(tmp_path):
    """And not the one that answers."""

    async def one(number: int) -> str:
        message = {"role": "user", "content": "hello"}
        return (await models.chat(ChatRequest(model="m", messages=[message], sample=number))).text

    with ScriptedServer(lambda _: "hello") as server, pytest.raises(Unreachable) as caught:
        with Models(
            "s", ServiceOptions(base_url=f"{server.url},{NOBODY}", journal=str(tmp_path / "j"))
        ) as models:
            for at in models._client._servers:
                at.clients[0].max_retries = 0
            list(models.each(range(2), one))
    assert str(caught.value).startswith(NOBODY) and server.url not in str(caught.value)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_an_answer_without_end_is_lost_and_not_read(tmp_path, packed):
    """Asked once, read up to the bound, packed or not: no memory, journal or conversation holds
    it."""
    text = "word " * (MAX_BYTES // 5 + 1)
    body = json.dumps(
        {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
    ).encode()
    fault = Fault(
        body=gzip.compress(body) if packed else body,
        headers={"Content-Encoding": "gzip"} if packed else {},
    )
    with ScriptedServer(lambda _: fault) as server:
        with pytest.raises(
            BadReply, match="the model gave no reply: the server's answer is longer than 4 MiB"
        ):
            ask(server.url, tmp_path)
        assert len(server.requests) == 1
    assert len(kept(tmp_path)) < 2000 and "longer than" in kept(tmp_path)


def test_the_text_of_a_redirect_is_not_read(tmp_path):
    """A redirect is followed; the gigabyte that comes with it is left."""
    sent = 0

    def serve(listening):
        nonlocal sent
        connection, _ = listening.accept()
        connection.recv(65536)
        fields = f"Location: {server.url}/chat/completions\r\nContent-Length: {1 << 30}"
        head = f"HTTP/1.1 307 Elsewhere\r\n{fields}\r\n\r\n"
        with contextlib.suppress(OSError):
            connection.sendall(head.encode())
            while sent < 1 << 30:
                sent += connection.send(b"x" * 65536)

    with (
        ScriptedServer(lambda _: "from elsewhere") as server,
        socket.create_server(("127.0.0.1", 0)) as listening,
    ):
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        assert (
            ask(f"http://127.0.0.1:{listening.getsockname()[1]}/v1", tmp_path).text
            == "from elsewhere"
        )
        thread.join()
    assert sent < 1 << 28


def test_an_error_without_end_is_said_in_a_line(tmp_path):
    """Its beginning."""
    with ScriptedServer(lambda _: Fault(422, message="no " * MAX_BYTES)) as server:
        with pytest.raises(
            CoevolveError, match="refuses the request .HTTP 422.: .*no no no"
        ) as caught:
            ask(server.url, tmp_path)
    assert len(str(caught.value)) < 500


def test_a_packed_answer_is_read(tmp_path):
    """What a server compresses is the same answer."""
    answer = {"choices": [{"message": {"content": "unpacked"}}]}
    body = gzip.compress(msgspec.json.encode(answer))
    with ScriptedServer(lambda _: Fault(body=body, headers={"Content-Encoding": "gzip"})) as server:
        assert ask(server.url, tmp_path).text == "unpacked"
