"""The child of the driver: `python -m coevolve.training.verl.main RUN` (files.py: the protocol).

Exit code 0: the run ended at a boundary, as it should. Else 1, with the reason in
RUN/verl/error.json where it is ours, and the traceback in RUN/verl/child.log anyway.

With RAY_ADDRESS set, Ray's cluster is somebody else's: the child joins it and leaves it running.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from coevolve.errors import CoevolveError, Unreachable
from coevolve.training.verl import overrides
from coevolve.training.verl.files import Heartbeat, TrainerFailure, VerlFiles, VerlJob, read, write

if TYPE_CHECKING:
    from omegaconf import DictConfig

RESOURCES = ("num_cpus", "num_gpus", "object_store_memory", "include_dashboard", "_temp_dir")
"""Settings of a cluster, which Ray refuses from somebody who joins one."""


def main(run: str) -> int:
    """Trains until the run is over. Returns the exit code."""
    files = VerlFiles(run)
    files.error.unlink(missing_ok=True)
    write(files.heartbeat, Heartbeat(os.getpid(), "starting", 0, 0, 0, time.time()))
    try:
        job = read(files.job, VerlJob)
        if job is None:
            raise Unreachable(f"{files.job}: is not there; `coevolve train` writes it")
        _train(job)
    except CoevolveError as error:
        if not files.error.exists():  # the trainer's own words; here they come with Ray's traceback
            write(files.error, TrainerFailure(int(error.exit), str(error)))
        print(f"coevolve: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


def _train(job: VerlJob) -> None:
    from verl.trainer.main_ppo import run_ppo

    from coevolve.training.verl.compose import compose
    from coevolve.training.verl.task_runner import TaskRunner

    config = compose([*job.overrides, *overrides.fixed_overrides(job)])
    add(config, job)
    run_ppo(config, TaskRunner)


def add(config: DictConfig, job: VerlJob) -> None:
    """What only this process knows: its id, and whose Ray cluster it is."""
    from omegaconf import OmegaConf, open_dict

    with open_dict(config):
        config.actor_rollout_ref.rollout.custom.coevolve.pid = os.getpid()
        ray = config.ray_kwargs.ray_init
        variables = {"env_vars": overrides.environment(job)}
        ray.runtime_env = OmegaConf.merge(ray.get("runtime_env") or {}, variables)
        if os.environ.get("RAY_ADDRESS"):
            for name in RESOURCES:
                ray.pop(name, None)
        else:
            ray.address = "local"  # or Ray would join any cluster that it finds on this machine


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
