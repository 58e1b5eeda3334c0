"""The protocol loop of a worker, the built-in ones' and yours.

    from coevolve.environments.workers.serve import serve

or a copy of this file beside a worker whose interpreter has no `coevolve`. Standard library only.
``serve(environment)`` answers requests until stdin ends; `environment` is an object with the
methods

    describe() -> dict                           `Description` (coevolve/environments/protocol.py)
    open(start: dict) -> (session, dict)         any object of the worker's own, and its `Opened`; a
                                                 second argument, the user's turns, comes if
                                                 `describe` says `query`
    step(session, turn: int, action) -> dict     `Result`; an action is a call or a text of code
    evaluate(session, task: dict) -> dict        `Graded`
    tasks(split: str) -> list[dict]              optional: own tasks, without schema and id
    start(seed: str, apps: list[str] | None) -> dict    optional: `Start`
    close(session) -> None                       optional

The loop keeps the protocol's pipe for itself: what any library prints goes to stderr, and nobody
else reads stdin. Replies are strict JSON; a non-finite number in one is written as text. SIGINT is
ignored, for the parent decides. An exception in a method is an error reply: `bad_request` for
`BadRequest` and malformed requests, `unsupported` for a missing method, `internal` for the rest,
whose traceback goes to stderr. After a `fatal` result the rest of that entry's actions is not run.
A `MemoryError` ends the process with `OUT_OF_MEMORY`, because nothing that lives in it can be
trusted any more.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from typing import Any

BUFFER = 1 << 20  # Bytes that are read at a time
OUT_OF_MEMORY = 77  # Exit code


class BadRequest(Exception):
    """A request that this environment cannot serve: an unknown split, start state, session, or
    op."""

    kind = "bad_request"


class _Unsupported(BadRequest):
    kind = "unsupported"


def serve(environment: Any) -> None:
    """Answers requests in order until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests, replies = _take_pipes()
    loop = _ProtocolLoop(environment)
    for line in requests:
        if line.strip():
            try:
                _write(replies, loop.answer(line))
            except BrokenPipeError:
                return


def _take_pipes():
    """The protocol's two pipes on private descriptors; descriptor 0 reads nothing, descriptor 1 is
    stderr."""
    requests, replies = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return open(requests, "rb", buffering=BUFFER), replies


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


class _ProtocolLoop:
    """The sessions of one worker, by the client's ids."""

    def __init__(self, environment: Any):
        self.environment = environment
        self.sessions = {}

    def answer(self, line: bytes) -> bytes:
        """One reply line for one request line; whatever happens inside becomes an error reply."""
        id_ = None
        try:
            request = json.loads(line, parse_constant=_refuse)
            if not isinstance(request, dict):
                raise BadRequest("a request is a JSON object")
            id_ = request.get("id")
            return _encode({"id": id_, "result": self._dispatch(request)})
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        except BadRequest as error:
            return _error(id_, error.kind, str(error))
        except json.JSONDecodeError as error:
            return _error(id_, "bad_request", f"not JSON: {error}")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - boundary: becomes a typed reply
            import traceback  # takes long to import, and is seldom needed

            traceback.print_exc(file=sys.stderr)
            sys.stderr.flush()
            return _error(id_, "internal", f"{type(error).__name__}: {error}")

    def _dispatch(self, request: dict):
        op = request.get("op")
        handler = _HANDLERS.get(op) if isinstance(op, str) else None
        if handler is None:
            raise _Unsupported(f"unknown op {op!r}")
        return handler(self, request)

    def _method(self, name: str):
        method = getattr(self.environment, name, None)
        if method is None:
            raise _Unsupported(f"this environment has no {name}")
        return method

    def _session(self, request: dict):
        key = _field(request, "session", str)
        if key not in self.sessions:
            raise BadRequest(f"no session {key!r}")
        return self.sessions[key]

    def describe(self, request: dict):
        return self.environment.describe()

    def tasks(self, request: dict):
        return {"tasks": self._method("tasks")(_field(request, "split", str))}

    def start(self, request: dict):
        if not hasattr(self.environment, "start"):
            return {"start": {"name": "default"}}
        return {"start": self.environment.start(_field(request, "seed", str), request.get("apps"))}

    def open(self, request: dict):
        key = _field(request, "session", str)
        if key in self.sessions:
            raise BadRequest(f"session {key!r} is open already")
        query = [_field(request, "query", list)] if "query" in request else []
        session, opened = self.environment.open(_field(request, "start", dict), *query)
        self.sessions[key] = session
        return opened

    def step(self, request: dict):
        return {"results": [self._entry(entry) for entry in _field(request, "steps", list)]}

    def _entry(self, entry: dict) -> list:
        session, turn = self._session(entry), _field(entry, "turn", int)
        results = []
        for action in _field(entry, "actions", list):
            results.append(self.environment.step(session, turn, action))
            if results[-1].get("fatal"):
                break
        return results

    def evaluate(self, request: dict):
        return self.environment.evaluate(self._session(request), _field(request, "task", dict))

    def close(self, request: dict):
        session = self._session(request)
        del self.sessions[request["session"]]
        if hasattr(self.environment, "close"):
            self.environment.close(session)
        return {}


_OPS = ("describe", "tasks", "start", "open", "step", "evaluate", "close")
_HANDLERS = {name: getattr(_ProtocolLoop, name) for name in _OPS}


def _field(request: Any, name: str, type_: type):
    value = request.get(name) if isinstance(request, dict) else None
    if not isinstance(value, type_):
        raise BadRequest(f"field {name!r} must be {type_.__name__}")
    return value


def _refuse(constant: str):
    raise BadRequest(f"{constant} is not JSON")


def _error(id_: Any, kind: str, message: str) -> bytes:
    return _encode({"id": id_, "error": {"kind": kind, "message": " ".join(message.split())}})


def _encode(reply: dict) -> bytes:
    """Strict JSON in UTF-8 with a newline; characters that UTF-8 has not become `?`."""
    try:
        text = _dumps(reply)
    except ValueError:
        text = _dumps(_finite(reply))
    return text.encode("utf-8", "replace") + b"\n"


_dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def _finite(value: Any) -> Any:
    """The value with every non-finite float written as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        items = value.items()
        return {str(_finite(k)) if isinstance(k, float) else k: _finite(v) for k, v in items}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
