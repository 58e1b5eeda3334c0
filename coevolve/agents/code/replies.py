"""A block of code in a model's reply: the action of an environment that takes code.

| reply | read as |
|---|---|
| one fenced block (three or more backticks, or tildes), prose around it or not | the block, character by character |
| one ``<code>…</code>`` | what stands between the tags |
| nothing but code: it parses, and holds a call, an assignment or another statement | the whole reply |
| several blocks, a block that is not closed, an empty one | an `Issue` with a hint: none of it runs |
| anything else | plain text, no code |

Indentation and blank lines are the program's meaning and stay. Reasoning and end-of-turn tokens are no content. Nothing is ever
executed here, and nothing raises.
"""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from coevolve.agents.actions.reasoning import without_reasoning
from coevolve.agents.actions.replies import MAX_CHARACTERS
from coevolve.agents.actions.values import Issue
from coevolve.agents.code.calls import parsed

NO_CODE = "Your reply holds no code. Write one block of Python code, between ```python and ```."
SEVERAL = "Your reply holds {count} blocks of code and none was run. Write exactly one block in each reply."
UNCLOSED = "The block of code in your reply is not closed and was not run. End it with {fence} on a line of its own."
EMPTY = "The block of code in your reply is empty."
REFUSALS = frozenset(["no_code", "several_blocks", "unclosed_block", "too_long"])
"""Kinds of issues: a reply with one of them was not run."""
_OPEN = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*([^\n`]*)$", re.MULTILINE)
_INLINE = re.compile(r"```(?:python[ \t]|py[ \t])?([^`\n]+)```")
_TAG = re.compile(r"<(/?)code>")
_END_OF_TURN = re.compile(r"(?:\s*(?:<\|[a-z_]{1,40}\|>|</s>))+\s*\Z")
_STATEMENTS = (
    ast.Assign,
    ast.AugAssign,
    ast.AnnAssign,
    ast.For,
    ast.While,
    ast.If,
    ast.With,
    ast.Try,
    ast.Import,
)
_STATEMENTS += (ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Delete, ast.Assert, ast.Raise)


class Read(NamedTuple):
    """What a reply says: code, or why there is none to run; neither where it is plain text."""

    code: str | None
    issue: Issue | None = None


def read(text: str) -> Read:
    """The code of a reply."""
    if len(text) > MAX_CHARACTERS:
        return _refused("too_long", f"The reply is longer than {MAX_CHARACTERS} characters.")
    body = _END_OF_TURN.sub("", without_reasoning(text))
    fenced = _fenced(body)
    if fenced is None:
        fenced = _tagged(body)
    if fenced is None and "```" in body:
        return _inline(body)
    if fenced is None:
        return Read(body.strip("\n") if _is_code(body) else None)
    if isinstance(fenced, Issue):
        return Read(None, fenced)
    blocks = [block for block in fenced if block.strip()]
    if not blocks:
        return _refused("no_code", EMPTY)
    if len(blocks) > 1:
        return _refused("several_blocks", SEVERAL.format(count=len(blocks)))
    return Read(blocks[0])


def to_text(code: str) -> str:
    """The code as a reply, in a fence that none of its own lines closes."""
    longest = max((len(run) for run in re.findall(r"`{3,}", code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}python\n{code}\n{fence}"


def _refused(kind: str, hint: str) -> Read:
    return Read(None, Issue(kind, hint))


def _fenced(body: str) -> list[str] | Issue | None:
    """The fenced blocks; None where there is no fence."""
    blocks, at = [], 0
    while begin := _OPEN.search(body, at):
        fence = begin[1]
        close = re.compile(rf"^[ \t]*{re.escape(fence[0])}{{{len(fence)},}}[ \t]*$", re.MULTILINE)
        end = close.search(body, begin.end())
        if end is None:
            return Issue("unclosed_block", UNCLOSED.format(fence=fence))
        blocks.append(body[begin.end() + 1 : end.start()].removesuffix("\n"))
        at = end.end()
    return blocks or None


def _inline(body: str) -> Read:
    """A block whose fences stand on one line with the code, if the reply is nothing else."""
    whole = _INLINE.fullmatch(body.strip())
    return (
        Read(whole[1].strip())
        if whole
        else _refused("unclosed_block", UNCLOSED.format(fence="```"))
    )


def _tagged(body: str) -> list[str] | Issue | None:
    """What stands in ``<code>`` tags; None where there is none."""
    blocks, begin = [], None
    for tag in _TAG.finditer(body):
        if (tag[1] == "") == (begin is not None):
            return Issue("unclosed_block", UNCLOSED.format(fence="</code>"))
        if begin is not None:
            blocks.append(body[begin : tag.start()].strip("\n"))
        begin = tag.end() if not tag[1] else None
    if begin is not None:
        return Issue("unclosed_block", UNCLOSED.format(fence="</code>"))
    return blocks or None


def _is_code(body: str) -> bool:
    """Whether the whole text is a program that does something, and no prose that happens to parse."""
    tree = parsed(body.strip("\n"))
    return tree is not None and any(
        isinstance(node, _STATEMENTS) or _calls(node) for node in tree.body
    )


def _calls(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call | ast.Await)
