"""What the numbers and names of a composed configuration must be, whoever gave them: verl finds out when everything is loaded.

`check` raises UsageError with the key, and why. That what is here fits a machine is another matter (preflight.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from coevolve.errors import UsageError
from coevolve.training.verl import own
from coevolve.training.verl.settings import VerlSettings, context

ACTOR, REF, ROLLOUT = (f"actor_rollout_ref.{part}" for part in ("actor", "ref", "rollout"))
UNITS = "transfer_queue.backend.SimpleStorage.num_data_storage_units"
SLOTS = "ray_kwargs.ray_init.num_cpus"


class Number(NamedTuple):
    """Above 0 and at most `most`; with `optional` null will do, which leaves it to verl."""

    key: str
    most: float = math.inf
    whole: bool = True
    optional: bool = False


NUMBERS = (
    Number("trainer.nnodes"),
    Number("trainer.n_gpus_per_node"),
    Number(f"{ROLLOUT}.tensor_model_parallel_size"),
    Number(f"{ROLLOUT}.data_parallel_size"),
    Number(f"{ROLLOUT}.pipeline_model_parallel_size"),
    Number(f"{ROLLOUT}.gpu_memory_utilization", most=1, whole=False),
    Number(f"{ROLLOUT}.max_num_seqs"),
    Number(f"{ROLLOUT}.max_num_batched_tokens"),
    Number(f"{ROLLOUT}.max_model_len", optional=True),
    Number(f"{ROLLOUT}.agent.num_workers"),
    Number(f"{ROLLOUT}.log_prob_max_token_len_per_gpu"),
    Number(f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu", optional=True),
    Number(f"{ACTOR}.ppo_max_token_len_per_gpu"),
    Number(f"{ACTOR}.ppo_micro_batch_size_per_gpu", optional=True),
    Number(f"{ACTOR}.ulysses_sequence_parallel_size"),
    Number(f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size"),
    Number(f"{REF}.log_prob_max_token_len_per_gpu"),
    Number(f"{REF}.log_prob_micro_batch_size_per_gpu", optional=True),
    Number(f"{REF}.ulysses_sequence_parallel_size"),
    Number(f"{REF}.fsdp_config.ulysses_sequence_parallel_size"),
    Number(UNITS),
    Number(SLOTS, optional=True),
)
NAMES = {
    f"{ACTOR}.strategy": ("fsdp", "fsdp2"),
    f"{REF}.strategy": ("fsdp", "fsdp2"),
    f"{ROLLOUT}.mode": ("async",),
}


def check(settings: VerlSettings, config: dict[str, Any]) -> int:
    """GPUs in all. Raises UsageError for what cannot work on any machine."""
    for number in NUMBERS:
        _check_number(number, value(config, number.key))
    for key, names in NAMES.items():
        if value(config, key) not in names:
            raise UsageError(f"{key} takes {' or '.join(names)}, not {_shown(value(config, key))}")
    gpus = value(config, "trainer.nnodes") * value(config, "trainer.n_gpus_per_node")
    for holds, complaint in (*_shares(settings, config, gpus), *_lengths(settings, config)):
        if not holds:
            raise UsageError(complaint)
    return gpus


def value(config: dict[str, Any], key: str) -> Any:
    """What the configuration has under a dotted key; None where it has nothing."""
    found: Any = config
    for name in key.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _check_number(number: Number, given: Any) -> None:
    if given is None and number.optional:
        return
    kinds = int if number.whole else (int, float)
    if isinstance(given, bool) or not isinstance(given, kinds) or not 0 < given <= number.most:
        range_ = (
            f"a number above 0 and at most {number.most:g}"
            if number.most < math.inf
            else "a number, at least 1"
        )
        raise UsageError(f"{number.key} takes {range_}, not {_shown(given)}")


def _shown(given: Any) -> str:
    return "null" if given is None else repr(given)


def _shares(
    settings: VerlSettings, config: dict[str, Any], gpus: int
) -> Iterator[tuple[bool, str]]:
    """How the work is divided among GPUs: what has to hold, and what to say where it does not."""
    rollouts = settings.batch * settings.samples
    yield (
        rollouts % gpus == 0,
        f"--batch {settings.batch} times --samples {settings.samples} must be a multiple of the {gpus} GPUs",
    )
    replica = 1
    for name in (
        "tensor_model_parallel_size",
        "data_parallel_size",
        "pipeline_model_parallel_size",
    ):
        replica *= value(config, f"{ROLLOUT}.{name}")
        yield (
            gpus % replica == 0,
            f"{ROLLOUT}.{name} must divide the {gpus} GPUs: a replica would have {replica}",
        )
    for part in (ACTOR, REF):
        parallel = _sequence_parallel(config, part)
        yield (
            gpus % parallel == 0,
            f"{part}.ulysses_sequence_parallel_size {parallel} must divide the {gpus} GPUs",
        )
        size = value(config, f"{part}.fsdp_config.fsdp_size")
        whole = isinstance(size, int) and size != 0
        yield (
            whole and (size < 0 or size >= gpus or gpus % size == 0),
            f"{part}.fsdp_config.fsdp_size {_shown(size)} must divide the {gpus} GPUs; -1 is all of them",
        )
    dynamic = value(config, f"{ACTOR}.use_dynamic_bsz")
    yield (
        dynamic == value(config, f"{ROLLOUT}.log_prob_use_dynamic_bsz"),
        f"{ACTOR}.use_dynamic_bsz and {ROLLOUT}.log_prob_use_dynamic_bsz must be the same: verl gives both to one engine",
    )
    micro = value(config, f"{ACTOR}.ppo_micro_batch_size_per_gpu") or 1
    yield (
        dynamic or rollouts % (gpus * micro) == 0,
        f"{ACTOR}.ppo_micro_batch_size_per_gpu {micro} must divide each GPU's {rollouts // gpus} rollouts",
    )


def _sequence_parallel(config: dict[str, Any], part: str) -> int:
    """GPUs that share a sequence: the part's own word, unless it is 1, then its engine's."""
    said = value(config, f"{part}.ulysses_sequence_parallel_size")
    return said if said > 1 else value(config, f"{part}.fsdp_config.ulysses_sequence_parallel_size")


def _lengths(settings: VerlSettings, config: dict[str, Any]) -> Iterator[tuple[bool, str]]:
    """Whether an episode has room in a GPU's token budgets, in the engine and in the model: as in `_shares`."""
    for dynamic, part, name, parallel in (
        (f"{ACTOR}.use_dynamic_bsz", ACTOR, "ppo_max_token_len_per_gpu", ACTOR),
        (f"{ROLLOUT}.log_prob_use_dynamic_bsz", ROLLOUT, "log_prob_max_token_len_per_gpu", ACTOR),
        (f"{REF}.log_prob_use_dynamic_bsz", REF, "log_prob_max_token_len_per_gpu", REF),
    ):
        budget = value(config, f"{part}.{name}")
        yield (
            not value(config, dynamic)
            or budget * _sequence_parallel(config, parallel) >= settings.episode_tokens,
            f"{part}.{name} {budget} must hold one episode of --episode-tokens {settings.episode_tokens}",
        )
    if value(config, f"{ROLLOUT}.name") == own.CPU_ROLLOUT:
        return
    room = value(config, f"{ROLLOUT}.max_model_len")
    yield (
        room is None or room >= settings.episode_tokens,
        f"{ROLLOUT}.max_model_len {room} must hold one episode of --episode-tokens {settings.episode_tokens}",
    )
    model = value(config, "actor_rollout_ref.model.override_config.max_position_embeddings")
    model = model or context(Path(settings.model)) or math.inf
    for name, tokens in (
        ("--episode-tokens", settings.episode_tokens),
        (f"{ROLLOUT}.max_model_len", room or 0),
    ):
        yield (
            tokens <= model,
            f"{name} {tokens} is more than {settings.model} can take: {model} tokens",
        )
