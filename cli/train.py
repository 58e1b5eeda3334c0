"""`coevolve train`: one iteration of GRPO on the given tasks; its rollouts on stdout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from coevolve import jsonl
from coevolve.errors import UsageError
from coevolve.records import Task
from coevolve_cli import streams
from coevolve_cli.versions import AnyVersion

EXAMPLES = """
  coevolve train tasks.jsonl --run runs/a --model laptop --steps 10 --lr 3e-4 --beta 5e-3 --temperature 1 > rollouts.jsonl
  coevolve train tasks.2.jsonl --run runs/a --model laptop --iteration 2 --steps 10 | coevolve extract-signals > signals.jsonl
  coevolve train tasks.jsonl --run runs/a --model laptop --dry-run
  coevolve train tasks.jsonl --run runs/b --backend verl --preset qwen3-4b --workers 4 -o rollouts.jsonl -- trainer.n_gpus_per_node=4
  coevolve train --run runs/b --stop
"""
ONLY = {
    "local": ("drop_zero_variance", "lora_rank", "dtype", "device", "threads"),
    "verl": ("preset", "max_prompt_tokens", "call_timeout", "episode_timeout", "step_timeout", "wait_timeout", "stall_timeout", "restart"),
}  # fmt: skip
"""Options of one backend."""


class Command(TyperCommand):
    """What follows -- are overrides for verl, and no files."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:
        here = args.index("--") if "--" in args else len(args)
        ctx.meta["overrides"] = args[here + 1 :]
        return super().parse_args(ctx, args[:here])


# fmt: off
def command(
    ctx: typer.Context,
    run: Annotated[str, typer.Option("--run", metavar="DIR", help="Run directory: checkpoints, metrics.jsonl, rollouts, the link policy.")],
    model: Annotated[str | None, typer.Option("--model", metavar="DIR|ID", help="The Hugging Face model that the run begins with.", show_default=False)] = None,
    files: streams.Files = None,
    env: streams.Env = None,
    backend: Annotated[str, typer.Option("--backend", metavar="local|verl", help="One process, or Ray, FSDP and vLLM on many GPUs (docs/verl.md).")] = "local",
    preset: Annotated[str | None, typer.Option("--preset", metavar="NAME|FILE", help="verl: settings of a backbone and a machine: qwen2.5-7b, qwen3-4b, qwen3-30b-a3b, cpu.", show_default=False)] = None,
    iteration: Annotated[int | None, typer.Option("--iteration", min=1, help="Which iteration this is: a finished one only prints its rollouts again. Default: the next.", show_default=False)] = None,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Optimiser steps of an iteration.")] = 10,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Tasks per step.")] = 12,
    samples: Annotated[int, typer.Option("--samples", "-k", min=2, help="Rollouts per task: the group.")] = 8,
    lr: Annotated[float, typer.Option("--lr", help="Learning rate (AdamW, constant).")] = 1e-6,
    beta: Annotated[float, typer.Option("--beta", min=0, help="Weight of the KL to the first policy.")] = 1e-3,
    temperature: Annotated[float, typer.Option("--temperature", help="Of sampling and of the log-probabilities.")] = 0.9,
    clip_low: Annotated[float, typer.Option("--clip-low", help="Ratio's lower clip.")] = 0.2,
    clip_high: Annotated[float, typer.Option("--clip-high", help="Ratio's upper clip.")] = 0.28,
    weight_decay: Annotated[float, typer.Option("--weight-decay", help="Of AdamW.")] = 0.01,
    grad_clip: Annotated[float, typer.Option("--grad-clip", help="Largest gradient norm.")] = 1.0,
    reward: Annotated[str, typer.Option("--reward", metavar="success|progress", help="What GRPO sees.")] = "success",
    newest_share: Annotated[float, typer.Option("--newest-share", min=0, max=1, help="Share of a batch from the newest tasks.")] = 0.5,
    drop_zero_variance: Annotated[bool, typer.Option("--drop-zero-variance", help="Leave groups with equal rewards out of the update, KL included.")] = False,
    max_steps: Annotated[int | None, typer.Option("--max-steps", min=1, help="Actions per episode; default: the environment's.", show_default=False)] = None,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", min=1, help="Tokens per episode; default: what the model was made for.", show_default=False)] = None,
    max_prompt_tokens: Annotated[int | None, typer.Option("--max-prompt-tokens", min=1, help="verl: of them, for the prompt; default: half.", show_default=False)] = None,
    max_turn_tokens: Annotated[int | None, typer.Option("--max-turn-tokens", min=1, help="Tokens per reply.", show_default=False)] = None,
    lora_rank: Annotated[int | None, typer.Option("--lora-rank", min=1, help="Train adapters of this rank only (needs peft).", show_default=False)] = None,
    dtype: Annotated[str | None, typer.Option("--dtype", metavar="float32|bfloat16", help="Of the passes on a GPU; weights are float32.", show_default=False)] = None,
    device: Annotated[str | None, typer.Option("--device", metavar="cpu|cuda", help="Default: a GPU if there is one.", show_default=False)] = None,
    save_every: Annotated[int | None, typer.Option("--save-every", min=1, help="Steps between checkpoints; default: at the iteration's end.", show_default=False)] = None,
    keep_checkpoints: Annotated[int | None, typer.Option("--keep-checkpoints", min=1, help="How many of the newest are kept; default: 1, with verl 2.", show_default=False)] = None,
    keep_tokens: Annotated[bool, typer.Option("--keep-tokens", help="Keep token ids, mask and log-probabilities in the rollouts.")] = False,
    max_env_errors: Annotated[float, typer.Option("--max-env-errors", min=0, max=1, help="Fail beyond this share of rollouts lost to environment errors in a step.")] = 0.25,
    call_timeout: Annotated[float, typer.Option("--call-timeout", min=0.1, metavar="SECONDS", help="verl: of one action of the environment.")] = 30,
    episode_timeout: Annotated[float, typer.Option("--episode-timeout", min=1, metavar="SECONDS", help="verl: of an episode.")] = 1200,
    step_timeout: Annotated[float, typer.Option("--step-timeout", min=1, metavar="SECONDS", help="verl: of all episodes of a step.")] = 3600,
    wait_timeout: Annotated[float, typer.Option("--wait-timeout", min=1, metavar="SECONDS", help="verl: how long the trainer waits for the next iteration.")] = 7200,
    stall_timeout: Annotated[float, typer.Option("--stall-timeout", min=1, metavar="SECONDS", help="verl: without progress for so long, the trainer is ended (exit 75).")] = 1800,
    restart: Annotated[bool, typer.Option("--restart-each-iteration", help="verl: end the trainer with the iteration; the next call starts another one.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Train nothing: end RUN's trainer, if one is there.")] = False,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Torch threads; default OMP_NUM_THREADS, else 1.", show_default=False)] = None,
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
    config: streams.Config = None,
) -> None:
    # fmt: on
    """Train the policy for one iteration with GRPO on the tasks; print its rollouts.

    RUN keeps everything: a call that was killed goes on from the last checkpoint, and the same call again after it
    finished prints the same rollouts. RUN/policy is the trained model, RUN/metrics.jsonl has one line per step.

    With --backend verl the trainer stays when the call returns: it waits for the next iteration and serves the policy
    (RUN/verl/iterations/NNN/READY.json); --stop ends it. KEY=VALUE after -- are overrides of verl's configuration.
    """
    if stop:
        from coevolve_cli.train_verl import end

        message = end(run, dry_run)
        if dry_run or not quiet:
            print(f"coevolve: {message}", file=sys.stderr)
        return
    given = _given(ctx, backend)
    faults = streams.Faults(on_error, max_errors, rejects)
    on_step = None if quiet else _report
    if backend == "verl":
        from coevolve_cli.train_verl import dry_run as dry_run_verl
        from coevolve_cli.train_verl import options

        chosen, settings = options(ctx, given)
        if dry_run:
            tasks = _planned(files, faults)
            dry_run_verl(tasks, settings, run, _environment(tasks, env) if tasks else env, chosen, iteration)
            return
    else:
        from coevolve.training.local import Settings

        if not model:
            raise UsageError(_without_model(run))
        settings = Settings(**{name: ctx.params[name] for name in Settings.__struct_fields__ if name in ctx.params})
        if dry_run:
            tasks = _planned(files, faults)
            if tasks:
                _environment(tasks, env)
            streams.dry_run(ctx, tasks=len(tasks), rollouts=steps * batch * samples, updates=steps)
            return
    with streams.stage("train", files, output, faults, quiet=quiet) as s:
        tasks = [line.record for line in s.read(Task)]
        played = _environment(tasks, env)
        if backend == "verl":
            from coevolve.training.verl.driver import train as train_verl

            rollouts = train_verl(tasks, settings, run, played, chosen, iteration=iteration, on_step=on_step)
        else:
            from coevolve.environments.client import Pool
            from coevolve.training.local import train

            how = {name: ctx.params[name] for name in ("save_every", "device", "threads", "max_env_errors")}
            how["keep_checkpoints"] = keep_checkpoints or 1
            with Pool(played, workers=workers, any_version=any_version) as pool:
                rollouts = train(tasks, settings, run, pool, iteration=iteration, on_step=on_step, **how)
        with open(rollouts, "rb") as lines:
            for line in lines:
                s.write_raw(line)


def _without_model(run: str) -> str:
    """What is missing. Of a run of the other backend it is not the model."""
    begun = Path(run, "config.json")
    if begun.is_file() and b'"backend": "verl"' in begun.read_bytes():
        return f"{run} was begun with --backend verl, and --backend local cannot go on with it"
    return "--model is missing: the Hugging Face model that the run begins with"


def _planned(files: list[str] | None, faults: streams.Faults) -> list[Task]:
    """The tasks of a dry run, read as the run itself would; what it would set aside is kept nowhere."""
    with streams.stage("train", files, faults=faults._replace(rejects=None), quiet=True) as s:
        tasks = [line.record for line in s.read(Task)]
    if not tasks:
        jsonl.warn("the input is empty: there are no tasks to train on, and the run itself would be refused")
    return tasks


def _given(ctx: typer.Context, backend: str) -> dict[str, Any]:
    """Options that somebody chose. Raises UsageError for those of the other backend."""
    if backend not in ONLY:
        raise UsageError(f"--backend takes local or verl, not {backend!r}")
    given = {name: value for name, value in ctx.params.items() if ctx.get_parameter_source(name).name != "DEFAULT"}
    for other in ONLY.keys() - {backend}:
        for parameter in ctx.command.params:
            if parameter.name in ONLY[other] and parameter.name in given:
                raise UsageError(f"{parameter.opts[0]} is an option of --backend {other}")
    if ctx.meta["overrides"] and backend != "verl":
        raise UsageError(f"what follows -- are overrides of verl's configuration ({ctx.meta['overrides'][0]}): they need --backend verl")
    return given


def _environment(tasks: list[Task], env: str | None) -> str:
    from coevolve.environments.registry import BUILT_IN, find, recorded

    names = sorted({task.env for task in tasks})
    if not names:
        raise UsageError("no tasks to train on")
    if len(names) > 1:
        raise UsageError(f"the tasks are of several environments ({', '.join(names)}); train on one")
    if env is not None and env != names[0]:
        if env not in BUILT_IN:
            find(env)  # a name that is none is told as such
        raise UsageError(f"--env is {env!r}, and the tasks are of {names[0]!r}")
    return recorded(names[0], env)


def _report(metrics: dict[str, Any]) -> None:
    shown = {"success": "success_mean", "informative": "informative_share", "kl": "kl", "entropy": "entropy"}
    numbers = "  ".join(f"{name} {metrics[key]:.4g}" for name, key in shown.items() if metrics.get(key) is not None)
    print(f"train: step {metrics['step']}  {numbers}  tokens {metrics['sampled_tokens']}", file=sys.stderr, flush=True)
