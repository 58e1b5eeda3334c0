"""The options that stages share: where records come from and go, which environment plays."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, ClassVar

from coevolve.options import Advanced, Option, Settings
from coevolve_cli.streams import Stage, stage


class Output(Settings, frozen=True, kw_only=True):
    """Where records go."""

    PANEL: ClassVar[str] = "Input and output"

    output: Annotated[str, Option(short="-o", file="main")] = "-"
    """File to write, whole or not at all (packed for .gz and .zst); - is standard output."""
    quiet: Annotated[bool, Advanced(short="-q")] = False
    """Print no progress and no summary."""

    def listing(self, name: str) -> AbstractContextManager[Stage]:
        """The output of a command that reads nothing and sums nothing up."""
        return stage(name, None, self.output, quiet=True, reads=False)


class Streams(Output, frozen=True, kw_only=True):
    """Input and output of a stage, and what becomes of lines that are no records."""

    rejects: Annotated[str | None, Advanced(file="out")] = None
    """Keep what was set aside here, with the reason."""
    on_error: Annotated[
        str, Advanced(choices={"fail": "stop (exit 3)", "skip": "set it aside and go on"})
    ] = "fail"
    """What to do at a line that is no record."""
    max_errors: Annotated[str | None, Advanced(metavar="N|P%")] = None
    """With --on-error skip: stop beyond so many bad lines."""
    exit_status: Annotated[bool, Advanced(short="-e")] = False
    """Exit 4 if nothing was written."""

    def stage(
        self, name: str, files: list[str] | None, *, reads: bool = True
    ) -> AbstractContextManager[Stage]:
        options = ("quiet", "rejects", "on_error", "max_errors", "exit_status")
        how = {option: getattr(self, option) for option in options}
        return stage(name, files, self.output, reads=reads, **how)


ENVIRONMENT = "Environment"
AnyVersion = Annotated[
    bool,
    Advanced(
        "Take records made with another version of their environment, with a warning.",
        panel=ENVIRONMENT,
    ),
]
Workers = Annotated[
    int,
    Advanced(
        "Environment processes side by side; the output does not depend on it.",
        panel=ENVIRONMENT,
        ge=1,
    ),
]


class EnvStreams(Streams, frozen=True, kw_only=True):
    """The same for a stage that plays in an environment."""

    env: Annotated[
        str | None,
        Option(panel=ENVIRONMENT, metavar="NAME|COMMAND", default="the one that the records name"),
    ] = None
    """The environment: desk, bfcl, appworld, or the command line of one of yours. A command line
    that stands in records runs only if it is named here."""
    workers: Workers = 1
    any_version: AnyVersion = False


class RunStreams(EnvStreams, frozen=True, kw_only=True):
    """The same for a stage that may belong to a run."""

    run: Annotated[str | None, Advanced(metavar="DIR")] = None
    """Directory of the run: journals, and what models took."""

    def in_run(self, name: str) -> Path | None:
        """A file of the run; None without one."""
        return Path(self.run) / name if self.run else None
