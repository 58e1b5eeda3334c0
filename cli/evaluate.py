"""`coevolve evaluate`: how well a policy does, with intervals; of rollouts that exist, or of a
policy that is run now."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec

from coevolve import evaluation, jsonl
from coevolve.environments.client import Pools
from coevolve.errors import Partial, UsageError
from coevolve.evaluation import RolloutResult
from coevolve.options import Advanced, Option, Settings
from coevolve.records import Rollout
from coevolve_cli.model_options import PlayerOptions
from coevolve_cli.options import Files
from coevolve_cli.played import Played, PlayedTasks
from coevolve_cli.stage_options import RunStreams

if TYPE_CHECKING:
    from coevolve.agents.drivers import Policy


class EvaluateOptions(Settings, frozen=True, kw_only=True):
    PANEL: ClassVar[str] = "Evaluation"

    by: Annotated[str, Option(metavar="GROUPING,…")] = "kind,difficulty,split,tag"
    """What tasks are grouped by: kind, difficulty, split, tag; none for the total only."""
    against: Annotated[str | None, Option(file="in")] = None
    """Rollouts of another policy, to be compared with task by task."""
    official: Annotated[bool, Option()] = False
    """BFCL's own evaluation, too (coevolve env install bfcl-official); plays the split base if no
    tasks are named."""
    rollouts: Annotated[str | None, Option(file="out")] = None
    """With --model: keep the rollouts here."""
    mean: Annotated[
        str, Advanced(choices={"tasks": "every task", "kinds": "every kind of task"})
    ] = "tasks"
    """What counts alike in the overall figure."""
    weak_by: Annotated[str | None, Advanced(file="in")] = None
    """A base policy's rollouts of other tasks: at which kinds of task it was weak."""
    weak_below: Annotated[float, Advanced(ge=0, le=1)] = 0.5
    """With --weak-by: success below this is weak."""


def command(
    files: Files,
    options: EvaluateOptions,
    policy: PlayerOptions,
    which: PlayedTasks,
    io: RunStreams,
) -> None:
    """Measure success: overall and by group, 95 % intervals over tasks, pass@k, paired differences.
    A table goes to stderr.

    With --model the policy is run on the tasks now; without it the input is rollouts.
    """
    official, model = options.official, policy.model
    groupings = evaluation.groupings(options.by)
    if official and model and io.env and not files and not which.split:
        which = msgspec.structs.replace(which, split="base")
    which.check(files, io.env, model)
    if options.rollouts and not model:
        raise UsageError("--rollouts needs --model: the input is rollouts already")
    if official:
        from coevolve_cli import official as bfcl

        bfcl.check()
    other = _read(options.against) if options.against else None
    base = _read(options.weak_by) if options.weak_by else None
    with (
        policy.player("evaluate", io) as (player, at_server),
        io.stage("evaluate", files, reads=not which.split) as s,
    ):
        played, lines = Played(s), {}
        if model:
            how = {"samples": which.samples, "seed": which.seed, "max_steps": player.max_actions}
            results = _play(played, player.policy(at_server), which, io, options.rollouts, how)
        elif official:
            lines = {line.record.id: line for line in s.read(Rollout)}
            results = (line.record for line in lines.values())
        else:
            results = (line.record for line in s.read(RolloutResult))
        if official:

            def refuse(rollout: Rollout, reason: str) -> None:
                if rollout.id not in lines:
                    raise UsageError(reason)
                s.reject(lines[rollout.id], reason)

            results = whole = bfcl.fit(results, refuse)
        tried = evaluation.collect(
            evaluation.result(r) if isinstance(r, Rollout) else r for r in results
        )
        played.env_faults.stop()
        compared = {"other": other, "base": base, "below": options.weak_below}
        records = list(evaluation.report(tried, by=groupings, over=options.mean, **compared))
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


def _read(path: str) -> list[RolloutResult]:
    return [line.record for line in jsonl.read([path], RolloutResult)]


def _play(
    played: Played,
    policy: Policy,
    which: PlayedTasks,
    io: RunStreams,
    keep: str | None,
    how: dict[str, Any],
) -> Iterator[Rollout]:
    """Plays tasks environment by environment; the rollouts are kept, whole or not at all, where
    `keep` says."""
    from coevolve.agents.rollout import rollouts

    with (
        Pools(io.workers, io.env, any_version=io.any_version) as pools,
        jsonl.atomic(keep or os.devnull) as kept,
    ):
        tasks = which.chosen(pools, io.env, played)
        for name, group in itertools.groupby(tasks, key=lambda task: task.env):
            for rollout in rollouts(group, policy, pools(io.env or name), **how):
                if played.take(rollout):
                    kept.write(jsonl.encode(rollout))
                    yield rollout
