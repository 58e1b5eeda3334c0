"""The `desk` environment: a worker process, built in, standard library only.

A start state is ``{"config": {"seed": n}}``. The verifier compares the public state with the one that the task's solution
reaches in a fresh world of the task's start state; answers are state, so read-only tasks are checked too. What the desk
is: `world`. Its own tasks: `tasks`. A copyable example of an environment: this file is all of the protocol.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from ..serve import BadRequest, serve
from .tasks import SEEDS, sizes, tasks
from .tools import tools
from .world import LOOK_UPS, VERBS, WORDS, Outcome, World, progress

MAX_STEPS = 8


class Session(NamedTuple):
    """One episode: where it began, and the world as it is."""

    seed: int
    world: World


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

    def open(self, start: dict[str, Any]) -> tuple[Session, dict[str, Any]]:
        seed = _seed(start)
        world = World(seed)
        return Session(seed, world), {"values": _known(world), "state": world.digest()}

    def step(self, session: Session, turn: int, action: Any) -> dict[str, Any]:
        outcome = _act(session.world, action)
        return {
            "observation": json.dumps(outcome.output, separators=(",", ":")),
            "error": outcome.error,
            "effects": outcome.effects,
            "state": session.world.digest(),
        }

    def evaluate(self, session: Session, task: dict[str, Any]) -> dict[str, Any]:
        seed = _seed(task.get("start") or {})
        wanted = World(seed)
        for turn in task.get("solution") or []:
            for action in turn:
                _act(wanted, action)
        start, reached, goal = World(session.seed).facts(), session.world.facts(), wanted.facts()
        if goal == World(seed).facts():
            return {"success": False, "score": 0.0, "reason": "the solution changes nothing"}
        success = reached == goal
        reason = (
            ""
            if success
            else "nothing changed"
            if reached == start
            else "another state than the solution's"
        )
        return {
            "success": success,
            "score": float(success),
            "progress": progress(start, reached, goal),
            "reason": reason,
        }


def _act(world: World, action: Any) -> Outcome:
    """Runs what the policy wrote; anything but a call is refused."""
    tool, arguments = (
        (action.get("tool"), action.get("arguments")) if isinstance(action, dict) else (None, None)
    )
    if not isinstance(tool, str) or not isinstance(arguments, dict):
        return Outcome({"error": "not a call"}, "bad_action", [])
    return world.call(tool, arguments)


def _seed(start: dict[str, Any]) -> int:
    seed = (start.get("config") or {}).get("seed")
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise BadRequest('a start state of the desk is {"config": {"seed": NUMBER}}')
    return seed


def _known(world: World) -> dict[str, list[str]]:
    """What a user of this desk knows: the records' names, and words. Ids and notes have to be looked up."""
    names = {
        f"{app}.{action}.{key}": sorted(records)
        for app, records in world.records.items()
        for action, key in (LOOK_UPS | dict.fromkeys(VERBS, "name")).items()
    }
    return names | {"text": WORDS, "desk.answer.text": []}


def _data_hash() -> str:
    """Of the rules and the tasks, which are the sources of the desk."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def main() -> None:
    serve(Desk())
