"""Calls written as a program, in the way that an environment of code describes (`protocol.Code`).

A program is a run of statements: those of the setup that the others need, one per call, and the one that ends it. Nothing here is
executed, and arguments become plain literals, so that text of an environment stays text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coevolve.environments.protocol import CodeSyntax
from coevolve.records import Call

_NAME = re.compile(r"[A-Za-z_]\w*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


def python_literal(value: Any) -> str:
    """A JSON value as a Python literal."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return f"[{', '.join(map(python_literal, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{python_literal(key)}: {python_literal(member)}' for key, member in value.items())}}}"
    return repr(value)


def call_text(code: CodeSyntax, tool: str, arguments: Mapping[str, str]) -> str:
    """A call, its arguments given as expressions; what code has to pass beside them is added."""
    whole = {
        **arguments,
        **{n: e for n, e in code.arguments.get(tool, {}).items() if n not in arguments},
    }
    listed = ", ".join(f"{name}={expression}" for name, expression in whole.items())
    return code.call.replace("{tool}", tool).replace("{arguments}", listed)


def program(code: CodeSyntax, statements: Sequence[str], *, ended: bool = False) -> str:
    """The statements with the setup that they need before them and, unless they end the program, its end after them."""
    body = [*statements, *([code.end] if code.end and not ended else [])]
    return "\n".join([*_setup(code, body), *body])


def program_of_calls(code: CodeSyntax, calls: Iterable[Call]) -> str:
    """A program that makes the calls as they are and prints what they return."""
    calls = list(calls)
    statements = [
        call_text(
            code, call.tool, {name: python_literal(value) for name, value in call.arguments.items()}
        )
        for call in calls
    ]
    ends = [call.tool in code.ends for call in calls]
    shown = [text if end else f"print({text})" for text, end in zip(statements, ends, strict=True)]
    return program(code, shown, ended=any(ends))


def _setup(code: CodeSyntax, body: Sequence[str]) -> list[str]:
    """Statements of the setup for the variables that the body uses, in their own order."""
    needed = _names(body)
    chosen: list[str] = []
    for variable, statement in reversed(code.setup.items()):
        if variable in needed:
            chosen.append(statement)
            needed |= _names([statement])
    return chosen[::-1]


def _names(statements: Iterable[str]) -> set[str]:
    return {
        name for statement in statements for name in _NAME.findall(_STRING.sub('""', statement))
    }
