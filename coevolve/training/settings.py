"""The settings of `coevolve train`, of both backends, and of `coevolve bootstrap`.

What decides the result of a run is kept in RUN/config.json: GrpoSettings, with what each backend
adds. Defaults are the paper's where it names one and a laptop can carry it. Nothing heavy is
imported here: the command's help reads these.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from coevolve.options import (
    Advanced,
    EpisodeTokens,
    KeepTokens,
    MaxActions,
    Option,
    PromptStyle,
    ReplyTokens,
    Seed,
    Settings,
)

LOCAL = "Backend local"
OBJECTIVE = "Objective"
BATCHES = "Batches"


class GrpoSettings(Settings, frozen=True, kw_only=True):
    """GRPO, whatever carries it out: the objective, the batches, the lengths."""

    PANEL: ClassVar[str] = "Training"

    model: Annotated[
        str | None,
        Option(
            "The Hugging Face model that the run begins with: a directory or an id.",
            metavar="DIR|ID",
            default="the preset's, if there is one",
        ),
    ] = None
    steps: Annotated[int, Option("Optimiser steps of one iteration.", panel=BATCHES, ge=1)] = 10
    batch: Annotated[int, Option("Tasks that one optimiser step sees.", panel=BATCHES, ge=1)] = 12
    samples: Annotated[
        int,
        Option(
            "Rollouts of each task in a step: the group within which GRPO compares.",
            panel=BATCHES,
            short="-k",
            ge=2,
        ),
    ] = 8
    seed: Seed = 0
    temperature: Annotated[
        float,
        Advanced(
            "Temperature at which rollouts are sampled and their log-probabilities taken.",
            panel=OBJECTIVE,
            gt=0,
        ),
    ] = 0.9
    lr: Annotated[float, Option("Learning rate (AdamW, constant).", panel=OBJECTIVE, ge=0)] = 1e-6
    weight_decay: Annotated[float, Advanced("Weight decay of AdamW.", panel=OBJECTIVE, ge=0)] = 0.01
    beta: Annotated[
        float,
        Advanced(
            "Weight of the KL divergence from the policy that the run began with.",
            panel=OBJECTIVE,
            ge=0,
        ),
    ] = 1e-3
    clip_low: Annotated[
        float,
        Advanced("How far below 1 the probability ratio of a token counts.", panel=OBJECTIVE, ge=0),
    ] = 0.2
    clip_high: Annotated[
        float,
        Advanced("How far above 1 the probability ratio of a token counts.", panel=OBJECTIVE, ge=0),
    ] = 0.28
    clip_dual: Annotated[
        float,
        Advanced(
            "Dual clip: the largest ratio that counts where the advantage is negative.",
            panel=OBJECTIVE,
            gt=0,
        ),
    ] = 3.0
    grad_clip: Annotated[float, Advanced("Largest norm of a gradient.", panel=OBJECTIVE, gt=0)] = (
        1.0
    )
    reward: Annotated[
        str,
        Advanced(
            "What GRPO takes as the reward of a rollout.",
            panel=OBJECTIVE,
            choices={
                "success": "1 for a task that was solved, else 0",
                "progress": "the share of the task's goals that were reached",
            },
        ),
    ] = "success"
    newest_share: Annotated[
        float,
        Advanced(
            "Share of a batch that is drawn from the newest tasks.", panel=BATCHES, ge=0, le=1
        ),
    ] = 0.5
    max_actions: MaxActions = None
    episode_tokens: EpisodeTokens = None
    reply_tokens: ReplyTokens = None
    prompt_style: PromptStyle = "tools"
    keep_tokens: KeepTokens = False


class LocalSettings(GrpoSettings, frozen=True, kw_only=True):
    """What decides a run's bytes with --backend local."""

    drop_zero_variance: Annotated[
        bool,
        Advanced(
            "Leave groups with equal rewards out of the update, their KL included.", panel=LOCAL
        ),
    ] = False
    lora_rank: Annotated[
        int | None,
        Advanced(
            "Train adapters of this rank only (needs the package peft).",
            panel=LOCAL,
            default="all weights are trained",
            ge=1,
        ),
    ] = None
    dtype: Annotated[
        str | None,
        Advanced(
            "Number format of the passes on a GPU; the weights are float32 always.",
            panel=LOCAL,
            default="bfloat16 on a GPU that has it",
            choices={"float32": "exact, slower", "bfloat16": "half the memory, faster"},
        ),
    ] = None


class VerlLimits(Settings, frozen=True, kw_only=True):
    """How long the verl backend waits for what; all in seconds. May differ from call to call."""

    PANEL: ClassVar[str] = "Backend verl"

    call_timeout: Annotated[
        float, Advanced("Seconds that one action of the environment may take.", ge=0.1)
    ] = 30
    episode_timeout: Annotated[float, Advanced("Seconds that an episode may take.", ge=1)] = 1200
    step_timeout: Annotated[
        float, Advanced("Seconds that all episodes of an optimiser step may take.", ge=1)
    ] = 3600
    wait_timeout: Annotated[
        float,
        Advanced(
            "Seconds that the trainer waits for the next iteration's tasks before it ends.", ge=1
        ),
    ] = 7200
    stall_timeout: Annotated[
        float,
        Advanced("Seconds without progress after which the trainer is ended (exit 75).", ge=1),
    ] = 1800
    restart_each_iteration: Annotated[
        bool, Advanced("End the trainer with each iteration; the next call starts another one.")
    ] = False


class BootstrapSettings(Settings, frozen=True, kw_only=True):
    """What the laptop policy depends on, beside the environment's version."""

    PANEL: ClassVar[str] = "Training"

    env: Annotated[
        str, Option("An environment with a split `demos` of solved tasks.", metavar="NAME|COMMAND")
    ] = "desk"
    seed: Seed = 0
    steps: Annotated[int, Option("Optimiser steps.", ge=1)] = 1600
    batch: Annotated[int, Option("Demonstrations that one optimiser step sees.", ge=1)] = 16
    # The card of a policy has the long name.
    lr: Annotated[float, Option("Highest learning rate of the schedule.", ge=0)] = msgspec.field(
        default=3e-3, name="learning_rate"
    )
