"""`coevolve train`: one iteration of GRPO on the given tasks; its rollouts on stdout."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from coevolve.errors import UsageError
from coevolve.records import Task
from coevolve_cli import streams

EXAMPLES = """
  coevolve train tasks.jsonl --run runs/a --model laptop --steps 10 --lr 3e-4 --beta 5e-3 --temperature 1 > rollouts.jsonl
  coevolve train tasks.2.jsonl --run runs/a --model laptop --iteration 2 --steps 10 | coevolve extract-signals > signals.jsonl
  coevolve train tasks.jsonl --run runs/a --model laptop --dry-run
"""


def command(
    ctx: typer.Context,
    run: Annotated[
        str,
        typer.Option(
            "--run", metavar="DIR", help="Run directory: checkpoints, metrics.jsonl, rollouts, the link policy."
        ),
    ],
    model: Annotated[
        str, typer.Option("--model", metavar="DIR|ID", help="The Hugging Face model that the run begins with.")
    ],
    files: streams.Files = None,
    env: streams.Env = None,
    iteration: Annotated[
        int | None,
        typer.Option(
            "--iteration",
            min=1,
            help="Which iteration this is: a finished one only prints its rollouts again. Default: the next.",
            show_default=False,
        ),
    ] = None,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Optimiser steps of an iteration.")] = 10,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Tasks per step.")] = 12,
    samples: Annotated[int, typer.Option("--samples", "-k", min=2, help="Rollouts per task: the group.")] = 8,
    lr: Annotated[float, typer.Option("--lr", help="Learning rate (AdamW, constant).")] = 1e-6,
    beta: Annotated[float, typer.Option("--beta", min=0, help="Weight of the KL to the first policy.")] = 1e-3,
    temperature: Annotated[
        float, typer.Option("--temperature", help="Of sampling and of the log-probabilities.")
    ] = 0.9,
    clip_low: Annotated[float, typer.Option("--clip-low", help="Ratio's lower clip.")] = 0.2,
    clip_high: Annotated[float, typer.Option("--clip-high", help="Ratio's upper clip.")] = 0.28,
    weight_decay: Annotated[float, typer.Option("--weight-decay", help="Of AdamW.")] = 0.01,
    grad_clip: Annotated[float, typer.Option("--grad-clip", help="Largest gradient norm.")] = 1.0,
    reward: Annotated[str, typer.Option("--reward", metavar="success|progress", help="What GRPO sees.")] = "success",
    newest_share: Annotated[
        float, typer.Option("--newest-share", min=0, max=1, help="Share of a batch from the newest tasks.")
    ] = 0.5,
    drop_zero_variance: Annotated[
        bool,
        typer.Option("--drop-zero-variance", help="Leave groups with equal rewards out of the update, KL included."),
    ] = False,
    max_steps: Annotated[
        int | None,
        typer.Option("--max-steps", min=1, help="Actions per episode; default: the environment's.", show_default=False),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens", min=1, help="Tokens per episode; default: what the model was made for.", show_default=False
        ),
    ] = None,
    max_turn_tokens: Annotated[
        int | None, typer.Option("--max-turn-tokens", min=1, help="Tokens per reply.", show_default=False)
    ] = None,
    lora_rank: Annotated[
        int | None,
        typer.Option("--lora-rank", min=1, help="Train adapters of this rank only (needs peft).", show_default=False),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype",
            metavar="float32|bfloat16",
            help="Of the passes on a GPU; weights are float32.",
            show_default=False,
        ),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="cpu|cuda", help="Default: a GPU if there is one.", show_default=False),
    ] = None,
    save_every: Annotated[
        int | None,
        typer.Option(
            "--save-every",
            min=1,
            help="Steps between checkpoints; default: at the iteration's end.",
            show_default=False,
        ),
    ] = None,
    keep_checkpoints: Annotated[
        int, typer.Option("--keep-checkpoints", min=1, help="How many of the newest are kept.")
    ] = 1,
    keep_tokens: Annotated[
        bool, typer.Option("--keep-tokens", help="Keep token ids, mask and log-probabilities in the rollouts.")
    ] = False,
    max_env_errors: Annotated[
        float,
        typer.Option(
            "--max-env-errors",
            min=0,
            max=1,
            help="Fail beyond this share of rollouts lost to environment errors in a step.",
        ),
    ] = 0.25,
    threads: Annotated[
        int | None,
        typer.Option("--threads", min=1, help="Torch threads; default OMP_NUM_THREADS, else 1.", show_default=False),
    ] = None,
    prompt: streams.Prompt = "tools",
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
    """Train the policy for one iteration with GRPO on the tasks; print its rollouts.

    RUN keeps everything: a call that was killed goes on from the last checkpoint, and the same call again after it
    finished prints the same rollouts. RUN/policy is the trained model, RUN/metrics.jsonl has one line per step.
    """
    from coevolve.training.local import Settings, train

    settings = Settings(**{name: ctx.params[name] for name in Settings.__struct_fields__ if name in ctx.params})
    if dry_run:
        streams.dry_run(ctx, rollouts=steps * batch * samples, updates=steps)
        return
    faults = streams.Faults(on_error, max_errors, rejects)
    with streams.stage("train", files, output, faults, quiet=quiet) as s:
        tasks = [line.record for line in s.read(Task)]
        with _pool(tasks, workers, env) as pool:
            rollouts = train(
                tasks,
                settings,
                run,
                pool,
                iteration=iteration,
                save_every=save_every,
                keep_checkpoints=keep_checkpoints,
                device=device,
                threads=threads,
                max_env_errors=max_env_errors,
                on_step=None if quiet else _report,
            )
        with open(rollouts, "rb") as lines:
            for line in lines:
                s.write_raw(line)


def _pool(tasks: list[Task], workers: int, env: str | None):
    from coevolve.environments.client import Pool
    from coevolve.environments.registry import recorded

    names = sorted({task.env for task in tasks})
    if not names:
        raise UsageError("no tasks to train on")
    if len(names) > 1:
        raise UsageError(f"the tasks are of several environments ({', '.join(names)}); train on one")
    return Pool(recorded(names[0], env), workers=workers)


def _report(metrics: dict[str, Any]) -> None:
    print(
        "train: step {step}  success {success_mean:.3f}  informative {informative_share:.2f}  kl {kl:.4f}  "
        "entropy {entropy:.3f}  tokens {sampled_tokens}".format(**metrics),
        file=sys.stderr,
        flush=True,
    )
