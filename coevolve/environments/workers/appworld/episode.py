"""The warm process behind the AppWorld worker: it forks one process per episode that holds its databases and APIs, and that
forks one for the official grading. Run in the appworld venv by `zygote.Zygote`; policy code never runs in any.

An episode's process listens to the worker on its first socket and, while a cell runs, to the policy's process on its second:

| the worker says | answer |
|---|---|
| open {root, base, instruction, secret} | {state}; from here on changes are watched |
| begin {requests} | none; from here on the policy may call APIs |
| end | {effects, state, completed, called}; from here on it may not |
| call {app, api, arguments} | {value or error, effects, state, completed} |
| grade {outputs} | AppWorld's own evaluation of the state, which is saved below that directory |
| final | `World.final`: the whole difference to the start, for the verifiers |

The policy says {id, app, api, arguments} and is answered {id, value} or {id, error: [class, text]}.
"""

from __future__ import annotations

import os
import socket
from functools import partial
from typing import Any

from . import confine, rows
from .channel import Channel, Closed, Garbage, TimedOut, now, wait_any
from .rehearsal import rehearse
from .world import Plan, World
from .zygote import Role

FOREVER = 1e6
REPLY_SECONDS = 20.0
"""How long a policy may leave an answer unread."""


class _Episode:
    """Answers the worker, and the policy while a cell runs."""

    def __init__(self, plan: Plan, worker: Channel, policy: Channel):
        self._plan, self._worker, self._policy = plan, worker, policy
        self._world: World | None = None
        self._active = False

    def run(self) -> None:
        while True:
            wait_any(
                [self._worker, self._policy] if self._active else [self._worker], now() + FOREVER
            )
            try:
                if self._worker.fill():
                    while self._worker.complete:
                        self._command(self._worker.receive(now()))
            except Closed:
                return
            if self._active:
                self._requests()

    def _command(self, command: dict) -> None:
        op = command.pop("op")
        if op == "begin":
            self._active = True
            self._world.apis.allow(command["requests"])
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
        self._world = World(self._plan, **arguments)
        return {"state": rows.digest([])}

    def _end(self) -> dict:
        self._active = False
        return self._world.outcome() | {"called": self._world.apis.called}

    def _call(self, app: str, api: str, arguments: dict) -> dict:
        self._world.apis.allow(1)
        answer = self._world.call(app, api, arguments)
        return {"value": answer.value, "error": answer.error, **self._world.outcome()}

    def _grade(self, outputs: str) -> dict:
        return self._world.grade(outputs)

    def _final(self) -> dict:
        return self._world.final()

    def _requests(self) -> None:
        """Serves what the policy has sent; one that speaks nonsense, or does not listen, is not served any more."""
        try:
            self._policy.fill()
            while self._policy.complete:
                request = self._policy.receive(now())
                id_, app, api, arguments = (
                    request[key] for key in ("id", "app", "api", "arguments")
                )
                answer = self._world.call(str(app), str(api), dict(arguments))
                self._reply(id_, answer.value, answer.error)
        except (Closed, TimedOut, Garbage, KeyError, TypeError, ValueError):
            self._active = False

    def _reply(self, id_: Any, value: Any, error: tuple[str, str] | None) -> None:
        try:
            self._policy.send({"id": id_, "value": value, "error": error}, now() + REPLY_SECONDS)
        except ValueError as long:
            self._policy.send(
                {"id": id_, "error": ("Exception", f"{long}.")}, now() + REPLY_SECONDS
            )


def episode(plan: Plan, sockets: list[socket.socket]) -> None:
    worker, policy = map(Channel, sockets)
    confine.limit_memory(int(os.environ.get("COEVOLVE_MEMORY_MB", "2048")))
    _Episode(plan, worker, policy).run()


def roles() -> dict[str, Role]:
    """What the zygote forks, which is warm then."""
    return {"episode": partial(episode, rehearse())}
