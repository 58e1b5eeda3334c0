"""Tiny Hugging Face models for tests: byte-level tokenizer, chat templates, a random Llama, a few
steps of imitation."""

from __future__ import annotations

import random
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from coevolve.models.chat_template import ChatTemplate
from coevolve.records import Call, Start, Task, Verifier, task_id

PLAIN = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""The laptop policy's form: every message framed by its role and an end token, tools not shown."""

CHATML = """
{%- if tools %}<|im_start|>system
Tools:{% for t in tools %} {{ t | tojson }}{% endfor %}<|im_end|>
{% else %}<|im_start|>system
Be brief.<|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m.role == "tool" %}
{%- if loop.first or messages[loop.index0 - 1].role != "tool" %}<|im_start|>user{% endif %}
<tool_response>
{{ m.content }}
</tool_response>
{%- if loop.last or messages[loop.index0 + 1].role != "tool" %}<|im_end|>
{% endif %}
{%- else %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""As Qwen2.5 frames: a newline after the end token, tool results gathered in a user message, tools
in a system message."""

THINKING = """
{%- set ns = namespace(last=-1) %}
{%- for m in messages %}
{%- if m.role == "user" %}{% set ns.last = loop.index0 %}{% endif %}
{%- endfor %}
{%- if tools %}<|im_start|>system
Tools:{% for t in tools %} {{ t | tojson }}{% endfor %}<|im_end|>
{% endif %}
{%- for m in messages %}
{%- if m.role == "tool" %}
{%- if loop.first or messages[loop.index0 - 1].role != "tool" %}<|im_start|>user{% endif %}
<tool_response>
{{ m.content }}
</tool_response>
{%- if loop.last or messages[loop.index0 + 1].role != "tool" %}<|im_end|>
{% endif %}
{%- elif m.role == "assistant" %}
{%- set thought = "" %}{% set said = m.content %}
{%- if "</think>" in m.content %}
{%- set thought = m.content.split("</think>")[0].split("<think>")[-1].strip("\\n") %}
{%- set said = m.content.split("</think>")[-1].lstrip("\\n") %}
{%- endif %}<|im_start|>assistant
{% if loop.index0 > ns.last and thought %}<think>
{{ thought }}
</think>

{% endif %}{{ said }}<|im_end|>
{% else %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
"""As Qwen3 frames: reasoning is shown after the last user turn only."""

NO_TOOLS = (
    "{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}"
    "{{ raise_exception('unknown role') }}{% endif %}"
    "{% if loop.index0 and messages[loop.index0 - 1].role == m.role %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
"""As some models have it: user and assistant in turn, nothing else."""

SPECIAL = [
    "<|pad|>",
    "<|end|>",
    "<|user|>",
    "<|assistant|>",
    "<|tool|>",
    "<|im_start|>",
    "<|im_end|>",
]


def tokenizer(template: str = PLAIN, words: list[str] = ()) -> PreTrainedTokenizerFast:
    """Byte-level, so that any text has tokens; `words` are tokens of their own."""
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(
        [],
        trainers.BpeTrainer(special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False),
    )
    raw.add_tokens(list(words))
    end = "<|im_end|>" if "<|im_end|>" in template else "<|end|>"
    made = PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token="<|pad|>",
        eos_token=end,
        additional_special_tokens=SPECIAL[2:],
    )
    made.chat_template = template
    return made


def llama(
    vocabulary: int, *, width: int = 32, layers: int = 2, context: int = 128, seed: int = 0
) -> LlamaForCausalLM:
    """A random Llama with grouped-query attention."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=context,
        initializer_range=0.1,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config).eval()


# A policy for tests/grocer.py that calls well and picks the item that it is asked for about half of
# the time.

ITEMS = ["tea", "bread", "milk"]
CARE = 0.3
ADD = {item: f'{{"name":"add","arguments":{{"item":"{item}"}}}}' for item in ITEMS}
SHOP_WORDS = [*ADD.values(), "put ", " on my list", *ITEMS, "done", '{"ok": true}']


def shop_tasks(env: str, count: int = 6, iteration: int = 0) -> list[Task]:
    """Tasks of one or two user turns, each of which asks for an item."""
    from coevolve.records import Origin

    tasks = []
    for number in range(count):
        wanted = [ITEMS[(number + k) % len(ITEMS)] for k in range(1 + number % 2)]
        query = [f"put {item} on my list" + "!" * (number // 6) for item in wanted]
        solution = [[Call("add", {"item": item})] for item in wanted]
        start = Start(name="default")
        tasks.append(
            Task(
                id=task_id(env, start, query, solution, Verifier()),
                env=env,
                kind=f"add/{len(wanted)}",
                origin=Origin(iteration=iteration),
                query=query,
                solution=solution,
                start=start,
            )
        )
    return tasks


def shop_policy(directory: Path, steps: int = 120, seed: int = 0) -> Path:
    """Imitates demonstrations of which a part are careless: right form, often the wrong item."""
    torch.set_num_threads(1)
    tok = tokenizer(words=SHOP_WORDS)
    model, chat, draw = llama(len(tok), seed=seed), ChatTemplate(tok), random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), 5e-3)
    model.train()
    for _ in range(steps):
        rows = [_demonstration(chat, draw) for _ in range(16)]
        width = max(len(ids) for ids, _ in rows)
        ids = torch.tensor([r + [0] * (width - len(r)) for r, _ in rows])
        labels = torch.tensor(
            [
                [i if m else -100 for i, m in zip(r, mask, strict=True)] + [-100] * (width - len(r))
                for r, mask in rows
            ]
        )
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.generation_config.eos_token_id = (
        tok.eos_token_id
    )  # for servers; our own sampling asks the chat template
    model.save_pretrained(directory)
    tok.save_pretrained(directory)
    return directory


def _demonstration(chat: ChatTemplate, draw: random.Random) -> tuple[list[int], list[int]]:
    ids: list[int] = []
    mask: list[int] = []
    for turn in range(draw.randint(1, 2)):
        asked = draw.choice(ITEMS)
        done = asked if draw.random() < CARE else draw.choice(ITEMS)
        query = [{"role": "user", "content": f"put {asked} on my list"}]
        more = chat.suffix(query) if turn else chat.prompt(query)
        ids, mask = ids + more, mask + [0] * len(more)
        for said, heard in ((ADD[done], '{"ok": true}'), ("done", None)):
            own = [*chat.encode(said), chat.end]
            more = chat.suffix([{"role": "tool", "content": heard}]) if heard else []
            ids, mask = ids + own + more, mask + [1] * len(own) + [0] * len(more)
    return ids, mask
