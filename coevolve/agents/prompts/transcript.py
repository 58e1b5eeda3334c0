"""Executed steps as text for a model: one JSON object a line, within a budget of tokens.

    {"step": 3, "tool": "ls", "arguments": {}, "observation": "[\"a.txt\"]", "changed": true}

An observation is a JSON string on its step's own line, so that no text of an environment can pose
as another step; what a prompt shows of it stands in a fence besides (`models.prompt_templates`).
Steps keep their numbers when others are left out. Tokens are estimated at `BYTES_PER_TOKEN` bytes
of UTF-8, for a stage knows no tokenizer of the model behind a server.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from coevolve.records import Call, Step

BYTES_PER_TOKEN = 4
LEAST = 64  # Characters of an observation that are kept, however small the budget
_LEFT_OUT = "… {} characters left out …"


def tokens(text: str) -> int:
    """Estimated number of tokens."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)


def clip(text: str, most: int) -> str:
    """At most about `most` characters: head and tail, and how much is missing between them."""
    if len(text) <= most:
        return text
    head = most * 2 // 3
    tail = most - head
    return f"{text[:head]}{_LEFT_OUT.format(len(text) - most)}{text[len(text) - tail :]}"


def transcript(steps: Sequence[Step], budget: int, first: int = 0) -> str:
    """The steps, numbered from `first`, in about `budget` tokens.

    Long observations are clipped, then steps left out of the middle.
    """
    longest = max((len(step.observation) for step in steps), default=0)
    while True:
        lines = [_line(first + place, step, longest) for place, step in enumerate(steps)]
        if longest <= LEAST or tokens("\n".join(lines)) <= budget:
            return "\n".join(_thinned(lines, budget))
        longest = max(LEAST, longest // 2)


def _line(number: int, step: Step, longest: int) -> str:
    observation = clip(step.observation, longest)
    shown = {"step": number, **action_fields(step.action), "observation": observation}
    if step.error:
        shown["error"] = step.error
    if step.effects:
        shown["changed"] = True
    return json.dumps(shown, ensure_ascii=False)


def action_fields(action: Call | str) -> dict[str, Any]:
    """An action as fields of a JSON object."""
    if isinstance(action, str):
        return {"code": action}
    return {"tool": action.tool, "arguments": action.arguments}


def _thinned(lines: list[str], budget: int) -> list[str]:
    """Lines from both ends while the budget lasts, at least one from each."""
    left = budget - sum(map(tokens, lines))
    if left >= 0 or len(lines) < 4:
        return lines
    head, tail = 1, len(lines) - 1
    left = budget - tokens(lines[0]) - tokens(lines[-1])
    while head < tail:
        ahead = head <= len(lines) - tail
        cost = tokens(lines[head] if ahead else lines[tail - 1])
        if cost > left:
            break
        left -= cost
        head, tail = (head + 1, tail) if ahead else (head, tail - 1)
    left_out = [f'{{"left_out": {tail - head}}}'] if head < tail else []
    return [*lines[:head], *left_out, *lines[tail:]]
