"""`coevolve schema NAME`: the JSON Schema of a record type, from the types themselves."""

from __future__ import annotations

from typing import Annotated

import msgspec
import orjson
import typer

from coevolve.errors import UsageError
from coevolve.records import RECORDS
from coevolve_cli.streams import open_output


def command(
    name: Annotated[str, typer.Argument(metavar="|".join(RECORDS), help="The record type.")],
) -> None:
    """Print the JSON Schema of a record type."""
    if name not in RECORDS:
        raise UsageError(f"no record type {name!r}; there are: {', '.join(RECORDS)}")
    with open_output("-") as out:
        option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
        out.write(orjson.dumps(msgspec.json.schema(RECORDS[name]), option=option))
