"""An AppWorld episode as the worker sees it: a process with databases and APIs, and one for cells.

An action is a text of code, or a call {"tool": "app.api", "arguments"}. A call goes straight to the
APIs, and the worker adds the arguments that calls leave out: the token of a login with the
supervisor's own password, and AppWorld's largest page. The policy's process is started by the first
cell. Time is the worker's: a cell that does not end is killed with both processes, and so is one
that takes too much memory; the episode then ends as the policy's failure. Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import Any, NamedTuple

from .canary import clean
from .channel import (
    BadFrame,
    Channel,
    ChannelClosed,
    ChannelError,
    ChannelTimeout,
    now,
    pair,
    wait_any,
)
from .code import PAGE_ROWS, as_printed, left_out
from .fork_server import OUT_OF_MEMORY, ForkServer
from .observation import cut

STATUS_KINDS = {
    401: "denied",
    403: "denied",
    404: "not_found",
    409: "conflict",
    422: "bad_argument",
}
"""Kind of error of a call that is answered with an HTTP status."""
CELL_KINDS = frozenset("syntax_error denied empty timeout memory api_error exception".split())
"""Kinds of error of a cell; the policy's process could send anything."""
_STATUS = re.compile(r"Response status code is (\d+):")
ENDING_SECONDS = 1.0


class AppWorldLimits(NamedTuple):
    call_seconds: float
    """The client's for one action; a cell is stopped, and then killed, before they are over."""
    memory_mb: int  # Memory of the policy's process, above that of the interpreter itself
    observation_chars: int  # Longest observation
    requests: int  # API requests in one cell
    keep_output: bool  # Whether the output of a cell before an error is shown

    @property
    def soft_seconds(self) -> int:
        return max(1, int(0.6 * self.call_seconds))

    @property
    def hard_seconds(self) -> float:
        return max(self.soft_seconds + 0.5, 0.8 * self.call_seconds)


class EpisodeFailed(Exception):
    """The episode's own process does not do what it should."""

    def __init__(self, message: str, kind: str = "corrupt_state"):
        """`kind` is timeout, memory, died or corrupt_state, where the policy brought it about."""
        super().__init__(message)
        self.kind = kind


class ForkServers(NamedTuple):
    episode: ForkServer
    policy: ForkServer


class AppWorldSession:
    """One episode. After a fatal result nothing may be asked of it but `close`."""

    def __init__(
        self,
        servers: ForkServers,
        base: str,
        start_digest: str,
        documents: dict[str, dict],
        date: str,
        limits: AppWorldLimits,
    ):
        """`start_digest` is of the start state, and goes into that of every state after it."""
        self.base, self._start_digest, self._date = base, start_digest, date
        self._servers, self._documents, self._limits = servers, documents, limits
        mine, its = pair()
        self._policy_end, apis = pair()
        with its, apis:
            self._episode_pid = servers.episode.fork([its.fileno(), apis.fileno()])
        self._episode = Channel(mine)
        self._policy: Channel | None = None
        self._policy_pid: int | None = None
        self._tokens: dict[str, str] = {}
        self.state = ""
        self.fatal: str | None = None

    def open(self, seconds: float, **order: Any) -> None:
        """Loads the databases. Raises EpisodeFailed."""
        self.state = self._state_digest(self.ask("open", seconds, **order)["state"])

    def step(self, action: Any) -> dict:
        """Returns the `ActionResult` of one action."""
        deadline, take = self._deadline(), self._cell if isinstance(action, str) else self._call
        try:
            return take(action, deadline)
        except (ChannelError, EpisodeFailed) as error:
            fatal, how = self._end_of(error)
            self.end(fatal)
            observation = f"Error: this action {how}. The episode ends here."
            return {"observation": observation, "error": fatal, "state": self.state, "fatal": fatal}

    def call(self, app: str, api: str, **arguments: Any) -> Any:
        """Returns an API's response to the supervisor; None where it is an error."""
        deadline = self._deadline()
        completed = self._completed(app, f"{app}.{api}", arguments, deadline)
        return self._request(app, api, completed, deadline)["value"]

    def ask(self, op: str, seconds: float, **fields: Any) -> dict:
        """Returns the episode's answer to an order (`episode`). Raises EpisodeFailed."""
        try:
            return self._order({"op": op, **fields}, now() + seconds)
        except ChannelError as error:
            message = f"{op}: {type(error).__name__} {error}"
            raise EpisodeFailed(message, self._end_of(error)[0]) from None

    def end(self, kind: str) -> None:
        """Closes the episode with this kind of end."""
        self.fatal = kind
        self.close()

    def close(self) -> None:
        if self._policy_pid is not None:
            self._servers.policy.kill(self._policy_pid)
        if self._episode_pid is not None:
            self._servers.episode.kill(self._episode_pid)
        self._policy_pid = self._episode_pid = None
        for channel in (self._policy, self._episode, self._policy_end):
            if channel:
                channel.close()

    def _deadline(self) -> float:
        return now() + self._limits.hard_seconds

    def _cell(self, code: str, deadline: float) -> dict:
        limits, policy = self._limits, self._policy or self._started(deadline)
        self._episode.send({"op": "begin", "requests": limits.requests}, deadline)
        cell = {
            "code": code,
            "seconds": limits.soft_seconds,
            "keep": limits.observation_chars // 2,
            "with_output": limits.keep_output,
        }
        policy.send(cell, deadline)
        while not policy.complete:
            wait_any([policy, self._episode], deadline)
            policy.fill()
            if self._episode.fill():
                raise BadFrame("an answer to nothing")
        reply = policy.receive(deadline)
        text, error = (reply.get(k) if isinstance(reply, dict) else None for k in ("text", "error"))
        if not isinstance(text, str):
            raise BadFrame("no output")
        known = error is None or (isinstance(error, str) and error in CELL_KINDS)
        outcome = self._order({"op": "end"}, deadline)
        result = self._result(text, error if known else "exception", outcome)
        return result | {"tools": outcome["called"]}

    def _started(self, deadline: float) -> Channel:
        """Starts the policy's process."""
        mine, its = pair()
        with its:
            self._policy_pid = self._servers.policy.fork([its.fileno(), self._policy_end.fileno()])
        self._policy_end.close()
        self._policy = Channel(mine)
        methods: dict[str, dict[str, str]] = {}
        for name, document in self._documents.items():
            app, _, api = name.partition(".")
            methods.setdefault(app, {})[api] = document["method"]
        memory_mb = self._limits.memory_mb // 2
        order = {"apis": methods, "date": self._date, "memory_mb": memory_mb}
        self._policy.send(order, deadline)
        return self._policy

    def _call(self, action: dict, deadline: float) -> dict:
        tool, arguments = action.get("tool"), action.get("arguments", {})
        if tool not in self._documents:
            return self._refused("unknown_tool", f"There is no API {tool!r}.")
        if not isinstance(arguments, dict):
            return self._refused("bad_argument", "The arguments are no object.")
        app, _, api = tool.partition(".")
        arguments = self._completed(app, tool, arguments, deadline)
        answer = self._request(app, api, arguments, deadline)
        if answer["error"]:
            name, text = answer["error"]
            status = _STATUS.match(text)
            kind = STATUS_KINDS.get(int(status[1]), "failed") if status else "bad_argument"
            return self._result(f"{name}: {text}", kind, answer)
        if api == "logout":
            self._tokens.pop(app, None)
        return self._result(as_printed(answer["value"]), None, answer)

    def _refused(self, kind: str, why: str) -> dict:
        return {"observation": f"Error: {why}", "error": kind, "state": self.state}

    def _completed(self, app: str, tool: str, arguments: dict, deadline: float) -> dict:
        """Returns the arguments with those that calls leave out."""
        added: dict[str, Any] = {}
        for name in left_out(self._documents[tool]["parameters"]):
            if name in arguments:
                continue
            if name == "page_limit":
                added[name] = PAGE_ROWS
                continue
            account = name.removesuffix("access_token").rstrip("_") or app
            if token := self._token(account, deadline):
                added[name] = token
        return arguments | added

    def _token(self, app: str, deadline: float) -> str | None:
        """Logs the supervisor into an app through the public APIs; None where that fails."""
        if app not in self._tokens:

            def ask(api: str) -> Any:
                return self._request("supervisor", api, {}, deadline)["value"]

            accounts, profile = ask("show_account_passwords") or [], ask("show_profile") or {}
            password = next((a["password"] for a in accounts if a["account_name"] == app), None)
            name = profile.get("phone_number" if app == "phone" else "email")
            answer = self._request(app, "login", {"username": name, "password": password}, deadline)
            if answer["error"]:
                return None
            self._tokens[app] = answer["value"]["access_token"]
        return self._tokens[app]

    def _request(self, app: str, api: str, arguments: dict, deadline: float) -> dict:
        return self._order({"op": "call", "app": app, "api": api, "arguments": arguments}, deadline)

    def _order(self, order: dict, deadline: float) -> dict:
        self._episode.send(order, deadline)
        answer = self._episode.receive(deadline)
        if "failed" in answer:
            raise EpisodeFailed(f"{order['op']}: {answer['failed']}")
        return answer

    def _result(self, text: str, error: str | None, outcome: dict) -> dict:
        self.state = self._state_digest(outcome["state"])
        return {
            "observation": cut(clean(text), self._limits.observation_chars),
            "error": error,
            "effects": outcome["effects"],
            "state": self.state,
            "done": outcome["completed"],
        }

    def _state_digest(self, changes: str) -> str:
        return hashlib.sha256(f"{self._start_digest}{changes}".encode()).hexdigest()[:16]

    def _end_of(self, error: Exception) -> tuple[str, str]:
        """Returns the kind of end that an error is, and what the action did."""
        if isinstance(error, ChannelClosed):
            if self._ran_out_of_memory():
                return "memory", "ran out of memory"
            return "died", "ended its process"
        if isinstance(error, ChannelTimeout):
            return "timeout", f"did not finish within {self._limits.hard_seconds:g} seconds"
        if isinstance(error, BadFrame):
            return "died", "broke the connection to its process"
        return "corrupt_state", "left a state that cannot be read"

    def _ran_out_of_memory(self) -> bool:
        """Whether a process that is gone ended for want of memory; collects those that are gone."""
        if self._episode_pid is None:
            return False
        grace = _grace(self._episode)
        statuses = [self._servers.episode.kill(self._episode_pid, grace)]
        self._episode_pid = None
        # it runs no policy code: only libraries that cannot allocate end it with a signal
        if grace and os.WIFSIGNALED(statuses[0]):
            return True
        if self._policy_pid is not None:
            statuses.append(self._servers.policy.kill(self._policy_pid, _grace(self._policy)))
            self._policy_pid = None
        return any(os.waitstatus_to_exitcode(status) == OUT_OF_MEMORY for status in statuses)


def _grace(channel: Channel) -> float:
    """Returns seconds for a process to end by itself: none unless its connection says that it is
    ending, for only then its status is its own."""
    try:
        while channel.fill():
            pass
    except ChannelClosed:
        return ENDING_SECONDS
    return 0.0
