"""What signal extraction reads of a rollout: its head, or head and steps, never the chat.

`RolloutHead` is decoded from the bytes before ``,"messages":``; `RolloutSteps` adds a light view of
the steps for the kinds of signals that observe them; `RolloutEvidence` is for the evidence of the
chosen signals only.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Struct

from coevolve.records import SUCCESS, Step, Task

Count = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class RolloutHead(
    Struct, frozen=True, kw_only=True, gc=False, tag_field="schema", tag="coevolve.rollout/1"
):
    id: str
    task_id: str
    env: str
    sample: Count = 0
    iteration: Count = 0
    step: Count = 0
    success: bool | None = None
    score: float | None = None
    progress: float = 0.0
    stop_reason: str = ""
    tools: list[str] = []

    @property
    def verdict(self) -> bool | None:
        """The environment's verdict, or whether the score is a success; None without both."""
        if self.success is not None:
            return self.success
        return None if self.score is None else self.score >= SUCCESS


class EffectView(Struct, frozen=True, gc=False):
    op: str = ""


class StepView(Struct, frozen=True, gc=False):
    action: msgspec.Raw
    observation: msgspec.Raw = msgspec.Raw(b'""')
    error: str | None = None
    effects: list[EffectView] = []


class RolloutSteps(RolloutHead, frozen=True, kw_only=True, gc=False):
    steps: list[StepView] = []


class RolloutEvidence(RolloutHead, frozen=True, kw_only=True):
    steps: list[Step] = []
    task: Task | None = None


class CallView(Struct, frozen=True, gc=False):
    """An action that is a call, its arguments unread."""

    tool: str
    arguments: dict[str, msgspec.Raw] = {}


with_steps = msgspec.json.Decoder(RolloutSteps).decode
in_full = msgspec.json.Decoder(RolloutEvidence).decode
_action = msgspec.json.Decoder(CallView | str).decode


def action_of(step: StepView) -> CallView | str:
    """The step's call, or its block of code."""
    return _action(step.action)
