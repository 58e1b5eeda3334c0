"""Reasoning in a reply: text between the marks of any family is no content, a call in it no call.

A mark is a bracketed name of thinking: ``<think>``, ``<seed:think>``, ``<thought>``,
``<reasoning>``, ``[THINK]``, ``◁think▷``, ``<|START_THINKING|>``, and gpt-oss's analysis channel. A
template may have opened the first block in the prompt, and the last one may be cut off. Other marks
than ``<think>`` count at the beginning of a line or after another mark, so that a value may hold
them.
"""

from __future__ import annotations

import re

_ABOUT = r"(?:think|thought|reason|reflect|scratchpad)"
_NAME = rf"(?:[A-Za-z]{{1,20}}[:_])?{_ABOUT}[a-z]{{0,6}}"
_LOUD = r"(?:[A-Z]{1,20}_)?(?:THINK|THOUGHT|REASON|REFLECT)[A-Z]{0,6}"
_OPEN = (
    rf"(?:<think>|(?:^[ \t]*|(?<=[>\]▷}}]))"
    rf"(?:<{_NAME}>|<\|(?:START_|BEGIN_|begin_of_)?(?i:{_NAME})\|>|\[{_LOUD}\]|◁{_NAME}▷))"
)
_CLOSE = rf"(?:</{_NAME}>|<\|(?:END_|/|end_of_)(?i:{_NAME})\|>|\[/{_LOUD}\]|◁/{_NAME}▷)"
_OPENS = re.compile(_OPEN, re.M)
_CLOSES = re.compile(rf"(?:(?<!`)|(?<=```)){_CLOSE}")  # after a fence, but not quoted
_MARK = re.compile(rf"{_OPEN}|{_CLOSE}|<\|channel\|>analysis<\|message\|>", re.M)
_ANALYSIS = re.compile(
    r"<\|channel\|>analysis<\|message\|>.*?(?:<\|end\|>|(?=<\|start\|>)|\Z)", re.S
)


def without_reasoning(text: str, closed: bool = True) -> str:
    """Drops the blocks. With `closed` False only the marks are dropped."""
    if not closed:
        return _MARK.sub("", text)
    end = _CLOSES.search(text)
    if end and not _OPENS.search(text, 0, end.start()):
        text = text[end.end() :]
    kept, at = [], 0
    while begun := _OPENS.search(text, at):
        kept.append(text[at : begun.start()])
        end = _CLOSES.search(text, begun.end())
        at = end.end() if end else len(text)
    return _ANALYSIS.sub("", "".join([*kept, text[at:]]))
