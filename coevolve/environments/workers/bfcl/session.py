"""An episode of BFCL: a world, what was done in it turn by turn, and what each call changed."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

from . import state
from .data import functions
from .world import Scene, World

MAX_OBSERVATION = 200_000
"""Characters; the longest official observation has under a third of it."""


class Session:
    """One episode, from the start of a scene."""

    def __init__(self, scene: Scene):
        self.scene = scene
        self.turns: dict[int, list[dict]] = {}
        self.corrupt = False
        self.world = World(scene)
        instances = self.world.instances
        self._watched = {
            class_: state.Watch(class_, instances[class_]) for class_ in sorted(instances)
        }
        self._state = self._hash()

    def state(self) -> str:
        """Hash of the whole state."""
        return self._state

    def _hash(self) -> str:
        text = ";".join([f"{class_}={watch.digest}" for class_, watch in self._watched.items()])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def snapshot(self) -> bytes:
        """The whole episode as it is now. It never leaves this process."""
        return pickle.dumps(self)

    @staticmethod
    def restore(snapshot: bytes) -> Session:
        """An episode of its own that goes on from a snapshot."""
        return pickle.loads(snapshot)

    def step(self, turn: int, action: Any) -> dict:
        """Runs one action and returns its `Result` as a dict."""
        call = _call(action)
        self.turns.setdefault(turn, []).append(state.copied(call))
        if self.corrupt:
            return self._fatal()
        answer = self.world.call(call["tool"], call["arguments"], turn)
        text = answer.text if self.scene.strict else _cut(answer.text)
        try:
            effects = self._effects(call["tool"])
        except state.Corrupt:
            self.corrupt = True
            return self._fatal()
        return {
            "observation": text,
            "error": answer.error,
            "effects": effects,
            "state": self._state,
        }

    def _effects(self, tool: Any) -> list[dict]:
        """No class reaches into another, so only the called one is compared."""
        class_ = functions()[tool][0] if isinstance(tool, str) and tool in functions() else None
        if class_ not in self._watched:
            return []
        effects = self._watched[class_].effects(self.world.instances[class_])
        if effects is None:
            return []
        self._state = self._hash()
        return effects

    def _fatal(self) -> dict:
        text = '{"error": "The state is corrupt: a folder contains itself, or the files outgrew all bounds."}'
        return {
            "observation": text,
            "error": "corrupt_state",
            "effects": [],
            "fatal": "corrupt_state",
            "state": "corrupt",
        }


def _call(action: Any) -> dict:
    """The action as tool and arguments, whatever the policy wrote."""
    if isinstance(action, dict):
        return {"tool": action.get("tool"), "arguments": action.get("arguments", {})}
    return {"tool": action if isinstance(action, str) else None, "arguments": {}}


def _cut(text: str) -> str:
    if len(text) <= MAX_OBSERVATION:
        return text
    return f"{text[:MAX_OBSERVATION]}… ({len(text) - MAX_OBSERVATION} more characters)"
