"""The BFCL worker: eight API classes, 128 functions, official multi-turn tasks and generated start states.

Runs in the benchmark's own venv (`coevolve env install bfcl`), speaks the protocol of `coevolve/environments/protocol.py`.
A start is an official entry by name (`multi_turn_base_17`) or a configuration:

    {"classes": ["TravelAPI", "MessageAPI"], "state": {"TravelAPI": {…}, "MessageAPI": {…}}}

With `--strict-parity` (the environment `bfcl-strict`) it reproduces the official executor's quirks; docs/bfcl.md
lists each difference.

Rooms beside this file: `data` (files, version), `splits` (tasks, splits, tags), `schema` (tools), `world` (calls without eval),
`refusals` (what is not run), `quirks` (strict parity), `state` (effects), `session` (an episode), `judge` (the verdict), `config`
(which start states can be loaded), `starts` and `content` (generated ones), `values` (what a user of a state knows), `language/`
(how people ask for a function); `official` is the benchmark's own evaluation, a program by itself.
"""

from __future__ import annotations

import json
import os
from typing import Any

from ..serve import BadRequest, serve
from . import data, splits
from .config import NO_START, problem
from .judge import judge, typed
from .language.table import HARMLESS, LANGUAGE
from .schema import tool
from .session import Session
from .starts import generate
from .state import Corrupt
from .values import values
from .world import Scene, fix_today

MAX_EPISODE_STEPS = 100
"""Five turns, as most official tasks have at most, of 20 calls each; no reference takes over 35."""
MAX_TURN_REPLIES = 20
"""The official loop gives up beyond as many replies to one turn."""

OPENINGS = 256
"""Start states whose snapshot is kept."""


class Bfcl:
    """Implements the methods that `serve` asks for."""

    def __init__(self, strict: bool, today: str):
        self._strict = strict
        self._openings: dict[str, tuple[bytes, dict]] = {}
        if not strict:
            fix_today(today)

    def describe(self) -> dict:
        """Raises `data.Damaged`, naming the file, if the package is not the pinned release."""
        return {
            "name": "bfcl-strict" if self._strict else "bfcl",
            "version": data.version(),
            "protocol": 1,
            "tools": [
                tool(name, class_, document, LANGUAGE)
                for name, (class_, document) in data.functions().items()
            ],
            "splits": splits.sizes(),
            "held_out": list(data.CATEGORIES),
            "limits": {"max_steps": MAX_EPISODE_STEPS, "max_steps_per_turn": MAX_TURN_REPLIES},
            "max_goals": 5,
            "app_tags": True,
            "query": True,
            "harmless": [{"tool": name, "arguments": arguments} for name, arguments in HARMLESS],
        }

    def tasks(self, split: str) -> list[dict]:
        if split not in splits.sizes():
            raise BadRequest(f"no split {split!r}; there are {', '.join(splits.sizes())}")
        return splits.tasks(split)

    def start(self, seed: str, apps: list[str] | None) -> dict:
        unknown = [name for name in apps or [] if name not in data.CLASSES]
        if unknown:
            raise BadRequest(
                f"no API class {', '.join(unknown)}; there are {', '.join(data.CLASSES)}"
            )
        return {"config": generate(seed, apps)}

    def open(self, start: dict, query: list[str] | None = None) -> tuple[Session, dict]:
        """Rollouts of a group begin in the same state: what was opened lately is restored from its snapshot."""
        entry = (
            data.entry(start["name"])
            if query is not None and isinstance(start.get("name"), str)
            else None
        )
        if entry and len(query) != len(entry["question"]):
            raise BadRequest(
                f"the official entry {start['name']} has {len(entry['question'])} turns of the user, not {len(query)}"
            )
        key = json.dumps(start)
        if key not in self._openings:
            session, opened = self._open(start)
            if len(self._openings) >= OPENINGS:
                del self._openings[next(iter(self._openings))]
            self._openings[key] = session.snapshot(), opened
            return session, opened
        snapshot, opened = self._openings[key]
        return Session.restore(snapshot), opened

    def _open(self, start: dict) -> tuple[Session, dict]:
        if start.get("name") is not None and start.get("config") is not None:
            raise BadRequest("a start has a name or a config, not both")
        if start.get("name") is None and (wrong := problem(start.get("config"))):
            raise BadRequest(f"start state cannot be loaded: {wrong}")
        scene = self._scene(start)
        try:
            session = Session(scene)
        except (ValueError, KeyError, TypeError, AttributeError, Corrupt) as error:
            raise BadRequest(f"start state cannot be loaded: {error}") from error
        later = data.later(data.entry(start["name"])) if start.get("name") else {}
        tools = session.world.tools(without=[name for names in later.values() for name in names])
        opened = {"observation": "", "tools": tools, "state": session.state(), "later": later}
        return session, opened | {
            "values": values(scene.classes, scene.state, session.world.instances)
        }

    def step(self, session: Session, turn: int, action: Any) -> dict:
        return session.step(turn, action)

    def evaluate(self, session: Session, task: dict) -> dict:
        start = task.get("start") or {}
        if self._scene(start) != session.scene:
            raise BadRequest("the session was opened from another start state than the task's")
        official = (task.get("verifier") or {}).get("kind") == "official"
        if official and start.get("name") is None:
            raise BadRequest("only an official entry has an official verdict")
        reference = data.answer(start["name"]) if official else task.get("solution") or []
        if session.corrupt:
            return {"success": False, "score": 0.0, "progress": 0.0, "reason": "corrupt_state"}
        turns = max([len(reference), *(turn + 1 for turn in session.turns)])
        actions = [session.turns.get(turn, []) for turn in range(turns)]
        verdict = judge(session.scene, actions, reference)
        written = verdict if verdict.valid else typed(session.scene, actions, reference) or verdict
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

    def _scene(self, start: dict) -> Scene:
        """Classes, states and rules of a start."""
        name = start.get("name")
        if name is not None:
            entry = data.entry(name)
            if entry is None:
                raise BadRequest(f"no official entry {name!r}")
            return official_scene(entry, self._strict)
        config = start.get("config")
        if not isinstance(config, dict) or not isinstance(config.get("classes"), list):
            raise BadRequest(NO_START)
        return Scene(config["classes"], config.get("state", {}), strict=self._strict)


def official_scene(entry: dict, strict: bool) -> Scene:
    """The scene of an official entry."""
    long_context = data.category_of(entry["id"]) == "long_context"
    return Scene(
        entry["involved_classes"],
        entry["initial_config"],
        long_context,
        data.runs_from(entry),
        strict,
        entry["id"],
    )


def main(*options: str) -> None:
    serve(Bfcl("--strict-parity" in options, os.environ.get("COEVOLVE_DATE", "2026-01-01")))
