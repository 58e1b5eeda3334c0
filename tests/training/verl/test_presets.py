"""Presets and overrides: every key exists in the installed verl, the objective is the paper's,
contradictions are refused.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tiny_models
from coevolve import jsonl
from coevolve.errors import Unreachable, UsageError
from coevolve.training.verl import overrides, preflight, settings
from coevolve.training.verl.driver import VerlRun, make_job
from coevolve.training.verl.files import VerlFiles
from coevolve.training.verl.settings import VerlSettings, preset, resolve
from conftest import run
from verl_cpu import PRESET as CPU

PAPER = {"samples": 8, "batch": 32, "lr": 1e-6, "beta": 1e-3, "temperature": 0.9, "steps": 10}
BACKBONES = {"qwen2.5-7b": (1, 8), "qwen3-4b": (1, 8), "qwen3-30b-a3b": (2, 8)}
LENGTHS = {"prompt_tokens": 100, "episode_tokens": 300}


def configuration(name: str, *more: str):
    """verl's resolved configuration for a preset, composed in this process: one import of verl for
    all.
    """
    from omegaconf import OmegaConf

    from coevolve.training.verl.compose import compose

    chosen = preset(name)
    wanted = resolve({"model": "a/model", **(LENGTHS if name == CPU else {})}, chosen)
    told = make_job(wanted, VerlRun(chosen, list(more)), VerlFiles("/run"), "desk")
    return OmegaConf.to_container(
        compose([*told.overrides, *overrides.fixed_overrides(told)]), resolve=True
    )


def test_the_papers_numbers():
    """The three backbones have the paper's settings (SPEC §1.1), model and machine."""
    for name, (nodes, gpus) in BACKBONES.items():
        chosen = preset(name)
        assert {key: chosen.settings[key] for key in PAPER} == PAPER
        assert chosen.overrides["trainer"] == {
            "nnodes": nodes,
            "n_gpus_per_node": gpus,
            "logger": ["console"],
        }
        assert chosen.settings["model"].startswith("Qwen/Qwen")
    assert settings.presets() == sorted(BACKBONES)


@pytest.mark.verl
@pytest.mark.parametrize("name", [*settings.presets(), CPU])
def test_it_composes(name):
    """verl composes and validates the preset, and what it understood is the paper's objective."""
    config = configuration(name)
    actor, rollout = config["actor_rollout_ref"]["actor"], config["actor_rollout_ref"]["rollout"]
    assert (
        config["algorithm"]["adv_estimator"] == overrides.ESTIMATOR
        and not config["algorithm"]["use_kl_in_reward"]
    )
    assert not config["algorithm"]["filter_groups"]["enable"]
    assert (actor["clip_ratio_low"], actor["clip_ratio_high"], actor["clip_ratio_c"]) == (
        0.2,
        0.28,
        3.0,
    )
    assert (actor["use_kl_loss"], actor["kl_loss_type"]) == (True, "low_var_kl")
    assert (actor["loss_agg_mode"], actor["entropy_coeff"], actor["ppo_epochs"]) == (
        "token-mean",
        0,
        1,
    )
    assert actor["ppo_mini_batch_size"] == config["data"]["train_batch_size"]
    assert (
        actor["optim"]["weight_decay"] == 0.01
        and actor["optim"]["clip_grad"] == actor["grad_clip"] == 1.0
    )
    assert rollout["n"] == 8 and rollout["calculate_log_probs"] and rollout["top_p"] == 1.0
    if name in BACKBONES:
        assert (actor["optim"]["lr"], actor["kl_loss_coef"], rollout["temperature"]) == (
            1e-6,
            1e-3,
            0.9,
        )
        assert (
            rollout["prompt_length"] + rollout["response_length"]
            == rollout["max_model_len"]
            == 32768
        )
        assert actor["ppo_max_token_len_per_gpu"] >= 32768 and rollout["name"] == "vllm"
        assert rollout["engine_kwargs"]["vllm"] == {
            "enable_auto_tool_choice": True,
            "tool_call_parser": "hermes",
        }
    else:
        assert (config["trainer"]["device"], rollout["name"]) == ("cpu", "coevolve_hf")


@pytest.mark.verl
def test_what_presets_offer_in_comments():
    """The overrides that the files recommend exist, too: dynamic sampling, rollout correction,
    attention, loggers.
    """
    config = configuration(
        "qwen3-30b-a3b",
        "algorithm.filter_groups.enable=True",
        "algorithm.rollout_correction.rollout_is=token",
        "algorithm.rollout_correction.rollout_is_threshold=2.0",
        "+actor_rollout_ref.model.override_config.attn_implementation=sdpa",
        "trainer.logger=[console,wandb]",
    )
    assert config["algorithm"]["filter_groups"] == config["algorithm"]["filter_groups"] | {
        "enable": True,
        "metric": "reward",
    }
    assert config["algorithm"]["rollout_correction"]["rollout_is"] == "token"


@pytest.mark.verl
def test_a_typo(tmp_path):
    """A key that verl does not have is refused by the command with exit 2 and its neighbour, before
    anything is started.
    """
    options = [
        "--backend",
        "verl",
        "--preset",
        CPU,
        "--run",
        tmp_path / "r",
        "--model",
        "a/model",
        "--episode-tokens",
        64,
    ]
    jsonl.write(tmp_path / "tasks.jsonl", tiny_models.shop_tasks("desk", 2))
    options.append(tmp_path / "tasks.jsonl")
    done = run(
        "train", *options, "--dry-run", "--", "actor_rollout_ref.rollout.temprature=1", check=False
    )
    told = done.stderr.decode()
    assert (
        done.returncode == 2
        and "Did you mean actor_rollout_ref.rollout.temperature?" in told.splitlines()[-1]
    )
    assert "Traceback" not in told and not (tmp_path / "r").exists() and done.stdout == b""


@pytest.mark.verl
@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("+actor_rollout_ref.actor.nonsense=1", "verl refuses the configuration: .*nonsense"),
        ("+algorithm.filter_group=1", "verl refuses the configuration: .*filter_group"),
        ("trainer.logger=[console", "verl's configuration:"),
        ("nobody.knows=1", "Could not override 'nobody.knows'"),
    ],
)
def test_a_bad_value(override, told):
    """What verl or hydra says of a value is one line of ours."""
    with pytest.raises(UsageError, match=told) as caught:
        configuration(CPU, override)
    assert "\n" not in str(caught.value)


def test_the_users_word_counts():
    """An option that was given wins over the preset, the preset over the default."""
    made = resolve({"model": "m", "lr": 0.5, **LENGTHS}, preset("qwen3-4b"))
    assert (made.lr, made.reply_tokens, made.batch, made.weight_decay) == (0.5, 2048, 32, 0.01)
    with pytest.raises(UsageError, match="must be below"):
        resolve({"model": "m", "prompt_tokens": 9, "episode_tokens": 9}, preset(CPU))
    with pytest.raises(UsageError, match="--model is missing"):
        resolve({}, preset(CPU))


def test_lengths_of_a_model_directory(tmp_path):
    """Without lengths, a directory's own are taken, half of them for the prompt."""
    model = tiny_models.shop_policy(tmp_path / "m", steps=1)
    made = resolve({"model": str(model)}, preset(CPU))
    assert (made.episode_tokens, made.prompt_tokens, made.model) == (128, 64, str(model))
    with pytest.raises(UsageError, match="--episode-tokens is missing"):
        resolve({"model": "an/id"}, preset(CPU))


def test_a_preset_of_ones_own(tmp_path):
    """A TOML file like the package's is a preset; what it must not hold is told; a misspelt name
    has a neighbour.
    """
    file = tmp_path / "mine.toml"
    file.write_text(
        'description = "mine"\n[settings]\nbatch = 4\n[overrides.trainer]\n"+new" = [1, "a b", '
        "true]\n"
    )
    chosen = preset(str(file))
    told = overrides.run_overrides(
        resolve({"model": "m", **LENGTHS}, chosen), chosen, [], Path("/r"), 1, 1
    )
    assert told[0] == '+trainer.new=[1,"a b",True]' and "data.train_batch_size=4" in told
    file.write_text('description = "mine"\nsetings = {}\n')
    with pytest.raises(UsageError, match="setings"):
        preset(str(file))
    with pytest.raises(UsageError, match="did you mean 'qwen3-4b'"):
        preset("qwen3-4")


@pytest.mark.verl
def test_dry_run(tmp_path, monkeypatch):
    """The plan counts the work and says what will not fit; batches that the GPUs cannot share are
    refused.
    """
    chosen = preset("qwen3-4b")
    wanted = resolve({"model": "a/model"}, chosen)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    planned = preflight.plan(
        wanted, VerlRun(chosen, ["ray_kwargs.ray_init.num_cpus=4"]), str(tmp_path / "run"), "desk"
    )
    work = planned["work"]
    assert (work["rollouts"], work["updates"], work["gpus"], work["checkpoint_gb"]) == (
        2560,
        10,
        8,
        64.0,
    )
    assert work["tokens_at_most"] == 2560 * 32768
    assert any("4 CPU slots" in note for note in planned["notes"])
    assert any("no GPU is seen here" in note for note in planned["notes"])
    assert planned["configuration"]["trainer"]["n_gpus_per_node"] == 8
    assert planned["settings"]["overrides"]["actor_rollout_ref.rollout.name"] == "vllm"


def _told(name: str, tmp_path, *more: str):
    """The job of a preset, with overrides."""
    chosen = preset(name)
    wanted = resolve({"model": "a/model", **(LENGTHS if name == CPU else {})}, chosen)
    return make_job(wanted, VerlRun(chosen, list(more)), VerlFiles(tmp_path / "run"), "desk")


def test_a_machine_without_gpus(tmp_path, monkeypatch):
    """GPU presets are refused at once where there is no GPU or no vLLM; a Ray cluster that is
    joined answers for itself.
    """
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(preflight.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(preflight, "resolved", lambda *_: pytest.fail("it composed first"))
    with pytest.raises(Unreachable, match="vllm is not installed.*no GPU is seen here"):
        preflight.refuse_at_once(_told("qwen3-4b", tmp_path))
    with pytest.raises(Unreachable, match="sglang is not installed") as caught:
        preflight.refuse_at_once(
            _told("qwen3-4b", tmp_path, "actor_rollout_ref.rollout.name=sglang")
        )
    assert "vllm" not in str(caught.value)
    with pytest.raises(Unreachable, match="vllm is not installed") as caught:
        preflight.refuse_at_once(_told(CPU, tmp_path, "actor_rollout_ref.rollout.name='vllm'"))
    assert "GPU" not in str(caught.value)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert preflight._lacking(_told("qwen3-4b", tmp_path)) == []


@pytest.mark.parametrize(
    ("name", "engine", "told"),
    [
        (CPU, "vlm", "takes vllm, sglang, trtllm, coevolve_hf, not 'vlm'; did you mean 'vllm'"),
        (CPU, "", "not ''$"),
        ("qwen3-4b", "hf", "takes vllm, sglang, trtllm, not 'hf'$"),
        ("qwen3-4b", "coevolve_hf", "takes vllm, sglang, trtllm, not 'coevolve_hf'$"),
    ],
)
def test_an_engine_that_does_not_exist(tmp_path, monkeypatch, name, engine, told):
    """The call and its dry run say so at once, with those that exist, whatever the machine or the
    cluster has.
    """
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    monkeypatch.setattr(preflight, "resolved", lambda *_: pytest.fail("it composed first"))
    override = f"actor_rollout_ref.rollout.name={engine}"
    asked = _told(name, tmp_path, override)
    with pytest.raises(UsageError, match=told):
        preflight.refuse_at_once(asked)
    with pytest.raises(UsageError, match=told):
        preflight.plan(
            asked.settings, VerlRun(preset(name), [override]), str(tmp_path / "run"), "desk"
        )


@pytest.mark.verl
def test_the_engines_are_verls():
    """The names are those of verl's registry in a process that has our plugin, and all are
    asynchronous.
    """
    code = (
        "from verl.workers.rollout import base; import verl_cpu.plugin; "
        "print(sorted(base._ROLLOUT_REGISTRY))"
    )
    told = overrides.environment(_told(CPU, Path("/")))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **told}
    )
    assert done.stdout.splitlines()[-1:] == [
        str(sorted((name, "async") for name in [*overrides.ENGINES, "coevolve_hf"]))
    ], done.stderr


@pytest.mark.verl
def test_a_machine_with_too_little(tmp_path, monkeypatch):
    """Too few GPUs, one node for a preset of two, and CPU slots that Ray would wait for are refused
    in the words of the plan.
    """
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    script = tmp_path / "nvidia-smi"
    script.write_text("#!/bin/sh\necho 'GPU 0: NVIDIA H100'\necho 'GPU 1: NVIDIA H100'\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(preflight.importlib.util, "find_spec", lambda _: True)
    with pytest.raises(
        Unreachable, match="2 GPUs are seen here.*asks for 8; 2 nodes: RAY_ADDRESS is not set"
    ):
        preflight.refuse(_told("qwen3-30b-a3b", tmp_path, "++ray_kwargs.ray_init.num_cpus=999"))
    with pytest.raises(Unreachable, match="Ray has 2 CPU slots"):
        preflight.refuse(_told(CPU, tmp_path, "ray_kwargs.ray_init.num_cpus=2"))
    preflight.refuse(_told(CPU, tmp_path))


@pytest.mark.verl
def test_the_command_on_a_machine_without_gpus(tmp_path):
    """`coevolve train` with a GPU preset ends with exit 69 before anything is written; its tasks'
    environment is checked first.
    """
    jsonl.write(tmp_path / "tasks.jsonl", tiny_models.shop_tasks("desk", 2))
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"} | {
        "PATH": str(tmp_path)
    }
    base = [
        "train",
        tmp_path / "tasks.jsonl",
        "--backend",
        "verl",
        "--preset",
        "qwen3-30b-a3b",
        "--run",
        tmp_path / "r",
    ]
    done = run(*base, check=False, env=environment)
    assert done.returncode == 69 and b"no GPU is seen here" in done.stderr and done.stdout == b""
    assert not (tmp_path / "r" / "config.json").exists() and not (tmp_path / "r" / "verl").exists()
    for env, told in (
        ("bfcl", b"the tasks are of 'desk'"),
        ("nosuch", b"no environment and no program"),
    ):
        done = run(*base, "--env", env, check=False, env=environment)
        assert done.returncode == 2 and told in done.stderr


@pytest.mark.verl
def test_a_dry_run_reads_the_tasks(tmp_path):
    """Their number is in the plan, an empty input is told, another environment than --env's is
    refused.
    """
    base = [
        "train",
        "--backend",
        "verl",
        "--preset",
        CPU,
        "--run",
        tmp_path / "r",
        "--model",
        "m",
        "--episode-tokens",
        64,
    ]
    tasks = b"".join(map(jsonl.encode, tiny_models.shop_tasks("desk", 3)))
    plan = run(*base, "--dry-run", stdin=tasks).stderr
    assert b'"tasks": 3' in plan and b"empty" not in plan
    assert b"the lengths of the prompts were not compared" in plan
    assert b"the input is empty" in run(*base, "--dry-run").stderr
    for more, code, told in ((tasks, 3, b"duplicate id"), (b"{}", 3, b"")):
        done = run(*base, "--dry-run", stdin=tasks + more, check=False)
        assert done.returncode == code and told in done.stderr and done.stdout == b""
    assert run(*base, "--dry-run", "--env", "bfcl", stdin=tasks, check=False).returncode == 2
    assert not (tmp_path / "r").exists()


def test_parameters_of_a_directory(tmp_path):
    """Counted from the heads of the weight files: what torch counts."""
    model = tiny_models.shop_policy(tmp_path / "m", steps=1)
    made = tiny_models.llama(len(tiny_models.tokenizer(words=tiny_models.SHOP_WORDS)))
    assert preflight._parameters(model) == sum(p.numel() for p in made.parameters())


def test_presets_are_shipped_and_explained():
    """Each file is valid TOML that begins with a comment, and names nothing that only another
    preset would have.
    """
    for name in settings.presets():
        text = (settings.PRESETS / f"{name}.toml").read_text()
        assert text.startswith("# ") and set(tomllib.loads(text)) <= {
            "description",
            "device",
            "parameters",
            "settings",
            "overrides",
        }
        assert set(tomllib.loads(text)["settings"]) <= set(VerlSettings.__struct_fields__)


def test_nothing_heavy():
    """VerlSettings, driver and watchdog import neither torch nor verl."""
    code = (
        "import sys, coevolve.training.verl.driver, coevolve.training.verl.preflight; "
        "print(sorted({'torch', 'verl', 'ray', 'numpy', 'transformers'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
