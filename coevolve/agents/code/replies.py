"""A block of code in a model's reply: the action of an environment that takes code.

| reply | read as |
|---|---|
| one fenced block (three or more backticks, or tildes) | the block, character by character |
| one ``<code>…</code>`` | what stands between the tags |
| nothing but code: it parses, and holds a call or another statement | the whole reply |
| several blocks, one that is not closed, an empty one | an `Issue`: none of it runs |
| anything else | plain text, no code |

Indentation and blank lines are the program's meaning and stay. Reasoning and end-of-turn tokens are
no content. Nothing is ever executed here, and nothing raises.
"""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from coevolve.agents.actions.reasoning import without_reasoning
from coevolve.agents.actions.replies import MAX_CHARACTERS
from coevolve.agents.actions.values import Issue, Unreadable
from coevolve.agents.code.calls import parsed

NO_CODE = "Your reply holds no code. Write one block of Python code, between ```python and ```."
SEVERAL = (
    "Your reply holds {count} blocks of code and none was run. "
    "Write exactly one block in each reply."
)
UNCLOSED = (
    "The block of code in your reply is not closed and was not run. "
    "End it with {fence} on a line of its own."
)
EMPTY = "The block of code in your reply is empty."
REFUSALS = frozenset(["no_code", "several_blocks", "unclosed_block", "too_long"])
"""Kinds of issues: a reply with one of them was not run."""
_OPEN = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([^\n`]*)$", re.MULTILINE)
_INLINE = re.compile(r"```(?:python[ \t]|py[ \t])?([^`\n]+)```")
_TAG = re.compile(r"<(/?)code>")
_END_OF_TURN = re.compile(r"(?:\s*(?:<\|[a-z_]{1,40}\|>|</s>))+\s*\Z")


class CodeReply(NamedTuple):
    """What a reply says: code, or why there is none to run; neither where it is plain text."""

    code: str | None
    issue: Issue | None = None


def read(text: str) -> CodeReply:
    """Reads the code of a reply."""
    try:
        return CodeReply(_code(text))
    except Unreadable as error:
        return CodeReply(None, error.issue)


def _code(text: str) -> str | None:
    if len(text) > MAX_CHARACTERS:
        raise Unreadable("too_long", f"The reply is longer than {MAX_CHARACTERS} characters.")
    body = _END_OF_TURN.sub("", without_reasoning(text))
    blocks = _fenced(body) or _tagged(body)
    if not blocks and "```" in body:
        inline = _INLINE.fullmatch(body.strip())
        if not inline:
            raise _unclosed("```")
        return inline[1].strip()
    if not blocks:
        return body.strip("\n") if _is_code(body) else None
    full = [block for block in blocks if block.strip()]
    if not full:
        raise Unreadable("no_code", EMPTY)
    if len(full) > 1:
        raise Unreadable("several_blocks", SEVERAL.format(count=len(full)))
    return full[0]


def to_text(code: str) -> str:
    """The code as a reply, in a fence that none of its own lines closes."""
    longest = max((len(run) for run in re.findall(r"`{3,}", code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}python\n{code}\n{fence}"


def _unclosed(fence: str) -> Unreadable:
    return Unreadable("unclosed_block", UNCLOSED.format(fence=fence))


def _fenced(body: str) -> list[str]:
    """The fenced blocks."""
    blocks, at = [], 0
    while begin := _OPEN.search(body, at):
        fence = begin[1]
        close = re.compile(rf"^[ \t]*{re.escape(fence[0])}{{{len(fence)},}}[ \t]*$", re.MULTILINE)
        end = close.search(body, begin.end())
        if end is None:
            raise _unclosed(fence)
        blocks.append(body[begin.end() + 1 : end.start()].removesuffix("\n"))
        at = end.end()
    return blocks


def _tagged(body: str) -> list[str]:
    """What stands in ``<code>`` tags."""
    blocks, begin = [], None
    for tag in _TAG.finditer(body):
        closes = tag[1] == "/"
        if closes == (begin is None):
            raise _unclosed("</code>")
        if closes:
            blocks.append(body[begin : tag.start()].strip("\n"))
        begin = None if closes else tag.end()
    if begin is not None:
        raise _unclosed("</code>")
    return blocks


def _is_code(body: str) -> bool:
    """Whether the text is a program that does something, and no prose that happens to parse."""
    tree = parsed(body.strip("\n"))
    return tree is not None and any(map(_acts, tree.body))


def _acts(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Call | ast.Await)
    return not isinstance(statement, ast.Pass | ast.Break | ast.Continue)
