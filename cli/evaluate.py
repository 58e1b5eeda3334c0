"""`coevolve evaluate`: how well a policy does, with intervals; of rollouts that exist, or of a policy that is run now."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar

from coevolve import evaluation, jsonl
from coevolve.environments.client import Pools
from coevolve.errors import Partial, UsageError
from coevolve.evaluation import RolloutResult
from coevolve.jsonl import Line
from coevolve.options import Option, Settings
from coevolve.records import Rollout
from coevolve_cli.model_options import PlayerOptions
from coevolve_cli.options import Files
from coevolve_cli.played import Played
from coevolve_cli.rollout import PlayedTasks
from coevolve_cli.streams import EnvOptions, RunDir, Stage, Streams

if TYPE_CHECKING:
    from coevolve.agents.drivers import Policy

EXAMPLES = """
  coevolve evaluate rollouts.jsonl
  coevolve evaluate --model runs/a/policy --env desk --split heldout --samples 4 --rollouts after.jsonl > after.eval.jsonl
  coevolve evaluate after.jsonl --against before.jsonl --mean kinds
  coevolve evaluate --env bfcl --model Qwen/Qwen3-4B --prompt-style qwen-fc --official
  coevolve evaluate after.jsonl --against before.jsonl --weak-by dev-before.jsonl --weak-below .5
"""


class EvaluateOptions(Settings, frozen=True, kw_only=True):
    PANEL: ClassVar[str] = "Evaluation"

    by: Annotated[
        str,
        Option(
            "Groups of tasks that get a figure of their own: kind, difficulty, split, tag; none for the overall figure only.",
            metavar="GROUPING,…",
        ),
    ] = "kind,difficulty,split,tag"
    against: Annotated[
        str | None,
        Option(
            "Rollouts of another policy: the difference to them, paired task by task.",
            metavar="FILE",
            file="in",
        ),
    ] = None
    official: Annotated[
        bool,
        Option(
            "BFCL's own evaluation, too (coevolve env install bfcl-official); plays the split base if no tasks are named."
        ),
    ] = False
    rollouts: Annotated[
        str | None, Option("With --model: keep the rollouts here.", metavar="FILE", file="out")
    ] = None
    mean: Annotated[
        str,
        Option(
            "What the overall figure is a mean of.",
            advanced=True,
            choices={
                "tasks": "every task counts alike",
                "kinds": "every kind of task counts alike",
            },
        ),
    ] = "tasks"
    weak_by: Annotated[
        str | None,
        Option(
            "A base policy's rollouts of other tasks, which tell the kinds of task it was weak at.",
            metavar="FILE",
            advanced=True,
            file="in",
        ),
    ] = None
    weak_below: Annotated[
        float, Option("With --weak-by: success below this is weak.", advanced=True, ge=0, le=1)
    ] = 0.5


def command(
    files: Files,
    options: EvaluateOptions,
    player: PlayerOptions,
    where: EnvOptions,
    which: PlayedTasks,
    run: RunDir,
    io: Streams,
) -> None:
    """Measure success: overall and by group, 95 % intervals over tasks, pass@k, paired differences. A table goes to stderr.

    With --model the policy is run on the tasks now; without it the input is rollouts.
    """
    official, model, split = options.official, player.model, which.split
    groupings = evaluation.groupings(options.by)
    if official and model and where.env and not files:
        split = split or "base"
    if split and not (where.env and model):
        raise UsageError("--split needs --env and --model: whose tasks, played by whom?")
    if split and files:
        raise UsageError(
            f"--split {split} plays the environment's own tasks: name no file, or leave --split out"
        )
    if options.rollouts and not model:
        raise UsageError("--rollouts needs --model: the input is rollouts already")
    if official:
        from coevolve_cli import official as bfcl

        bfcl.check()
    other = _read(options.against) if options.against else None
    base = _read(options.weak_by) if options.weak_by else None
    with (
        player.player("evaluate", run=run.run, quiet=io.quiet) as (player, at_server),
        io.stage("evaluate", files, reads=not split) as s,
    ):
        played, lines = Played(s), {}
        if model:
            pools = Pools(where.workers, where.env, any_version=where.any_version)
            how = {"samples": which.samples, "seed": which.seed, "max_steps": player.max_actions}
            results = _play(
                played,
                player.policy(at_server),
                pools,
                where.env,
                split,
                which.limit,
                options.rollouts,
                how,
            )
        elif official:
            lines = {line.record.id: line for line in s.read(Rollout)}
            results = (line.record for line in lines.values())
        else:
            results = (line.record for line in s.read(RolloutResult))
        if official:
            results = whole = bfcl.fit(
                results, lambda rollout, reason: _refuse(s, lines.get(rollout.id), reason)
            )
        tried = evaluation.collect(
            evaluation.result(r) if isinstance(r, Rollout) else r for r in results
        )
        played.env_faults.stop()
        records = list(
            evaluation.report(
                tried,
                by=groupings,
                over=options.mean,
                other=other,
                base=base,
                below=options.weak_below,
            )
        )
        if official:
            scored = bfcl.score(whole, s)
            records += scored.records
        for record in records:
            s.write(record)
        if records and not io.quiet:
            print("\n".join(evaluation.table(records)), file=sys.stderr)
    if official and scored.missing:
        raise Partial(scored.missing)
    played.env_faults.end()


def _refuse(s: Stage, line: Line[Rollout] | None, reason: str) -> None:
    if line is None:
        raise UsageError(reason)
    s.reject(line, reason)


def _read(path: str) -> list[RolloutResult]:
    return [line.record for line in jsonl.read([path], RolloutResult)]


def _play(
    played: Played,
    policy: Policy,
    running: Pools,
    env: str | None,
    split: str | None,
    limit: int | None,
    keep: str | None,
    how: dict[str, int | None],
) -> Iterator[Rollout]:
    """Plays tasks environment by environment; the rollouts are kept, whole or not at all, where `keep` says."""
    from coevolve.agents.rollout import rollouts

    with running as pools, jsonl.atomic(keep or os.devnull) as kept:
        wanted = itertools.islice(pools(env).tasks(split) if split else played.tasks(), limit)
        for name, group in itertools.groupby(wanted, key=lambda task: task.env):
            pool = pools(env or name)
            for rollout in rollouts(group, policy, pool, **how):
                if played.take(rollout):
                    kept.write(jsonl.encode(rollout))
                    yield rollout
