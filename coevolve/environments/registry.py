"""How an environment is found: by a name that the toolkit knows, or by the command line of a
worker.

A built-in worker sees a small, fixed environment (no keys, no PYTHONPATH of ours); a worker of the
user's own inherits everything but the models' key and address. Both get PYTHONHASHSEED=0, and
COEVOLVE_DATE, the day that they take for today.
"""

from __future__ import annotations

import difflib
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from coevolve.environments import appworld_root, install
from coevolve.environments.workers import launch
from coevolve.errors import UsageError


class BuiltIn(NamedTuple):
    """A worker of the toolkit's own."""

    worker: str  # Module in `workers/`
    recipe: str | None = None
    """The benchmark whose interpreter runs it (install.py); None is this one's."""
    options: tuple[str, ...] = ()
    setup_seconds: float = 60


BUILT_IN = {
    "desk": BuiltIn("desk.worker"),
    "bfcl": BuiltIn("bfcl.worker", "bfcl"),
    "bfcl-strict": BuiltIn("bfcl.worker", "bfcl", ("--strict-parity",)),
    "appworld": BuiltIn("appworld.worker", "appworld", setup_seconds=180),
}
DATE = "2026-01-01"
MODEL_VARIABLES = "OPENAI_"
"""Prefix of the variables that no worker gets; a key of its own has another name."""
WORKERS = Path(__file__).with_name("workers")
_FIXED = {"PYTHONHASHSEED": "0", "COEVOLVE_DATE": DATE}
_BUILT_IN = {"LANG": "C.UTF-8", "TZ": "UTC", "PYTHONUTF8": "1", "PYTHONNOUSERSITE": "1"}
_APPWORLD = "COEVOLVE_APPWORLD_"
_INHERITED = ("PATH", "HOME", "TMPDIR", "SYSTEMROOT", "LD_LIBRARY_PATH")


class Launch(NamedTuple):
    """The command that starts a worker, and its surroundings."""

    name: str  # The value of `env` in a task record
    command: list[str]
    environment: dict[str, str]
    setup_seconds: float = 60
    """Time that opening a session may take, the first one's start of the benchmark included."""


def find(env: str) -> Launch:
    """Raises MissingDependency for a benchmark that is not installed, UsageError for a program that
    does not exist."""
    if own := BUILT_IN.get(env):
        python = install.python(own.recipe) if own.recipe else sys.executable
        variables = {key: os.environ[key] for key in _INHERITED if key in os.environ}
        variables |= _BUILT_IN | _FIXED
        if own.recipe == appworld_root.NAME:
            variables |= _appworld()
        command = launch.command(python, own.worker, *own.options)
        return Launch(env, command, variables, own.setup_seconds)
    variables = {k: v for k, v in os.environ.items() if not k.startswith(MODEL_VARIABLES)}
    return Launch(env, _command(env), variables | _FIXED)


def recorded(env: str, named: str | None) -> str:
    """Returns a record's environment: a built-in one, or the command that the user named too."""
    # Records travel; a command in somebody's file is not run because it stands there.
    if env in BUILT_IN or env == named:
        return env
    raise UsageError(
        f"the records are of the environment {env!r}, a command that is run only if you name it: "
        f"--env {shlex.quote(env)}"
    )


def _appworld() -> dict[str, str]:
    """The places of its data, and its options: the user's variables of that prefix."""
    appworld_root.check_options()
    options = {key: value for key, value in os.environ.items() if key.startswith(_APPWORLD)}
    data = {
        appworld_root.VARIABLE: str(appworld_root.chosen()),
        f"{_APPWORLD}HOME": str(appworld_root.folder()),
    }
    return options | data | install.caches(appworld_root.NAME)


def _command(env: str) -> list[str]:
    names = ", ".join(BUILT_IN)
    try:
        command = shlex.split(env)
    except ValueError as error:
        raise UsageError(f"--env {env!r}: {error}") from None
    if not command:
        raise UsageError(f"--env needs a name ({names}) or the command line of a worker")
    if shutil.which(command[0]):
        return command
    if command[0] in ("python", "python3"):
        return [sys.executable, *command[1:]]
    near = difflib.get_close_matches(env, BUILT_IN, 1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Built in: {names}"
    raise UsageError(f"no environment and no program is called {command[0]!r}. {hint}")
