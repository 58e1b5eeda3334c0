"""Errors and exit codes. The one place that exits is cli/main.py.

CoevolveError                 1   the run failed
├── UsageError                2   a flag, a configuration or a combination of them is wrong
├── BadInput                  3   a record cannot be read; carries file and line
├── NothingFound              4   only with -e
├── BudgetReached             5   a limit of calls, tokens or cost; resumable
├── Unreachable              69   a model or an environment cannot be started or reached
│   └── MissingDependency    69   with the exact install line
├── WriteFailed              74   disk full, permission, I/O error
├── Partial                  75   some work is missing; a rerun resumes
└── PipeClosed              141   the reader of our output has gone; silent
"""

from __future__ import annotations

import importlib
from enum import IntEnum
from typing import Any

WRITE_ERRORS = {5, 9, 27, 28, 30, 122}
"""errno of a write that disk or descriptor refuses: EIO, EBADF, EFBIG, ENOSPC, EROFS, EDQUOT."""


class Exit(IntEnum):
    """Every exit code of the toolkit; the README's table is checked against it."""

    OK = 0
    FAILED = 1
    USAGE = 2
    BAD_INPUT = 3
    NOTHING = 4
    BUDGET = 5
    UNREACHABLE = 69
    WRITE_FAILED = 74
    PARTIAL = 75
    INTERRUPTED = 130
    PIPE = 141
    TERMINATED = 143


class CoevolveError(Exception):
    """A failure that the user can read: one line that says what happened and what to do."""

    exit = Exit.FAILED


class UsageError(CoevolveError):
    exit = Exit.USAGE


class BadInput(CoevolveError):
    """A line that is no record of the expected kind."""

    exit = Exit.BAD_INPUT

    def __init__(self, where: str, line: int | None, reason: str):
        self.where, self.line, self.reason = where, line, reason
        super().__init__(f"{where}:{line}: {reason}" if line else f"{where}: {reason}")


class NothingFound(CoevolveError):
    exit = Exit.NOTHING


class BudgetReached(CoevolveError):
    exit = Exit.BUDGET


class Unreachable(CoevolveError):
    exit = Exit.UNREACHABLE


def installation(*extras: str) -> str:
    """The line that installs the toolkit with these extras: it is on no index."""
    return f"pip install -e '.[{','.join(extras)}]' in coevolve's repository"


class MissingDependency(Unreachable):
    def __init__(self, what: str, install: str):
        super().__init__(f"{what} is not installed. Try: {install}")


def require(module: str, purpose: str, install: str) -> Any:
    """Imports a module that an extra installs; MissingDependency says what it is for."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependency(f"{module} (needed for {purpose})", install) from error


class WriteFailed(CoevolveError):
    exit = Exit.WRITE_FAILED


class Partial(CoevolveError):
    exit = Exit.PARTIAL


class PipeClosed(CoevolveError):
    exit = Exit.PIPE
