"""`coevolve extract-signals`: rollouts in, the policy's weaknesses out."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated

import typer

from coevolve.errors import UsageError
from coevolve.signals import history as outcomes
from coevolve.signals import inventory, options
from coevolve.signals.extract import extraction
from coevolve.signals.kinds import needs_steps
from coevolve.signals.settings import Settings
from coevolve.signals.summary import lines, notes
from coevolve.signals.views import RolloutHead, RolloutSteps
from coevolve_cli import streams

EXAMPLES = """
  coevolve extract-signals rollouts.jsonl > signals.jsonl
  coevolve extract-signals --summary rollouts.jsonl | head -1
  coevolve extract-signals rollouts.jsonl --history run/history.jsonl --env desk --max-signals 60 | coevolve explore
  coevolve extract-signals --mode paper --signals forgetting,boundary shard-*.jsonl.gz
"""

D = Settings()


# fmt: off
def command(
    files: streams.Files = None,
    output: streams.Output = "-",
    history: Annotated[str | None, typer.Option(metavar="FILE", help="Earlier outcomes, read and brought up to date; without it the input is its own history.", show_default=False)] = None,
    mode: Annotated[str, typer.Option(metavar="calibrated|paper", help="Tests with controlled error, or the paper's three rules to the letter.")] = D.mode,
    signals: Annotated[str | None, typer.Option(metavar="KIND,…", help="Which kinds (default: all of the mode).", show_default=False)] = None,
    max_signals: Annotated[int | None, typer.Option(min=0, help="At most this many per update (one iteration of one environment), by quota; 0: all (default: 200; paper: 0).", show_default=False)] = None,
    quota: Annotated[str | None, typer.Option(metavar="KIND=WEIGHT,…", help="Weights of kinds against each other; 0 leaves a kind out.", show_default=False)] = None,
    env: streams.Env = None,
    tools: Annotated[str | None, typer.Option(metavar="FILE", help="The inventory as JSON ([{name, app}], or a worker's describe), instead of --env.", show_default=False)] = None,
    window: Annotated[int, typer.Option(min=1, max=outcomes.KEEP, help="Forgetting: W, earlier groups of the task.")] = D.window,
    alpha: Annotated[float, typer.Option(min=0, max=1, help="Level of the exact tests.")] = D.alpha,
    band: Annotated[str, typer.Option(metavar="LOW,HIGH", help="Boundary: learnable solve rates.")] = "0.2,0.8",
    band_mass: Annotated[float, typer.Option(min=0, max=1, help="Boundary: least posterior probability of the band.")] = D.band_mass,
    patterns: Annotated[str | None, typer.Option(metavar="FAMILY,…", help="1gram, 2gram, 3gram, keys, app (default: 1gram,2gram; paper: 2gram).", show_default=False)] = None,
    min_observations: Annotated[int, typer.Option(min=0, help="Rare: N_min, (rollout, pattern) pairs.")] = D.min_observations,
    theta: Annotated[float, typer.Option(min=0, help="Rare in paper mode: percentage below which a pattern is rare.")] = D.theta,
    rare_share: Annotated[float, typer.Option(min=0, help="Rare, calibrated: part of an equal share below which a pattern is rare.")] = D.rare_share,
    rate_floor: Annotated[float, typer.Option(min=0, max=1, help="Error, stall: the rate must surely exceed this.")] = D.rate_floor,
    max_evidence: Annotated[int, typer.Option(min=1, help="Trajectories a signal carries.")] = D.max_evidence,
    observation_chars: Annotated[int, typer.Option(min=0, help="Cut longer observations in the evidence.")] = D.observation_chars,
    summary: Annotated[bool, typer.Option("--summary", help="Counts and the most telling signals, on stderr.")] = False,
    on_error: streams.OnError = "fail",
    max_errors: streams.MaxErrors = None,
    rejects: streams.Rejects = None,
    quiet: streams.Quiet = False,
    exit_status: streams.ExitStatus = False,
    config: streams.Config = None,
) -> None:
    # fmt: on
    """Read rollouts, print the policy's weaknesses as signals, each with its statistic, its task and its evidence."""
    settings = Settings(
        mode, options.kinds(signals, mode), window, alpha, options.band(band), band_mass, options.families(patterns, mode),
        min_observations, theta, rare_share, rate_floor, max_evidence, observation_chars,
    )  # fmt: skip
    weights = options.weights(quota)
    limit = max_signals if max_signals is not None else 0 if mode == "paper" else 200
    known = _inventory(env, tools)
    if known is None and signals and "unexplored" in settings.kinds:
        raise UsageError("--signals unexplored needs the environment's inventory: --env NAME or --tools FILE")
    past = outcomes.load(history) if history else None
    faults = streams.Faults(on_error, max_errors, rejects)
    with streams.stage("extract-signals", files, output, faults, quiet=quiet, exit_status=exit_status) as s:
        rollouts = s.read(RolloutSteps) if needs_steps(settings) else s.read(RolloutHead, head=True)
        with extraction(
            rollouts, settings, history=past, inventory=known, max_signals=limit, weights=weights, reject=s.reject
        ) as found:
            if history:
                outcomes.update(history, found.renewed)
            if summary:
                with contextlib.suppress(OSError):  # the records do not depend on whether anybody can be told
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
