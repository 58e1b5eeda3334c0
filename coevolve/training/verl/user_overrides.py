"""Hydra overrides that a user or a preset puts on verl's configuration: which are refused, and which belong to a run's record.

| override | |
|---|---|
| of a key that the driver or the child sets, of a part of one, or of a section that holds one | refused |
| of a key that only says how this machine does the work (`MACHINE`) | may change from call to call |
| any other | a setting of the run: `deciding` gives those, for RUN/config.json |

All forms of hydra's count: KEY=VALUE, +KEY=VALUE, ++KEY=VALUE, ~KEY.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from coevolve.errors import UsageError

FOLLOWS = {
    "actor_rollout_ref.model.path": "--model",
    "actor_rollout_ref.actor.optim.lr": "--lr",
    "actor_rollout_ref.actor.optim.weight_decay": "--weight-decay",
    "actor_rollout_ref.actor.optim.clip_grad": "--grad-clip",
    "actor_rollout_ref.actor.grad_clip": "--grad-clip",
    "actor_rollout_ref.actor.use_kl_loss": "--beta",
    "actor_rollout_ref.actor.kl_loss_coef": "--beta",
    "actor_rollout_ref.actor.clip_ratio_low": "--clip-low",
    "actor_rollout_ref.actor.clip_ratio_high": "--clip-high",
    "actor_rollout_ref.actor.ppo_mini_batch_size": "--batch",
    "actor_rollout_ref.rollout.n": "--samples",
    "actor_rollout_ref.rollout.temperature": "--temperature",
    "actor_rollout_ref.rollout.prompt_length": "--prompt-tokens",
    "actor_rollout_ref.rollout.response_length": "--episode-tokens",
    "data.train_batch_size": "--batch",
    "data.max_prompt_length": "--prompt-tokens",
    "data.max_response_length": "--episode-tokens",
    "trainer.save_freq": "--save-every",
    "trainer.max_actor_ckpt_to_keep": "--keep-checkpoints",
    "trainer.default_local_dir": "--run",
    "trainer.resume_mode": "another --run",
    "trainer.total_training_steps": "--steps and one call for each iteration",
    "trainer.device": "--preset",
}
"""Keys that follow from an option, and which."""

MACHINE = re.compile(
    r"""
    trainer\.(n_gpus_per_node|nnodes|logger|project_name|experiment_name|log_.*|esi_.*|ray_wait_register_center_timeout)
    | (ray_kwargs|transfer_queue|global_profiler)\..*
    | .*\.(num_workers|dataloader_num_workers)
    | .*\.(\w*micro_batch\w*|\w*offload\w*|\w*use_dynamic_bsz|\w*max_token_len\w*)
    | .*\.(fsdp_size|forward_prefetch|reshard_after_forward|use_torch_compile|ulysses_sequence_parallel_size)
    | actor_rollout_ref\.(actor|ref)\.strategy | .*\.fsdp_config\.strategy
    | actor_rollout_ref\.model\.(use_shm|use_remove_padding|enable_gradient_checkpointing|enable_activation_offload)
    | actor_rollout_ref\.model\.override_config\.attn_implementation
    | .*\.rollout\.(gpu_memory_utilization|tensor_model_parallel_size|data_parallel_size|pipeline_model_parallel_size)
    | .*\.rollout\.(max_num_batched_tokens|max_num_seqs|enable_prefix_caching|enable_chunked_prefill|free_cache_engine)
    | .*\.rollout\.(enforce_eager|disable_log_stats|cudagraph_capture_sizes|layered_summon|enable_sleep_mode)
    | .*\.(engine_kwargs|checkpoint_engine|prometheus|trace|profiler)\..*
    """,
    re.VERBOSE,
)
"""Keys that say how a machine does the work, not what is computed (up to rounding)."""


class Override(NamedTuple):
    """`value` is None for a key that is taken away."""

    key: str
    value: str | None


def parsed(text: str) -> Override:
    """Raises UsageError for what is no override."""
    key, equals, value = text.lstrip("+~").partition("=")
    if not key or not (equals or text.startswith("~")):
        raise UsageError(
            f"after -- come overrides of verl's configuration, KEY=VALUE, not {text!r}"
        )
    return Override(key, None if text.startswith("~") else value)


def check(texts: Iterable[str], own: Collection[str]) -> None:
    """`own`: the keys that are set here. Raises UsageError for overrides that would contradict the record of the run."""
    kept = sorted({*own, *FOLLOWS})
    for text in texts:
        key = parsed(text).key.replace("/", ".")
        met = next(
            (k for k in kept if k == key or k.startswith(f"{key}.") or key.startswith(f"{k}.")),
            None,
        )
        if met is None:
            continue
        what = key if met == key else f"{key} has to do with {met}, which"
        if met in FOLLOWS:
            raise UsageError(
                f"{what} follows from {FOLLOWS[met]}: give that instead of an override"
            )
        raise UsageError(
            f"{what} is part of the objective or of the loop, and set by coevolve train itself"
        )


def deciding(texts: Iterable[str]) -> dict[str, str]:
    """What the overrides say about the result, by key; the last word on a key counts, and `~` is a key taken away."""
    said = {override.key: override.value for override in map(parsed, texts)}
    return {
        key: "~" if said[key] is None else said[key]
        for key in sorted(said)
        if not MACHINE.fullmatch(key)
    }
