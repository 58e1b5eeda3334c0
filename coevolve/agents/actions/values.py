"""Values that a policy wrote, read as JSON or as Python literals; nothing is evaluated.

Both spellings are read wherever one of them is expected (``true`` and ``True``, ``null`` and
``None``), a sign before a number keeps its meaning, adjacent string literals are one string, a real
line break inside a quoted string is that line break. Everything computed (operator, name, call,
comprehension, f-string, attribute, star) and everything that a record cannot hold (bytes, sets,
infinity, integers beyond 64 bits, a key twice, half of a surrogate pair) raises `Unreadable` with a
hint.
"""

from __future__ import annotations

import ast
import json
import math
import re
from typing import Any, NamedTuple

MAX_CALLS = 32  # Calls in one reply
MAX_DEPTH = 32  # Levels of lists and objects in a call's arguments
FORM = 'Write {"name": "<tool>", "arguments": {...}} as JSON.'
"""How a call is written, in hints; an episode puts the form of the policy's prompt in its place."""
FENCE = re.compile(r"```(?:\w+(?=[\s{\[]))?(.*?)(?:```|\Z)", re.S)
"""A fenced block, with its content; one that is never closed reaches to the end."""
_WORDS = {"true": True, "false": False, "null": None}
_BLANK = re.compile(r"[\s,;]*")
_ESCAPES = "\\'\"abfnrtvxNuU01234567\n\r"
_CONTROL = {"\n": "\\n", "\r": "\\r", "\0": "\\0"}
_ESCAPED = re.compile(r"\\(.)|[\n\r\0]", re.S)
_QUOTES = re.compile(r"\'\'\'|\"\"\"|[\'\"]")
_MARKS = re.compile(r"""\'\'\'|\"\"\"|[()\[\]{}\'\"]""")
_STRING_ENDS = {
    "'": re.compile(r"(?:[^\\']|\\.)*+'", re.S),
    '"': re.compile(r'(?:[^\\"]|\\.)*+"', re.S),
    "'''": re.compile(r"(?:[^\\']|\\.|'(?!''))*+'''", re.S),
    '"""': re.compile(r'(?:[^\\"]|\\.|"(?!""))*+"""', re.S),
}
_DEEPEST = 200
_CHAIN = re.compile(r"(?:[-+~]\s*){9}|(?:\bnot\s+){9}")


class Issue(NamedTuple):
    """Why a reply could not be read as calls, in words for the policy."""

    kind: str  # `bad_json`, `bad_call`, `mixed_forms`, `too_many_calls`, `too_long`, `announced`, …
    hint: str

    def with_form(self, form: str) -> Issue:
        """The same with another sentence on how a call is written."""
        return Issue(self.kind, self.hint.replace(FORM, form))


class Unreadable(ValueError):
    def __init__(self, kind: str, hint: str):
        hint = hint.encode("utf-8", "backslashreplace").decode()  # a record holds no lone surrogate
        super().__init__(hint)
        self.issue = Issue(kind, hint)


def skip(source: str, at: int) -> int:
    """The position after blanks, commas and semicolons."""
    return _BLANK.match(source, at).end()


def json_value(source: str, at: int = 0) -> tuple[Any, int]:
    """The JSON value at a position, in Python's spelling too, and where it ends.

    Its last brace may be missing. Raises Unreadable.
    """
    at = skip(source, at)
    try:
        return _decoder.raw_decode(source, at)
    except Unreadable:
        raise
    except json.JSONDecodeError as error:
        found = _as_python(source, at) or _closed(source, at)
        if found is not None:
            return found
        near = source[error.pos : error.pos + 30]
        hint = f"The call is not valid JSON: {error.msg} at character {error.pos}: {near!r}. {FORM}"
        raise Unreadable("bad_json", hint) from None
    except RecursionError:
        raise Unreadable("bad_json", "The call is nested too deeply.") from None


def _as_python(source: str, at: int) -> tuple[Any, int] | None:
    """The object or list at a position, if it is one in Python's spelling."""
    end = end_of(source, at) if source[at : at + 1] in ("{", "[") else None
    if end is None:
        return None
    try:
        body = tree(repaired(source[at:end], json_escapes=True)).body
    except Unreadable:
        return None
    alone = len(body) == 1 and isinstance(body[0], ast.Expr)
    return (literal(body[0].value), end) if alone else None


def _closed(source: str, at: int) -> tuple[Any, int] | None:
    """The object at a position that lacks one closing brace at the end of the text."""
    if source[at : at + 1] != "{" or not source.rstrip().endswith("}"):
        return None
    try:
        value, end = _decoder.raw_decode(source.rstrip() + "}", at)
    except (json.JSONDecodeError, RecursionError):
        return None
    return (value, len(source)) if end == len(source.rstrip()) + 1 else None


def tree(source: str) -> ast.Module:
    """The syntax tree of Python text. Raises Unreadable for text that is none."""
    if _CHAIN.search(source):
        raise Unreadable("bad_call", "The arguments must be plain values.")
    try:
        return ast.parse(source)
    except SyntaxError as error:
        near = f" near {error.text.strip()[:40]!r}" if error.text else ""
        raise Unreadable("bad_call", f"The call cannot be read: {error.msg}{near}.") from None
    except (ValueError, RecursionError, MemoryError):
        hint = "The call cannot be read: it is nested too deeply or holds an endless number."
        raise Unreadable("bad_call", hint) from None


def literal(node: ast.expr) -> Any:
    """The value of a literal, tuples as lists."""
    match node:
        case ast.Constant(value=None | bool() | str() as value):
            return value
        case ast.Constant(value=int() | float()):
            return number(node.value)
        case ast.Name(id=name) if name in _WORDS:
            return _WORDS[name]
        case ast.UnaryOp(
            op=ast.USub() | ast.UAdd() as sign, operand=ast.Constant(value=int() | float() as value)
        ) if not isinstance(value, bool):
            return number(-value if isinstance(sign, ast.USub) else value)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [literal(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return pairs([(_key(k), literal(v)) for k, v in zip(keys, values, strict=True)])
    raise Unreadable("bad_call", f"{_quoted(node)} is no plain value; write the value itself.")


def _key(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    found = _quoted(node) if node else "**"
    raise Unreadable("bad_call", f"The keys of an object must be text, not {found}.")


def _quoted(node: ast.expr) -> str:
    try:
        return repr(ast.unparse(node)[:60])
    except (RecursionError, ValueError):
        return "An argument"


def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of its keys and values. Raises Unreadable for a key that occurs twice."""
    value = dict(found)
    if len(value) < len(found):
        raise Unreadable("bad_json", "A key occurs twice in one object.")
    return value


def number(value: float) -> float:
    """The number, if a record can hold it."""
    if math.isfinite(value) if isinstance(value, float) else -(2**63) <= value < 2**63:
        return value
    raise Unreadable("bad_json", f"A number is too large; at most {2**63 - 1} as a whole number.")


def check(name: str, arguments: dict[str, Any]) -> None:
    """Refuses what no record could hold: lone surrogates and bottomless nesting."""
    if _depth(arguments) > MAX_DEPTH:
        deep = f"The arguments of {name[:80]} are nested deeper than {MAX_DEPTH} levels."
        raise Unreadable("bad_call", deep)
    try:
        json.dumps([name, arguments], ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Unreadable("bad_json", "The call holds half of a surrogate pair.") from None


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        inner = (node.values() if isinstance(node, dict) else node for node in level)
        level = [child for children in inner for child in children]
        level = [child for child in level if isinstance(child, dict | list)]
    return depth


def end_of(source: str, at: int) -> int | None:
    """The position after the bracket that closes the one at a position.

    None if none does, or it is nested too deeply.
    """
    depth = 0
    while mark := _MARKS.search(source, at):
        at = mark.end()
        if ends := _STRING_ENDS.get(mark[0]):
            closing = ends.match(source, at)
            if not closing:
                return None
            at = closing.end()
            continue
        depth += 1 if mark[0] in "([{" else -1
        if depth <= 0 or depth > _DEEPEST:
            return at if depth <= 0 else None
    return None


def repaired(source: str, *, json_escapes: bool = False) -> str:
    """Python text in which line breaks and stray backslashes inside quoted strings are escaped.

    Text with a raw string is left as it is. With `json_escapes`, JSON's ``\\/`` is a slash.
    """

    def escape(found: re.Match[str]) -> str:
        following = found[1]
        if following is None:
            return _CONTROL[found[0]]
        if json_escapes and following == "/":
            return following
        return found[0] if following in _ESCAPES else "\\\\" + _CONTROL.get(following, following)

    parts, at = [], 0
    while mark := _QUOTES.search(source, at):
        end = _STRING_ENDS[mark[0]].match(source, mark.end())
        if source[at : mark.start()].endswith(("r", "R")):
            return source
        if not end:
            break
        inner = source[mark.end() : end.end() - len(mark[0])]
        inner = _ESCAPED.sub(escape, inner) if len(mark[0]) == 1 else inner
        parts += [source[at : mark.end()], inner, mark[0]]
        at = end.end()
    return "".join([*parts, source[at:]])


def _integer(text: str) -> int:
    if len(text) > 20:
        raise Unreadable("bad_json", f"The number {text[:20]}… is too large.")
    return number(int(text))


def _constant(text: str) -> None:
    raise Unreadable("bad_json", f"{text} is not a JSON value.")


_decoder = json.JSONDecoder(
    object_pairs_hook=pairs,
    parse_int=_integer,
    parse_float=lambda text: number(float(text)),
    parse_constant=_constant,
    strict=False,
)
