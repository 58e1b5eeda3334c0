"""An AppWorld episode as the worker sees it: a process with databases and APIs, and one for the policy's cells.

An action is a text of code, or a call {"tool": "app.api", "arguments"}. A call goes straight to the APIs, and the worker adds
what calls leave out: the token of a login with the supervisor's own password, and AppWorld's largest page. The policy's process
is started by the first cell. Time is the worker's: a cell that does not end is killed with both processes, and so is one that
takes too much memory; the episode then ends as the policy's failure. Standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any, NamedTuple

from .canary import clean
from .channel import Channel, Closed, Garbage, TimedOut, now, pair, wait_any
from .code import left_out
from .zygote import OUT_OF_MEMORY, Zygote

KINDS = {401: "denied", 403: "denied", 404: "not_found", 409: "conflict", 422: "bad_argument"}
"""Kind of error of a call that is answered with a status."""
CELL_KINDS = frozenset(
    ["syntax_error", "denied", "empty", "timeout", "memory", "api_error", "exception"]
)
"""Kinds of error of a cell; the policy's process could say anything."""
_STATUS = re.compile(r"Response status code is (\d+):")
PAGE = 20
ENDING_SECONDS = 1.0
OUT_OF_MEMORY_TEXT = "ran out of memory"


class Limits(NamedTuple):
    call_seconds: float
    """The client's for one action; a cell is told to stop, and then killed, before they are over."""
    memory_mb: int
    """For the policy's process, above what the interpreter itself takes."""
    observation: int
    """Longest observation, in characters."""
    requests: int
    """API requests in one cell."""
    keep_output: bool
    """Whether what a cell printed before an error is shown."""

    @property
    def soft(self) -> int:
        return max(1, int(0.6 * self.call_seconds))

    @property
    def hard(self) -> float:
        return max(self.soft + 0.5, 0.8 * self.call_seconds)


class Failed(Exception):
    """The episode's own process does not do what it should."""

    def __init__(self, message: str, kind: str = "corrupt_state"):
        """`kind`: what it is called where the policy brought it about: timeout, memory, died or corrupt_state."""
        super().__init__(message)
        self.kind = kind


class Zygotes(NamedTuple):
    world: Zygote
    policy: Zygote


class Session:
    """One episode. After a fatal result nothing may be asked of it but `close`."""

    def __init__(
        self,
        zygotes: Zygotes,
        base: str,
        begun: str,
        documents: dict[str, dict],
        specs: dict,
        limits: Limits,
    ):
        """`begun`: digest of the start state, part of that of every state after it."""
        self.base, self._begun = base, begun
        self._zygotes, self._documents, self._specs, self._limits = (
            zygotes,
            documents,
            specs,
            limits,
        )
        mine, its = pair()
        self._policy_end, apis = pair()
        with its, apis:
            self._world_pid = zygotes.world.fork("episode", [its.fileno(), apis.fileno()])
        self._world = Channel(mine)
        self._policy: Channel | None = None
        self._policy_pid: int | None = None
        self._tokens: dict[str, str] = {}
        self.state = ""
        self.fatal: str | None = None

    def open(self, order: dict, seconds: float) -> None:
        """Loads the databases. Raises Failed."""
        self.state = self._whole(self._ask({"op": "open", **order}, seconds)["state"])

    def step(self, action: Any) -> dict:
        """The `Result` of one action."""
        deadline = now() + self._limits.hard
        try:
            return (
                self._cell(action, deadline)
                if isinstance(action, str)
                else self._call(action, deadline)
            )
        except (TimedOut, Garbage, Closed, Failed) as error:
            return self._ended(*self._fate(error))

    def call(self, app: str, api: str, **arguments: Any) -> Any:
        """The response of an API, asked on the supervisor's behalf; None where it is an error."""
        deadline = now() + self._limits.hard
        return self._request(
            app, api, self._completed(app, f"{app}.{api}", arguments, deadline), deadline
        )["value"]

    def final(self, seconds: float) -> dict:
        """`World.final`: what is different from the start. Raises Failed."""
        return self._ask({"op": "final"}, seconds)

    def grade(self, outputs: str, seconds: float) -> dict:
        """AppWorld's own evaluation of the state; `outputs` is a directory to save it in. Raises Failed."""
        return self._ask({"op": "grade", "outputs": outputs}, seconds)

    def end(self, kind: str) -> None:
        """The episode has come to an end of this kind, and nothing more can be asked of it."""
        self.fatal = kind
        self.close()

    def close(self) -> None:
        for zygote, pid in (
            (self._zygotes.policy, self._policy_pid),
            (self._zygotes.world, self._world_pid),
        ):
            if pid is not None:
                zygote.kill(pid)
        self._policy_pid = self._world_pid = None
        for channel in (self._policy, self._world):
            if channel:
                channel.close()
        self._policy_end.close()

    def _ask(self, order: dict, seconds: float) -> dict:
        try:
            return self._order(order, now() + seconds)
        except (Closed, TimedOut, Garbage) as error:
            raise Failed(
                f"{order['op']}: {type(error).__name__} {error}", self._fate(error)[0]
            ) from None

    def _cell(self, code: str, deadline: float) -> dict:
        policy = self._started(deadline)
        self._world.send({"op": "begin", "requests": self._limits.requests}, deadline)
        keep = self._limits.observation // 2
        order = {
            "code": code,
            "seconds": self._limits.soft,
            "keep": keep,
            "with_output": self._limits.keep_output,
        }
        policy.send(order, deadline)
        while not policy.complete:
            wait_any([policy, self._world], deadline)
            policy.fill()
            if self._world.fill():
                raise Garbage("an answer to nothing")
        said = policy.receive(deadline)
        text, error = (
            (said.get("text"), said.get("error")) if isinstance(said, dict) else (None, None)
        )
        if not isinstance(text, str):
            raise Garbage("no output")
        kind = (
            error
            if error is None or (isinstance(error, str) and error in CELL_KINDS)
            else "exception"
        )
        outcome = self._order({"op": "end"}, deadline)
        return self._result(text, kind, outcome) | {"tools": outcome["called"]}

    def _started(self, deadline: float) -> Channel:
        if self._policy is None:
            mine, its = pair()
            with its:
                self._policy_pid = self._zygotes.policy.fork(
                    "policy", [its.fileno(), self._policy_end.fileno()]
                )
            self._policy_end.close()
            self._policy = Channel(mine)
            methods: dict[str, dict[str, str]] = {}
            for name, document in self._documents.items():
                app, _, api = name.partition(".")
                methods.setdefault(app, {})[api] = document["method"]
            order = {
                "apis": methods,
                "date": self._specs["datetime"],
                "memory_mb": self._limits.memory_mb // 2,
            }
            self._policy.send(order, deadline)
        return self._policy

    def _call(self, action: dict, deadline: float) -> dict:
        tool, arguments = action.get("tool"), action.get("arguments", {})
        if tool not in self._documents or not isinstance(arguments, dict):
            known = (
                f"There is no API {tool!r}."
                if tool not in self._documents
                else "The arguments are no object."
            )
            kind = "unknown_tool" if tool not in self._documents else "bad_argument"
            return {"observation": f"Error: {known}", "error": kind, "state": self.state}
        app, _, api = tool.partition(".")
        arguments = self._completed(app, tool, arguments, deadline)
        answer = self._request(app, api, arguments, deadline)
        if answer["error"]:
            name, text = answer["error"]
            status = _STATUS.match(text)
            kind = KINDS.get(int(status[1]), "failed") if status else "bad_argument"
            return self._result(f"{name}: {text}", kind, answer)
        if api == "logout":
            self._tokens.pop(app, None)
        return self._result(_printed(answer["value"]), None, answer)

    def _completed(self, app: str, tool: str, arguments: dict, deadline: float) -> dict:
        """The arguments with those that calls leave out."""
        missing = [
            name for name in left_out(self._documents[tool]["parameters"]) if name not in arguments
        ]
        added: dict[str, Any] = {}
        for name in missing:
            if name == "page_limit":
                added[name] = PAGE
            elif token := self._token(
                name.removesuffix("access_token").rstrip("_") or app, deadline
            ):
                added[name] = token
        return arguments | added

    def _token(self, app: str, deadline: float) -> str | None:
        """Of the supervisor's account in an app, through the public APIs; None where the login fails."""
        if app not in self._tokens:
            accounts = (
                self._request("supervisor", "show_account_passwords", {}, deadline)["value"] or []
            )
            password = next((a["password"] for a in accounts if a["account_name"] == app), None)
            profile = self._request("supervisor", "show_profile", {}, deadline)["value"] or {}
            name = profile.get("phone_number" if app == "phone" else "email")
            answer = self._request(app, "login", {"username": name, "password": password}, deadline)
            if answer["error"]:
                return None
            self._tokens[app] = answer["value"]["access_token"]
        return self._tokens[app]

    def _request(self, app: str, api: str, arguments: dict, deadline: float) -> dict:
        return self._order({"op": "call", "app": app, "api": api, "arguments": arguments}, deadline)

    def _order(self, order: dict, deadline: float) -> dict:
        self._world.send(order, deadline)
        answer = self._world.receive(deadline)
        if "failed" in answer:
            raise Failed(f"{order['op']}: {answer['failed']}")
        return answer

    def _result(self, text: str, error: str | None, outcome: dict) -> dict:
        self.state = self._whole(outcome["state"])
        return {
            "observation": trimmed(clean(text), self._limits.observation),
            "error": error,
            "effects": outcome["effects"],
            "state": self.state,
            "done": outcome["completed"],
        }

    def _whole(self, changes: str) -> str:
        """Digest of the state that the changes lead to."""
        return hashlib.sha256(f"{self._begun}{changes}".encode()).hexdigest()[:16]

    def _fate(self, error: Exception) -> tuple[str, str]:
        """The kind of end that an error is, and what the action did."""
        if isinstance(error, Closed):
            return self._died()
        if isinstance(error, TimedOut):
            return "timeout", f"did not finish within {self._limits.hard:g} seconds"
        if isinstance(error, Garbage):
            return "died", "broke the connection to its process"
        return "corrupt_state", "left a state that cannot be read"

    def _died(self) -> tuple[str, str]:
        """Which process is gone, and of what."""
        if self._world_pid is None:
            return "died", "ended its process"
        grace = _grace(self._world)
        status = self._zygotes.world.kill(self._world_pid, grace)
        self._world_pid = None
        if grace and os.WIFSIGNALED(
            status
        ):  # it runs no policy code: only libraries that cannot allocate end it like this
            return "memory", OUT_OF_MEMORY_TEXT
        statuses = [status]
        if self._policy_pid is not None:
            statuses.append(self._zygotes.policy.kill(self._policy_pid, _grace(self._policy)))
            self._policy_pid = None
        if any(
            os.WIFEXITED(status) and os.WEXITSTATUS(status) == OUT_OF_MEMORY for status in statuses
        ):
            return "memory", OUT_OF_MEMORY_TEXT
        return "died", "ended its process"

    def _ended(self, fatal: str, how: str) -> dict:
        self.end(fatal)
        observation = f"Error: this action {how}. The episode ends here."
        return {"observation": observation, "error": fatal, "state": self.state, "fatal": fatal}


def _grace(channel: Channel) -> float:
    """Seconds for a process to end by itself, once its connection says that it is ending: only then its status is its own."""
    try:
        while channel.fill():
            pass
    except Closed:
        return ENDING_SECONDS
    return 0.0


def trimmed(text: str, limit: int) -> str:
    """The text, or its first and last part with a note of what is left out."""
    if len(text) <= limit + 100:  # a note from the cell itself
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters …]\n{text[-half:]}"


def _printed(value: Any) -> str:
    """A response as the cell's `print` shows it."""
    if isinstance(value, str):
        return value
    short = json.dumps(value)
    return short if len(short) < 100 else json.dumps(value, indent=1)
