"""A half-million-parameter Llama and its tokenizer: the laptop policy before any training.

What makes it learn to call tools from a few thousand demonstrations (measured):

- weights start at a spread of about 1/sqrt(width), .08; at Llama's .02 the arguments stay random,
- a word is the same token in prose and in JSON (a space is no part of `Ann`), so that copying is
  one skill,
- what tells a value's role stands right before it: a JSON key is one token with its quotes,
  ``"id":"``, and a preposition one with its space, `of `. Copying is then what a two-layer
  transformer finds first, attention to what followed the same token before; with keys in three
  tokens some seeds never found it in 1,500 steps,
- the template leaves tools out of the prompt: an episode is about 80 tokens long.

Roles are framed as ``<|role|>content<|end|>``. The template marks the assistant's tokens,
``<|end|>`` included, as generated.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

VOCABULARY = 800  # Tokens
WIDTH, LAYERS, HEADS, FEED_FORWARD = 128, 2, 8, 384
MAX_POSITIONS = 256
SPREAD = 0.08  # Standard deviation of the initial weights

PIECES = r'"\w+":"?|\b(?:of|to|in|for|the) |\w+|\s|"?[^\w\s"]+|"'
"""JSON keys, prepositions with their space, words, single spaces, punctuation."""

PAD, END = "<|pad|>", "<|end|>"
ROLES = ["<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"]
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|' + message['role'] + '|>' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|end|>' }}{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)


def make_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Byte-level BPE over the pieces of `PIECES`; frequent pieces end as one token each."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    words = pre_tokenizers.Split(Regex(PIECES), "isolated")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, to_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[PAD, END, *ROLES],
        show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=ROLES,
        clean_up_tokenization_spaces=False,
        model_max_length=MAX_POSITIONS,
        chat_template=TEMPLATE,
    )


def make_model(
    tokenizer: PreTrainedTokenizerFast, seed: int, heads: int = HEADS
) -> LlamaForCausalLM:
    """The untrained model, a pure function of its arguments; `heads` share the width."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=WIDTH,
            intermediate_size=FEED_FORWARD,
            num_hidden_layers=LAYERS,
            num_attention_heads=heads,
            num_key_value_heads=heads,
            max_position_embeddings=MAX_POSITIONS,
            initializer_range=SPREAD,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
        )
    )
