"""What the numbers and names of a composed configuration must be, whoever gave them: verl finds out
when everything is loaded.

`check` raises UsageError with the key, and why. That what is here fits a machine is another matter
(preflight.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from coevolve.errors import UsageError
from coevolve.training.verl.overrides import ACTOR, REF, ROLLOUT
from coevolve.training.verl.settings import VerlSettings, context

UNITS = "transfer_queue.backend.SimpleStorage.num_data_storage_units"
SLOTS = "ray_kwargs.ray_init.num_cpus"


class NumberRange(NamedTuple):
    """Above 0 and at most `most`; with `optional` null will do, which leaves it to verl."""

    key: str
    most: float = math.inf
    whole: bool = True
    optional: bool = False


NUMBERS = (
    NumberRange("trainer.nnodes"),
    NumberRange("trainer.n_gpus_per_node"),
    NumberRange(f"{ROLLOUT}.tensor_model_parallel_size"),
    NumberRange(f"{ROLLOUT}.data_parallel_size"),
    NumberRange(f"{ROLLOUT}.pipeline_model_parallel_size"),
    NumberRange(f"{ROLLOUT}.gpu_memory_utilization", most=1, whole=False),
    NumberRange(f"{ROLLOUT}.max_num_seqs"),
    NumberRange(f"{ROLLOUT}.max_num_batched_tokens"),
    NumberRange(f"{ROLLOUT}.max_model_len", optional=True),
    NumberRange(f"{ROLLOUT}.agent.num_workers"),
    NumberRange(f"{ROLLOUT}.log_prob_max_token_len_per_gpu"),
    NumberRange(f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu", optional=True),
    NumberRange(f"{ACTOR}.ppo_max_token_len_per_gpu"),
    NumberRange(f"{ACTOR}.ppo_micro_batch_size_per_gpu", optional=True),
    NumberRange(f"{ACTOR}.ulysses_sequence_parallel_size"),
    NumberRange(f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size"),
    NumberRange(f"{REF}.log_prob_max_token_len_per_gpu"),
    NumberRange(f"{REF}.log_prob_micro_batch_size_per_gpu", optional=True),
    NumberRange(f"{REF}.ulysses_sequence_parallel_size"),
    NumberRange(f"{REF}.fsdp_config.ulysses_sequence_parallel_size"),
    NumberRange(UNITS),
    NumberRange(SLOTS, optional=True),
)
NAMES = {
    f"{ACTOR}.strategy": ("fsdp", "fsdp2"),
    f"{REF}.strategy": ("fsdp", "fsdp2"),
    f"{ROLLOUT}.mode": ("async",),
}


def check(settings: VerlSettings, config: dict[str, Any]) -> int:
    """Returns the number of GPUs in all. Raises UsageError for what cannot work on any machine."""
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


def _check_number(number: NumberRange, given: Any) -> None:
    if given is None and number.optional:
        return
    kinds = int if number.whole else (int, float)
    if isinstance(given, bool) or not isinstance(given, kinds) or not 0 < given <= number.most:
        most = f"above 0 and at most {number.most:g}"
        wanted = f"a number {most}" if number.most < math.inf else "a number, at least 1"
        raise UsageError(f"{number.key} takes {wanted}, not {_shown(given)}")


def _shown(given: Any) -> str:
    return "null" if given is None else repr(given)


def _shares(
    settings: VerlSettings, config: dict[str, Any], gpus: int
) -> Iterator[tuple[bool, str]]:
    """How the work is divided among GPUs: what has to hold, and what to say where it does not."""
    batch, samples = settings.batch, settings.samples
    whole = f"--batch {batch} times --samples {samples} must be a multiple of the {gpus} GPUs"
    yield batch * samples % gpus == 0, whole
    replica = 1
    for kind in ("tensor_model", "data", "pipeline_model"):
        key = f"{ROLLOUT}.{kind}_parallel_size"
        replica *= value(config, key)
        yield (
            gpus % replica == 0,
            f"{key} must divide the {gpus} GPUs: a replica would have {replica}",
        )
    for part in (ACTOR, REF):
        shared = _sequence_parallel(config, part)
        key = f"{part}.ulysses_sequence_parallel_size"
        yield gpus % shared == 0, f"{key} {shared} must divide the {gpus} GPUs"
        key = f"{part}.fsdp_config.fsdp_size"
        size = value(config, key)
        divides = isinstance(size, int) and size and (not 0 < size < gpus or gpus % size == 0)
        yield divides, f"{key} {_shown(size)} must divide the {gpus} GPUs; -1 is all of them"
    key, other = f"{ACTOR}.use_dynamic_bsz", f"{ROLLOUT}.log_prob_use_dynamic_bsz"
    dynamic = value(config, key)
    same = f"{key} and {other} must be the same: verl gives both to one engine"
    yield dynamic == value(config, other), same
    key = f"{ACTOR}.ppo_micro_batch_size_per_gpu"
    micro = value(config, key) or 1
    each = batch * samples // gpus
    yield dynamic or each % micro == 0, f"{key} {micro} must divide each GPU's {each} rollouts"


def _sequence_parallel(config: dict[str, Any], part: str) -> int:
    """GPUs that share a sequence: the part's own word, unless it is 1, then its engine's."""
    stated = value(config, f"{part}.ulysses_sequence_parallel_size")
    engine = value(config, f"{part}.fsdp_config.ulysses_sequence_parallel_size")
    return stated if stated > 1 else engine


def _lengths(settings: VerlSettings, config: dict[str, Any]) -> Iterator[tuple[bool, str]]:
    """Whether an episode has room in GPU, engine and model: as in `_shares`."""
    episode = f"must hold one episode of --episode-tokens {settings.episode_tokens}"
    for dynamic, key, part in (
        (f"{ACTOR}.use_dynamic_bsz", f"{ACTOR}.ppo_max_token_len_per_gpu", ACTOR),
        (f"{ROLLOUT}.log_prob_use_dynamic_bsz", f"{ROLLOUT}.log_prob_max_token_len_per_gpu", ACTOR),
        (f"{REF}.log_prob_use_dynamic_bsz", f"{REF}.log_prob_max_token_len_per_gpu", REF),
    ):
        budget = value(config, key)
        room = budget * _sequence_parallel(config, part)
        fits = not value(config, dynamic) or room >= settings.episode_tokens
        yield fits, f"{key} {budget} {episode}"
    key = f"{ROLLOUT}.max_model_len"
    length = value(config, key)
    yield length is None or length >= settings.episode_tokens, f"{key} {length} {episode}"
    model = value(config, "actor_rollout_ref.model.override_config.max_position_embeddings")
    model = model or context(Path(settings.model)) or math.inf
    for name, tokens in (("--episode-tokens", settings.episode_tokens), (key, length or 0)):
        takes = f"{name} {tokens} is more than {settings.model} can take: {model} tokens"
        yield tokens <= model, takes
