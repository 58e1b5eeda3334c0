"""A Hugging Face causal LM in this process: multi-turn sampling with the KV cache kept over all
turns.

`LocalModel.sample` plays many conversations at once. All live rows have the same number of tokens
in the cache: each forward pass feeds every row its next tokens, forced ones (prompt, observation)
or the one just sampled, as many at a time as the row with the fewest has. So there is no padding,
no attention mask and no re-tokenisation: what was sampled is what is trained on. A prompt that
several rows share is prefilled once. Finished rows leave the cache.

A draw is a pure function of the row's key: one uniform number per token from the key's own
generator, put through the inverse of the distribution's cumulative sum. `logprobs` are those of the
sampling distribution, temperature included.

Weights are float32; on a GPU the passes run in bfloat16 by autocast unless float32 is asked for.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import math
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from coevolve.errors import CoevolveError, Unreachable, UsageError, installation, require
from coevolve.models.chat_template import ChatTemplate, Render

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

INSTALL = installation("local")
PREFILL_TOKENS = 16_384  # Tokens of all rows that one forward pass takes
CACHE_BYTES = 1 << 30  # Memory for the KV cache on a CPU; on a GPU 40 % of what is free
MAX_ROWS = 256
MAX_CONTEXT = 32_768  # Tokens of an episode, whatever the model allows


class SampledReply(NamedTuple):
    """A reply that just ended."""

    row: int
    text: str
    truncated: bool  # A token limit ended it, not the model
    length: int  # Tokens of the row so far, with the end token also where the model left it out


class TokenRow(NamedTuple):
    """One conversation in tokens: three lists of the same length."""

    token_ids: list[int]
    mask: list[int]
    logprobs: list[float]


Respond = Callable[[list[SampledReply]], list[list[int] | None]]
"""Takes ended replies, gives the tokens that follow each, or None where it is over."""


def identity(name: str) -> str:
    """A model's short name: its directory and a digest of its weights' ends, or the id."""
    path = Path(name)
    weights = sorted([*path.glob("*.safetensors"), *path.glob("*.bin")]) if path.is_dir() else []
    if not weights:
        return name
    digest = hashlib.sha256()
    for file in weights:
        with open(file, "rb") as stream:
            digest.update(stream.read(1 << 20))
            stream.seek(max(0, file.stat().st_size - (1 << 20)))
            digest.update(stream.read())
    return f"{path.resolve().name}@{digest.hexdigest()[:8]}"


class LocalModel:
    """`max_tokens` caps an episode, `max_turn_tokens` a reply. Defaults: the model's own generation
    config (`max_length`, `max_new_tokens`), else its context and a sixth of it, at most 1024."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        max_tokens: int | None = None,
        max_turn_tokens: int | None = None,
        autocast: bool = False,
        render: Render | None = None,
    ):
        self.model, self.tokenizer, self.chat = model, tokenizer, ChatTemplate(tokenizer, render)
        self.autocast = autocast
        positions = getattr(_text_config(model), "max_position_embeddings", None)
        context = min(positions or MAX_CONTEXT, MAX_CONTEXT)
        own = model.generation_config
        self.max_tokens = min(max_tokens or (own and own.max_length) or context, context)
        sixth = min(1024, max(1, self.max_tokens // 6))
        turn = max_turn_tokens or (own and own.max_new_tokens) or sixth
        self.max_turn_tokens = min(turn, self.max_tokens)
        self.stops = {self.chat.end, *_ids(tokenizer.eos_token_id), *_ids(own and own.eos_token_id)}
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        takes = inspect.signature(base.forward).parameters
        self._last_only = {"logits_to_keep": 1} if "logits_to_keep" in takes else {}

    @classmethod
    def load(
        cls,
        name: str,
        *,
        device: str | None = None,
        dtype: str | None = None,
        threads: int | None = None,
        lora_rank: int | None = None,
        max_tokens: int | None = None,
        max_turn_tokens: int | None = None,
        render: Render | None = None,
    ) -> LocalModel:
        """Loads a Hugging Face directory or id, LoRA adapters included.

        `device` is cpu or cuda (default: cuda if there is one), `dtype` float32 or bfloat16 (GPU
        default). Raises UsageError, Unreachable or MissingDependency.
        """
        torch = _torch()
        # Small models lose with more than one thread.
        if threads or "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(threads or 1)
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        if device.startswith("cuda") and not torch.cuda.is_available():
            raise UsageError(f"device {device!r}: torch sees no GPU")
        model, tokenizer = _from_pretrained(name)
        if lora_rank and not hasattr(model, "peft_config"):
            model = _with_new_adapters(model, lora_rank)
        model = model.to(device).eval()
        autocast = device.startswith("cuda") and dtype != "float32"
        return cls(
            model,
            tokenizer,
            max_tokens=max_tokens,
            max_turn_tokens=max_turn_tokens,
            autocast=autocast,
            render=render,
        )

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def rows(self) -> int:
        """Conversations that fit the memory for the KV cache at full length."""
        config = _text_config(self.model)
        heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        width = 2 if self.autocast else 4
        budget = CACHE_BYTES
        if self.device.type == "cuda":
            budget = int(0.4 * _torch().cuda.mem_get_info()[0])
        row = 2 * config.num_hidden_layers * heads * size * width * self.max_tokens
        return max(1, min(MAX_ROWS, budget // row))

    def passes(self) -> contextlib.AbstractContextManager:
        """Context of forward passes: the precision they run in."""
        if not self.autocast:
            return contextlib.nullcontext()
        return _torch().autocast(self.device.type, dtype=_torch().bfloat16)

    def sample(
        self, prompts: list[list[int]], keys: list[str], respond: Respond, temperature: float
    ) -> list[TokenRow]:
        """Plays the conversations that begin with the prompts (each shorter than `max_tokens`) to
        their ends.

        `keys` seed the rows' draws. `temperature` 0 takes the most likely token; its
        log-probabilities are at 1.
        """
        if not prompts:
            return []
        rows = [TokenRow(list(p), [0] * len(p), [0.0] * len(p)) for p in prompts]
        draws = [random.Random(key) for key in keys]
        with _torch().inference_mode(), self.passes():
            self._run(rows, draws, respond, temperature)
        return rows

    def _run(
        self, rows: list[TokenRow], draws: list[random.Random], respond: Respond, temperature: float
    ) -> None:
        starts = [len(row.token_ids) for row in rows]
        live = list(range(len(rows)))
        feed = _Feed(self)
        logits = feed.shared([row.token_ids for row in rows])
        while live:
            ready = [j for j, i in enumerate(live) if len(rows[i].token_ids) == feed.position]
            sampled = logits if len(ready) == len(live) else logits[ready]
            picked = _pick(sampled, [draws[live[j]] for j in ready], temperature)
            turns = []
            for j, (token, logprob) in zip(ready, picked, strict=True):
                i = live[j]
                row = rows[i]
                row.token_ids.append(token)
                row.mask.append(1)
                row.logprobs.append(logprob)
                length = len(row.token_ids)
                stopped = token in self.stops
                full = length >= self.max_tokens or length - starts[i] >= self.max_turn_tokens
                if stopped or full:
                    text = self.chat.decode(row.token_ids[starts[i] : length - stopped])
                    turns.append(
                        SampledReply(i, text, not stopped, length + (token != self.chat.end))
                    )
            over = self._continue(rows, starts, turns, respond) if turns else set()
            if over:
                keep = [j for j, i in enumerate(live) if i not in over]
                live = [live[j] for j in keep]
                if not live:
                    return
                feed.keep(keep)
            logits = feed.next([rows[i].token_ids for i in live])

    def _continue(
        self, rows: list[TokenRow], starts: list[int], turns: list[SampledReply], respond: Respond
    ) -> set[int]:
        """Appends what follows the ended replies; returns the rows that are over."""
        over = set()
        for turn, suffix in zip(turns, respond(turns), strict=True):
            row = rows[turn.row]
            if suffix is None:
                over.add(turn.row)
                continue
            if row.token_ids[-1] != self.chat.end:
                suffix = [self.chat.end, *suffix]
            row.token_ids.extend(suffix)
            row.mask.extend([0] * len(suffix))
            row.logprobs.extend([0.0] * len(suffix))
            starts[turn.row] = len(row.token_ids)
        return over

    def forward(self, ids: torch.Tensor, cache: object | None = None) -> torch.Tensor:
        """Logits [B, L, V] of token ids [B, L]; with a cache, which grows, at least the last."""
        if cache is None:
            return self.model(ids, use_cache=False).logits
        return self.model(ids, past_key_values=cache, use_cache=True, **self._last_only).logits


class _Feed:
    """The KV cache and how many tokens of every live row it holds."""

    def __init__(self, model: LocalModel):
        from transformers import DynamicCache

        self._model, self._torch = model, _torch()
        self._cache = DynamicCache(config=model.model.config)
        self.position = 0

    def shared(self, prompts: list[list[int]]) -> torch.Tensor:
        """Feeds the common length of all prompts, each once; returns the last logits [N, V]."""
        length = min(map(len, prompts))
        heads = [tuple(p[:length]) for p in prompts]
        distinct = {head: n for n, head in enumerate(dict.fromkeys(heads))}
        while self.position < length:
            logits = self._pass([list(head) for head in distinct], length)
        if len(distinct) == len(prompts):
            return logits
        index = self._torch.tensor([distinct[head] for head in heads], device=self._model.device)
        self._cache.batch_select_indices(index)
        return logits[index]

    def next(self, rows: list[list[int]]) -> torch.Tensor:
        """Feeds as many tokens as every row has waiting; returns the last logits [N, V]."""
        return self._pass(rows, min(map(len, rows)))

    def keep(self, indices: list[int]) -> None:
        self._cache.batch_select_indices(self._torch.tensor(indices, device=self._model.device))

    def _pass(self, rows: list[list[int]], end: int) -> torch.Tensor:
        end = min(end, self.position + max(1, PREFILL_TOKENS // len(rows)))
        ids = self._torch.tensor(
            [row[self.position : end] for row in rows], device=self._model.device
        )
        self.position = end
        return self._model.forward(ids, self._cache)[:, -1]


def _pick(
    logits: torch.Tensor, draws: list[random.Random], temperature: float
) -> list[tuple[int, float]]:
    """A token and its log-probability for each row of logits [N, V]."""
    if not draws:
        return []
    torch = _torch()
    logprobs = torch.log_softmax(logits.float() / (temperature or 1.0), -1)
    if temperature == 0:
        tokens = logprobs.argmax(-1, keepdim=True)
    else:
        total = logprobs.double().exp().cumsum(-1)
        uniform = torch.tensor([[draw.random()] for draw in draws], dtype=torch.float64)
        bound = uniform.to(total.device) * total[:, -1:]
        tokens = torch.searchsorted(total, bound, right=True).clamp(max=logits.shape[-1] - 1)
    chosen = logprobs.gather(1, tokens)[:, 0].tolist()
    if any(map(math.isnan, chosen)):
        raise CoevolveError(
            "the model's probabilities are not numbers (NaN): "
            "its weights are damaged or training diverged"
        )
    return list(zip(tokens[:, 0].tolist(), chosen, strict=True))


def is_cached(name: str) -> bool:
    """Whether the Hub's cache on this machine has the model."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    return (cache / f"models--{name.replace('/', '--')}").is_dir()


def _from_pretrained(name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    transformers = require("transformers", "local models", INSTALL)
    transformers.utils.logging.disable_progress_bar()
    # a name without an owner is a directory that is not there: the Hub need not be asked
    if "/" not in name.rstrip("/") and not Path(name).is_dir() and not is_cached(name):
        raise UsageError(f"no model {name}: no directory here, and the Hub's names are OWNER/MODEL")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
        if (Path(name) / "adapter_config.json").exists():
            return _with_saved_adapters(name), tokenizer
        load = transformers.AutoModelForCausalLM.from_pretrained
        return load(name, dtype=_torch().float32), tokenizer
    except CoevolveError:
        raise
    except Exception as error:  # each format of weights has errors of its own for a damaged file
        reason = " ".join(str(error).split()) or type(error).__name__
        kind = UsageError if Path(name).exists() or name.startswith((".", "/")) else Unreachable
        raise kind(f"{name}: cannot be loaded as a Hugging Face model: {reason}") from error


def _with_saved_adapters(directory: str) -> PreTrainedModel:
    """A checkpoint of LoRA training on its base model; the adapters can be trained on."""
    peft = _peft()
    base, _ = _from_pretrained(peft.PeftConfig.from_pretrained(directory).base_model_name_or_path)
    return peft.PeftModel.from_pretrained(base, directory, is_trainable=True)


def _with_new_adapters(model: PreTrainedModel, rank: int) -> PreTrainedModel:
    """LoRA on all linear layers; they change nothing until they are trained."""
    peft = _peft()
    form = {"task_type": "CAUSAL_LM", "target_modules": "all-linear"}
    return peft.get_peft_model(model, peft.LoraConfig(r=rank, lora_alpha=2 * rank, **form))


def _peft() -> Any:
    return require("peft", "LoRA", "pip install peft")


def _torch() -> Any:
    return require("torch", "local models", INSTALL)


def _text_config(model: PreTrainedModel) -> Any:
    return model.config.get_text_config(decoder=True)


def _ids(value: int | list[int] | None) -> list[int]:
    return [] if value is None else [value] if isinstance(value, int) else list(value)
