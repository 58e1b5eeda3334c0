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
        str | None, Option(metavar="DIR|ID", default="the preset's, if there is one")
    ] = None
    """The Hugging Face model that the run begins with: a directory or an id."""
    steps: Annotated[int, Option(panel=BATCHES, ge=1)] = 10
    """Optimiser steps of one iteration."""
    batch: Annotated[int, Option(panel=BATCHES, ge=1)] = 12
    """Tasks that one optimiser step sees."""
    samples: Annotated[int, Option(panel=BATCHES, short="-k", ge=2)] = 8
    """Rollouts of each task in a step: the group within which GRPO compares."""
    seed: Seed = 0
    temperature: Annotated[float, Advanced(panel=OBJECTIVE, gt=0)] = 0.9
    """Temperature at which rollouts are sampled and their log-probabilities taken."""
    lr: Annotated[float, Option(panel=OBJECTIVE, ge=0)] = 1e-06
    """Learning rate (AdamW, constant)."""
    weight_decay: Annotated[float, Advanced(panel=OBJECTIVE, ge=0)] = 0.01
    """Weight decay of AdamW."""
    beta: Annotated[float, Advanced(panel=OBJECTIVE, ge=0)] = 0.001
    """Weight of the KL divergence from the policy that the run began with."""
    clip_low: Annotated[float, Advanced(panel=OBJECTIVE, ge=0)] = 0.2
    """How far below 1 the probability ratio of a token counts."""
    clip_high: Annotated[float, Advanced(panel=OBJECTIVE, ge=0)] = 0.28
    """How far above 1 the probability ratio of a token counts."""
    clip_dual: Annotated[float, Advanced(panel=OBJECTIVE, gt=0)] = 3.0
    """Dual clip: the largest ratio that counts where the advantage is negative."""
    grad_clip: Annotated[float, Advanced(panel=OBJECTIVE, gt=0)] = 1.0
    """Largest norm of a gradient."""
    reward: Annotated[
        str,
        Advanced(
            panel=OBJECTIVE,
            choices={
                "success": "1 for a task that was solved, else 0",
                "progress": "the share of the task's goals that were reached",
            },
        ),
    ] = "success"
    """What GRPO takes as the reward of a rollout."""
    newest_share: Annotated[float, Advanced(panel=BATCHES, ge=0, le=1)] = 0.5
    """Share of a batch that is drawn from the newest tasks."""
    max_actions: MaxActions = None
    episode_tokens: EpisodeTokens = None
    reply_tokens: ReplyTokens = None
    prompt_style: PromptStyle = "tools"
    keep_tokens: KeepTokens = False


class LocalSettings(GrpoSettings, frozen=True, kw_only=True):
    """What decides a run's bytes with --backend local."""

    drop_zero_variance: Annotated[bool, Advanced(panel=LOCAL)] = False
    """Leave groups with equal rewards out of the update, their KL included."""
    lora_rank: Annotated[
        int | None, Advanced(panel=LOCAL, default="all weights are trained", ge=1)
    ] = None
    """Train adapters of this rank only (needs the package peft)."""
    dtype: Annotated[
        str | None,
        Advanced(
            panel=LOCAL,
            default="bfloat16 on a GPU that has it",
            choices={"float32": "exact, slower", "bfloat16": "half the memory, faster"},
        ),
    ] = None
    """Number format of the passes on a GPU; the weights are float32 always."""


class VerlLimits(Settings, frozen=True, kw_only=True):
    """How long the verl backend waits for what; all in seconds. May differ from call to call."""

    PANEL: ClassVar[str] = "Backend verl"

    call_timeout: Annotated[float, Advanced(ge=0.1)] = 30
    """Seconds that one action of the environment may take."""
    episode_timeout: Annotated[float, Advanced(ge=1)] = 1200
    """Seconds that an episode may take."""
    step_timeout: Annotated[float, Advanced(ge=1)] = 3600
    """Seconds that all episodes of an optimiser step may take."""
    wait_timeout: Annotated[float, Advanced(ge=1)] = 7200
    """Seconds that the trainer waits for the next iteration's tasks before it ends."""
    stall_timeout: Annotated[float, Advanced(ge=1)] = 1800
    """Seconds without progress after which the trainer is ended (exit 75)."""
    restart_each_iteration: Annotated[bool, Advanced()] = False
    """End the trainer with each iteration; the next call starts another one."""


class BootstrapSettings(Settings, frozen=True, kw_only=True):
    """What the laptop policy depends on, beside the environment's version."""

    PANEL: ClassVar[str] = "Training"

    env: Annotated[str, Option(metavar="NAME|COMMAND")] = "desk"
    """An environment with a split `demos` of solved tasks."""
    seed: Seed = 0
    steps: Annotated[int, Option(ge=1)] = 1600
    """Optimiser steps."""
    batch: Annotated[int, Option(ge=1)] = 16
    """Demonstrations that one optimiser step sees."""
    # The card of a policy has the long name.
    lr: Annotated[float, Option(ge=0)] = msgspec.field(default=0.003, name="learning_rate")
    """Highest learning rate of the schedule."""
