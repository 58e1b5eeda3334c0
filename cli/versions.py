"""The option of all commands that play or judge records: what was made with another version of its environment is refused."""

from __future__ import annotations

from typing import Annotated

import typer

AnyVersion = Annotated[
    bool,
    typer.Option(
        "--any-version",
        help="Take records made with another version of their environment, with a warning.",
    ),
]
