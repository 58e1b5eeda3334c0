"""What a composed configuration must hold: each number in its range, each share a whole one, room
for an episode.
"""

from __future__ import annotations

import copy
import json

import msgspec
import pytest

from coevolve.errors import UsageError
from coevolve.training.verl import limits
from coevolve.training.verl.driver import VerlRun, make_job
from coevolve.training.verl.files import VerlFiles
from coevolve.training.verl.preflight import composed as configuration
from coevolve.training.verl.settings import preset, resolve
from verl_cpu import PRESET as CPU

pytestmark = pytest.mark.verl
TRAINER, ACTOR, REF, ROLLOUT = "trainer", limits.ACTOR, limits.REF, limits.ROLLOUT


@pytest.fixture(scope="module", params=["qwen3-4b", CPU])
def composed(request):
    """Settings and verl's configuration of a preset."""
    chosen = preset(request.param)
    lengths = {"prompt_tokens": 100, "episode_tokens": 300} if request.param == CPU else {}
    wanted = resolve({"model": "a/model", **lengths}, chosen)
    return wanted, configuration(make_job(wanted, VerlRun(chosen), VerlFiles("/run"), "desk"))


def changed(config, values):
    """The configuration with other values by dotted keys."""
    config = copy.deepcopy(config)
    for key, value in values.items():
        *path, last = key.split(".")
        table = config
        for name in path:
            table = table[name]
        table[last] = value
    return config


def refusal(composed, values, **settings) -> str:
    """What is said of the configuration with other values, and of other settings."""
    wanted, config = composed
    with pytest.raises(UsageError) as caught:
        limits.check(
            msgspec.structs.replace(wanted, **{"prompt_tokens": 9, **settings}),
            changed(config, values),
        )
    return str(caught.value)


def test_presets_are_within_them(composed):
    """What verl made of a preset holds; GPUs are counted; null is fine where verl chooses."""
    wanted, config = composed
    assert limits.check(wanted, config) == (8 if wanted.episode_tokens == 32768 else 1)
    free = {number.key: None for number in limits.NUMBERS if number.optional}
    assert limits.check(wanted, changed(config, free))


@pytest.mark.parametrize("number", limits.NUMBERS, ids=lambda number: number.key)
def test_each_number(composed, number):
    """0, a negative number, null, words, and more than there can be are told by key, and nothing
    divides by them.
    """
    bad = [
        0,
        -1,
        True,
        "eight",
        *([] if number.optional else [None]),
        *([7, 1.5] if number.most == 1 else [2.5]),
    ]
    for value in bad:
        told = refusal(composed, {number.key: value})
        assert told.startswith(f"{number.key} takes a number") and told.endswith(
            "null" if value is None else repr(value)
        )


@pytest.mark.parametrize("key", limits.NAMES)
def test_each_name(composed, key):
    """Engines of the trainer that this backend does not drive are refused."""
    assert "not 'megatron'" in refusal(composed, {key: "megatron"})


GPU_CASES = [
    ({"trainer.n_gpus_per_node": 5}, {}, "multiple of the 5 GPUs"),
    (
        {f"{ROLLOUT}.tensor_model_parallel_size": 3},
        {},
        "tensor_model_parallel_size must divide the 8 GPUs",
    ),
    (
        {f"{ROLLOUT}.tensor_model_parallel_size": 4, f"{ROLLOUT}.data_parallel_size": 4},
        {},
        "a replica would have 16",
    ),
    (
        {f"{ACTOR}.ulysses_sequence_parallel_size": 3},
        {},
        "ulysses_sequence_parallel_size 3 must divide the 8 GPUs",
    ),
    (
        {f"{REF}.ulysses_sequence_parallel_size": 16},
        {},
        "ulysses_sequence_parallel_size 16 must divide",
    ),
    (
        {f"{ACTOR}.fsdp_config.ulysses_sequence_parallel_size": 3},
        {},
        "ulysses_sequence_parallel_size 3 must divide",
    ),
    ({f"{REF}.fsdp_config.fsdp_size": 3}, {}, "fsdp_size 3 must divide the 8 GPUs"),
    ({f"{ACTOR}.fsdp_config.fsdp_size": None}, {}, "fsdp_size null must divide"),
    ({f"{ACTOR}.use_dynamic_bsz": False}, {}, "must be the same"),
    (
        {
            f"{ACTOR}.use_dynamic_bsz": False,
            f"{ROLLOUT}.log_prob_use_dynamic_bsz": False,
            f"{ACTOR}.ppo_micro_batch_size_per_gpu": 5,
        },
        {},
        "ppo_micro_batch_size_per_gpu 5 must divide each GPU's 32 rollouts",
    ),
    (
        {f"{ACTOR}.ppo_max_token_len_per_gpu": 1000},
        {},
        "ppo_max_token_len_per_gpu 1000 must hold one episode",
    ),
    (
        {f"{REF}.log_prob_max_token_len_per_gpu": 1000},
        {},
        "log_prob_max_token_len_per_gpu 1000 must hold",
    ),
    (
        {f"{ROLLOUT}.log_prob_max_token_len_per_gpu": 1000},
        {},
        "log_prob_max_token_len_per_gpu 1000 must hold",
    ),
    (
        {f"{ROLLOUT}.max_model_len": 32767},
        {},
        "max_model_len 32767 must hold one episode of --episode-tokens 32768",
    ),
    (
        {f"{ACTOR}.ppo_max_token_len_per_gpu": 40000},
        {"episode_tokens": 40000},
        "max_model_len 32768 must hold one episode of --episode-tokens 40000",
    ),
]


@pytest.mark.parametrize("composed", ["qwen3-4b"], indirect=True)
@pytest.mark.parametrize(("values", "settings", "told"), GPU_CASES)
def test_shares_and_lengths(composed, values, settings, told):
    """What GPUs cannot share, and an episode without room in a token budget or the engine."""
    assert told in refusal(composed, values, **settings)


@pytest.mark.parametrize("composed", ["qwen3-4b"], indirect=True)
def test_sequence_parallelism_adds_up(composed):
    """GPUs that share a sequence hold an episode together."""
    wanted, config = composed
    half = {
        f"{ACTOR}.ppo_max_token_len_per_gpu": 16384,
        f"{ACTOR}.ulysses_sequence_parallel_size": 2,
    }
    assert limits.check(wanted, changed(config, half)) == 8


@pytest.mark.parametrize("composed", ["qwen3-4b"], indirect=True)
def test_the_models_own_context(composed, tmp_path):
    """A model directory that says how much it can take is believed, unless the configuration says
    otherwise.
    """
    for text in (
        {"max_position_embeddings": 4096},
        {"text_config": {"max_position_embeddings": 4096}},
    ):
        (tmp_path / "config.json").write_text(json.dumps(text))
        told = refusal(
            composed, {f"{ROLLOUT}.max_model_len": None}, model=str(tmp_path), episode_tokens=8192
        )
        assert told == f"--episode-tokens 8192 is more than {tmp_path} can take: 4096 tokens"
        assert "max_model_len 32768 is more" in refusal(
            composed, {}, model=str(tmp_path), episode_tokens=4096
        )
    wanted, config = composed
    wanted = msgspec.structs.replace(wanted, model=str(tmp_path))
    longer = {"actor_rollout_ref.model.override_config": {"max_position_embeddings": 32768}}
    assert limits.check(wanted, changed(config, longer)) == 8
