"""One update: micro-batches against the whole batch at once, written the long way."""

from __future__ import annotations

import copy
import random

import pytest
import torch

import tiny_models
from coevolve.errors import CoevolveError
from coevolve.models.transformers_lm import LocalModel
from coevolve.training import update as module
from coevolve.training.settings import GrpoSettings
from coevolve.training.update import ReferencePolicy, Sample, micro_batches, token_logprobs, update

OBJECTIVE = GrpoSettings(beta=0.05, temperature=0.7, grad_clip=0.5)


def model(seed):
    tokenizer = tiny_models.tokenizer()
    return LocalModel(tiny_models.llama(len(tokenizer), seed=seed), tokenizer)


def samples(count=9):
    """Rows of many lengths, with several stretches of policy tokens."""
    draw = random.Random(5)
    made = []
    for k in range(count):
        length = draw.randint(4, 40)
        mask = [0, *(int(draw.random() < 0.6) for _ in range(length - 1))]
        made.append(
            Sample(
                [draw.randrange(200) for _ in range(length)],
                mask,
                [-draw.random() * 6 if m else 0.0 for m in mask],
                [1.3, -0.4, 0.0, -1.1][k % 4],
            )
        )
    return made


def by_hand(policy, reference, rows, objective):
    """Loss and gradients from one pass per row, no padding, no micro-batches."""
    total = sum(sum(s.mask) for s in rows)
    loss = 0.0
    for s in rows:
        ids = torch.tensor([s.token_ids])
        own = [t for t in range(1, len(s.mask)) if s.mask[t]]
        logp = torch.log_softmax(policy(ids).logits[0] / objective.temperature, -1)
        fixed = torch.log_softmax(reference(ids).logits[0].detach() / objective.temperature, -1)
        for t in own:
            lp, rp = logp[t - 1, s.token_ids[t]], fixed[t - 1, s.token_ids[t]]
            ratio = (lp - s.logprobs[t]).exp()
            clipped = ratio.clamp(0.8, 1.28)
            term = -torch.min(ratio * s.advantage, clipped * s.advantage)
            if s.advantage < 0:
                term = torch.min(term, torch.tensor(-3.0 * s.advantage))
            loss = (
                loss
                + (term + objective.beta * ((rp - lp).exp() - (rp - lp) - 1).clamp(max=10)) / total
            )
    loss.backward()
    return loss.item()


def test_equals_the_whole_batch(monkeypatch):
    """Any packing: the loss, the gradient norm and the weights after the step are those of the
    batch as a whole.
    """
    policy, reference = model(1), model(2)
    twin = copy.deepcopy(policy.model)
    optimizer = torch.optim.AdamW(twin.parameters(), lr=1e-3, weight_decay=0.01)
    expected = by_hand(twin, reference.model, samples(), OBJECTIVE)
    norm = torch.nn.utils.clip_grad_norm_(twin.parameters(), OBJECTIVE.grad_clip).item()
    assert norm > OBJECTIVE.grad_clip
    optimizer.step()
    for tokens in (1, 64, 10_000):
        monkeypatch.setattr(module, "MICRO_TOKENS", tokens)
        trained = LocalModel(copy.deepcopy(policy.model), policy.tokenizer)
        optimizer = torch.optim.AdamW(trained.model.parameters(), lr=1e-3, weight_decay=0.01)
        done = update(trained, ReferencePolicy(reference), optimizer, samples(), OBJECTIVE)
        assert done.loss == pytest.approx(expected, rel=1e-5)
        assert done.grad_norm == pytest.approx(norm, rel=1e-5)
        assert done.update_tokens == sum(sum(s.mask) for s in samples())
        pairs = zip(trained.model.parameters(), twin.parameters(), strict=True)
        assert max((a - b).abs().max().item() for a, b in pairs) < 2e-5


def test_own_samples_have_ratio_one():
    """On tokens just sampled from these weights nothing is clipped, the gap is rounding, and KL to
    itself is 0.
    """
    policy = model(1)
    prompts = [policy.chat.prompt([{"role": "user", "content": text}]) for text in ("a", "bcd")]
    rows = policy.sample(
        prompts, ["x", "y"], lambda turns: [None] * len(turns), OBJECTIVE.temperature
    )
    batch = [
        Sample(r.token_ids, r.mask, r.logprobs, a) for r, a in zip(rows, (1.0, -1.0), strict=True)
    ]
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=1e-3)
    done = update(
        policy,
        ReferencePolicy(LocalModel(copy.deepcopy(policy.model), policy.tokenizer)),
        optimizer,
        batch,
        OBJECTIVE,
    )
    assert done.logprob_gap_max < 1e-4
    assert (done.kl, done.clip_low, done.clip_high, done.clip_dual) == (
        pytest.approx(0, abs=1e-9),
        0,
        0,
        0,
    )


def test_padding_is_invisible():
    """A row's log-probabilities are the same beside a longer row."""
    policy = model(1)
    short, long = torch.randint(200, (1, 6)), torch.randint(200, (1, 30))
    padded = torch.cat([torch.cat([short, torch.zeros(1, 24, dtype=torch.long)], 1), long])
    mask = torch.zeros(2, 30)
    mask[:, 1:6] = 1
    with torch.no_grad():
        both, _ = token_logprobs(policy, padded, mask, 1.0)
        alone, _ = token_logprobs(policy, short, mask[:1, :6], 1.0)
    assert torch.allclose(both[:5], alone, atol=1e-5)


def test_packing():
    """Every row once, sorted, within the limit; a row beyond it is alone."""
    lengths = [5, 50, 7, 7, 200, 3, 9]
    batches = micro_batches(lengths, 40)
    assert sorted(i for b in batches for i in b) == list(range(7))
    assert all(len(b) == 1 or len(b) * max(lengths[i] for i in b) <= 40 for b in batches)
    assert [4] in batches and len(batches) == 4


def test_divergence_is_reported_before_the_weights_change():
    """A gradient that isn't finite stops the run and leaves the weights."""
    policy = model(1)
    before = [p.clone() for p in policy.model.parameters()]
    optimizer = torch.optim.AdamW(policy.model.parameters(), lr=1e-3)
    bad = [s._replace(advantage=float("inf")) for s in samples(2)]
    with pytest.raises(CoevolveError, match="not finite"):
        update(policy, ReferencePolicy(None), optimizer, bad, OBJECTIVE)
    assert all(torch.equal(a, b) for a, b in zip(before, policy.model.parameters(), strict=True))
