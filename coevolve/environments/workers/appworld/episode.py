"""The warm process behind the AppWorld worker that forks one process per episode, which holds the
episode's databases and APIs. Policy code never runs in any of them.

An episode's process listens to the worker on its first socket and, while a cell runs, to the
policy's process on its second:

| order of the worker | answer |
|---|---|
| open {root, base, instruction, secret} | {state}; from here on changes are watched |
| begin {requests} | none; from here on the policy may call APIs |
| end | {effects, state, completed, called}; from here on it may not |
| call {app, api, arguments} | {value or error, effects, state, completed} |
| grade {outputs} | AppWorld's own evaluation of the state, which is saved below that directory |
| final | `EpisodeState.final`: the whole difference to the start, for the verifiers |

The policy sends {id, app, api, arguments}; the answer is {id, value} or {id, error: [class, text]}.
"""

from __future__ import annotations

import os
import socket
from functools import partial
from typing import Any

from . import sandbox
from .canonical import digest
from .channel import Channel, ChannelClosed, ChannelError, now, wait_any
from .fork_server import Child
from .state import EpisodeState, Preloaded
from .warmup import warm_up

FOREVER_SECONDS = 1e6
REPLY_SECONDS = 20.0  # Time in which a policy must read an answer


class _EpisodeServer:
    """Answers the worker, and the policy while a cell runs."""

    def __init__(self, preloaded: Preloaded, worker: Channel, policy: Channel):
        self._preloaded, self._worker, self._policy = preloaded, worker, policy
        self._state: EpisodeState | None = None
        self._serves_policy = False

    def run(self) -> None:
        """Returns when the worker has closed its end."""
        while True:
            listened = [self._worker, self._policy] if self._serves_policy else [self._worker]
            wait_any(listened, now() + FOREVER_SECONDS)
            try:
                if self._worker.fill():
                    while self._worker.complete:
                        self._command(self._worker.receive(now()))
            except ChannelClosed:
                return
            if self._serves_policy:
                self._requests()

    def _command(self, command: dict) -> None:
        op = command.pop("op")
        if op == "begin":
            self._serves_policy = True
            self._state.apis.allow(command["requests"])
            return
        try:
            answer = getattr(self, f"_{op}")(**command)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - boundary: the worker's error reply
            answer = {"failed": f"{type(error).__name__}: {error}"}
        try:
            self._worker.send(answer, now() + REPLY_SECONDS)
        except ValueError as error:
            raise MemoryError(f"{op}: {error}") from None

    def _open(self, **arguments: Any) -> dict:
        self._state = EpisodeState(self._preloaded, **arguments)
        return {"state": digest([])}

    def _end(self) -> dict:
        self._serves_policy = False
        return self._state.outcome() | {"called": self._state.apis.called}

    def _call(self, app: str, api: str, arguments: dict) -> dict:
        self._state.apis.allow(1)
        answer = self._state.call(app, api, arguments)
        return {"value": answer.value, "error": answer.error, **self._state.outcome()}

    def _grade(self, outputs: str) -> dict:
        return self._state.grade(outputs)

    def _final(self) -> dict:
        return self._state.final()

    def _requests(self) -> None:
        """Serves the requests that have come; a policy that sends anything else, or does not read
        its answers, is not served any more."""
        try:
            self._policy.fill()
            while self._policy.complete:
                request = self._policy.receive(now())
                id_, app, api = (request[key] for key in ("id", "app", "api"))
                answer = self._state.call(str(app), str(api), dict(request["arguments"]))
                self._reply({"id": id_, "value": answer.value, "error": answer.error})
        except (ChannelError, KeyError, TypeError, ValueError):
            self._serves_policy = False

    def _reply(self, reply: dict) -> None:
        try:
            self._policy.send(reply, now() + REPLY_SECONDS)
        except ValueError as error:
            failed = {"id": reply["id"], "error": ("Exception", f"{error}.")}
            self._policy.send(failed, now() + REPLY_SECONDS)


def serve_episode(preloaded: Preloaded, sockets: list[socket.socket]) -> None:
    worker, policy = map(Channel, sockets)
    sandbox.limit_memory(int(os.environ.get("COEVOLVE_MEMORY_MB", "2048")))
    _EpisodeServer(preloaded, worker, policy).run()


def prepare_child() -> Child:
    """Warms the fork server up; returns the function that its children run."""
    return partial(serve_episode, warm_up())
