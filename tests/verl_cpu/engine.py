"""Plain Hugging Face generation for many callers at once: requests that wait together are sampled
together.

A draw is a function of the request's key, where it has one. Weights can be replaced between two
batches.
"""

from __future__ import annotations

import asyncio
import threading
from typing import NamedTuple
from uuid import uuid4

import torch

from coevolve.models.chat import ContextFull
from coevolve.models.transformers_lm import LocalModel, TokenRow


class GenerationRequest(NamedTuple):
    """`most` tokens are wanted; `temperature` 0 is greedy."""

    prompt: list[int]
    key: str
    temperature: float
    most: int
    answer: asyncio.Future


class Engine:
    """`context`: tokens of prompt and reply together."""

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
        self._waiting: list[GenerationRequest] = []
        self._working: asyncio.Task | None = None
        self._weights = threading.Lock()
        self._version: int | None = None

    async def ask(
        self, prompt: list[int], key: str | None, temperature: float, most: int
    ) -> tuple[TokenRow, int | None]:
        """The reply's own tokens, and the version of the weights that gave them. Raises ContextFull
        where no token fits.
        """
        if len(prompt) >= self.model.max_tokens:
            raise ContextFull(
                f"the prompt is {len(prompt)} tokens, and the maximum context is "
                f"{self.model.max_tokens}"
            )
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append(
            GenerationRequest(prompt, key or uuid4().hex, temperature, most, answer)
        )
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())
        return await answer

    async def _work(self) -> None:
        """Answers what waits, batch by batch."""
        while self._waiting:
            temperature = self._waiting[0].temperature
            batch = [request for request in self._waiting if request.temperature == temperature][
                : self.model.rows
            ]
            taken = set(map(id, batch))
            self._waiting = [request for request in self._waiting if id(request) not in taken]
            try:
                rows = await asyncio.to_thread(self._sample, batch)
            except Exception as error:  # noqa: BLE001 - the boundary: each request gets its failure
                rows = [error] * len(batch)
            for request, row in zip(batch, rows, strict=True):
                if request.answer.cancelled():
                    continue
                if isinstance(row, Exception):
                    request.answer.set_exception(row)
                else:
                    request.answer.set_result(row)

    def _sample(self, batch: list[GenerationRequest]) -> list[tuple[TokenRow, int | None]]:
        """A reply that ran on beyond its limit is cut there: what a limit ends is the beginning of
        what none ends.
        """
        with self._weights:
            model, version = self.model, self._version
            model.max_turn_tokens = max(request.most for request in batch)
            prompts, keys = (
                [request.prompt for request in batch],
                [request.key for request in batch],
            )
            rows = model.sample(
                prompts, keys, lambda turns: [None] * len(turns), batch[0].temperature
            )
        return [
            (_within_limit(row, request), version) for row, request in zip(rows, batch, strict=True)
        ]

    async def update_weights(self, named: dict[str, torch.Tensor], version: int | None) -> None:
        """Takes the trainer's weights. Raises KeyError for a name that the model does not have."""
        await asyncio.to_thread(self._take, named, version)

    def _take(self, named: dict[str, torch.Tensor], version: int | None) -> None:
        with self._weights, torch.no_grad():
            current = self.model.model.state_dict()
            for name, value in named.items():
                current[name].copy_(value)
            if version is not None:
                self._version = version


def _within_limit(row: TokenRow, request: GenerationRequest) -> TokenRow:
    """The reply within its limit, without the prompt."""
    part = slice(len(request.prompt), len(request.prompt) + request.most)
    return TokenRow(row.token_ids[part], row.mask[part], row.logprobs[part])
