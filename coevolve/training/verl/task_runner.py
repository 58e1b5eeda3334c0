"""The Ray actor that runs the trainer; what goes wrong in it comes home in RUN/verl/error.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ray

from coevolve.errors import CoevolveError
from coevolve.training.verl.files import TrainerFailure, VerlFiles, VerlJob, read, write


@ray.remote(num_cpus=1)
class TaskRunner:
    """In the place of verl's `TaskRunnerV1`."""

    def run(self, config: Any) -> None:
        """Trains until the run is over; `config` is verl's."""
        import transfer_queue as tq
        from omegaconf import OmegaConf
        from verl.utils.logging_utils import configure_verl_logging

        configure_verl_logging()
        config.transfer_queue.enable = True
        OmegaConf.resolve(config)
        told = config.actor_rollout_ref.rollout.custom["coevolve"]
        job = read(Path(told["job"]), VerlJob)
        tq.init(config.transfer_queue)
        try:
            _train(config, job, told["pid"])
        except CoevolveError as error:
            write(VerlFiles(job.run).error, TrainerFailure(int(error.exit), str(error)))
            raise
        finally:
            tq.close()


def _train(config: Any, job: VerlJob, pid: int) -> None:
    from verl.trainer.ppo.v1 import AgentLoopManagerTQ

    from coevolve.training.verl.heartbeat import HeartbeatWriter
    from coevolve.training.verl.trainer import EndOfRun, Trainer

    with HeartbeatWriter(VerlFiles(job.run), pid) as heartbeat:
        trainer = Trainer(config, job, heartbeat)
        trainer.init()
        loops = AgentLoopManagerTQ.create(
            config=config,
            llm_client=trainer.get_llm_client(),
            teacher_client=None,
            reward_loop_worker_handles=trainer.get_reward_handles(),
        )
        try:
            trainer.fit(loops)
        except EndOfRun as end:
            print(f"coevolve: {end}", flush=True)
        else:
            done, log = trainer.global_steps - 1, VerlFiles(job.run).log
            raise CoevolveError(f"verl ended by itself after step {done}: see {log}")
        finally:
            if logger := getattr(trainer, "logger", None):
                logger.finish()
