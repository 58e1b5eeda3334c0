"""Sampling with a cache kept over turns, against plain forward passes over whole rows."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch

import tiny_models
from coevolve.errors import CoevolveError, UsageError
from coevolve.models.transformers_lm import LocalModel, _pick, identity


def make(template="PLAIN", context=160, **options):
    tokenizer = tiny_models.tokenizer(getattr(tiny_models, template), words=["aa", "bb", "cc"])
    return LocalModel(tiny_models.llama(len(tokenizer), context=context), tokenizer, **options)


def user(text):
    return [{"role": "user", "content": text}]


def dialogue(model, turns=3, seen=None):
    """An environment that answers each reply with a text of the reply's own length, for some
    turns."""
    count: Counter[int] = Counter()

    def respond(ended):
        out = []
        for turn in ended:
            count[turn.row] += 1
            if seen is not None:
                seen.append(turn)
            more = model.chat.suffix(
                [{"role": "tool", "content": "x" * (1 + (turn.length + turn.row) % 7)}]
            )
            over = count[turn.row] >= turns or turn.length + len(more) >= model.max_tokens
            out.append(None if over else more)
        return out

    return respond


@pytest.mark.parametrize("template", ["PLAIN", "CHATML"])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probabilities_are_those_of_a_full_pass(template, temperature):
    """For rows of different lengths, with shared and own prompts, forced tokens and finished rows,
    the sampler's log-probabilities equal those of one uncached pass over each row alone."""
    model = make(template, max_turn_tokens=9)
    prompts = [model.chat.prompt(user(text)) for text in ("aa", "aa", "bb cc aa bb", "", "aa")]
    rows = model.sample(prompts, [f"k{i}" for i in range(5)], dialogue(model), temperature)
    for prompt, row in zip(prompts, rows, strict=True):
        assert row.token_ids[: len(prompt)] == prompt
        with torch.no_grad():
            logits = model.model(torch.tensor([row.token_ids])).logits[0] / temperature
        full = torch.log_softmax(logits, -1)
        assert sum(row.mask) > 5
        for at, (token, mask, logprob) in enumerate(
            zip(row.token_ids, row.mask, row.logprobs, strict=True)
        ):
            if mask:
                assert logprob == pytest.approx(full[at - 1, token].item(), abs=2e-5)
            else:
                assert logprob == 0.0


def test_rows_are_functions_of_their_keys():
    """The same key gives the same row in any company; another key another row."""
    model = make(max_turn_tokens=9)
    prompts = [model.chat.prompt(user(text)) for text in ("aa", "bb cc")]
    alone = model.sample(prompts[:1], ["one"], dialogue(model), 1.0)[0]
    both = model.sample(
        [prompts[1], prompts[0]], ["two", "one"], lambda ended: dialogue(model)(ended), 1.0
    )
    assert alone.token_ids[: len(prompts[0]) + 9] == both[1].token_ids[: len(prompts[0]) + 9]
    assert (
        model.sample(prompts[:1], ["other"], dialogue(model), 1.0)[0].token_ids != alone.token_ids
    )


def test_prefill_in_pieces(monkeypatch):
    """A prefill cut into pieces for memory gives the same tokens."""
    model = make(max_turn_tokens=9)
    prompts = [model.chat.prompt(user("aa bb cc " * 3)) for _ in range(3)] + [
        model.chat.prompt(user("cc " * 12))
    ]
    keys = ["a", "b", "c", "d"]
    whole = model.sample(prompts, keys, dialogue(model), 1.0)
    monkeypatch.setattr("coevolve.models.transformers_lm.PREFILL_TOKENS", 7)
    pieces = model.sample(prompts, keys, dialogue(model), 1.0)
    assert [r.token_ids for r in whole] == [r.token_ids for r in pieces]


def test_limits():
    """No reply is longer than its cap, no row than the context; what a limit ends is reported as
    truncated."""
    model = make(max_turn_tokens=6, max_tokens=60)
    seen = []
    prompts = [model.chat.prompt(user("aa"))] * 8
    rows = model.sample(
        prompts, [str(i) for i in range(8)], dialogue(model, turns=99, seen=seen), 1.0
    )
    assert max(len(r.token_ids) for r in rows) <= 60
    assert any(t.truncated for t in seen)
    runs = ["".join(map(str, r.mask)).split("0") for r in rows]
    assert max(len(run) for parts in runs for run in parts) == 6


def test_defaults_come_from_the_model():
    """Caps: given ones, else the generation config's, else the context and a sixth of it."""
    model = make(context=120)
    assert (model.max_tokens, model.max_turn_tokens) == (120, 20)
    model.model.generation_config.max_length, model.model.generation_config.max_new_tokens = 100, 30
    again = LocalModel(model.model, model.tokenizer)
    assert (again.max_tokens, again.max_turn_tokens) == (100, 30)
    assert (
        LocalModel(model.model, model.tokenizer, max_tokens=5000, max_turn_tokens=7).max_tokens
        == 120
    )


def test_draws_follow_the_distribution():
    """Frequencies over 20,000 keys agree with the probabilities (chi-squared, 4 degrees of freedom,
    p = .0001)."""
    import random

    probabilities = torch.tensor([0.5, 0.25, 0.15, 0.1, 0.0])
    count = 20_000
    picked = _pick(
        probabilities.log().expand(count, 5), [random.Random(f"d{i}") for i in range(count)], 1.0
    )
    seen = Counter(token for token, _ in picked)
    assert seen[4] == 0
    assert (
        sum((seen[i] - count * p) ** 2 / (count * p) for i, p in enumerate([0.5, 0.25, 0.15, 0.1]))
        < 23.5
    )
    assert picked[0][1] == pytest.approx(math.log(probabilities[picked[0][0]]))


def test_greedy_takes_the_most_likely():
    """Temperature 0 needs no draw."""
    import random

    assert _pick(torch.tensor([[0.0, 3.0, 1.0]]), [random.Random(0)], 0)[0][0] == 1


def test_damaged_weights_are_reported():
    """NaN is an error in words, not a token."""
    import random

    with pytest.raises(CoevolveError, match="NaN"):
        _pick(torch.tensor([[float("nan"), 0.0]]), [random.Random(0)], 1.0)


def test_identity_follows_the_weights(tmp_path):
    """Two directories of one name and other weights have other names; the same weights the same
    one."""
    for place, seed in (("a", 0), ("b", 1), ("c", 0)):
        tiny_models.llama(300, seed=seed).save_pretrained(tmp_path / place / "policy")
    names = [identity(str(tmp_path / place / "policy")) for place in "abc"]
    assert names[0] == names[2] != names[1] and names[0].startswith("policy@")
    assert identity("Qwen/Qwen3-4B") == "Qwen/Qwen3-4B"


def test_unknown_device():
    """A device that torch does not see is named."""
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="no GPU"):
            LocalModel.load("x", device="cuda")
