"""The AppWorld worker: eleven apps with 457 APIs, Python code as actions, official and synthetic tasks.

Runs in the benchmark's own venv (`coevolve env install appworld`), speaks the protocol of `coevolve/environments/protocol.py`.
A start is a task of the data root by name (its own text, official verdict), or the state of one for a task of somebody's own:

    {"name": "82e2fac_1"}      {"config": {"base": "82e2fac_1"}}

`open` takes the user's turns as `query` and writes them where the world tells its task. An action is a text of code, or a call
{"tool": "spotify.create_playlist", "arguments": {…}} whose tokens the worker adds.

Variables: COEVOLVE_APPWORLD_ROOT (the data), COEVOLVE_APPWORLD_HOME (where this installation's secret lies), COEVOLVE_CALL_SECONDS
and COEVOLVE_MEMORY_MB (the client's limits), COEVOLVE_APPWORLD_KEEP_OUTPUT=1 (show what a cell printed before its error; AppWorld
does not), COEVOLVE_APPWORLD_OBSERVATION (longest observation, in characters).

Rooms beside this file: `root` (data), `session` (an episode), `zygote` (warm processes that fork), `episode`, `world`, `apis` and
`rehearsal` (databases and APIs), `rows` (effects), `policy` and `cell` (the policy's interpreter), `confine` (its walls), `channel`
(frames), `judge` (the verdict), `tools`, `language/`, `code` and `values` (what explorers and writers need), `canary` (what no text
may hold); `bundle` fetches the official data and `demo/` builds a root of our own, programs by themselves.
"""

from __future__ import annotations

import hmac
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from ..serve import BadRequest, serve
from . import confine, judge
from .canary import clean
from .code import code
from .language.table import HARMLESS, LANGUAGE, OFFERED
from .root import Root, key
from .session import Failed, Limits, Session, Zygotes
from .tools import tool
from .values import values
from .zygote import Zygote

REFERENCES = 512
"""Reference outcomes that are kept."""
MAX_SESSIONS = 16
SETUP_SECONDS = 45.0
"""For opening and grading; the client's own limit is a minute."""
UNTOLD = "No task is set. Look around."
"""What the world tells as its task where exploration has none: not that of the state it begins in."""


class AppWorld:
    """Implements the methods that `serve` asks for."""

    def __init__(self, root: Root, secret: bytes, limits: Limits):
        self._root, self._key, self._limits = root, secret, limits
        shared = {
            name: os.environ[name]
            for name in ("PATH", "LANG", "COEVOLVE_DEBUG")
            if name in os.environ
        }
        shared |= {"PYTHONHASHSEED": "0", "TZ": "UTC", "PYTHONUTF8": "1"}
        world = {"APPWORLD_ROOT": str(root.directory), "COEVOLVE_MEMORY_MB": str(limits.memory_mb)}
        passed = {
            name: os.environ[name]
            for name in ("APPWORLD_CACHE", "HOME", "TMPDIR")
            if name in os.environ
        }
        self._zygotes = Zygotes(
            Zygote("episode", shared | world | passed), Zygote("policy", shared)
        )
        self._warm = False
        self._references: dict[str, dict] = {}
        self._values: dict[str, dict[str, list]] = {}

    def describe(self) -> dict:
        tools = [
            tool(name, document, LANGUAGE.get(name, {}))
            for name, document in self._root.documents.items()
        ]
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
            "harmless": [{"tool": name, "arguments": arguments} for name, arguments in HARMLESS],
        }

    def tasks(self, split: str) -> list[dict]:
        if split not in self._root.splits:
            raise BadRequest(f"no split {split!r}; there are {', '.join(self._root.splits)}")
        return [self._task(id_) for id_ in self._root.splits[split]]

    def _task(self, id_: str) -> dict:
        solution, difficulty = self._root.solution(id_), self._root.difficulty(id_)
        scenario = id_.partition("_")[0]
        return {
            "kind": "appworld",
            "tags": [
                f"scenario:{scenario}",
                *([f"difficulty:{difficulty}"] if difficulty is not None else []),
            ],
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

    def open(self, start: dict, query: list[str] | None = None) -> tuple[Session, dict]:
        base, own = self._base(start)
        known = {} if own else self._known(base)
        session = self._session(base, None if own else _instruction(query))
        person = self._root.specs(base)["supervisor"]
        about = (
            f"Your supervisor is {person['first_name']} {person['last_name']}, email {person['email']}, "
            f"phone number {person['phone_number']}."
        )
        tools = [] if own else OFFERED
        return session, {
            "observation": about,
            "tools": tools,
            "state": session.state,
            "values": known,
        }

    def _known(self, base: str) -> dict[str, list]:
        """What the supervisor of a start state knows; asked for in a session of its own, once."""
        if base not in self._values:
            session = self._session(base, UNTOLD)
            try:
                self._values[base] = values(session.call)
            finally:
                session.close()
        return self._values[base]

    def _base(self, start: dict) -> tuple[str, bool]:
        """The task whose state it is, and whether its text and its ground truth belong to it."""
        name, config = start.get("name"), start.get("config")
        base = (
            name if name is not None else config.get("base") if isinstance(config, dict) else None
        )
        if not isinstance(base, str) or not self._root.has(base):
            raise BadRequest(
                f'no task {base!r} in the data; a start has a name, or a config {{"base": "<task>"}}'
            )
        return base, name is not None

    def _session(self, base: str, instruction: str | None) -> Session:
        self._warm_up()
        specs = self._root.specs(base)
        order = {
            "root": str(self._root.directory),
            "base": base,
            "instruction": instruction,
            "secret": self._secret(base),
        }
        session = Session(
            self._zygotes, base, self._root.begun(base), self._root.documents, specs, self._limits
        )
        try:
            session.open(order, SETUP_SECONDS)
        except Failed:
            session.close()
            raise
        return session

    def _secret(self, base: str) -> str:
        return hmac.digest(self._key, base.encode(), "sha256").hex()

    def _warm_up(self) -> None:
        if not self._warm:
            for zygote in self._zygotes:
                zygote.warm()
            self._warm = True

    def step(self, session: Session, turn: int, action: Any) -> dict:
        return session.step(action)

    def evaluate(self, session: Session, task: dict) -> dict:
        """The verdict. A state that cannot be read or graded, although an untouched one can, is the policy's own failure."""
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
        except Failed as error:
            session.close()
            if not self._gradable(base, official):
                raise
            session.end(error.kind)
            return judge.ended(error.kind)
        return (
            judge.official(evaluation, final)
            if official
            else judge.state(final, self._reference(base, own, task))
        )

    def _outcome(self, session: Session, official: bool) -> tuple[dict, dict]:
        """What an episode came to, and AppWorld's own evaluation of the saved state; nothing is left on disk. Raises Failed."""
        final = session.final(SETUP_SECONDS)
        if not official:
            return final, {}
        outputs = tempfile.mkdtemp(prefix="coevolve-appworld-")
        try:
            return final, session.grade(outputs, SETUP_SECONDS)
        except Failed:
            session.close()  # before the directory goes, in which its processes may be writing
            raise
        finally:
            shutil.rmtree(outputs, ignore_errors=True)

    def _gradable(self, base: str, official: bool) -> bool:
        """Whether this machine can read and grade an episode of this start in which nobody did anything."""
        try:
            session = self._session(base, UNTOLD)
            try:
                self._outcome(session, official)
            finally:
                session.close()
        except Failed:
            return False
        return True

    def _reference(self, base: str, own: bool, task: dict) -> dict:
        """The outcome of the task's own solution from the same start."""
        query, solution = task.get("query") or [], task.get("solution") or []
        name = repr((base, own, query, solution))
        if name not in self._references:
            session = self._session(base, None if own else _instruction(query))
            try:
                for action in (action for turn in solution for action in turn):
                    if session.step(action).get("fatal"):
                        raise BadRequest("the solution breaks a limit")
                final = session.final(SETUP_SECONDS)
            except Failed as error:
                if not self._gradable(base, official=False):
                    raise
                raise BadRequest(f"the solution's outcome cannot be read: {error.kind}") from None
            finally:
                session.close()
            if len(self._references) >= REFERENCES:
                del self._references[next(iter(self._references))]
            self._references[name] = final
        return self._references[name]

    def close(self, session: Session) -> None:
        session.close()


def _instruction(query: list[str] | None) -> str:
    return "\n\n".join(query or [UNTOLD])


def main() -> None:
    if problem := confine.supported():
        sys.exit(f"appworld cannot run here: {problem}")
    limits = Limits(
        call_seconds=float(os.environ.get("COEVOLVE_CALL_SECONDS", "30")),
        memory_mb=int(os.environ.get("COEVOLVE_MEMORY_MB", "2048")),
        observation=int(os.environ.get("COEVOLVE_APPWORLD_OBSERVATION", "20000")),
        requests=1000,
        keep_output=os.environ.get("COEVOLVE_APPWORLD_KEEP_OUTPUT") == "1",
    )
    secret = key(Path(os.environ["COEVOLVE_APPWORLD_HOME"]))
    serve(AppWorld(Root(Path(os.environ["COEVOLVE_APPWORLD_ROOT"])), secret, limits))
