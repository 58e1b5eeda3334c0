"""Overrides after --: which are refused, which are the machine's, which are settings of the run."""

from __future__ import annotations

import pytest

from coevolve.errors import UsageError
from coevolve.training.verl import overrides, settings
from coevolve.training.verl.overrides import recorded
from coevolve.training.verl.settings import Preset, preset, resolve
from verl_cpu import PRESET as CPU

LENGTHS = {"prompt_tokens": 100, "episode_tokens": 300}


def deciding(texts: list[str]) -> dict[str, str]:
    """What is recorded of the user's overrides."""
    chosen = Preset("none")
    return recorded(resolve({"model": "m", **LENGTHS}, chosen), chosen, texts).overrides


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("actor_rollout_ref.actor.optim.lr=1", "follows from --lr"),
        ("+data.train_batch_size=4", "follows from --batch"),
        ("++actor_rollout_ref.rollout.prompt_length=9", "follows from --prompt-tokens"),
        ("actor_rollout_ref.rollout.response_length=9", "follows from --episode-tokens"),
        ("~actor_rollout_ref.actor.kl_loss_coef", "follows from --beta"),
        (
            "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum",
            "set by coevolve train itself",
        ),
        ("actor_rollout_ref.actor.entropy_coeff=0.1", "set by coevolve train itself"),
        ("algorithm.use_kl_in_reward=True", "set by coevolve train itself"),
        ("algorithm.adv_estimator=gae", "set by coevolve train itself"),
        ("trainer.critic_warmup=100", "set by coevolve train itself"),
        ("trainer.total_epochs=1", "set by coevolve train itself"),
        ("trainer.device=cuda", "follows from --preset"),
        ("+actor_rollout_ref.rollout.custom.coevolve.job=x", "set by coevolve train itself"),
        (
            "actor_rollout_ref.actor.optim={lr:1}",
            "has to do with actor_rollout_ref.actor.optim.clip_grad",
        ),
        ("~actor_rollout_ref.actor", "has to do with"),
        ("actor_rollout_ref/actor/optim=other", "has to do with"),
        ("tasks.jsonl", "KEY=VALUE"),
        ("=1", "KEY=VALUE"),
    ],
)
def test_contradictions(text, told):
    """What an option decides, and what the objective and the loop need, cannot be set behind their
    back in any form.
    """
    chosen = preset(CPU)
    wanted = resolve({"model": "m", **LENGTHS}, chosen)
    with pytest.raises(UsageError, match=told):
        overrides.run_overrides(wanted, chosen, [text], settings.PRESETS, 1, 1)


@pytest.mark.parametrize(
    "text",
    [
        "trainer.n_gpus_per_node=4",
        "trainer.nnodes=2",
        "trainer.logger=[console,wandb]",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2",
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=2",
        "actor_rollout_ref.actor.fsdp_config.optimizer_offload=True",
        "actor_rollout_ref.rollout.gpu_memory_utilization=0.4",
        "+actor_rollout_ref.rollout.engine_kwargs.vllm.swap_space=4",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=2",
        "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=9999",
        "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=False",
        "actor_rollout_ref.rollout.agent.num_workers=2",
        "++ray_kwargs.ray_init.num_cpus=4",
    ],
)
def test_the_machines_part(text):
    """What only says how a machine does the work is no setting of the run."""
    assert deciding([text]) == {}


def test_what_decides():
    """Every other key is recorded, in all of hydra's forms; near misses of the machine's keys and
    unknown ones, too.
    """
    texts = [
        "algorithm.filter_groups.enable=False",
        "+trainer.nonsense=1",
        "~actor_rollout_ref.actor.policy_loss",
        "trainer.n_gpus_per_nodes=4",
        "data.seed=7",
        "algorithm.filter_groups.enable=True",
    ]
    assert deciding(texts) == {
        "actor_rollout_ref.actor.policy_loss": "~",
        "algorithm.filter_groups.enable": "True",
        "data.seed": "7",
        "trainer.n_gpus_per_nodes": "4",
        "trainer.nonsense": "1",
    }


def test_presets_are_recorded_as_overrides_are():
    """What a preset says about the result is part of the record, and the user's word on the same
    key replaces it.
    """
    chosen = preset("qwen3-4b")
    wanted = resolve({"model": "m"}, chosen)
    rollout = "actor_rollout_ref.rollout"
    assert recorded(wanted, chosen, []).overrides == {
        f"{rollout}.max_model_len": "32768",
        f"{rollout}.name": "vllm",
    }
    assert (
        recorded(wanted, chosen, [f"{rollout}.name=sglang"]).overrides[f"{rollout}.name"]
        == "sglang"
    )


def test_the_childs_own_keys():
    """Each override of the child's is under a key that nobody else may set."""
    wanted, chosen = resolve({"model": "m", **LENGTHS}, preset(CPU)), preset(CPU)
    for key in (*overrides.FIXED, overrides.JOB, overrides.PLUGIN):
        with pytest.raises(UsageError, match="set by coevolve train itself"):
            overrides.run_overrides(wanted, chosen, [f"{key}=1"], settings.PRESETS, 1, 1)
