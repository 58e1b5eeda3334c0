"""An episode of BFCL: a world, what was done in it turn by turn, and what each call changed."""

from __future__ import annotations

import copy
import hashlib
import pickle
from typing import Any

import _bfcl_state as state
from _bfcl_data import functions
from _bfcl_world import Scene, World

MAX_OBSERVATION = 200_000
"""Characters; the longest official observation has under a third of it."""


class Session:
    """One episode, from the start of a scene."""

    def __init__(self, scene: Scene):
        self.scene = scene
        self.turns: dict[int, list[dict]] = {}
        self.corrupt = False
        self.world = World(scene)
        self._cells, self._hidden, self._hashes, self._names = {}, {}, {}, {}
        for class_, instance in self.world.instances.items():
            self._cells[class_] = state.freeze(state.cells(instance))
            self._hidden[class_] = state.hidden(instance)
            self._hashes[class_] = state.fingerprint(self._cells[class_], self._hidden[class_])
            self._names[class_] = state.Names(class_)

    def state(self) -> str:
        """Hash of the whole state."""
        text = ";".join(f"{class_}={self._hashes[class_]}" for class_ in sorted(self._hashes))
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
        self.turns.setdefault(turn, []).append(copy.deepcopy(call))
        if self.corrupt:
            return self._fatal()
        answer = self.world.call(call["tool"], call["arguments"], turn)
        text = answer.text if self.scene.strict else _cut(answer.text)
        result = {"observation": text, "error": answer.error, "effects": []}
        try:
            if class_ := functions().get(call["tool"], (None,))[0] if isinstance(call["tool"], str) else None:
                result["effects"] = self._effects(class_)
        except state.Corrupt:
            self.corrupt = True
            return self._fatal()
        return result | {"state": self.state()}

    def _effects(self, class_: str) -> list[dict]:
        """No class reaches into another, so only the called one is compared."""
        instance = self.world.instances.get(class_)
        if instance is None:
            return []
        before, after, hidden = self._cells[class_], state.cells(instance), state.hidden(instance)
        same = after == before
        if same and hidden == self._hidden[class_]:
            return []
        self._cells[class_], self._hidden[class_] = before if same else state.freeze(after), hidden
        self._hashes[class_] = state.fingerprint(after, hidden)
        return [] if same else self._names[class_].effects(before, after)

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
