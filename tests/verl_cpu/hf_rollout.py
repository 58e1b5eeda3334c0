"""The rollout engine `coevolve_hf` for verl: plain Hugging Face generation in a Ray actor, for
machines without vLLM.

It has verl's token interface and, as vLLM's engine does, an OpenAI-compatible HTTP server
(`openai_server`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import ray
import torch
from verl.workers.rollout import base
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

from verl_cpu.engine import Engine
from verl_cpu.openai_server import serve

NAME = "coevolve_hf"
"""The engine's name in verl's registry: `rollout.name`."""
CONCURRENCY = 1000
"""Calls of the actor under way at once: a waiting request is one."""


class EngineActor(Engine):
    """The engine with what verl asks of an engine's actor."""

    async def start(self) -> str:
        """Starts the HTTP server; returns its address, HOST:PORT."""
        return await serve(self)

    async def generate(
        self,
        request_id: str,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        image_data: None = None,
        video_data: None = None,
    ) -> TokenOutput:
        """One reply in tokens, as verl asks for it. Raises ContextFull where no token fits."""
        row, version = await self.ask(
            list(prompt_ids),
            sampling_params.get("key") or request_id,
            float(sampling_params.get("temperature", 1.0)),
            int(sampling_params.get("max_tokens") or self.model.max_tokens),
        )
        return TokenOutput(
            token_ids=row.token_ids,
            log_probs=row.logprobs,
            stop_reason="completed",
            extra_fields={"global_steps": version},
        )

    async def wake_up(self, tags: list[str] | None = None) -> None:
        """It never sleeps: there is no device memory to give back."""

    async def sleep(self) -> None:
        """See `wake_up`."""

    async def abort_all_requests(self, reject_request: bool = False) -> None:
        """Only asynchronous trainers interrupt replies."""

    async def resume_generation(self) -> None:
        """See `abort_all_requests`."""

    async def clear_kv_cache(self) -> None:
        """No cache outlives a batch."""

    async def release_kv_cache(self) -> None:
        """See `clear_kv_cache`."""

    async def resume_kv_cache(self) -> None:
        """See `clear_kv_cache`."""

    async def start_profile(self, role: str | None = None, profile_step: int | None = None) -> None:
        """Nothing to profile."""

    async def stop_profile(self) -> None:
        """See `start_profile`."""


class Replica(RolloutReplica):
    """One engine for one rank of the trainer."""

    async def launch_servers(self) -> None:
        """Starts the actor and its HTTP server."""
        context = self.config.prompt_length + self.config.response_length
        actor = ray.remote(EngineActor).options(
            name=_name(self.replica_rank), num_cpus=0, max_concurrency=CONCURRENCY
        )
        self._server_handle = actor.remote(self.model_config.path, context)
        self.servers = [self._server_handle]
        self._server_address = await self._server_handle.start.remote()


class Adapter(BaseRollout):
    """The trainer's side: hands its weights to the engine of its rank."""

    def __init__(
        self, config: Any, model_config: Any, device_mesh: Any, replica_rank: int = -1, **_: Any
    ):
        super().__init__(config, model_config, device_mesh)
        self._rank = int(os.environ["RANK"])
        self._engine: Any = None

    async def resume(self, tags: list[str]) -> None:
        """The engine never sleeps."""

    async def release(self) -> None:
        """The engine never sleeps."""

    async def update_weights(
        self,
        weights: Iterable[tuple[str, torch.Tensor]],
        global_steps: int | None = None,
        wire_format: str = "named_tensors",
        **_: Any,
    ) -> None:
        """Sends all weights at once; `global_steps` is their version."""
        named = {name: value.detach().cpu().float().clone() for name, value in weights}
        if self._engine is None:
            self._engine = ray.get_actor(_name(self._rank))
        await self._engine.update_weights.remote(named, global_steps)


def _name(rank: int) -> str:
    return f"{NAME}_{rank}"


RolloutReplicaRegistry.register(NAME, lambda: Replica)
base._ROLLOUT_REGISTRY[(NAME, "async")] = f"{__name__}.Adapter"
