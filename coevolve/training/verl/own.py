"""What the child itself sets in verl's configuration and in its environment: nothing here is a choice of the user's.

The child composes `job.overrides + overrides(job)`; so does a dry run. Imports neither torch nor verl.
"""

from __future__ import annotations

import os

from coevolve.training.verl.files import MARK, Files, Job
from coevolve.training.verl.user_overrides import parsed

AGENT_LOOP = "coevolve"
"""Name of our agent loop in verl's registry."""
ESTIMATOR = "coevolve_grpo"
"""Name of our advantage estimator in verl's registry: `algorithm.adv_estimator`."""
CPU_ROLLOUT = "coevolve_hf"
"""Name of the plain rollout engine in verl's registry: `rollout.name` where there is no vLLM."""
ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt_llm", CPU_ROLLOUT: "verl"}
"""verl's registry of asynchronous rollout engines, ours included, and the module that each needs."""
PLUGIN = "coevolve.training.verl.plugin"
ENDLESS = 1_000_000_000
"""Steps and epochs after which verl would stop by itself; our trainer ends the run, at a boundary."""


_ROLLOUT = "actor_rollout_ref.rollout"
_JOB = f"{_ROLLOUT}.custom.coevolve"
_FIXED = {
    "actor_rollout_ref.model.external_lib": PLUGIN,
    f"{_ROLLOUT}.agent.default_agent_loop": AGENT_LOOP,
    f"{_ROLLOUT}.multi_turn.enable": True,
    "reward.num_workers": 0,  # every row comes with its reward
    "data.return_raw_chat": True,
    "data.shuffle": False,
    "data.truncation": "error",
    "trainer.critic_warmup": 0,  # there is no critic, and the actor would not be updated so long
    "trainer.total_epochs": ENDLESS,
    "trainer.use_v1": True,
    "trainer.v1.trainer_mode": "sync",
}
KEYS = (*_FIXED, _JOB)
"""Of verl's configuration; nobody else may set them."""
_VLLM_ON_A_CPU = (
    f"{_ROLLOUT}.enforce_eager=True",  # there are no graphs to capture
    f"{_ROLLOUT}.free_cache_engine=False",  # nor device memory to give back
    f"+{_ROLLOUT}.enable_sleep_mode=False",
    f"+{_ROLLOUT}.engine_kwargs.vllm.worker_extension_cls=coevolve.training.verl.vllm_cpu.WorkerExtension",
)


def engine(job: Job) -> str:
    """Name of the rollout engine in verl's registry, by the job's last word on it; empty where there is none."""
    return (dict(map(parsed, job.overrides)).get(f"{_ROLLOUT}.name") or "").strip("\"' ")


def engines(job: Job) -> list[str]:
    """Those that the job's device may have; whether they are installed is another matter."""
    return [name for name in ENGINES if name != CPU_ROLLOUT or job.device == "cpu"]


def overrides(job: Job) -> list[str]:
    """Hydra overrides on verl's `ppo_trainer`. Rows come from the iteration's tasks, so verl is given no data files."""
    fixed = [f"{key}={value}" for key, value in _FIXED.items()]
    cpu = _VLLM_ON_A_CPU if job.device == "cpu" and engine(job) == "vllm" else ()
    return [*fixed, *cpu, f"+{_JOB}.job={_quoted(str(Files(job.run).job))}"]


def environment(job: Job) -> dict[str, str]:
    """Environment variables of the child and of all its Ray processes, to be set before verl is imported."""
    common = {MARK: job.run, "RAY_USAGE_STATS_ENABLED": "0", "TOKENIZERS_PARALLELISM": "false"}
    if job.device != "cpu":
        return common
    return common | {
        "VERL_PLATFORM": "cpu",
        "VERL_USE_EXTERNAL_MODULES": "coevolve.training.verl.cpu",
        "VERL_ENGINE_DEVICE": "cuda",  # the name under which verl registers its FSDP engine
        "OMP_NUM_THREADS": "1",
        "VLLM_CPU_KVCACHE_SPACE": os.environ.get(
            "VLLM_CPU_KVCACHE_SPACE", "1"
        ),  # GiB; vLLM would take what it finds
    }


def _quoted(text: str) -> str:
    """A value that hydra's grammar takes for one string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
