"""`coevolve loop check RUN`: settings of shell/train_loop.sh, checked before anything starts."""

from __future__ import annotations

import contextlib
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from coevolve import jsonl
from coevolve.environments.client import Pool
from coevolve.errors import CoevolveError, UsageError
from coevolve.loop import (
    FILE,
    STAGES,
    LoopSettings,
    Tables,
    check_files,
    differences,
    resolve,
    to_toml,
)
from coevolve.options import Option, Settings, fields, nearest
from coevolve.signals.kinds import KINDS
from coevolve_cli.options import Invocation

HELP = "Check the settings of the whole loop, shell/train_loop.sh."
KEEPS_REST = True
Run = Annotated[str, typer.Argument(metavar="RUN", help="The run's directory.")]


class LoopSource(Settings, frozen=True, kw_only=True):
    """Where the loop's settings come from, beside its flags."""

    PANEL: ClassVar[str] = "Settings"

    config: Annotated[
        str | None,
        Option(
            "TOML with a table [loop] and one for each command; a flag counts more.",
            metavar="FILE",
            file="in",
        ),
    ] = None
    set: Annotated[
        list[str],
        Option("One option of a command; may be repeated.", metavar="COMMAND.OPTION=VALUE"),
    ] = []
    dry_run: Annotated[bool, Option("Keep nothing, and print every command.")] = False


def check(run: Run, flags: LoopSettings, source: LoopSource, call: Invocation) -> None:
    """Check a run's settings, keep them in RUN/loop.toml, print them as a shell's assignments.

    What any stage would refuse is refused here, before RUN holds anything. Words after -- are
    overrides for verl.
    """
    given = {name: v for name, v in call.given.items() if name in fields(LoopSettings)}
    settings, tables = resolve(run, source.config, given, source.set)
    for kind in settings.without:
        if kind not in KINDS:
            raise UsageError(f"--without: no kind {kind!r}{nearest(kind, KINDS)}")
    check_files(settings, tables, dry_run=source.dry_run)
    path, text = Path(run, FILE), to_toml(settings, tables)
    fresh = not path.exists()
    if not fresh and (changed := differences(path.read_text(), text)):
        raise UsageError(f"{run} was begun with other settings: {', '.join(changed)} (see {path})")
    if not source.dry_run:
        with _kept(path, text, fresh):
            if fresh:
                _ask_every_stage(settings.env, path, call.rest)
    more = {"run": run, "fresh": fresh, "dry_run": source.dry_run, "text": text}
    _print_assignments(settings, tables, more, call.rest)


@contextlib.contextmanager
def _kept(path: Path, text: str, fresh: bool):
    """Writes the settings; those of a new run go again if it cannot begin."""
    made = not path.parent.exists()
    with jsonl.atomic(path) as stream:
        stream.write(text.encode())
    try:
        yield
    except BaseException:
        if fresh:
            path.unlink(missing_ok=True)
        if made:
            with contextlib.suppress(OSError):
                path.parent.rmdir()
        raise


def _ask_every_stage(env: str, path: Path, overrides: list[str]) -> None:
    """Raises the error with which the environment does not start, or the first stage refuses its
    table, under its exit code."""
    with Pool(env):
        pass
    for name in STAGES:
        words = [name, "--config", str(path), "--dry-run"]
        if name == "train":
            words += ["--", *overrides] if overrides else []
        command = [sys.executable, "-m", "coevolve_cli.main", *words]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            # the keys may come from anywhere: that they stand in this file now is no help
            words = done.stderr.strip().removeprefix("coevolve: ").removeprefix(f"{path}: ")
            error = CoevolveError(words)
            error.exit = done.returncode
            raise error


def _print_assignments(
    settings: LoopSettings, tables: Tables, more: dict[str, object], overrides: list[str]
) -> None:
    values = {name: getattr(settings, name) for name in fields(LoopSettings) if name != "without"}
    values |= {name: tables["train"].get(name) for name in ("backend", "preset", "model")} | more
    for name, value in values.items():
        word = "yes" if value is True else "" if value is None or value is False else str(value)
        print(f"{name}={shlex.quote(word)}")
    print(f"overrides=({' '.join(map(shlex.quote, overrides))})")


COMMANDS = {"check": check}
