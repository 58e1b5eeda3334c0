"""`coevolve env install`: benchmarks in virtual environments of their own, and AppWorld's data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from coevolve.environments import appworld_root, install, registry
from coevolve.errors import UsageError
from coevolve.options import Option, Settings


class InstallOptions(Settings, frozen=True, kw_only=True):
    PANEL: ClassVar[str] = "AppWorld"

    data: Annotated[str | None, Option(metavar="DIR|BUNDLE")] = None
    """Its official data, as you have it."""
    download: Annotated[bool, Option()] = False
    """Fetch the official data from where the package says."""
    sha256: Annotated[str | None, Option(metavar="DIGEST")] = None
    """The SHA-256 digest that the data has to have."""


def install_(
    name: Annotated[str, typer.Argument(metavar="NAME", help="|".join(install.RECIPES))],
    own: InstallOptions,
) -> None:
    """Install a benchmark into a virtual environment of its own.

    It goes to $COEVOLVE_HOME/envs (default ~/.local/share/coevolve/envs). A second run changes
    nothing; an interrupted installation is built anew. For appworld a small world of our own is
    built too, in $COEVOLVE_HOME/appworld/demo, so that it runs without the official data; official
    data goes to $COEVOLVE_HOME/appworld/root, and what is there is never replaced.
    """
    known = registry.BUILT_IN.get(name)
    recipe = known.recipe if known else name
    data, download, sha256 = own.data, own.download, own.sha256
    if recipe != appworld_root.NAME and (data or download or sha256 is not None):
        raise UsageError("--data, --download and --sha256 are for appworld")
    if data and download:
        raise UsageError("--data and --download exclude one another")
    if sha256 is not None and not (data or download):
        raise UsageError("--sha256 says what the data have to be: it needs --data or --download")
    if recipe is None:
        print(f"coevolve: {name} is built in, there is nothing to install", file=sys.stderr)
        return
    install.install(recipe)
    if recipe == appworld_root.NAME:
        appworld_root.build_demo()
    if data:
        appworld_root.add_data(Path(data), sha256)
    elif download:
        appworld_root.download(sha256)
