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
from coevolve.options import Option, Settings, fields
from coevolve_cli.options import Call

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


def check(run: Run, flags: LoopSettings, source: LoopSource, call: Call) -> None:
    """Check a run's settings, keep them in RUN/loop.toml, print them as a shell's assignments.

    What any stage would refuse is refused here, before RUN holds anything. Words after -- are
    overrides for verl.
    """
    given = {name: v for name, v in call.given.items() if name in fields(LoopSettings)}
    settings, tables = resolve(source.config, given, source.set)
    check_files(settings, tables, dry_run=source.dry_run)
    path, text = Path(run, FILE), to_toml(settings, tables)
    fresh = not path.exists()
    if not fresh and (changed := differences(path.read_text(), text)):
        raise UsageError(f"{run} was begun with other settings: {', '.join(changed)} (see {path})")
    if not source.dry_run:
        with _kept(path, text, fresh):
            if fresh:
                _ask_every_stage(path, run, call.rest)
    more = {"run": run, "fresh": fresh, "dry_run": source.dry_run, "text": text}
    _print_assignments(settings, tables, more, call.rest)


@contextlib.contextmanager
def _kept(path: Path, text: str, fresh: bool):
    """Writes the settings; those of a new run go again if it cannot begin."""
    made = not path.parent.exists()
    path.parent.mkdir(parents=True, exist_ok=True)
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


def _ask_every_stage(path: Path, run: str, overrides: list[str]) -> None:
    """Raises the error with which the first stage refuses its table, under its exit code."""
    for name in STAGES:
        words = [name, "--config", str(path), "--dry-run"]
        if name == "train":
            words += ["--run", run, *(["--", *overrides] if overrides else [])]
        command = [sys.executable, "-m", "coevolve_cli.main", *words]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            error = CoevolveError(done.stderr.strip().removeprefix("coevolve: "))
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
