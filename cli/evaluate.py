"""`coevolve evaluate`: how well a policy does, with intervals; of rollouts that exist, or of a policy that is run now."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from coevolve import evaluation, jsonl
from coevolve.environments.client import Pools
from coevolve.errors import Partial, UsageError
from coevolve.evaluation import Result
from coevolve.jsonl import Line
from coevolve.records import Rollout
from coevolve_cli import streams
from coevolve_cli.model_options import ModelOptions, with_model_options
from coevolve_cli.played import Played
from coevolve_cli.versions import AnyVersion
from coevolve_cli.vllm_options import Backend, VllmArgs, serving

if TYPE_CHECKING:
    from coevolve.agents.drivers import Policy

EXAMPLES = """
  coevolve evaluate rollouts.jsonl
  coevolve evaluate --policy runs/a/policy --env desk --split heldout --samples 4 --rollouts after.jsonl > after.eval.jsonl
  coevolve evaluate after.jsonl --against before.jsonl --mean kinds
  coevolve evaluate --env bfcl --policy Qwen/Qwen3-4B --prompt qwen-fc --official
  coevolve evaluate after.jsonl --against before.jsonl --weak-by dev-before.jsonl --weak-below .5
"""


# fmt: off
@with_model_options
def command(
    files: streams.Files = None,
    output: streams.Output = "-",
    policy: Annotated[str | None, typer.Option("--policy", "--model", metavar="NAME", help="Run this policy on the tasks (as in `rollout`); without it the input is rollouts.", show_default=False)] = None,
    env: streams.Env = None,
    split: Annotated[str | None, typer.Option("--split", help="The environment's own tasks of this split instead of input (with --env).", show_default=False)] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="The first N tasks only.", show_default=False)] = None,
    samples: Annotated[int, typer.Option("--samples", "-k", min=1, help="Rollouts per task.")] = 1,
    temperature: Annotated[float, typer.Option("--temperature", min=0, help="Of a model; 0 decodes greedily.")] = 1.0,
    max_steps: Annotated[int | None, typer.Option("--max-steps", min=1, help="Actions per episode; default: the environment's.", show_default=False)] = None,
    rollouts: Annotated[str | None, typer.Option("--rollouts", metavar="FILE", help="Keep the rollouts here.", show_default=False)] = None,
    by: Annotated[str, typer.Option("--by", metavar="GROUPING,…", help="kind, difficulty, split, tag; `none` for the overall figure only.")] = "kind,difficulty,split,tag",
    mean: Annotated[str, typer.Option("--mean", metavar="tasks|kinds", help="Every task counts alike, or every kind of task.")] = "tasks",
    against: Annotated[str | None, typer.Option("--against", metavar="ROLLOUTS", help="Paired difference to these rollouts, task by task.", show_default=False)] = None,
    weak_by: Annotated[str | None, typer.Option("--weak-by", metavar="ROLLOUTS", help="A base policy's rollouts of other tasks: which kinds it was weak at.", show_default=False)] = None,
    weak_below: Annotated[float, typer.Option("--weak-below", min=0, max=1, help="With --weak-by: weak is a success below this.")] = 0.5,
    official: Annotated[bool, typer.Option("--official", help="BFCL's own evaluation, too (coevolve env install bfcl-official); plays `base` if no tasks are named.")] = False,
    backend: Backend = "local",
    vllm_args: VllmArgs = None,
    prompt: streams.Prompt = "tools",
    any_version: AnyVersion = False,
    seed: streams.Seed = 0,
    workers: streams.Workers = 1,
    on_error: streams.OnError = "fail",
    max_errors: streams.MaxErrors = None,
    rejects: streams.Rejects = None,
    quiet: streams.Quiet = False,
    exit_status: streams.ExitStatus = False,
    config: streams.Config = None,
    run: streams.RunDir = None,
    *,
    models: ModelOptions,
) -> None:
    # fmt: on
    """Measure success: overall and by group, 95 % intervals over tasks, pass@k, paired differences. A table goes to stderr."""
    groupings = evaluation.groupings(by)
    if mean not in ("tasks", "kinds"):
        raise UsageError(f"--mean takes tasks or kinds, not {mean!r}")
    if official and policy and env and not files:
        split = split or "base"
    if split and not (env and policy):
        raise UsageError("--split needs --env and --policy: whose tasks, played by whom?")
    if split and files:
        raise UsageError(f"--split {split} plays the environment's own tasks: name no file, or leave --split out")
    if rollouts and not policy:
        raise UsageError("--rollouts needs --policy: the input is rollouts already")
    if official:
        from coevolve_cli import official as bfcl

        bfcl.check()
    other = _read(against) if against else None
    base = _read(weak_by) if weak_by else None
    faults = streams.Faults(on_error, max_errors, rejects)
    with (
        serving(backend, policy, vllm_args, models) as (policy, models),
        models.if_at_server("evaluate", run=run, quiet=quiet) as at_server,
        streams.stage("evaluate", files, output, faults, quiet=quiet, exit_status=exit_status, reads=not split) as s,
    ):
        played, lines = Played(s), {}
        if policy:
            from coevolve.agents.rollout import make_policy

            player = make_policy(policy, models=at_server, temperature=temperature, prompt=prompt)
            how = {"samples": samples, "seed": seed, "max_steps": max_steps}
            results = _play(played, player, Pools(workers, env, any_version=any_version), env, split, limit, rollouts, how)
        elif official:
            lines = {line.record.id: line for line in s.read(Rollout)}
            results = (line.record for line in lines.values())
        else:
            results = (line.record for line in s.read(Result))
        if official:
            results = whole = bfcl.fit(results, lambda rollout, reason: _refuse(s, lines.get(rollout.id), reason))
        tried = evaluation.collect(evaluation.result(r) if isinstance(r, Rollout) else r for r in results)
        played.env_faults.stop()
        records = list(evaluation.report(tried, by=groupings, over=mean, other=other, base=base, below=weak_below))
        if official:
            scored = bfcl.score(whole, s)
            records += scored.records
        for record in records:
            s.write(record)
        if records and not quiet:
            print("\n".join(evaluation.table(records)), file=sys.stderr)
    if official and scored.missing:
        raise Partial(scored.missing)
    played.env_faults.end()


def _refuse(s: streams.Stage, line: Line[Rollout] | None, reason: str) -> None:
    if line is None:
        raise UsageError(reason)
    s.reject(line, reason)


def _read(path: str) -> list[Result]:
    return [line.record for line in jsonl.read([path], Result)]


def _play(
    played: Played,
    player: Policy,
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
            for rollout in rollouts(group, player, pool, **how):
                if played.take(rollout):
                    kept.write(jsonl.encode(rollout))
                    yield rollout
