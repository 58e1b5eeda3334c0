"""`coevolve rollout`: tasks in, rollouts of a policy out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from coevolve.options import Iteration, KeepTokens
from coevolve.records import Rollout, Task, content_id
from coevolve.runs import Journal, journal_path
from coevolve_cli.model_options import Player, PlayerOptions
from coevolve_cli.options import Files, Invocation
from coevolve_cli.played import PlayedTasks
from coevolve_cli.stage_options import RunStreams
from coevolve_cli.streams import progress


class RolloutTasks(PlayedTasks, frozen=True, kw_only=True):
    keep_tokens: KeepTokens = False
    iteration: Iteration = 0


class RolloutPlayer(PlayerOptions, frozen=True, kw_only=True):
    """If no other policy is named, the task's own solution plays."""

    model: Player = "solution"


def command(
    files: Files, options: RolloutPlayer, which: RolloutTasks, io: RunStreams, call: Invocation
) -> None:
    """Run a policy on tasks and print one rollout per task and sample, in that order.

    With -o, what is finished is kept in OUT.journal: a call that was killed goes on where it was.
    """
    from coevolve.agents.rollout import resumed, rollouts
    from coevolve.environments.client import Pools
    from coevolve_cli.played import Played

    which.check(files, io.env, options.model)
    if call.dry_run:
        return call.plan(rollouts_per_task=which.samples)
    with (
        options.player("rollout", io) as (player, at_server),
        io.stage("rollout", files, reads=not which.split) as s,
    ):
        with (
            Pools(io.workers, io.env, any_version=io.any_version) as pools,
            progress("rollouts", quiet=io.quiet) as advance,
        ):
            played = Played(s)
            tasks = list(which.chosen(pools, io.env, played))
            policy = player.policy(at_server)
            how = {"samples": which.samples, "seed": which.seed, "iteration": which.iteration}
            how |= {"max_steps": player.max_actions, "keep_tokens": which.keep_tokens}
            inputs = content_id([task.id for task in tasks])
            journal = Journal(
                journal_path(io.output), {**how, **player.identity(policy), "tasks": inputs}
            )

            def play(rest: list[Task]) -> Iterator[Rollout]:
                for name, group in itertools.groupby(rest, key=lambda task: task.env):
                    yield from rollouts(group, policy, pools(io.env or name), **how)

            for rollout in resumed(tasks, play, journal, policy, which.samples):
                if played.take(rollout):
                    s.write(rollout)
                advance(1)
            played.env_faults.stop()
        if journal.reused:
            s.note("went on from the journal")
        if at_server:
            at_server.kept = s.written
        if lost := played.env_faults.lost:
            s.note(f"{lost} lost (stop_reason env_error), the last one: {played.env_faults.fault}")
    journal.close(finished=not played.env_faults.lost)
    played.env_faults.end()
