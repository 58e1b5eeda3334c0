"""verl on a machine without an accelerator: a platform by verl's own extension point, and two of
its calls replaced.

Import it by VERL_USE_EXTERNAL_MODULES, choose it by VERL_PLATFORM=cpu. The Ray slots of the workers
stay "GPU": logical ones, that `ray_kwargs.ray_init.num_gpus` grants. verl's FSDP engine is
registered for `cuda` (VERL_ENGINE_DEVICE) and runs over gloo.
"""

from __future__ import annotations

import functools
import gc
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry


def _memory() -> tuple[int, int]:
    """Free and total memory in bytes, as `torch.cuda.mem_get_info` has them."""
    import psutil

    memory = psutil.virtual_memory()
    return memory.available, memory.total


def _nothing(*_: Any, **__: Any) -> None:
    """What there is to do on a CPU for a call about a device."""


def _zero(*_: Any) -> int:
    return 0


def _collect(*_: Any) -> None:
    """In place of waiting for a stream: frees the shared-memory buckets of a weight transfer, which
    cycles keep alive.
    """
    gc.collect()


class _Device(types.ModuleType):
    """`torch.cpu` with what verl asks of `torch.<device>`."""

    synchronize = staticmethod(_collect)
    memory_allocated = memory_reserved = max_memory_allocated = max_memory_reserved = staticmethod(
        _zero
    )
    empty_cache = ipc_collect = reset_peak_memory_stats = staticmethod(_nothing)
    manual_seed = manual_seed_all = set_device = init = staticmethod(_nothing)
    mem_get_info = staticmethod(lambda *_: _memory())
    get_device_name = staticmethod(lambda *_: "cpu")
    get_rng_state = staticmethod(lambda *_: torch.get_rng_state())
    set_rng_state = staticmethod(lambda state, *_: torch.set_rng_state(state))

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)


@PlatformRegistry.register(platform="cpu")
class Cpu(PlatformBase):
    """See verl's PlatformBase for what each method is asked for."""

    device_name = vendor_name = "cpu"
    device_module = _Device("coevolve_cpu_device")

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        """Only by name, never by detection."""
        return False

    def current_device(self) -> str:
        return "cpu"

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        """There is one."""

    def synchronize(self, device_index: int | None = None) -> None:
        """Nothing runs beside."""

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        """The allocator is the system's."""

    def empty_cache(self) -> None:
        """There is none."""

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        """No device profiler."""

    def profiler_stop(self) -> None:
        """No device profiler."""

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        """No: weights go through shared memory."""
        return False

    def cudart(self) -> None:
        """None there."""


def patch_verl() -> None:
    """Changes two calls of verl 0.9.1 in this process; not to be called by a module that verl loads
    while it is loading.
    """
    import verl.workers.engine.fsdp.transformer_impl as engine
    import verl.workers.engine_workers as workers

    # verl asks for "cpu:gloo,<device>:<backend>", and torch refuses "cpu" named twice.
    if not isinstance(workers.initialize_global_process_group_ray, functools.partial):
        workers.initialize_global_process_group_ray = functools.partial(
            workers.initialize_global_process_group_ray, backend="gloo"
        )
    # The frozen reference is offloaded to pinned memory, which only an accelerator's driver can
    # pin.
    engine.CPUOffloadPolicy = _unpinned


def _unpinned(pin_memory: bool = True) -> Any:
    """torch's policy for offloaded parameters, without pinned memory."""
    from torch.distributed.fsdp import CPUOffloadPolicy

    return CPUOffloadPolicy(pin_memory=False)
