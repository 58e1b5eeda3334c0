"""vLLM's CPU build as verl's rollout engine: what its workers need so that weights can be pushed
into them.

vLLM names the class by `engine_kwargs.vllm.worker_extension_cls` and mixes it into its worker, in
the engine's own process.
"""

from __future__ import annotations

from typing import Any

import torch
from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension


class WorkerExtension(vLLMColocateWorkerExtension):
    """verl's own, in a worker whose linear layers keep their weights."""

    def __new__(cls, **given: Any) -> WorkerExtension:
        from vllm.model_executor.layers import utils

        utils.dispatch_cpu_unquantized_gemm = _plain
        return super().__new__(cls, **given)


def _plain(layer: torch.nn.Module, remove_weight: bool) -> None:
    """In place of vLLM's choice of a kernel: the kernels take packed copies and drop the weight
    that an update would load.
    """
    if not layer.weight.is_meta and layer.weight.ndim == 2:
        layer.cpu_linear = torch.nn.functional.linear
