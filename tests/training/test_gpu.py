"""The local backend on a GPU (marker `gpu`): the same update as on the CPU, and an iteration that
learns.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

import tiny_models
from coevolve import jsonl
from coevolve.agents.rollout import make_policy, rollouts
from coevolve.environments.client import Pool
from coevolve.models.transformers_lm import LocalModel
from coevolve.training import grpo
from coevolve.training.settings import GrpoSettings
from coevolve.training.update import ReferencePolicy, Sample, update
from conftest import run

pytestmark = pytest.mark.gpu

SHOP = f"{sys.executable} {Path(__file__).parent.parent / 'grocer.py'}"
LR = 1e-3


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    return tiny_models.shop_policy(tmp_path_factory.mktemp("models") / "shop", steps=150)


@pytest.fixture(scope="module")
def samples(policy):
    """Rollouts of the policy on the CPU, and their advantages."""
    with Pool(SHOP) as pool:
        player = make_policy(str(policy), device="cpu", temperature=1.0)
        played = list(
            rollouts(tiny_models.shop_tasks(SHOP, 6), player, pool, samples=8, keep_tokens=True)
        )
    rewards = torch.tensor([float(r.success) for r in played], dtype=torch.float64)
    advantages = grpo.group_advantages(
        rewards, [r.group for r in played], torch.ones(len(played), dtype=torch.bool)
    )
    assert advantages.any()
    return [
        Sample(r.token_ids, r.mask, r.logprobs, a)
        for r, a in zip(played, advantages.tolist(), strict=True)
    ]


def step(policy, samples, device, dtype):
    model = LocalModel.load(str(policy), device=device, dtype=dtype)
    optimizer = torch.optim.AdamW(model.model.parameters(), lr=LR)
    reference = ReferencePolicy(LocalModel.load(str(policy), device=device, dtype=dtype))
    done = update(model, reference, optimizer, samples, GrpoSettings(beta=5e-3, temperature=1.0))
    return done, {name: value.float().cpu() for name, value in model.model.state_dict().items()}


def test_the_update_is_the_cpus(policy, samples):
    """In float32 the gradient's norm agrees in four digits, and all but one in a thousand weights
    to 1 % of the update.
    """
    before = LocalModel.load(str(policy), device="cpu").model.state_dict()
    (cpu, ours), (gpu, theirs) = (
        step(policy, samples, device, "float32") for device in ("cpu", "cuda")
    )
    changed = max((ours[name] - before[name]).abs().max().item() for name in ours)
    apart = sum(((ours[name] - theirs[name]).abs() > 0.01 * changed).sum().item() for name in ours)
    count = sum(value.numel() for value in ours.values())
    print(
        f"grad norm {cpu.grad_norm:.6f} and {gpu.grad_norm:.6f}; {apart} of {count} weights apart"
    )
    assert (
        gpu.grad_norm == pytest.approx(cpu.grad_norm, rel=1e-4)
        and gpu.update_tokens == cpu.update_tokens
    )
    assert gpu.policy_loss == pytest.approx(cpu.policy_loss, abs=1e-5)
    assert apart <= count / 1000


def test_bfloat16_points_the_same_way(policy, samples):
    """Under autocast the weights stay float32, and the gradient's norm is within a tenth of the
    exact one.
    """
    exact, _ = step(policy, samples, "cuda", "float32")
    rough, _ = step(policy, samples, "cuda", "bfloat16")
    print(f"grad norm {exact.grad_norm:.6f} exact, {rough.grad_norm:.6f} in bfloat16")
    assert rough.grad_norm == pytest.approx(exact.grad_norm, rel=0.1)


def test_it_learns(policy, tmp_path):
    """Ten steps of the command on the GPU raise success; sampler and update agree on the
    log-probabilities.
    """
    tasks = tmp_path / "tasks.jsonl"
    jsonl.write(tasks, tiny_models.shop_tasks(SHOP, 12))
    size = ["--lr", "2e-3", "--temperature", "1", "--samples", "8", "--batch", "6", "--steps", "10"]
    command = [
        "train",
        tasks,
        "--env",
        SHOP,
        "--run",
        tmp_path / "run",
        "--model",
        policy,
        "--device",
        "cuda",
        *size,
    ]
    out = run(*command).stdout
    lines = [
        json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    ]
    success = [line["success_mean"] for line in lines]
    print("success", *(f"{value:.2f}" for value in success))
    assert sum(success[-3:]) / 3 > sum(success[:3]) / 3 + 0.1
    assert max(line["logprob_gap_max"] for line in lines) < 0.05
    assert run(*command).stdout == out
