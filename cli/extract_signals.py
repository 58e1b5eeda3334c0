"""`coevolve extract-signals`: rollouts in, the policy's weaknesses out."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

from coevolve.errors import UsageError
from coevolve.options import Advanced, Option
from coevolve.signals import history as outcomes
from coevolve.signals import inventory
from coevolve.signals.extract import extraction
from coevolve.signals.kinds import WEIGHTS, needs_steps
from coevolve.signals.options import SignalOptions
from coevolve.signals.summary import lines, notes
from coevolve.signals.views import RolloutHead, RolloutSteps
from coevolve_cli.options import Files, Invocation
from coevolve_cli.stage_options import Streams


class SignalStreams(Streams, frozen=True, kw_only=True):
    history: Annotated[str | None, Option(default="the input is its own history", file="out")] = (
        None
    )
    """Outcomes of earlier iterations: read, and brought up to date."""
    env: Annotated[str | None, Option(metavar="NAME|COMMAND")] = None
    """The environment (name or command line) whose tools `unexplored` and `unknown_tool` know."""
    tools: Annotated[str | None, Advanced(file="in")] = None
    """Its tools as JSON ([{name, app}], or a worker's describe), instead of --env."""
    summary: Annotated[bool, Option()] = False
    """Print counts and the strongest signals on stderr."""


def command(files: Files, settings: SignalOptions, io: SignalStreams, call: Invocation) -> None:
    """Read rollouts, print the policy's weaknesses as signals, each with its statistic, its task
    and its evidence."""
    if call.dry_run:
        return call.plan()
    known = _inventory(io.env, io.tools)
    needing = [kind for kind in ("unexplored", "unknown_tool") if kind in settings.kinds]
    if known is None and "kinds" in call.given and needing:
        raise UsageError(
            f"--kinds {needing[0]} needs the environment's inventory: --env NAME or --tools FILE"
        )
    past = outcomes.load(io.history) if io.history else None
    with io.stage("extract-signals", files) as s:
        rollouts = s.read(RolloutSteps) if needs_steps(settings) else s.read(RolloutHead, head=True)
        with extraction(
            rollouts,
            settings,
            history=past,
            inventory=known,
            max_signals=settings.max_signals,
            weights=WEIGHTS | settings.quota,
            reject=s.reject,
        ) as found:
            if io.history:
                outcomes.update(io.history, found.renewed)
            if io.summary:
                # The records do not depend on whether anybody can be told.
                with contextlib.suppress(OSError):
                    print("\n".join(lines(found)), file=sys.stderr, flush=True)
            for signal in found.signals():
                s.write(signal)
            for note in notes(found, known):
                s.note(note)


def _inventory(env: str | None, tools: str | None) -> inventory.Inventory | None:
    if tools:
        return inventory.load(tools)
    if not env:
        return None
    from coevolve.environments.client import Pool

    with Pool(env) as pool:
        return inventory.inventory(pool.name, {name: tool.app for name, tool in pool.tools.items()})
