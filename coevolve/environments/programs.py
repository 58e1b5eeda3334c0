"""Calls written as a program, in the syntax of an environment of code (`protocol.CodeSyntax`).

A program is a run of statements: those of the setup that the others need, one per call, and the one
that ends it. Nothing here is executed, and arguments become plain literals, so that text of an
environment stays text.
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
        items = (f"{python_literal(k)}: {python_literal(v)}" for k, v in value.items())
        return f"{{{', '.join(items)}}}"
    return repr(value)


def call_text(code: CodeSyntax, tool: str, arguments: Mapping[str, str]) -> str:
    """A call, its arguments given as expressions; what code has to pass beside them is added."""
    added = code.arguments.get(tool, {}).items()
    whole = {**arguments, **{n: e for n, e in added if n not in arguments}}
    listed = ", ".join(f"{name}={expression}" for name, expression in whole.items())
    return code.call.replace("{tool}", tool).replace("{arguments}", listed)


def program(code: CodeSyntax, statements: Sequence[str], *, ended: bool = False) -> str:
    """The statements between the setup that they need and, unless they end the program, its end."""
    body = [*statements, *([code.end] if code.end and not ended else [])]
    return "\n".join([*_setup(code, body), *body])


def program_of_calls(code: CodeSyntax, calls: Iterable[Call]) -> str:
    """A program that makes the calls as they are and prints what they return."""
    statements, ended = [], False
    for call in calls:
        arguments = {name: python_literal(value) for name, value in call.arguments.items()}
        text, ends = call_text(code, call.tool, arguments), call.tool in code.ends
        statements.append(text if ends else f"print({text})")
        ended |= ends
    return program(code, statements, ended=ended)


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
    """The identifiers in the statements, those inside of string literals left out."""
    return {name for text in statements for name in _NAME.findall(_STRING.sub('""', text))}
