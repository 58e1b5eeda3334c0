"""`coevolve report`: what happened in a run, iteration by iteration."""

from __future__ import annotations

from itertools import dropwhile
from operator import not_
from typing import Annotated

import typer

from coevolve import jsonl
from coevolve.options import Option
from coevolve.reporting import model_calls, run, text
from coevolve_cli.stage_options import Output
from coevolve_cli.streams import open_output


class ReportOptions(Output, frozen=True, kw_only=True):
    json: Annotated[bool, Option()] = False
    """Print one record per iteration instead of the table."""


def command(
    directory: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="Run directory of shell/train_loop.sh, or of stages with --run."
        ),
    ],
    io: ReportOptions,
) -> None:
    """Print the table of a run: tasks, training success, signals by kind, explored, abstracted,
    valid, merged; its evaluations.

    Where models at a server were called (stages with --run), a table says what they took, by stage
    and per valid task.
    """
    iterations = run.read(directory)
    with open_output(io.output) as out:
        if io.json:
            out.writelines(map(jsonl.encode, iterations))
        else:
            calls = model_calls.read(directory)
            valid = (
                sum(iteration.valid or 0 for iteration in iterations)
                if iterations
                else model_calls.valid(calls)
            )
            shown = [
                *text.lines(iterations, run.evaluations(directory)),
                *model_calls.lines(calls, valid),
            ]
            out.writelines(f"{line}\n".encode() for line in dropwhile(not_, shown))
