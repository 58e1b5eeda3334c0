"""The BFCL worker: eight API classes of 128 functions, official tasks and generated start states.

It runs in the benchmark's own venv (`coevolve env install bfcl`) and speaks the protocol of
`coevolve/environments/protocol.py`. A start is an official entry by name (`multi_turn_base_17`) or
a configuration:

    {"classes": ["TravelAPI", "MessageAPI"], "state": {"TravelAPI": {…}, "MessageAPI": {…}}}

With `--strict-parity` (the environment `bfcl-strict`) it reproduces the official executor's quirks;
docs/bfcl.md lists each difference.

Beside this file: `data` (the package's files, its version), `splits` (tasks, splits, tags), `tools`
(schemas and phrases), `world` (calls without eval), `refusals` (calls that are not run),
`strict_parity`, `state` and `effects` (states compared), `session` (an episode), `judge` (the
verdict), `config` (start states that can be loaded), `starts` and `content` (generated ones),
`values` (what a user of a state knows); `official` is the benchmark's own evaluation, a program by
itself. The .toml files are read by `../data_files`.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ..serve import BadRequest, serve
from . import data, splits
from .config import NO_START, problem
from .content import CONTENT
from .judge import judge, typed
from .session import BfclSession
from .starts import generate
from .state import CorruptState
from .tools import tools
from .values import values
from .world import BfclStart, fix_today

MAX_EPISODE_STEPS = 100
"""Five turns, as most official tasks have at most, of 20 calls each; no reference takes over 35."""
MAX_TURN_REPLIES = 20  # The official loop gives up beyond as many replies to one turn

MAX_SNAPSHOTS = 256  # Start states whose snapshot is kept


class Bfcl:
    """Implements the methods that `serve` asks for."""

    def __init__(self, strict: bool, today: str):
        self._strict = strict
        self._openings: dict[str, tuple[bytes, dict]] = {}
        if not strict:
            fix_today(today)

    def describe(self) -> dict:
        """Raises `data.DamagedPackage` if the package is not the pinned release."""
        return {
            "name": "bfcl-strict" if self._strict else "bfcl",
            "version": data.version(),
            "protocol": 1,
            "tools": tools(),
            "splits": splits.sizes(),
            "held_out": list(data.CATEGORIES),
            "limits": {"max_steps": MAX_EPISODE_STEPS, "max_steps_per_turn": MAX_TURN_REPLIES},
            "max_goals": 5,
            "app_tags": True,
            "query": True,
            "harmless": CONTENT.harmless,
        }

    def tasks(self, split: str) -> list[dict]:
        if split not in splits.sizes():
            raise BadRequest(f"no split {split!r}; there are {', '.join(splits.sizes())}")
        return splits.tasks(split)

    def start(self, seed: str, apps: list[str] | None) -> dict:
        if unknown := [name for name in apps or [] if name not in data.CLASSES]:
            there = ", ".join(data.CLASSES)
            raise BadRequest(f"no API class {', '.join(unknown)}; there are {there}")
        return {"config": generate(seed, apps)}

    def open(self, start: dict, query: list[str] | None = None) -> tuple[BfclSession, dict]:
        """A session in the wanted state, from the snapshot of an earlier one where there is one."""
        name = start.get("name")
        entry = data.entry(name) if query is not None and isinstance(name, str) else None
        if entry and len(query) != (turns := len(entry["question"])):
            has = f"the official entry {name} has {turns} turns of the user"
            raise BadRequest(f"{has}, not {len(query)}")
        key = json.dumps(start)
        if key in self._openings:  # the rollouts of a group begin in the same state
            snapshot, opened = self._openings[key]
            return BfclSession.restore(snapshot), opened
        session, opened = self._open(start)
        if len(self._openings) >= MAX_SNAPSHOTS:
            del self._openings[next(iter(self._openings))]
        self._openings[key] = session.snapshot(), opened
        return session, opened

    def _open(self, start: dict) -> tuple[BfclSession, dict]:
        if start.get("name") is not None and start.get("config") is not None:
            raise BadRequest("a start has a name or a config, not both")
        if start.get("name") is None and (wrong := problem(start.get("config"))):
            raise BadRequest(f"start state cannot be loaded: {wrong}")
        begin = self._start(start)
        try:
            session = BfclSession(begin)
            known = values(begin.classes, begin.state, session.world.instances)
        except (ValueError, KeyError, TypeError, AttributeError, CorruptState) as error:
            raise BadRequest(f"start state cannot be loaded: {error}") from error
        later = data.later(data.entry(start["name"])) if start.get("name") else {}
        return session, {
            "observation": "",
            "tools": session.world.tools(without=[n for names in later.values() for n in names]),
            "state": session.state(),
            "later": later,
            "values": known,
        }

    def step(self, session: BfclSession, turn: int, action: Any) -> dict:
        return session.step(turn, action)

    def evaluate(self, session: BfclSession, task: dict) -> dict:
        start = task.get("start") or {}
        if self._start(start) != session.start:
            raise BadRequest("the session was opened from another start state than the task's")
        official = (task.get("verifier") or {}).get("kind") == "official"
        if official and start.get("name") is None:
            raise BadRequest("only an official entry has an official verdict")
        reference = data.answer(start["name"]) if official else task.get("solution") or []
        if session.corrupt:
            return {"success": False, "score": 0.0, "progress": 0.0, "reason": "corrupt_state"}
        turns = max([len(reference), *(turn + 1 for turn in session.turns)])
        actions = [session.turns.get(turn, []) for turn in range(turns)]
        verdict = judge(session.start, actions, reference)
        written = verdict if verdict.valid else typed(session.start, actions, reference) or verdict
        if not official and not self._strict and written.valid:
            verdict = written
        where = "" if verdict.turn is None else f" in turn {verdict.turn + 1}"
        return {
            "success": verdict.valid,
            "score": float(verdict.valid),
            "progress": round(verdict.progress, 6),
            "reason": f"{verdict.error}{where}",
            "details": {
                "calls": sum(map(len, actions)),
                "reference_calls": sum(map(len, reference)),
                "hidden_state_differs": verdict.hidden,
                "valid_if_typed": written.valid,
            },
        }

    def _start(self, start: dict) -> BfclStart:
        """Classes, states and rules of a start."""
        name, config = start.get("name"), start.get("config")
        if name is not None:
            entry = data.entry(name)
            if entry is None:
                raise BadRequest(f"no official entry {name!r}")
            return official_start(entry, self._strict)
        if not isinstance(config, dict) or not isinstance(config.get("classes"), list):
            raise BadRequest(NO_START)
        return BfclStart(config["classes"], config.get("state", {}), strict=self._strict)


def official_start(entry: dict, strict: bool) -> BfclStart:
    """The start of an official entry."""
    classes, state, id_ = entry["involved_classes"], entry["initial_config"], entry["id"]
    long_context = data.category_of(id_) == "long_context"
    return BfclStart(classes, state, long_context, data.runs_from(entry), strict, id_)


def main(*options: str) -> None:
    serve(Bfcl("--strict-parity" in options, os.environ.get("COEVOLVE_DATE", "2026-01-01")))
