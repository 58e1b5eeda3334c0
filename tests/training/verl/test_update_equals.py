"""One update, two programs: verl's FSDP actor in the real child, and the local backend on the
child's own rollouts.
"""

from __future__ import annotations

import json

import pytest
import torch

from coevolve import jsonl
from coevolve.models.transformers_lm import LocalModel
from coevolve.records import Rollout
from coevolve.training import grpo
from coevolve.training.settings import GrpoSettings
from coevolve.training.update import ReferencePolicy, Sample, update

pytestmark = [
    pytest.mark.verl,
    pytest.mark.timeout(1800),
]  # a busy machine takes minutes to start Ray

LR = 6e-4


def of_verl(run, step):
    file = run.files.checkpoints / f"global_step_{step}" / "actor" / "model_world_size_1_rank_0.pt"
    tensors = torch.load(file, weights_only=False)
    return {name: t.to_local() if hasattr(t, "to_local") else t for name, t in tensors.items()}


@pytest.fixture(scope="module")
def both(long_run, laptop_policy):
    """Weights before, ours after and verl's after the first step; our report and verl's; the
    rollouts and their advantages.
    """
    files = sorted(long_run.files.episodes(1).glob("*.jsonl"))
    played = [
        line.record
        for file in files
        for line in jsonl.read([str(file)], Rollout)
        if line.record.step == 0
    ]
    model = LocalModel.load(str(laptop_policy))
    before = {name: value.clone() for name, value in model.model.state_dict().items()}
    optimizer = torch.optim.AdamW(model.model.parameters(), lr=LR, weight_decay=0.01)
    kept = [record.stop_reason != "env_error" for record in played]
    rewards = torch.tensor([float(record.success) for record in played], dtype=torch.float64)
    advantages = grpo.group_advantages(
        rewards, [record.group for record in played], torch.tensor(kept)
    ).tolist()
    samples = [
        Sample(record.token_ids, record.mask, record.logprobs, advantage)
        for record, advantage, keep in zip(played, advantages, kept, strict=True)
        if keep
    ]
    objective = GrpoSettings(beta=5e-3, temperature=1.0)
    done = update(
        model, ReferencePolicy(LocalModel.load(str(laptop_policy))), optimizer, samples, objective
    )
    (line,) = [
        line
        for line in map(json.loads, long_run.files.metrics.read_text().splitlines())
        if line["step"] == 1
    ]
    return before, model.model.state_dict(), of_verl(long_run, 1), done, line, played, advantages


def test_the_batch_has_all_kinds_of_groups(both):
    """The comparison covers groups with and without variance, and a masked row."""
    *_, played, advantages = both
    informative = {
        record.group for record, advantage in zip(played, advantages, strict=True) if advantage
    }
    assert 0 < len(informative) < len({record.group for record in played}) == 6
    assert any(record.stop_reason == "env_error" for record in played)


def test_the_gradient_is_the_same(both):
    """The norm of the gradient agrees in five digits; so do loss and tokens."""
    _, _, _, done, line, _, _ = both
    assert line["grad_norm"] == pytest.approx(done.grad_norm, rel=1e-5)
    assert line["policy_loss"] == pytest.approx(done.policy_loss, abs=1e-6)
    assert line["update_tokens"] == done.update_tokens


def test_the_weights_are_the_same(both):
    """All but one in ten thousand weights agree to one per cent of the update, the largest change
    of a weight.
    """
    before, ours, verl, *_ = both
    changed = max((ours[name] - before[name]).abs().max().item() for name in ours)
    assert 0.5 * LR < changed < 2 * LR
    apart = sum(
        ((ours[name] - verl[name].float()).abs() > 0.01 * changed).sum().item() for name in verl
    )
    count = sum(value.numel() for value in verl.values())
    print(f"{apart} of {count} weights differ by more than 1 % of {changed:.2e}")
    assert apart <= count / 10_000
