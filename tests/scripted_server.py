"""An OpenAI-compatible server on a loopback socket that says what a function tells it to, and
misbehaves on demand.

    with ScriptedServer(lambda request: "hello") as server:
        … server.url, server.requests, server.answered

`answer(request)` gets the body of the request and returns the reply's text or an assistant message;
or one of the `Fault` values below, to be played instead. `faults` maps the number of a request
(from 0) to a fault for that one.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Fault(NamedTuple):
    """`status` with headers; `hang` seconds before the answer; `body` instead of it; `cut` closes
    in the middle of it."""

    status: int = 200
    headers: dict[str, str] = {}
    hang: float = 0.0
    body: bytes | None = None
    cut: bool = False
    message: str = "scripted"
    """Of an error without a body; the request's key is added, as careless servers do."""


TOO_MANY = Fault(429, {"Retry-After": "0.2"})
BROKEN = Fault(500, {"retry-after-ms": "10"})
HALF = Fault(body=b'{"id": "x", "choices": [{"index": 0, "mess')
CUT = Fault(cut=True)
NO_CHOICE = Fault(body=b'{"id": "x", "choices": []}')
EMPTY = Fault(
    body=b'{"id": "x", "choices": [{"message": {"role": "assistant", "content": ""}, '
    b'"finish_reason": "stop"}]}'
)

Answer = Callable[[dict[str, Any]], "str | dict[str, Any] | Fault"]


class ScriptedServer:
    """`requests` holds the bodies that came, with the key under `key` and the address under `path`;
    `answered` counts whole answers that went out."""

    def __init__(
        self, answer: Answer, faults: Mapping[int, Fault] | None = None, latency: float = 0.0
    ):
        self.answer, self.faults, self.latency = answer, dict(faults or {}), latency
        self.requests: list[dict[str, Any]] = []
        self.answered = 0
        self._lock = threading.Lock()

    def __enter__(self) -> ScriptedServer:
        owner = self

        class Handler(_Handler):
            server_owner = owner

        self._http = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def take(self, request: dict[str, Any]) -> Fault | None:
        """Notes a request; the fault that its number has."""
        with self._lock:
            self.requests.append(request)
            return self.faults.get(len(self.requests) - 1)

    def sent(self) -> None:
        with self._lock:
            self.answered += 1


def completion(said: str | dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """A chat completion that says it; tokens are words."""
    message = (
        {"role": "assistant", "content": said}
        if isinstance(said, str)
        else {"role": "assistant", **said}
    )
    prompt = sum(len(str(m.get("content")).split()) for m in request["messages"])
    done = len(json.dumps(message).split())
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": done,
        "total_tokens": prompt + done,
        "prompt_tokens_details": {"cached_tokens": prompt // 2},
    }
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
    }
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_: object) -> None:
        """A client that is killed is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_owner: ScriptedServer

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        owner = self.server_owner
        fault = owner.take({**request, "key": self.headers["Authorization"], "path": self.path})
        time.sleep(owner.latency)
        said = fault or owner.answer(request)
        if isinstance(said, Fault):
            fault, said = said, "late"
        fault = fault or Fault()
        time.sleep(fault.hang)
        body = fault.body or json.dumps(completion(said, request)).encode()
        if fault.status != 200 and fault.body is None:
            body = json.dumps(
                {"error": {"message": f"{fault.message}, key {self.headers['Authorization']}"}}
            ).encode()
        self._send(fault, body)
        if fault == Fault():
            owner.sent()

    def do_GET(self) -> None:
        """The list of models, which is empty: enough to see that somebody answers."""
        self._send(Fault(), b'{"object": "list", "data": []}')

    def _send(self, fault: Fault, body: bytes) -> None:
        self.send_response(fault.status)
        for name, value in {"Content-Type": "application/json", **fault.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if fault.cut:
            self.wfile.write(body[: len(body) // 2])
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass
