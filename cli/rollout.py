"""`coevolve rollout`: tasks in, rollouts of a policy out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated, ClassVar

from coevolve.errors import UsageError
from coevolve.options import Iteration, KeepTokens, Option, Samples, Seed, Settings
from coevolve.records import Rollout, Task, content_id
from coevolve.runs import Journal, journal_path
from coevolve_cli.model_options import Player, PlayerOptions
from coevolve_cli.options import Call, Files
from coevolve_cli.streams import EnvOptions, RunDir, Streams, progress

EXAMPLES = """
  coevolve rollout tasks.jsonl --model runs/a/policy --samples 8 > rollouts.jsonl
  coevolve env tasks bfcl --split base | coevolve rollout --model solution > solved.jsonl
  coevolve rollout tasks.jsonl --model Qwen/Qwen3-4B --base-url http://localhost:8000/v1
  coevolve rollout --env desk --split heldout --limit 100 --model nothing
"""


class PlayedTasks(Settings, frozen=True, kw_only=True):
    """Which tasks are played, and how often."""

    PANEL: ClassVar[str] = "Tasks"

    split: Annotated[
        str | None,
        Option(
            "Play the environment's own tasks of this split instead of an input (with --env).",
            metavar="NAME",
        ),
    ] = None
    limit: Annotated[int | None, Option("The first N tasks only.", default="all", ge=1)] = None
    samples: Samples = 1
    seed: Seed = 0


class RolloutOptions(Settings, frozen=True, kw_only=True):
    PANEL: ClassVar[str] = "Tasks"

    keep_tokens: KeepTokens = False
    iteration: Iteration = 0


class RolloutPlayer(PlayerOptions, frozen=True, kw_only=True):
    """The task's own solution is what plays if no other policy is named."""

    model: Player = "solution"


def command(
    files: Files,
    player: RolloutPlayer,
    where: EnvOptions,
    which: PlayedTasks,
    own: RolloutOptions,
    run: RunDir,
    io: Streams,
    call: Call,
) -> None:
    """Run a policy on tasks and print one rollout per task and sample, in that order.

    With -o, what is finished is kept in OUT.journal: a call that was killed goes on where it was.
    """
    from coevolve.agents.rollout import resumed, rollouts
    from coevolve.environments.client import Pools
    from coevolve_cli.played import Played

    if which.split and not where.env:
        raise UsageError("--split needs --env: whose tasks?")
    if which.split and files:
        raise UsageError(
            f"--split {which.split} plays the environment's own tasks: name no file, or leave --split out"
        )
    if call.dry_run:
        return call.plan(rollouts_per_task=which.samples)
    with (
        player.player("rollout", run=run.run, quiet=io.quiet) as (player, at_server),
        io.stage("rollout", files, reads=not which.split) as s,
    ):
        with (
            Pools(where.workers, where.env, any_version=where.any_version) as pools,
            progress("rollouts", quiet=io.quiet) as advance,
        ):
            played = Played(s)
            source = pools(where.env).tasks(which.split) if which.split else played.tasks()
            tasks = list(itertools.islice(source, which.limit))
            policy = player.policy(at_server)
            options = {
                "samples": which.samples,
                "seed": which.seed,
                "iteration": own.iteration,
                "max_steps": player.max_actions,
                "keep_tokens": own.keep_tokens,
            }
            about = {
                **options,
                **player.identity(policy),
                "tasks": content_id([task.id for task in tasks]),
            }
            journal = Journal(journal_path(io.output), about)

            def play(rest: list[Task]) -> Iterator[Rollout]:
                for name, group in itertools.groupby(rest, key=lambda task: task.env):
                    yield from rollouts(group, policy, pools(where.env or name), **options)

            for rollout in resumed(tasks, play, journal, policy, which.samples):
                if played.take(rollout):
                    s.write(rollout)
                advance(1)
            played.env_faults.stop()
        if journal.reused:
            s.note("went on from the journal")
        if at_server:
            at_server.kept = s.written
        if played.env_faults.lost:
            s.note(f"{played.env_faults.lost} lost to environment errors (stop_reason env_error)")
    journal.close(finished=not played.env_faults.lost)
    played.env_faults.end()
