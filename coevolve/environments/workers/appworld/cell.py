"""Runs cells of Python as AppWorld does, with AppWorld's own texts; policy code lives in this
module.

Cells behave as in AppWorld's shell, without IPython: names persist from cell to cell, the package's
guard refuses and disables what it lists, `print` of a list or a dict prints JSON, an error is shown
from the first line of the cell on, without the frames of the machinery. Nothing here protects
anybody: a cell can change all of it, in its own process only.
"""

from __future__ import annotations

import ast
import builtins
import calendar
import datetime
import io
import itertools
import json
import linecache
import math
import random
import re
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import reduce
from textwrap import dedent
from traceback import TracebackException, extract_tb
from typing import Any, NamedTuple

import pendulum

from .code import as_printed
from .observation import CellStream, cut

FAILED = "Execution failed. Traceback:\n"
MAX_ERROR_CHARS = 1 << 20  # Length of an error that leaves this process
_FRAME = re.compile(r'  +File "(.*?)", line (\d+), in .+')
_CELL = re.compile(r'File "<python-input-\d+>"')


class CellOutput(NamedTuple):
    text: str
    error: str | None  # syntax_error, denied, empty, timeout, memory, api_error, exception, or None


class CellTimeout(Exception):
    """The soft limit of a cell, which it may catch, unlike the worker's own limit."""


class NumRequestsLimitError(Exception):
    """Too many API calls in one cell."""


class Interpreter:
    """The names and limits of one episode's cells."""

    def __init__(self, guard: Any, apis: Any):
        self._guard, self._cells = guard, 0
        self.alarm = _Alarm()
        self.names: dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins}
        self.names |= preloaded() | {"print": _print, "input": _input, "apis": apis}

    def run(self, code: str, seconds: int, keep: int, with_output: bool) -> CellOutput:
        """Executes a cell; the first and last `keep` characters of its output stay in memory."""
        try:
            return self._refusal(code) or self._run(code.strip(), seconds, keep, with_output)
        except MemoryError:
            return CellOutput(f"{FAILED}MemoryError", "memory")

    def _run(self, code: str, seconds: int, keep: int, with_output: bool) -> CellOutput:
        try:
            tree = ast.parse(code)
        except SyntaxError as error:
            line = (error.text or "").rstrip()
            text = f"{FAILED}Syntax error in line:\n{line}\nMessage: {error.msg}"
            return CellOutput(text, "syntax_error")
        except (ValueError, RecursionError) as error:
            return CellOutput(f"{FAILED}{type(error).__name__}: {error}", "syntax_error")
        if not code:
            return CellOutput("No code available to execute.", "empty")
        output = CellStream(keep)
        error = self._execute(code, tree, seconds, output)
        printed = output.text()
        if error is None:
            return CellOutput(printed if printed.strip() else "Execution successful.", None)
        shown_error, kind = _described(error, seconds)
        text = FAILED + shown_error
        return CellOutput(cut(printed + text if with_output else text, MAX_ERROR_CHARS), kind)

    def _refusal(self, code: str) -> CellOutput | None:
        try:
            safe, message = self._guard.is_syntax_safe(code)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - boundary: the package's parser cannot read it
            kind = "syntax_error" if isinstance(error, RecursionError) else "denied"
            return CellOutput(f"{FAILED}{type(error).__name__}: {error}", kind)
        return None if safe else CellOutput(FAILED + message, "denied")

    def _execute(
        self, code: str, tree: ast.Module, seconds: int, output: CellStream
    ) -> BaseException | None:
        """Returns the error that ended the cell."""
        self._cells += 1
        name = f"<python-input-{self._cells}>"
        linecache.cache[name] = (len(code), None, [f"{line}\n" for line in code.split("\n")], name)
        streams = sys.stdout, sys.stderr
        self._guard.enable()
        try:
            sys.stdout, sys.stderr = output, io.StringIO()
            with self.alarm.after(seconds):
                exec(compile(tree, name, "exec"), self.names)  # noqa: S102 - in a locked process
        except BaseException as error:  # noqa: BLE001 - boundary: becomes the observation
            return error
        finally:
            sys.stdout, sys.stderr = streams
            self._guard.disable()
        return None


class _Alarm:
    """The soft limit: raises CellTimeout in a cell, but not amid an exchange with the APIs."""

    def __init__(self) -> None:
        self._held = self._due = False

    @contextmanager
    def after(self, seconds: int):
        self._held = self._due = False
        signal.signal(signal.SIGALRM, self._ring)
        signal.alarm(seconds)
        try:
            yield
        finally:
            signal.alarm(0)

    @contextmanager
    def held(self):
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._due:
            self._due = False
            raise CellTimeout

    def _ring(self, *_: object) -> None:
        self._due = self._held
        if not self._held:
            raise CellTimeout


def _described(error: BaseException, seconds: int) -> tuple[str, str]:
    """Returns the error's text and kind, whatever its own methods, which a cell may have written,
    do."""
    try:
        return shown(error, seconds), _kind(error)
    except MemoryError:
        raise
    except BaseException:  # noqa: BLE001 - boundary: the class is broken; the interpreter's slots are not
        frames = extract_tb(BaseException.__dict__["__traceback__"].__get__(error))
        lines = [
            f'  File "<python-input>", line {f.lineno}, in {f.name}'
            for f in frames
            if "python-input" in f.filename
        ]
        name = type.__dict__["__name__"].__get__(type(error))
        return dedent("\n".join([*lines, f"{name}: <exception str() failed>"])), "exception"


def shown(error: BaseException, seconds: int) -> str:
    """Returns the error as AppWorld shows it: from the cell's first line on, frames of cells
    only."""
    lines = "".join(TracebackException.from_exception(error).format()).splitlines()
    kept, inside = [], False
    for line in lines:
        if frame := _FRAME.match(line):
            inside = "python-input" in frame.group(1)
        if inside or not line.startswith("  "):
            kept.append(line)
    first = next((place for place, line in enumerate(kept) if "<python-input-" in line), 0)
    text = _CELL.sub('File "<python-input>"', "\n".join(kept[first:]))
    timed_out = f"Exception: Execution timed out after {seconds} seconds."
    for kind, words in ((CellTimeout, timed_out), (NumRequestsLimitError, "Exception")):
        text = text.replace(f"{kind.__module__}.{kind.__qualname__}", words)
    return dedent(text)


def _kind(error: BaseException) -> str:
    if isinstance(error, CellTimeout):
        return "timeout"
    if isinstance(error, MemoryError):
        return "memory"
    return "api_error" if str(error).startswith("Response status code is ") else "exception"


def _print(*values: Any, **options: Any) -> None:
    if not options and len(values) == 1 and isinstance(values[0], (list, tuple, dict)):
        values = (as_printed(values[0]),)
    builtins.print(*values, **options)


def _input(*_: Any, **__: Any) -> None:
    raise Exception("input(..) is not allowed. All decisions must be made autonomously.")


def preloaded() -> dict[str, Any]:
    """Returns the names that AppWorld has imported before the first cell."""
    from appworld.common import datetime as dates

    modules = (calendar, datetime, itertools, json, math, random, re, builtins)
    names = (Counter, defaultdict, Iterator, deepcopy, reduce)
    days = "MONDAY TUESDAY WEDNESDAY THURSDAY FRIDAY SATURDAY SUNDAY".split()
    own = {
        "pendulum": dates.pendulum,
        "Date": dates.VanillaDate,
        "DateTime": dates.VanillaDateTime,
        "Time": dates.VanillaTime,
    }
    own |= {day: getattr(pendulum, day) for day in days}
    return {thing.__name__: thing for thing in (*modules, *names)} | own


Request = Callable[[str, str, dict[str, Any]], Any]


class ApiNamespace(dict):
    """Names that can be asked for as attributes, with AppWorld's words for one that is lacking:
    `apis`, and each app in it."""

    def __init__(self, lacking: str, names: dict[str, Any]):
        super().__init__(names)
        object.__setattr__(self, "_lacking", lacking)

    def __getattr__(self, key: str) -> Any:
        try:
            return self[key]
        except KeyError:
            pass
        raise Exception(object.__getattribute__(self, "_lacking").format(key=key))


def api_namespace(documented: dict[str, Iterable[str]], request: Request) -> ApiNamespace:
    """Returns `apis`: app → API → function that takes keywords only."""
    apps = {}
    for app, names in documented.items():
        lacking = f"No API named '{{key}}' found in the {app} app."
        functions = {name: _wrap_api_request(app, name, request) for name in names}
        apps[app] = ApiNamespace(lacking, functions)
    return ApiNamespace("No app named '{key}' found.", apps)


def _wrap_api_request(app: str, api: str, request: Request) -> Callable[..., Any]:
    def _api_request(**kwargs: Any) -> Any:
        return request(app, api, kwargs)

    return _api_request
