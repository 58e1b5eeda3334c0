"""An episode of BFCL: a world, the calls made in it by turn, and the changes that each made."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

from .data import functions
from .effects import StateWatch
from .state import CorruptState, copied
from .world import BfclStart, BfclWorld

MAX_OBSERVATION = 200_000  # Characters; the longest official observation has under a third of it


class BfclSession:
    """One episode, from its start on."""

    def __init__(self, start: BfclStart):
        self.start = start
        self.turns: dict[int, list[dict]] = {}
        self.corrupt = False
        self.world = BfclWorld(start)
        objects = sorted(self.world.instances.items())
        self._watched = {class_: StateWatch(class_, instance) for class_, instance in objects}
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
    def restore(snapshot: bytes) -> BfclSession:
        """An episode of its own that goes on from a snapshot."""
        return pickle.loads(snapshot)

    def step(self, turn: int, action: Any) -> dict:
        """Runs one action and returns its `Result` as a dict."""
        call = _call(action)
        self.turns.setdefault(turn, []).append(copied(call))
        if self.corrupt:
            return self._fatal()
        answer = self.world.call(call["tool"], call["arguments"], turn)
        text = answer.text if self.start.strict else _cut(answer.text)
        try:
            effects = self._effects(call["tool"])
        except CorruptState:
            self.corrupt = True
            return self._fatal()
        state = self._state
        return {"observation": text, "error": answer.error, "effects": effects, "state": state}

    def _effects(self, tool: Any) -> list[dict]:
        """The changes in the called class; no class reaches into another."""
        class_ = functions()[tool][0] if isinstance(tool, str) and tool in functions() else None
        if class_ not in self._watched:
            return []
        effects = self._watched[class_].effects(self.world.instances[class_])
        if effects is not None:
            self._state = self._hash()
        return effects or []

    def _fatal(self) -> dict:
        why = "a folder contains itself, or the files outgrew all bounds"
        return {
            "observation": f'{{"error": "The state is corrupt: {why}."}}',
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
