"""The `desk` environment: a worker process, built in, standard library only.

A start state is ``{"config": {"seed": n}}``. The verifier compares the public state with the one
that the task's solution reaches in a fresh world of the task's start state; answers are state, so
read-only tasks are checked too. `world` has the rules, `tasks` the desk's own tasks. Copy this file
to begin an environment of your own: it is all of the protocol.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from ..serve import BadRequest, serve
from .content import CONTENT
from .tasks import SEEDS, sizes, tasks
from .tools import tools
from .world import LOOK_UPS, VERBS, DeskResult, DeskWorld, progress

HERE = Path(__file__).parent
MAX_STEPS = 8  # Actions per episode


class DeskSession(NamedTuple):
    """One episode: where it began, and the world as it is."""

    seed: int
    world: DeskWorld


class Desk:
    """The worker's methods; see `serve`."""

    def describe(self) -> dict[str, Any]:
        return {
            "name": "desk",
            "version": f"1+{_data_hash()}",
            "tools": tools(),
            "splits": sizes(),
            "limits": {"max_steps": MAX_STEPS},
            "max_goals": 1,
            "harmless": [{"tool": "desk.date", "arguments": {}}],
        }

    def tasks(self, split: str) -> list[dict[str, Any]]:
        if split not in sizes():
            raise BadRequest(f"desk has no split {split!r}; it has {', '.join(sizes())}")
        return tasks(split)

    def start(self, seed: str, apps: list[str] | None) -> dict[str, Any]:
        """Every desk has every app, so `apps` narrows nothing."""
        low, high = SEEDS["train"]
        number = int.from_bytes(hashlib.sha256(f"desk-start-{seed}".encode()).digest()[:8], "big")
        return {"config": {"seed": low + number % (high - low)}}

    def open(self, start: dict[str, Any]) -> tuple[DeskSession, dict[str, Any]]:
        seed = _seed(start)
        world = DeskWorld(seed)
        return DeskSession(seed, world), {"values": _known(world), "state": world.digest()}

    def step(self, session: DeskSession, turn: int, action: Any) -> dict[str, Any]:
        outcome = _act(session.world, action)
        return {
            "observation": json.dumps(outcome.output, separators=(",", ":")),
            "error": outcome.error,
            "effects": outcome.effects,
            "state": session.world.digest(),
        }

    def evaluate(self, session: DeskSession, task: dict[str, Any]) -> dict[str, Any]:
        seed = _seed(task.get("start") or {})
        wanted = DeskWorld(seed)
        for turn in task.get("solution") or []:
            for action in turn:
                _act(wanted, action)
        start, reached = DeskWorld(session.seed).facts(), session.world.facts()
        goal = wanted.facts()
        if goal == DeskWorld(seed).facts():
            return {"success": False, "score": 0.0, "reason": "the solution changes nothing"}
        success, reason = reached == goal, ""
        if not success:
            still = reached == start
            reason = "nothing changed" if still else "another state than the solution's"
        score, part = float(success), progress(start, reached, goal)
        return {"success": success, "score": score, "progress": part, "reason": reason}


def _act(world: DeskWorld, action: Any) -> DeskResult:
    """Runs what the policy wrote; anything but a call is refused."""
    call = action if isinstance(action, dict) else {}
    tool, arguments = call.get("tool"), call.get("arguments")
    if not isinstance(tool, str) or not isinstance(arguments, dict):
        return DeskResult({"error": "not a call"}, "bad_action", [])
    return world.call(tool, arguments)


def _seed(start: dict[str, Any]) -> int:
    seed = (start.get("config") or {}).get("seed")
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise BadRequest('a start state of the desk is {"config": {"seed": NUMBER}}')
    return seed


def _known(world: DeskWorld) -> dict[str, list[str]]:
    """A user of this desk knows the records' names, and words; ids and notes must be looked up."""
    names = {
        f"{app}.{action}.{key}": sorted(records)
        for app, records in world.records.items()
        for action, key in (LOOK_UPS | dict.fromkeys(VERBS, "name")).items()
    }
    return names | {"text": CONTENT.words, "desk.answer.text": []}


def _data_hash() -> str:
    """First 12 hex digits of sha256 over the sources and the content, which are the rules."""
    digest = hashlib.sha256()
    files = (path for pattern in ("*.py", "*.toml") for path in HERE.glob(pattern))
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def main() -> None:
    serve(Desk())
