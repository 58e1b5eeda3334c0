"""Hydra overrides on verl's `ppo_trainer`: who may set which key, and the whole list for a run.

| key | set by | an override of the user's on it, on a part of it, or on a section that holds it |
|---|---|---|
| `FIXED` | the loop: objective, agent loop, the end of the run | is refused |
| `FROM_SETTINGS`, `FROM_OPTIONS` | an option of `coevolve train` | is refused, with the option |
| `MACHINE` | preset or user: how this machine does the work | may change from call to call |
| any other | preset or user | is a setting of the run: `recorded` puts it into RUN/config.json |

The user's overrides count in all of hydra's forms: KEY=VALUE, +KEY=VALUE, ++KEY=VALUE, ~KEY. Those
that contradict a setting are refused because the record of the run would lie. Imports neither torch
nor verl.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from coevolve.errors import UsageError
from coevolve.training.verl.files import MARK, VerlFiles, VerlJob
from coevolve.training.verl.settings import Preset, VerlSettings

AGENT_LOOP = "coevolve"  # Name of our agent loop in verl's registry
ESTIMATOR = "coevolve_grpo"  # Name of our advantage estimator in verl's registry
ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt_llm"}
"""verl's rollout engines, and the module that each needs."""
ENDLESS = 1_000_000_000
"""Steps and epochs after which verl would stop by itself; our trainer ends the run."""

ACTOR, REF, ROLLOUT = (f"actor_rollout_ref.{part}" for part in ("actor", "ref", "rollout"))
JOB = f"{ROLLOUT}.custom.coevolve"
PLUGIN = "actor_rollout_ref.model.external_lib"  # The module that every process of verl imports
FIXED = {
    "algorithm.adv_estimator": ESTIMATOR,
    "algorithm.norm_adv_by_std_in_grpo": True,
    "algorithm.use_kl_in_reward": False,
    f"{ACTOR}.kl_loss_type": "low_var_kl",
    f"{ACTOR}.loss_agg_mode": "token-mean",
    f"{ACTOR}.entropy_coeff": 0,
    f"{ACTOR}.ppo_epochs": 1,
    f"{ACTOR}.optim.lr_scheduler_type": "constant",
    f"{ACTOR}.checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
    f"{ACTOR}.checkpoint.load_contents": ["model", "optimizer", "extra"],
    f"{ROLLOUT}.top_p": 1.0,
    f"{ROLLOUT}.top_k": -1,
    f"{ROLLOUT}.calculate_log_probs": True,
    f"{ROLLOUT}.agent.default_agent_loop": AGENT_LOOP,
    f"{ROLLOUT}.multi_turn.enable": True,
    "reward.num_workers": 0,  # every row comes with its reward
    "data.return_raw_chat": True,
    "data.shuffle": False,
    "data.truncation": "error",
    "trainer.critic_warmup": 0,  # there is no critic, and the actor would not be updated so long
    "trainer.test_freq": -1,
    "trainer.val_before_train": False,
    "trainer.total_epochs": ENDLESS,
    "trainer.use_v1": True,
    "trainer.v1.trainer_mode": "sync",
}
FROM_SETTINGS = {
    "actor_rollout_ref.model.path": "model",
    f"{ACTOR}.optim.lr": "lr",
    f"{ACTOR}.optim.weight_decay": "weight_decay",
    f"{ACTOR}.optim.clip_grad": "grad_clip",
    f"{ACTOR}.grad_clip": "grad_clip",
    f"{ACTOR}.clip_ratio_low": "clip_low",
    f"{ACTOR}.clip_ratio_high": "clip_high",
    f"{ACTOR}.clip_ratio_c": "clip_dual",
    f"{ACTOR}.kl_loss_coef": "beta",
    f"{ACTOR}.ppo_mini_batch_size": "batch",
    f"{ROLLOUT}.n": "samples",
    f"{ROLLOUT}.temperature": "temperature",
    "data.train_batch_size": "batch",
    "data.max_prompt_length": "prompt_tokens",
}
"""verl's key, and the setting that is its value; the option has the setting's name."""
FROM_OPTIONS = {
    f"{ACTOR}.use_kl_loss": "--beta",
    f"{ROLLOUT}.prompt_length": "--prompt-tokens",
    f"{ROLLOUT}.response_length": "--episode-tokens",
    "data.max_response_length": "--episode-tokens",
    "trainer.save_freq": "--save-every",
    "trainer.max_actor_ckpt_to_keep": "--keep-checkpoints",
    "trainer.default_local_dir": "--run",
    "trainer.resume_mode": "another --run",
    "trainer.total_training_steps": "--steps and one call for each iteration",
    "trainer.device": "--preset",
}
"""verl's key, and what decides it."""
MACHINE = re.compile(
    r"""
    trainer\.(n_gpus_per_node|nnodes|logger|project_name|experiment_name|log_.*|esi_.*)
    | trainer\.ray_wait_register_center_timeout
    | (ray_kwargs|transfer_queue|global_profiler)\..*
    | .*\.(num_workers|dataloader_num_workers)
    | .*\.(\w*micro_batch\w*|\w*offload\w*|\w*use_dynamic_bsz|\w*max_token_len\w*)
    | .*\.(fsdp_size|forward_prefetch|reshard_after_forward|use_torch_compile)
    | .*\.(tensor_model|data|pipeline_model|ulysses_sequence)_parallel_size
    | actor_rollout_ref\.(actor|ref)\.strategy | .*\.fsdp_config\.strategy
    | actor_rollout_ref\.model\.(use_shm|use_remove_padding|enable_gradient_checkpointing)
    | actor_rollout_ref\.model\.override_config\.attn_implementation
    | .*\.rollout\.(gpu_memory_utilization|max_num_batched_tokens|max_num_seqs)
    | .*\.rollout\.(enable_prefix_caching|enable_chunked_prefill|enable_sleep_mode)
    | .*\.rollout\.(free_cache_engine|enforce_eager|disable_log_stats|layered_summon)
    | .*\.rollout\.cudagraph_capture_sizes
    | .*\.(engine_kwargs|checkpoint_engine|prometheus|trace|profiler)\..*
    """,
    re.VERBOSE,
)
"""Keys that say how a machine does the work, not what is computed (up to rounding)."""


class Override(NamedTuple):
    """`value` is None for a key that is taken away."""

    key: str
    value: str | None


def run_overrides(
    settings: VerlSettings, preset: Preset, user: list[str], run: Path, save_every: int, keep: int
) -> list[str]:
    """The preset's overrides, the settings', the user's. Raises UsageError for contradictions.

    A checkpoint is written every `save_every` steps, and the newest `keep` of them stay.
    """
    _refuse_contradictions(user)
    values = {key: getattr(settings, name) for key, name in FROM_SETTINGS.items()}
    values |= {
        f"{ACTOR}.use_kl_loss": settings.beta > 0,
        "data.max_response_length": settings.episode_tokens - settings.prompt_tokens,
        "trainer.device": preset.device,
        "trainer.save_freq": save_every,
        "trainer.max_actor_ckpt_to_keep": keep,
        "trainer.default_local_dir": str(run / "verl" / "checkpoints"),
        "trainer.resume_mode": "auto",
    }
    return [*_flat(preset.overrides), *_flat(values), *user]


def fixed_overrides(job: VerlJob) -> list[str]:
    """What the child adds to `job.overrides`. No data files: rows come from the tasks."""
    plugin = job.plugin or "coevolve.training.verl.agent_loop"
    values = FIXED | {PLUGIN: plugin, f"+{JOB}.job": str(VerlFiles(job.run).job)}
    return _flat(values)


def environment(job: VerlJob) -> dict[str, str]:
    """Variables of the trainer and of all its Ray processes, to be set before verl is imported."""
    common = {MARK: job.run, "RAY_USAGE_STATS_ENABLED": "0", "TOKENIZERS_PARALLELISM": "false"}
    return common | job.environment


def recorded(settings: VerlSettings, preset: Preset, user: list[str]) -> VerlSettings:
    """The settings with what preset and user say about the result in verl's own words.

    The last word on a key counts; `~` is a key that is taken away.
    """
    last = dict(map(parsed, [*_flat(preset.overrides), *user]))
    deciding = {key: "~" if value is None else value for key, value in sorted(last.items())}
    for key in filter(MACHINE.fullmatch, last):
        del deciding[key]
    return msgspec.structs.replace(settings, overrides=deciding)


def engine(overrides: list[str]) -> str:
    """Name of the rollout engine, by the last word on it; empty where there is none."""
    return _engines(overrides)[-1]


def known_engines(job: VerlJob) -> list[str]:
    """verl's engines and, with a plugin, the one that its preset names; installed or not."""
    own = _engines(job.overrides)[:1] if job.plugin else []
    return list(dict.fromkeys([*ENGINES, *own]))


def _engines(overrides: list[str]) -> list[str]:
    named = [value for key, value in map(parsed, overrides) if key == f"{ROLLOUT}.name"]
    return [(value or "").strip("\"' ") for value in named] or [""]


def parsed(text: str) -> Override:
    """Raises UsageError for what is no override."""
    key, equals, value = text.lstrip("+~").partition("=")
    if not key or not (equals or text.startswith("~")):
        wanted = "after -- come overrides of verl's configuration, KEY=VALUE"
        raise UsageError(f"{wanted}, not {text!r}")
    return Override(key, None if text.startswith("~") else value)


def _refuse_contradictions(user: Iterable[str]) -> None:
    """Raises UsageError for overrides that would contradict the record of the run."""
    options = {key: f"--{name.replace('_', '-')}" for key, name in FROM_SETTINGS.items()}
    options |= FROM_OPTIONS
    reserved = sorted({*FIXED, *options, PLUGIN, JOB})
    for text in user:
        key = parsed(text).key.replace("/", ".")
        met = next((name for name in reserved if _overlap(key, name)), None)
        if met is None:
            continue
        what = key if met == key else f"{key} has to do with {met}, which"
        why = "is part of the objective or of the loop, and set by coevolve train itself"
        if met in options:
            why = f"follows from {options[met]}: give that instead of an override"
        raise UsageError(f"{what} {why}")


def _overlap(a: str, b: str) -> bool:
    """Whether two dotted keys name the same value, or one names a section that holds the other."""
    return f"{a}.".startswith(f"{b}.") or f"{b}.".startswith(f"{a}.")


def _flat(table: dict[str, Any], prefix: str = "") -> list[str]:
    """Nested tables as overrides; a key that begins with + is new to verl's files."""
    lines = []
    for key, value in table.items():
        plus, name = ("+", key[1:]) if key.startswith("+") else ("", key)
        if isinstance(value, dict):
            lines += [plus + line for line in _flat(value, f"{prefix}{name}.")]
        else:
            lines.append(f"{plus}{prefix}{name}={_hydra(value)}")
    return lines


def _hydra(value: Any) -> str:
    """A value as hydra's grammar has it."""
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{','.join(map(_hydra, value))}]"
    if isinstance(value, str) and not re.fullmatch(r"[\w./@-]+", value):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)
