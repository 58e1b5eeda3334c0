"""How long the prompts of tasks are, in a model's tokens: what the agent loop will render, tool
schemas included.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from coevolve import jsonl
from coevolve.agents.code.prompts import episode_style
from coevolve.agents.drivers import Schemas, chunks, open_all
from coevolve.agents.episode import Episode
from coevolve.agents.prompts.styles import style
from coevolve.environments.client import Pool
from coevolve.environments.protocol import EpisodeLimits
from coevolve.errors import Unreachable, UsageError
from coevolve.models.chat_template import ChatTemplate
from coevolve.records import Task
from coevolve.training.verl.settings import VerlSettings

HUB_TIMEOUT = 10  # Seconds
SESSIONS = 64  # Sessions of the environment that are open at a time


def check(tasks: list[Task], settings: VerlSettings, pool: Pool, tokenizer: Any | None) -> None:
    """Compares the environment's version and, with a tokenizer, the prompts with `prompt_tokens`.

    Raises UsageError for tasks of another version, and for a prompt that is too long.
    """
    pool.compare(task.env_version for task in tasks)
    measure = tokenizer is not None
    lengths = prompt_lengths(tasks, pool, tokenizer, settings.prompt_style) if measure else []
    limit = settings.prompt_tokens
    long = [(t.id, n) for t, n in zip(tasks, lengths, strict=False) if n is not None and n > limit]
    if long:  # verl would cut the prompt at its head, without a word to anybody
        id_, length = long[0]
        more = f", and so are {len(long) - 1} more" if len(long) > 1 else ""
        raise UsageError(
            f"task {id_}: its prompt is {length} tokens, above --prompt-tokens {limit}{more}. "
            "Raise the limit for a new run, or leave the tasks out"
        )
    if refused := lengths.count(None):
        what = "tasks cannot be opened by the environment; their episodes will be masked"
        jsonl.warn(f"{refused} of {len(tasks)} {what}")


def prompt_lengths(tasks: list[Task], pool: Pool, tokenizer: Any, prompt: str) -> list[int | None]:
    """Tokens of each task's prompt; None where the environment cannot open it. `prompt` names a
    style.

    Raises UsageError for a tokenizer without a chat template.
    """
    told = episode_style(pool, style(prompt))
    chat, schemas = ChatTemplate(tokenizer, told.render), Schemas(pool, told)
    lengths: list[int | None] = []
    for part in chunks(tasks, SESSIONS):
        episodes = [Episode(task, EpisodeLimits(), tools=pool.tools, style=told) for task in part]
        open_all(episodes, pool)
        lengths += [None if e.done else len(chat.prompt(e.unread, schemas.of(e))) for e in episodes]
        pool.close([e.session for e in episodes if e.session])
    return lengths


def tokenizer_here(model: str) -> Any | None:
    """The model's tokenizer, where it is on this machine."""
    from transformers import AutoTokenizer

    with contextlib.suppress(OSError, ValueError):
        return AutoTokenizer.from_pretrained(model, local_files_only=True)
    return None


def tokenizer_of(model: str) -> Any:
    """Raises UsageError for a model without a tokenizer, Unreachable for one out of reach."""
    from transformers import AutoTokenizer

    if found := tokenizer_here(model):
        return found
    if not Path(model).is_dir():
        _ask_hub(model)
    try:
        return AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{model}: has no tokenizer that can be loaded: {' '.join(str(error).split())}"
        ) from error


def _ask_hub(model: str) -> None:
    """One request, where transformers would ask for a minute before it gives up."""
    import httpx
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    try:
        HfApi().model_info(model, timeout=HUB_TIMEOUT)
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise UsageError(
            f"{model}: is no directory, and no model of the Hugging Face hub that can be read"
        ) from error
    except (httpx.HTTPError, OSError) as error:
        raise Unreachable(
            f"{model}: is no directory and not in the cache, and the Hugging Face hub does not "
            f"answer ({' '.join(str(error).split())[:200]}). Download it first, or give a "
            "directory"
        ) from error
