"""What a verl run would be, without starting it: its configuration composed and checked by verl, its work, what may not fit.

`plan` raises UsageError for what cannot work anywhere: an override that verl does not know, a batch that the GPUs cannot
share. What does not fit this machine (disk space, processors, GPUs, vLLM) is told in `notes`. `refuse` is asked before a
trainer starts, and raises for all of that but disk space, which is only an estimate.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import msgspec

from coevolve.errors import Unreachable, UsageError
from coevolve.training.verl import own
from coevolve.training.verl.compose import resolved
from coevolve.training.verl.driver import Options, job
from coevolve.training.verl.files import Files, Job
from coevolve.training.verl.settings import Settings, recorded

CHECKPOINT_BYTES = 16
"""A parameter in a checkpoint: float32 weights, two moments of Adam, the Hugging Face copy."""
CPUS_OF_A_GPU = 3
"""Ray's slots in verl's bundle for a GPU."""


def plan(settings: Settings, options: Options, run: str, env: str) -> dict[str, Any]:
    """Settings, work, notes and verl's whole configuration. Takes ten seconds: verl is imported by a process of its own."""
    told = job(settings, options, Files(run), env)
    config = _composed(told)
    gpus = _check(settings, config)
    rollouts = settings.steps * settings.batch * settings.samples
    size = (_parameters(Path(settings.model)) or options.preset.parameters or 0) * CHECKPOINT_BYTES
    return {
        "command": "train",
        "settings": msgspec.to_builtins(recorded(settings, options.preset, options.overrides)),
        "work": {
            "rollouts": rollouts,
            "updates": settings.steps,
            "tokens_at_most": rollouts * settings.max_tokens,
            "gpus": gpus if options.preset.device == "cuda" else 0,
            "checkpoint_gb": round(size / 1e9, 1) or None,
        },
        "notes": [
            *_disk(Path(run), size, options.keep_checkpoints),
            *_lacking(told),
            *_machine(config, options.preset.device),
        ],
        "overrides": told.overrides,
        "configuration": config,
    }


def refuse(settings: Settings, told: Job) -> None:
    """Raises UsageError for a configuration that cannot work, Unreachable for a machine that cannot carry it out.

    What is not there at all is found at once; whether there is enough takes ten seconds."""
    _raise(_lacking(told))
    config = _composed(told)
    _check(settings, config)
    _raise(_machine(config, told.device))


def _raise(notes: list[str]) -> None:
    if notes:
        raise Unreachable(f"this machine cannot carry the run out: {'; '.join(notes)} (--dry-run shows the whole plan)")


def _composed(told: Job) -> dict[str, Any]:
    return resolved([*told.overrides, *own.overrides(told)], own.environment(told))


def _lacking(told: Job) -> list[str]:
    """What the job needs and this machine has none of; a Ray cluster that is joined (RAY_ADDRESS) has its own."""
    if os.environ.get("RAY_ADDRESS"):
        return []
    notes = []
    if own.engine(told) == "vllm" and importlib.util.find_spec("vllm") is None:
        notes.append("vllm is not installed (coevolve doctor vllm)")
    if told.device == "cuda" and not _gpus():
        notes.append("no GPU is seen here (coevolve doctor gpu)")
    return notes


def _check(settings: Settings, config: dict[str, Any]) -> int:
    """GPUs in all. What verl itself finds out only when everything is loaded."""
    trainer, rollout, actor = (
        config["trainer"],
        config["actor_rollout_ref"]["rollout"],
        config["actor_rollout_ref"]["actor"],
    )
    for name in ("nnodes", "n_gpus_per_node"):
        if not isinstance(trainer[name], int):
            raise UsageError(f"trainer.{name} takes a number, not {trainer[name]!r}")
    gpus = trainer["nnodes"] * trainer["n_gpus_per_node"]
    parallel = rollout["tensor_model_parallel_size"]
    if settings.batch * settings.samples % gpus:
        raise UsageError(
            f"--batch {settings.batch} times --samples {settings.samples} must be a multiple of the {gpus} GPUs"
        )
    if gpus % parallel:
        raise UsageError(f"rollout.tensor_model_parallel_size {parallel} must divide the {gpus} GPUs")
    if actor["use_dynamic_bsz"] and actor["ppo_max_token_len_per_gpu"] < settings.max_tokens:
        raise UsageError(
            f"actor.ppo_max_token_len_per_gpu {actor['ppo_max_token_len_per_gpu']} must hold one episode of --max-tokens {settings.max_tokens}"
        )
    micro = actor["ppo_micro_batch_size_per_gpu"] or 1
    if not actor["use_dynamic_bsz"] and settings.batch * settings.samples % (gpus * micro):
        raise UsageError(
            f"actor.ppo_micro_batch_size_per_gpu {micro} must divide each GPU's {settings.batch * settings.samples // gpus} rollouts"
        )
    return gpus


def _parameters(model: Path) -> int | None:
    """Numbers in a model directory's weights, from the heads of its files."""
    total = 0
    for file in model.glob("*.safetensors"):
        with open(file, "rb") as stream:
            head = msgspec.json.decode(stream.read(struct.unpack("<Q", stream.read(8))[0]), type=dict[str, Any])
        for name, tensor in head.items():
            if name != "__metadata__":
                count = 1
                for length in tensor["shape"]:
                    count *= length
                total += count
    return total or None


def _disk(run: Path, size: float, keep: int) -> list[str]:
    where = next(p for p in (run.absolute(), *run.absolute().parents) if p.exists())
    free = shutil.disk_usage(where).free
    needed = size * (keep + 1)
    if needed < free:
        return []
    return [
        f"{where} has {free / 1e9:.0f} GB free, and {keep + 1} checkpoints take {needed / 1e9:.0f} GB (--keep-checkpoints)"
    ]


def _machine(config: dict[str, Any], device: str) -> list[str]:
    """Of this machine; a Ray cluster that is joined (RAY_ADDRESS) has its own."""
    if os.environ.get("RAY_ADDRESS"):
        return []
    notes, trainer = [], config["trainer"]
    units = config["transfer_queue"]["backend"]["SimpleStorage"]["num_data_storage_units"]
    needed = CPUS_OF_A_GPU * trainer["n_gpus_per_node"] + units + 2
    slots = config["ray_kwargs"]["ray_init"].get("num_cpus") or os.cpu_count()
    if slots < needed:
        notes.append(
            f"Ray has {slots} CPU slots here and this takes {needed} a node: it would wait forever (ray_kwargs.ray_init.num_cpus)"
        )
    if device == "cuda":
        seen = _gpus()
        if 0 < seen < trainer["n_gpus_per_node"]:
            notes.append(f"{seen} GPUs are seen here, and the configuration asks for {trainer['n_gpus_per_node']}")
        if trainer["nnodes"] > 1:
            notes.append(f"{trainer['nnodes']} nodes: RAY_ADDRESS is not set, so Ray would start on this one alone")
    return notes


def _gpus() -> int:
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines())
