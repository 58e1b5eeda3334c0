"""Our agent loop for verl 0.9.1: `episodes.Player` behind verl's interface.

In: a row of `trainer.Trainer`, whose `extra_info` is what `packed` makes. Out: verl's
AgentLoopOutput with the reward, the exact mask and log-probabilities, and in
`extra_fields["coevolve"]` a `measures.Summary` for the trainer.
"""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from verl.experimental.agent_loop.agent_loop import (
    AgentLoopBase,
    AgentLoopMetrics,
    AgentLoopOutput,
    register,
)

from coevolve.errors import CoevolveError
from coevolve.records import Task
from coevolve.training.verl.episodes import EpisodePlace, PlayedEpisode, Player, Sampled
from coevolve.training.verl.files import VerlJob, read
from coevolve.training.verl.overrides import AGENT_LOOP

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def packed(task: Task, iteration: int, policy: str, again: int) -> dict[str, Any]:
    """`extra_info` of a row. The task is text: verl merges the fields of nested objects."""
    return {
        "task": msgspec.json.encode(task).decode(),
        "iteration": iteration,
        "policy": policy,
        "again": again,
    }


@register(AGENT_LOOP)
class AgentLoop(AgentLoopBase):
    """verl makes one for every episode."""

    def __init__(
        self, trainer_config: Any, server_manager: Any, tokenizer: PreTrainedTokenizerBase, **_: Any
    ):
        # Not verl's own __init__: it builds a token framer for every episode, and `Player` has its
        # own.
        self.rollout_config = trainer_config.config.actor_rollout_ref.rollout
        self.server_manager, self.tokenizer = server_manager, tokenizer

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> AgentLoopOutput:
        """Plays one session of a row. Raises WriteFailed only."""
        player = _player(self.rollout_config.custom["coevolve"]["job"], self.tokenizer)
        about, step = row["extra_info"], int(row["global_steps"]) - 1
        versions: list[int] = []

        async def generate(token_ids: list[int], most: int, key: str) -> Sampled:
            wanted = {"max_tokens": most, "stop_token_ids": sorted(player.stops)}
            output = await self.server_manager.generate(
                request_id,
                prompt_ids=token_ids,
                sampling_params={**sampling_params, **wanted, **self.sampling(key)},
            )
            versions.extend(v for v in map(output.extra_fields.get, _VERSIONS) if v is not None)
            return Sampled(list(output.token_ids), list(output.log_probs or []))

        place = EpisodePlace(
            about["iteration"], step, about["policy"], about["again"], int(row["session_id"])
        )
        # The same for all turns: they reach the same replica, whose cache holds the turns before.
        request_id = f"{row['uid']}-{place.session}"
        played = await player.play(msgspec.json.decode(about["task"], type=Task), place, generate)
        return _output(played, versions or [step])

    def sampling(self, key: str) -> dict[str, Any]:
        """Further sampling parameters, for an engine whose draws a reply's `key` can name."""
        return {}


_VERSIONS = ("min_global_steps", "max_global_steps")


def _output(played: PlayedEpisode, versions: list[int]) -> AgentLoopOutput:
    summary = msgspec.structs.replace(
        played.summary,
        trained=sum(played.mask),
        other_weights=any(version != played.rollout.step for version in versions),
    )
    return AgentLoopOutput(
        prompt_ids=played.prompt_ids,
        response_ids=played.response_ids,
        response_mask=played.mask,
        response_logprobs=played.logprobs,
        reward_score=summary.reward,
        num_turns=2 * summary.replies,
        metrics=AgentLoopMetrics(
            generate_sequences=played.seconds_policy, tool_calls=played.seconds_environment
        ),
        extra_fields={
            "reward_extra_info": {"acc": summary.reward},
            "min_global_steps": min(versions),
            "max_global_steps": max(versions),
            "coevolve": msgspec.to_builtins(summary),
        },
    )


@functools.cache
def _player(job_file: str, tokenizer: PreTrainedTokenizerBase) -> Player:
    """The player of this worker process."""
    job = read(Path(job_file), VerlJob)
    if job is None:
        raise CoevolveError(f"{job_file}: is gone, and the run cannot go on without it")
    return Player(job, tokenizer, _stops(tokenizer, job.settings.model))


def _stops(tokenizer: PreTrainedTokenizerBase, model: str) -> set[int]:
    """Ids that end a reply: the tokenizer's, and the model's generation config's."""
    from transformers import GenerationConfig

    found = [tokenizer.eos_token_id]
    with contextlib.suppress(OSError):
        ids = GenerationConfig.from_pretrained(model).eos_token_id
        found += ids if isinstance(ids, list) else [ids]
    return {id_ for id_ in found if id_ is not None}
