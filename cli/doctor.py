"""`coevolve doctor`: which interpreter holds what, and what each command lacks, with the install
line."""

from __future__ import annotations

import platform
import sys
from typing import Annotated

import typer

from coevolve.doctor import Part, Use, parts, uses
from coevolve.errors import Unreachable, UsageError
from coevolve.options import nearest
from coevolve_cli.stage_options import Output


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="Parts that must be there: local, models, verl, vllm, gpu, an environment.",
            show_default=False,
        ),
    ],
    io: Output,
) -> None:
    """Print what is installed where, and what each command lacks, as JSON lines; a table goes to
    stderr.

    Exit 0 whatever is missing, unless you name it.
    """
    found = parts()
    known = [part.part for part in found]
    for name in names or []:
        if name not in known:
            near = nearest(name, known) or f"; there are: {', '.join(known)}"
            raise UsageError(f"no part {name!r}{near}")
    shown = [part for part in found if not names or part.part in names]
    commands = [] if names else uses(found)
    with io.listing("doctor") as s:
        for record in (*shown, *commands):
            s.write(record)
    if not io.quiet:
        print(f"python {platform.python_version()}  {sys.executable}", file=sys.stderr)
        print("\n".join(map(_line, (*shown, *commands))), file=sys.stderr)
    if names and (gone := [part for part in shown if not part.ok]):
        lines = [
            f"{part.part} lacks {', '.join(part.missing)}"
            + (f": {part.install}" if part.install else "")
            for part in gone
        ]
        raise Unreachable("; ".join(lines))


def _line(record: Part | Use) -> str:
    mark = "ok     " if record.ok else "MISSING"
    if isinstance(record, Use):
        lacks = "; ".join(record.install) or ", ".join(record.missing)
        return f"{mark}  {record.command:<40}  {lacks}".rstrip()
    told = ", ".join(f"{name} {value}" for name, value in record.found.items())
    lacks = f"lacks {', '.join(record.missing)}" if record.missing else ""
    rest = "  ".join(filter(None, (told, lacks, record.install)))
    return f"{mark}  {record.part:<14}  {rest}".rstrip()
