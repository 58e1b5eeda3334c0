"""The rollout engine `coevolve_hf` for verl: plain Hugging Face generation in a Ray actor, for machines without vLLM.

It has verl's token interface and, as vLLM's engine does, an OpenAI-compatible HTTP server (`openai_server`). Requests that
wait together are sampled together (`LocalModel.sample`). A draw is a function of the request's `key`, where it has one.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import uuid4

import ray
import torch
from verl.workers.rollout import base
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry, TokenOutput

from coevolve.models.chat import ContextFull
from coevolve.models.transformers_lm import LocalModel, TokenRow
from coevolve.training.verl.openai_server import serve
from coevolve.training.verl.own import CPU_ROLLOUT

CONCURRENCY = 1000
"""Calls of the actor under way at once: a waiting request is one."""


class Asked(NamedTuple):
    """A request. `most` tokens; `temperature` 0 is greedy."""

    prompt: list[int]
    key: str
    temperature: float
    most: int
    answer: asyncio.Future


class Engine:
    """The actor. `context`: tokens of prompt and reply together."""

    def __init__(self, model: str, context: int):
        self.name = model
        self.model = LocalModel.load(
            model,
            device="cpu",
            dtype="float32",
            threads=1,
            max_tokens=context,
            max_turn_tokens=context,
        )
        self._waiting: list[Asked] = []
        self._working: asyncio.Task | None = None
        self._weights = threading.Lock()
        self._version: int | None = None

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

    async def ask(
        self, prompt: list[int], key: str | None, temperature: float, most: int
    ) -> tuple[TokenRow, int | None]:
        """The reply's own tokens, and the version of the weights that gave them. Raises ContextFull where no token fits."""
        if len(prompt) >= self.model.max_tokens:
            raise ContextFull(
                f"the prompt is {len(prompt)} tokens, and the maximum context is {self.model.max_tokens}"
            )
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append(Asked(prompt, key or uuid4().hex, temperature, most, answer))
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        """Answers what waits, batch by batch."""
        while self._waiting:
            temperature = self._waiting[0].temperature
            batch = [asked for asked in self._waiting if asked.temperature == temperature][
                : self.model.rows
            ]
            taken = set(map(id, batch))
            self._waiting = [asked for asked in self._waiting if id(asked) not in taken]
            try:
                rows = await asyncio.to_thread(self._sample, batch)
            except Exception as error:  # noqa: BLE001 - the boundary: each request gets its failure
                rows = [error] * len(batch)
            for asked, row in zip(batch, rows, strict=True):
                if asked.answer.cancelled():
                    continue
                if isinstance(row, Exception):
                    asked.answer.set_exception(row)
                else:
                    asked.answer.set_result(row)

    def _sample(self, batch: list[Asked]) -> list[tuple[TokenRow, int | None]]:
        """A reply that ran on beyond its limit is cut there: what a limit ends is the beginning of what none ends."""
        with self._weights:
            model, version = self.model, self._version
            model.max_turn_tokens = max(asked.most for asked in batch)
            prompts, keys = [asked.prompt for asked in batch], [asked.key for asked in batch]
            rows = model.sample(
                prompts, keys, lambda turns: [None] * len(turns), batch[0].temperature
            )
        return [(_own(row, asked), version) for row, asked in zip(rows, batch, strict=True)]

    async def update_weights(self, named: dict[str, torch.Tensor], version: int | None) -> None:
        """Takes the trainer's weights. Raises KeyError for a name that the model does not have."""
        await asyncio.to_thread(self._take, named, version)

    def _take(self, named: dict[str, torch.Tensor], version: int | None) -> None:
        with self._weights, torch.no_grad():
            own = self.model.model.state_dict()
            for name, value in named.items():
                own[name].copy_(value)
            if version is not None:
                self._version = version

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


def _own(row: TokenRow, asked: Asked) -> TokenRow:
    """The reply within its limit, without the prompt."""
    part = slice(len(asked.prompt), len(asked.prompt) + asked.most)
    return TokenRow(row.token_ids[part], row.mask[part], row.logprobs[part])


class Replica(RolloutReplica):
    """One engine for one rank of the trainer."""

    async def launch_servers(self) -> None:
        """Starts the actor and its HTTP server."""
        context = self.config.prompt_length + self.config.response_length
        actor = ray.remote(Engine).options(
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
    return f"{CPU_ROLLOUT}_{rank}"


RolloutReplicaRegistry.register(CPU_ROLLOUT, lambda: Replica)
base._ROLLOUT_REGISTRY[(CPU_ROLLOUT, "async")] = f"{__name__}.Adapter"
