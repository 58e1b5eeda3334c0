"""The AppWorld worker: eleven apps with 457 APIs, Python code as actions, official and synthetic
tasks.

Runs in the benchmark's own venv (`coevolve env install appworld`), speaks the protocol of
`coevolve/environments/protocol.py`. A start is a task of the data root by name (its own text,
official verdict), or the state of one for a synthetic task:

    {"name": "82e2fac_1"}      {"config": {"base": "82e2fac_1"}}

`open` takes the user's turns as `query` and writes them where the world shows its active task. An
action is a text of code, or a call {"tool": "spotify.create_playlist", "arguments": {…}} whose
tokens the worker adds.

Variables: COEVOLVE_APPWORLD_ROOT (the data), COEVOLVE_APPWORLD_HOME (where this installation's
secret lies), COEVOLVE_CALL_SECONDS and COEVOLVE_MEMORY_MB (the client's limits),
COEVOLVE_APPWORLD_KEEP_OUTPUT=1 (show the output of a cell before its error; AppWorld does not),
COEVOLVE_APPWORLD_OBSERVATION (longest observation, in characters).
"""

from __future__ import annotations

import hmac
import os
import random
import shutil
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from ..serve import BadRequest, serve
from . import judge, sandbox
from .canary import clean
from .code import code
from .fork_server import ForkServer
from .phrases import HARMLESS_CALLS, phrases
from .root import DataRoot, key
from .session import AppWorldLimits, AppWorldSession, EpisodeFailed, ForkServers
from .tools import tool
from .values import known_values

MAX_REFERENCES = 512  # Reference outcomes that are kept
MAX_SESSIONS = 16
SETUP_SECONDS = 45.0  # For opening and grading; the client's own limit is a minute
NO_TASK = "No task is set. Look around."
"""Stands for the task's text in exploration, where the text of the state's own task must not be
seen."""


class AppWorld:
    """Implements the methods that `serve` asks for."""

    def __init__(self, root: DataRoot, secret: bytes, limits: AppWorldLimits):
        self._root, self._key, self._limits = root, secret, limits
        shared = _variables("PATH", "LANG", "COEVOLVE_DEBUG")
        shared |= {"PYTHONHASHSEED": "0", "TZ": "UTC", "PYTHONUTF8": "1"}
        data = {"APPWORLD_ROOT": str(root.directory), "COEVOLVE_MEMORY_MB": str(limits.memory_mb)}
        places = _variables("APPWORLD_CACHE", "HOME", "TMPDIR")
        self._servers = ForkServers(
            ForkServer("episode", shared | data | places), ForkServer("policy", shared)
        )
        self._warm = False
        self._references: dict[str, dict] = {}
        self._values: dict[str, dict[str, list]] = {}

    def describe(self) -> dict:
        documents = self._root.documents.items()
        tools = [tool(name, document, phrases().get(name)) for name, document in documents]
        return {
            "name": "appworld",
            "version": self._root.version,
            "protocol": 1,
            "tools": tools,
            "splits": {name: len(ids) for name, ids in self._root.splits.items()},
            "held_out": self._root.held_out,
            "limits": {"max_steps": 30, "sessions": MAX_SESSIONS},
            "max_goals": 2,
            "actions": "code",
            "code": code(tools),
            "query": True,
            "harmless": HARMLESS_CALLS,
        }

    def tasks(self, split: str) -> list[dict]:
        if split not in self._root.splits:
            raise BadRequest(f"no split {split!r}; there are {', '.join(self._root.splits)}")
        return [self._task(id_) for id_ in self._root.splits[split]]

    def _task(self, id_: str) -> dict:
        solution, difficulty = self._root.solution(id_), self._root.difficulty(id_)
        tags = [f"scenario:{id_.partition('_')[0]}"]
        if difficulty is not None:
            tags.append(f"difficulty:{difficulty}")
        return {
            "kind": "appworld",
            "tags": tags,
            "verifier": {"kind": "official"},
            "query": [clean(self._root.specs(id_)["instruction"])],
            "solution": [[clean(solution)]] if solution else [],
            "start": {"name": id_},
        }

    def start(self, seed: str, apps: list[str] | None) -> dict:
        known = {document["app_name"] for document in self._root.documents.values()}
        if unknown := [name for name in apps or [] if name not in known]:
            raise BadRequest(f"no app {', '.join(unknown)}; there are {', '.join(sorted(known))}")
        if not self._root.for_training:
            raise BadRequest("these data have no task outside the held-out splits to begin from")
        return {"config": {"base": random.Random(seed).choice(self._root.for_training)}}

    def open(self, start: dict, query: list[str] | None = None) -> tuple[AppWorldSession, dict]:
        base, own = self._base(start)
        known = {} if own else self._known_values(base)
        session = self._session(base, None if own else _instruction(query))
        person = self._root.specs(base)["supervisor"]
        return session, {
            "observation": (
                f"Your supervisor is {person['first_name']} {person['last_name']}, "
                f"email {person['email']}, phone number {person['phone_number']}."
            ),
            "tools": [] if own else sorted(phrases()),
            "state": session.state,
            "values": known,
        }

    def _known_values(self, base: str) -> dict[str, list]:
        """Returns the values that the supervisor of a start state would say; asked for once."""
        if base not in self._values:
            with closing(self._session(base, NO_TASK)) as session:
                self._values[base] = known_values(session.call)
        return self._values[base]

    def _base(self, start: dict) -> tuple[str, bool]:
        """Returns the task whose state a start is, and whether its text and ground truth belong to
        it."""
        name, config = start.get("name"), start.get("config")
        by_config = config.get("base") if isinstance(config, dict) else None
        base = by_config if name is None else name
        if not isinstance(base, str) or not self._root.has(base):
            wanted = 'a start has a name, or a config {"base": "<task>"}'
            raise BadRequest(f"no task {base!r} in the data; {wanted}")
        return base, name is not None

    def _session(self, base: str, instruction: str | None) -> AppWorldSession:
        if not self._warm:
            for server in self._servers:
                server.wait_until_warm()
            self._warm = True
        root, date = self._root, self._root.specs(base)["datetime"]
        secret = hmac.digest(self._key, base.encode(), "sha256").hex()
        order = {"base": base, "instruction": instruction, "secret": secret}
        session = AppWorldSession(
            self._servers, base, root.start_digest(base), root.documents, date, self._limits
        )
        try:
            session.open(SETUP_SECONDS, root=str(root.directory), **order)
        except EpisodeFailed:
            session.close()
            raise
        return session

    def step(self, session: AppWorldSession, turn: int, action: Any) -> dict:
        return session.step(action)

    def evaluate(self, session: AppWorldSession, task: dict) -> dict:
        base, own = self._base(task.get("start") or {})
        if base != session.base:
            raise BadRequest("the session was opened from another start state than the task's")
        if session.fatal:
            return judge.ended(session.fatal)
        official = (task.get("verifier") or {}).get("kind") == "official"
        if official and not (own and self._root.graded(base)):
            raise BadRequest("only a task whose data have a ground truth has an official verdict")
        try:
            final, evaluation = self._outcome(session, official)
        except EpisodeFailed as error:
            session.close()
            # where an untouched state can be read and graded, this one is the policy's own failure
            if not self._gradable(base, official):
                raise
            session.end(error.kind)
            return judge.ended(error.kind)
        if official:
            return judge.official(evaluation, final)
        return judge.state(final, self._reference(base, own, task))

    def _outcome(self, session: AppWorldSession, official: bool) -> tuple[dict, dict]:
        """Returns an episode's outcome, and AppWorld's own evaluation of the saved state; leaves
        nothing on disk. Raises EpisodeFailed."""
        final = session.ask("final", SETUP_SECONDS)
        if not official:
            return final, {}
        outputs = tempfile.mkdtemp(prefix="coevolve-appworld-")
        try:
            return final, session.ask("grade", SETUP_SECONDS, outputs=outputs)
        except EpisodeFailed:
            session.close()  # before the directory goes, in which its processes may be writing
            raise
        finally:
            shutil.rmtree(outputs, ignore_errors=True)

    def _gradable(self, base: str, official: bool) -> bool:
        """Whether this machine can read and grade an episode of this start in which nobody did
        anything."""
        try:
            with closing(self._session(base, NO_TASK)) as session:
                self._outcome(session, official)
        except EpisodeFailed:
            return False
        return True

    def _reference(self, base: str, own: bool, task: dict) -> dict:
        """Returns the outcome of the task's own solution from the same start."""
        query, solution = task.get("query") or [], task.get("solution") or []
        name = repr((base, own, query, solution))
        if name not in self._references:
            with closing(self._session(base, None if own else _instruction(query))) as session:
                for action in (action for turn in solution for action in turn):
                    if session.step(action).get("fatal"):
                        raise BadRequest("the solution breaks a limit")
                try:
                    final = session.ask("final", SETUP_SECONDS)
                except EpisodeFailed as error:
                    if not self._gradable(base, official=False):
                        raise
                    reason = f"the solution's outcome cannot be read: {error.kind}"
                    raise BadRequest(reason) from None
            if len(self._references) >= MAX_REFERENCES:
                del self._references[next(iter(self._references))]
            self._references[name] = final
        return self._references[name]

    def close(self, session: AppWorldSession) -> None:
        session.close()


def _variables(*names: str) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}


def _instruction(query: list[str] | None) -> str:
    return "\n\n".join(query or [NO_TASK])


def main() -> None:
    if problem := sandbox.supported():
        sys.exit(f"appworld cannot run here: {problem}")
    limits = AppWorldLimits(
        call_seconds=float(os.environ.get("COEVOLVE_CALL_SECONDS", "30")),
        memory_mb=int(os.environ.get("COEVOLVE_MEMORY_MB", "2048")),
        observation_chars=int(os.environ.get("COEVOLVE_APPWORLD_OBSERVATION", "20000")),
        requests=1000,
        keep_output=os.environ.get("COEVOLVE_APPWORLD_KEEP_OUTPUT") == "1",
    )
    secret = key(Path(os.environ["COEVOLVE_APPWORLD_HOME"]))
    serve(AppWorld(DataRoot(Path(os.environ["COEVOLVE_APPWORLD_ROOT"])), secret, limits))
