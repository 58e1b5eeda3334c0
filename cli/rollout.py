"""`coevolve rollout`: tasks in, rollouts of a policy out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Annotated

import typer

from coevolve.errors import UsageError
from coevolve.records import Rollout, Task, content_id
from coevolve.runs import Journal, journal_path
from coevolve_cli import streams
from coevolve_cli.model_options import ModelOptions, with_model_options
from coevolve_cli.versions import AnyVersion
from coevolve_cli.vllm_options import Backend, VllmArgs, serving

EXAMPLES = """
  coevolve rollout tasks.jsonl --policy runs/a/policy --samples 8 > rollouts.jsonl
  coevolve env tasks bfcl --split base | coevolve rollout --policy solution > solved.jsonl
  coevolve rollout tasks.jsonl --policy Qwen/Qwen3-4B --base-url http://localhost:8000/v1
  coevolve rollout --env desk --split heldout --limit 100 --policy nothing
"""


@with_model_options
def command(
    ctx: typer.Context,
    files: streams.Files = None,
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            "--model",
            metavar="NAME",
            help="solution, nothing, hollow, random; a Hugging Face directory or id; a model at --base-url; a trainer's READY.json.",
        ),
    ] = "solution",
    env: streams.Env = None,
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            help="The environment's own tasks of this split instead of input (with --env).",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, help="The first N tasks only.", show_default=False),
    ] = None,
    samples: Annotated[int, typer.Option("--samples", "-k", min=1, help="Rollouts per task.")] = 1,
    temperature: Annotated[
        float, typer.Option("--temperature", min=0, help="Of a model; 0 decodes greedily.")
    ] = 1.0,
    max_steps: Annotated[
        int | None,
        typer.Option(
            "--max-steps",
            min=1,
            help="Actions per episode; default: the environment's.",
            show_default=False,
        ),
    ] = None,
    max_episode_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-episode-tokens",
            min=1,
            help="Tokens per episode of a local model; default: what it was made for.",
            show_default=False,
        ),
    ] = None,
    max_turn_tokens: Annotated[
        int | None,
        typer.Option("--max-turn-tokens", min=1, help="Tokens per reply.", show_default=False),
    ] = None,
    keep_tokens: Annotated[
        bool, typer.Option("--keep-tokens", help="Keep token ids, mask and log-probabilities.")
    ] = False,
    iteration: Annotated[
        int, typer.Option("--iteration", min=0, help="Iteration to note in the records.")
    ] = 0,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads",
            min=1,
            help="Torch threads; default OMP_NUM_THREADS, else 1.",
            show_default=False,
        ),
    ] = None,
    backend: Backend = "local",
    vllm_args: VllmArgs = None,
    prompt: streams.Prompt = "tools",
    any_version: AnyVersion = False,
    seed: streams.Seed = 0,
    workers: streams.Workers = 1,
    output: streams.Output = "-",
    on_error: streams.OnError = "fail",
    max_errors: streams.MaxErrors = None,
    rejects: streams.Rejects = None,
    dry_run: streams.DryRun = False,
    quiet: streams.Quiet = False,
    exit_status: streams.ExitStatus = False,
    config: streams.Config = None,
    run: streams.RunDir = None,
    *,
    models: ModelOptions,
) -> None:
    """Run a policy on tasks and print one rollout per task and sample, in that order.

    With -o, what is finished is kept in OUT.journal: a call that was killed goes on where it was.
    """
    from coevolve.agents.rollout import make_policy, resumed, rollouts
    from coevolve.environments.client import Pools
    from coevolve_cli.played import Played

    if split and not env:
        raise UsageError("--split needs --env: whose tasks?")
    if split and files:
        raise UsageError(
            f"--split {split} plays the environment's own tasks: name no file, or leave --split out"
        )
    if dry_run:
        streams.dry_run(ctx, rollouts_per_task=samples)
        return
    faults = streams.Faults(on_error, max_errors, rejects)
    with (
        serving(backend, policy, vllm_args, models) as (policy, models),
        models.if_at_server("rollout", run=run, quiet=quiet) as at_server,
        streams.stage(
            "rollout", files, output, faults, quiet=quiet, exit_status=exit_status, reads=not split
        ) as s,
    ):
        with (
            Pools(workers, env, any_version=any_version) as pools,
            streams.progress("rollouts", quiet=quiet) as advance,
        ):
            played = Played(s)
            tasks = list(
                itertools.islice(pools(env).tasks(split) if split else played.tasks(), limit)
            )
            player = make_policy(
                policy,
                models=at_server,
                temperature=temperature,
                max_tokens=max_episode_tokens,
                max_turn_tokens=max_turn_tokens,
                threads=threads,
                prompt=prompt,
            )
            options = {
                "samples": samples,
                "seed": seed,
                "iteration": iteration,
                "max_steps": max_steps,
                "keep_tokens": keep_tokens,
            }
            limits = {
                "temperature": temperature,
                "max_tokens": max_episode_tokens,
                "max_turn_tokens": max_turn_tokens,
            }
            settings = {
                **options,
                **limits,
                "policy": player.name,
                "prompt": prompt,
                "tasks": content_id([task.id for task in tasks]),
            }
            journal = Journal(journal_path(output), settings)

            def play(rest: list[Task]) -> Iterator[Rollout]:
                for name, group in itertools.groupby(rest, key=lambda task: task.env):
                    yield from rollouts(group, player, pools(env or name), **options)

            for rollout in resumed(tasks, play, journal, player, samples):
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
