"""The GRPO loss and its gradient against a dense float64 computation written independently, and its
branches.
"""

from __future__ import annotations

import math

import pytest
import torch

from coevolve.training import grpo

F64 = torch.float64
CLIP = grpo.Clip(low=0.2, high=0.28, dual=3.0)


def test_advantages_by_hand():
    """(R − mean) / (std + 1e-6) with n − 1, over unmasked rows of the group only."""
    rewards = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0, 9.0, 0.5, 0.5, 1.0, 7.0], dtype=F64)
    groups = list("aaaabbccde")
    kept = torch.tensor([True, True, True, True, True, False, True, True, True, False])
    got = grpo.group_advantages(rewards, groups, kept).tolist()
    std = math.sqrt(4 * 0.25 / 3)
    assert got[:4] == pytest.approx([sign * 0.5 / (std + 1e-6) for sign in (1, -1, -1, 1)])
    assert got[4:] == [0.0] * 6


def test_masked_row_leaves_mean_and_std_alone():
    """A lost rollout changes nothing for the others of its group."""
    three = grpo.group_advantages(
        torch.tensor([1.0, 0.0, 0.0], dtype=F64), list("aaa"), torch.tensor([True] * 3)
    )
    four = grpo.group_advantages(
        torch.tensor([1.0, 0.0, 0.0, 0.7], dtype=F64),
        list("aaaa"),
        torch.tensor([True, True, True, False]),
    )
    assert four.tolist() == [*three.tolist(), 0.0]


def test_equal_rewards_give_exactly_zero():
    """Rewards whose mean is not exact in floating point leave no spurious advantage."""
    assert (
        grpo.group_advantages(torch.full((7,), 0.1), ["a"] * 7, torch.tensor([True] * 7)).tolist()
        == [0.0] * 7
    )


def dense(logits, tokens, mask, old, reference, advantages, low, high, dual, beta):
    """The objective as loops over rows and positions, in Python floats and scalar tensors."""
    total, count = torch.zeros((), dtype=F64), 0
    for k in range(len(tokens)):
        for t in range(len(tokens[k])):
            if not mask[k][t]:
                continue
            count += 1
            log_pi = logits[k, t, tokens[k][t]] - torch.logsumexp(logits[k, t], 0)
            ratio = torch.exp(log_pi - old[k][t])
            a = advantages[k]
            kept = min(ratio.item(), 1 + high) if a > 0 else max(ratio.item(), 1 - low)
            term = ratio * a if kept == ratio.item() else torch.tensor(kept * a, dtype=F64)
            if a < 0 and term.item() < dual * a:
                term = torch.tensor(dual * a, dtype=F64)
            d = reference[k][t] - log_pi
            total = total + term - beta * (torch.exp(d) - d - 1)
    return -total / count


@pytest.mark.parametrize("spread", [0.1, 0.8, 3.0])
def test_loss_and_gradient_against_the_dense_formula(spread):
    """Over near and far off-policy tokens, masks, both signs and zero advantages: same loss,
    gradient, finite differences.
    """
    torch.manual_seed(3)
    rows, length, words, beta = 6, 5, 4, 0.05
    clip = CLIP
    logits = torch.randn(rows, length, words, dtype=F64, requires_grad=True)
    tokens = torch.randint(words, (rows, length))
    mask = torch.rand(rows, length) < 0.7
    advantages = torch.tensor([1.2, -0.7, 0.0, -1.5, 0.4, -0.1], dtype=F64)
    current = torch.log_softmax(logits.detach(), -1).gather(2, tokens[..., None])[..., 0]
    old = current + spread * torch.randn_like(current)
    reference = current + 0.5 * torch.randn_like(current)

    def ours(values):
        chosen = torch.log_softmax(values, -1).gather(2, tokens[..., None])[..., 0][mask]
        policy = grpo.policy_loss(
            chosen, old[mask], advantages[:, None].expand_as(mask)[mask], clip
        )
        kl = grpo.kl_k3(chosen, reference[mask])
        return grpo.token_mean(policy.loss + beta * kl, int(mask.sum())), policy

    loss, policy = ours(logits)
    loss.backward()
    twin = logits.detach().clone().requires_grad_()
    expected = dense(
        twin, tokens.tolist(), mask.tolist(), old, reference, advantages.tolist(), *clip, beta
    )
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    assert torch.allclose(logits.grad, twin.grad, atol=1e-14)
    if spread == 3.0:
        assert policy.clipped_low.any() and policy.clipped_high.any() and policy.clipped_dual.any()
    step = 1e-6
    for k, t, w in [(0, 1, 2), (1, 0, 0), (3, 4, 1), (4, 2, 3)]:
        bumped = [logits.detach().clone() for _ in range(2)]
        bumped[0][k, t, w] += step
        bumped[1][k, t, w] -= step
        slope = (ours(bumped[0])[0] - ours(bumped[1])[0]).item() / (2 * step)
        assert slope == pytest.approx(logits.grad[k, t, w].item(), abs=1e-7)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope", "clips"),
    [
        (1.0, 2.0, -2.0, -2.0, ""),
        (1.27, 1.0, -1.27, -1.27, ""),
        (1.5, 1.0, -1.28, 0.0, "high"),
        (0.5, 1.0, -0.5, -0.5, ""),
        (0.5, -1.0, 0.8, 0.0, "low"),
        (0.81, -1.0, 0.81, 0.81, ""),
        (2.0, -1.0, 2.0, 2.0, ""),
        (4.0, -1.0, 3.0, 0.0, "dual"),
        (1.0, 0.0, 0.0, 0.0, ""),
    ],
)
def test_branches(ratio, advantage, loss, slope, clips):
    """Each branch of the clipped objective: value, derivative by the log-probability, and which
    clip is counted.
    """
    logprob = torch.tensor([-1.0], dtype=F64, requires_grad=True)
    old = torch.tensor([-1.0 - math.log(ratio)], dtype=F64)
    got = grpo.policy_loss(logprob, old, torch.tensor([advantage], dtype=F64), CLIP)
    got.loss.sum().backward()
    assert got.loss.item() == pytest.approx(loss)
    assert logprob.grad.item() == pytest.approx(slope)
    counted = [n for n in ("low", "high", "dual") if getattr(got, f"clipped_{n}").item()]
    assert counted == ([clips] if clips else [])


def test_clamps():
    """Log-ratios beyond ±20 and KL values beyond 10 are cut, so that one token cannot break an
    update.
    """
    far = torch.tensor([-60.0, 0.0], dtype=F64)
    kl = grpo.kl_k3(far, torch.tensor([0.0, -60.0], dtype=F64))
    assert kl.tolist() == [10.0, 10.0]
    loss = grpo.policy_loss(
        torch.tensor([0.0], dtype=F64),
        torch.tensor([-90.0], dtype=F64),
        torch.tensor([-1.0], dtype=F64),
        CLIP,
    )
    assert loss.loss.item() == 3.0
    assert grpo.kl_k3(torch.tensor([-1.0]), torch.tensor([-1.0])).item() == 0.0


def test_entropy():
    """Uniform over n: log n."""
    assert grpo.entropy(torch.log_softmax(torch.zeros(3, 7), -1)).tolist() == pytest.approx(
        [math.log(7)] * 3
    )
