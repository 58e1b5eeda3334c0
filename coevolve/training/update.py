"""One optimiser step on a batch of rollouts: micro-batches whose gradients add up to the whole
batch's token mean.

Rows are sorted by length and packed into micro-batches of bounded padded size, so a long row
doesn't pad the short ones. Padding is on the right: with a causal model no real token sees it. Old
log-probabilities are the sampler's own where the sampler's and the trainer's passes are the same
arithmetic (float32); otherwise those of the weights before this step, which at one update per batch
are the current ones. Log-probabilities are taken at the sampling temperature everywhere.
"""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING, NamedTuple

from coevolve.errors import CoevolveError
from coevolve.training import grpo
from coevolve.training.settings import GrpoSettings

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from coevolve.models.transformers_lm import LocalModel

LOGIT_BYTES = 1 << 29  # Size of a micro-batch's logits; an update holds about four times that
MICRO_TOKENS = 16_384


class Sample(NamedTuple):
    """A rollout as the update sees it."""

    token_ids: list[int]
    mask: list[int]
    logprobs: list[float]
    advantage: float


class UpdateReport(NamedTuple):
    """Token means over the update, by the names of `training.metrics`."""

    loss: float = 0.0
    policy_loss: float = 0.0
    kl: float = 0.0
    entropy: float = 0.0
    clip_low: float = 0.0
    clip_high: float = 0.0
    clip_dual: float = 0.0
    logprob_gap_mean: float = 0.0
    logprob_gap_max: float = 0.0
    grad_norm: float = 0.0
    update_tokens: int = 0
    seconds_reference: float = 0.0


class ReferencePolicy:
    """The frozen policy: a model of its own, or the trained one with its adapters off, or none."""

    def __init__(self, model: LocalModel | None, adapters_of: LocalModel | None = None):
        self._model, self._adapters_of = model, adapters_of

    def logprobs(self, ids: Tensor, mask: Tensor, temperature: float) -> Tensor | None:
        import torch

        model = self._model or self._adapters_of
        if model is None:
            return None
        off = (
            self._adapters_of.model.disable_adapter()
            if self._adapters_of
            else contextlib.nullcontext()
        )
        with torch.no_grad(), off:
            return token_logprobs(model, ids, mask, temperature)[0]


def token_logprobs(
    model: LocalModel, ids: Tensor, mask: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Log-probabilities [M] and entropies [M] of the tokens where mask [B, L] is 1."""
    import torch

    with model.passes():
        logits = model.forward(ids[:, :-1])
    chosen = mask[:, 1:].bool()
    scores = torch.log_softmax(logits[chosen].float() / (temperature or 1.0), -1)
    with torch.no_grad():
        entropies = grpo.entropy(scores)
    return scores.gather(1, ids[:, 1:][chosen][:, None])[:, 0], entropies


def micro_batches(lengths: list[int], limit: int) -> list[list[int]]:
    """Indices by length, cut so that rows times longest row stays within `limit` (one row fits)."""
    batches: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        if batches and (len(batches[-1]) + 1) * lengths[i] <= limit:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


def update(
    model: LocalModel,
    reference: ReferencePolicy,
    optimizer: torch.optim.Optimizer,
    samples: list[Sample],
    settings: GrpoSettings,
) -> UpdateReport:
    """Adds up the gradients of all samples and steps once. At least one policy token is needed.

    Raises CoevolveError when loss or gradient aren't finite; the weights are then as before.
    """
    import torch

    total = sum(sum(s.mask[1:]) for s in samples)
    vocabulary = model.model.get_input_embeddings().num_embeddings
    limit = min(MICRO_TOKENS, max(1, LOGIT_BYTES // (4 * vocabulary)))
    optimizer.zero_grad(set_to_none=True)
    sums: dict[str, float] = dict.fromkeys(UpdateReport._fields[:9], 0.0)
    reference_seconds = 0.0
    for indices in micro_batches([len(s.token_ids) for s in samples], limit):
        part = _tensors([samples[i] for i in indices], model.device)
        began = time.perf_counter()
        fixed = reference.logprobs(part.ids, part.mask, settings.temperature)
        reference_seconds += time.perf_counter() - began
        _accumulate(model, part, fixed, settings, total, sums)
    parameters = [p for p in model.model.parameters() if p.requires_grad]
    norm = torch.nn.utils.clip_grad_norm_(parameters, settings.grad_clip).item()
    if not math.isfinite(norm) or not math.isfinite(sums["loss"]):
        raise CoevolveError(
            "the loss or its gradient is not finite: training diverged (a lower --lr helps)"
        )
    optimizer.step()
    return UpdateReport(
        **sums, grad_norm=norm, update_tokens=total, seconds_reference=reference_seconds
    )


class _MicroBatch(NamedTuple):
    """Ids and mask [B, L]; per policy token [M] the sampler's log-probability and advantage."""

    ids: Tensor
    mask: Tensor
    sampled: Tensor
    advantages: Tensor


def _tensors(samples: list[Sample], device: torch.device) -> _MicroBatch:
    import torch
    from torch.nn.utils.rnn import pad_sequence

    ids = pad_sequence([torch.tensor(s.token_ids) for s in samples], batch_first=True)
    mask = pad_sequence([torch.tensor(s.mask) for s in samples], batch_first=True)
    pairs = [
        (logprob, s.advantage)
        for s in samples
        for logprob, own in zip(s.logprobs[1:], s.mask[1:], strict=True)
        if own
    ]
    sampled, advantages = torch.tensor(pairs, dtype=torch.float32).reshape(-1, 2).unbind(1)
    return _MicroBatch(*(each.to(device) for each in (ids, mask, sampled, advantages)))


def _accumulate(
    model: LocalModel,
    part: _MicroBatch,
    fixed: Tensor | None,
    settings: GrpoSettings,
    total: int,
    sums: dict[str, float],
) -> None:
    """Backward pass of one micro-batch; adds its shares of the token means to `sums`."""
    import torch

    logprobs, entropies = token_logprobs(model, part.ids, part.mask, settings.temperature)
    old = logprobs.detach() if model.autocast else part.sampled
    clip = grpo.Clip(settings.clip_low, settings.clip_high, settings.clip_dual)
    policy = grpo.policy_loss(logprobs, old, part.advantages, clip)
    kl = grpo.kl_k3(logprobs, fixed) if fixed is not None else torch.zeros_like(logprobs)
    loss = grpo.token_mean(policy.loss + settings.beta * kl, total)
    loss.backward()
    gap = (logprobs.detach() - part.sampled).abs()
    means = {
        "loss": policy.loss.detach() + settings.beta * kl.detach(),
        "policy_loss": policy.loss.detach(),
        "kl": kl.detach(),
        "entropy": entropies,
        "clip_low": policy.clipped_low,
        "clip_high": policy.clipped_high,
        "clip_dual": policy.clipped_dual,
        "logprob_gap_mean": gap,
    }
    for name, values in means.items():
        sums[name] += grpo.token_mean(values, total).item()
    sums["logprob_gap_max"] = max(sums["logprob_gap_max"], gap.max().item() if len(gap) else 0.0)
