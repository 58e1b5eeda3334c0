"""`coevolve loop check RUN`: the settings of shell/train_loop.sh, checked before anything starts and kept in RUN/loop.toml."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from coevolve import jsonl
from coevolve.errors import CoevolveError, UsageError
from coevolve.loop import FILE, STAGES, LoopSettings, check_files, differences, resolve, to_toml

EXAMPLES = """
  coevolve loop check runs/a --config shell/loops/laptop.toml --model laptop
  coevolve loop check runs/a --config shell/loops/qwen3-4b.toml --env bfcl --set train.steps=5
"""
app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@app.callback()
def _loop() -> None:
    """Settings of the whole loop, shell/train_loop.sh."""


class Command(TyperCommand):
    """What follows -- are overrides for verl; --KEY VALUE are keys of [loop]."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:
        here = args.index("--") if "--" in args else len(args)
        ctx.meta["overrides"] = args[here + 1 :]
        return super().parse_args(ctx, args[:here])


@app.command("check", cls=Command, epilog="\b\nExamples:\n" + EXAMPLES.strip("\n"))
def check(
    ctx: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Run directory.")],
    file: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="Settings: [loop] and a table for each command.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model")] = None,
    assigned: Annotated[
        list[str] | None, typer.Option("--set", metavar="TABLE.KEY=VALUE", help="One setting of a command.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Keep nothing.")] = False,
) -> None:
    """Check a run's settings, keep them in RUN/loop.toml, and print them as assignments of a shell."""
    options = {"model": model} if model else {}
    settings, tables = resolve(file, options, assigned or ())
    overrides = ctx.meta["overrides"]
    check_files(settings, tables)
    path, text = Path(run, FILE), to_toml(settings, tables)
    fresh = not path.exists()
    if not fresh and (changed := differences(path.read_text(), text)):
        raise UsageError(f"{run} was begun with other settings: {', '.join(changed)} (see {path})")
    if not dry_run:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with jsonl.atomic(path) as stream:
                stream.write(text.encode())
            if fresh:
                _would_start(path, run, overrides)
        except BaseException:
            if fresh:
                path.unlink(missing_ok=True)
            raise
    _print(settings, tables, run=run, fresh=fresh and not dry_run, overrides=overrides, text=text)


def _would_start(path: Path, run: str, overrides: list[str]) -> None:
    """Asks each command whether it takes its table; the first that does not ends this one with its message and exit code."""
    for name in STAGES:
        words = [name, "--config", str(path), "--dry-run"]
        if name == "train":
            words += ["--run", run, *(["--", *overrides] if overrides else [])]
        done = subprocess.run(
            [sys.executable, "-m", "coevolve_cli.main", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if done.returncode:
            error = CoevolveError(done.stderr.strip().removeprefix("coevolve: "))
            error.exit = done.returncode
            raise error


def _print(settings: LoopSettings, tables: dict[str, Any], *, overrides: list[str], **more: Any) -> None:
    values = {name: getattr(settings, name) for name in LoopSettings.__struct_fields__}
    values |= {name: tables["train"].get(name) for name in ("backend", "preset")}
    values |= {"model": tables["train"].get("model"), **more}
    for name, value in values.items():
        word = {True: "yes", False: "", None: ""}.get(value, value) if not isinstance(value, tuple) else " ".join(value)
        print(f"{name}={shlex.quote(str(word))}")
    print(f"overrides=({' '.join(map(shlex.quote, overrides))})")
