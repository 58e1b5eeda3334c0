"""Builds the laptop policy from a seed: a tiny model (`coevolve.models.tiny`) fine-tuned on an
environment's demonstrations.

In: an environment with a split of demonstrations (tasks with solutions). Every solution is replayed
in a real session, so that the observations in the training text are the environment's own. Out: a
directory in Hugging Face form, with a card (`CARD`) that says how it was made and how well it does.
It appears whole or not at all. On one machine and one thread the same settings give the same bytes;
elsewhere arithmetic differs in the last digits, and success stays in a band.

The learning rate is constant after a short warm-up and falls to a twentieth over the last fifth of
the steps: that decay alone raised success at temperature 1 from .69 to .87.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from coevolve.agents.actions.replies import to_text
from coevolve.agents.rollout import make_policy, rollouts
from coevolve.environments.client import EnvSession, Fault, Pool
from coevolve.environments.protocol import ActionResult
from coevolve.errors import CoevolveError, MissingDependency, UsageError, WriteFailed
from coevolve.models.transformers_lm import INSTALL
from coevolve.records import Call, Task
from coevolve.training.settings import BootstrapSettings

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

CARD = "bootstrap.json"
SPLIT = "demos"
MEASURED = "dev"
DONE = "done"
BATCH_OF_SESSIONS = 500
SESSIONS_WITH_REFUSALS = 30
WARM_UP = 40
DECAY = 0.2
FLOOR = 0.05

Messages = list[dict[str, str]]


class Demonstration(NamedTuple):
    """A tokenised conversation; `mask` is 1 where the assistant speaks, ``<|end|>`` included."""

    ids: list[int]
    mask: list[int]


def build(
    out: Path, pool: Pool, settings: BootstrapSettings, advance: Callable[[int], None]
) -> dict[str, Any]:
    """Makes the policy, writes it to `out`, returns its card; `advance` is told of every step done.

    Raises UsageError where `out` exists and is no policy of these settings; if it is one, nothing
    is done.
    """
    if (card := _existing(out, settings)) is not None:
        return card
    if SPLIT not in pool.description.splits:
        lacking = f"has no demonstrations (a split {SPLIT!r} of solved tasks)"
        raise UsageError(f"environment {settings.env!r} {lacking}")
    _try_to_write(out)
    _prepare_torch()
    from coevolve.models.tiny import make_model, make_tokenizer

    tasks = pool.tasks(SPLIT)
    conversations = [conversation(task, results) for task, results in replayed(pool, tasks)]
    tokenizer = make_tokenizer(corpus(pool, tasks, conversations))
    model = make_model(tokenizer, settings.seed)
    loss = fit(model, tokenise(tokenizer, conversations), settings, advance)
    card = _card(pool, settings, model, demonstrations=len(tasks), last_loss=round(loss, 4))
    return _save(out, tokenizer, model, card, pool)


def conversation(task: Task, results: list[list[ActionResult]]) -> Messages:
    """One call a message, its observation after it, and `done` at the end of each turn."""
    messages = []
    for query, actions, outcomes in zip(task.query, task.solution, results, strict=True):
        messages.append({"role": "user", "content": query})
        for action, outcome in zip(actions, outcomes, strict=True):
            if outcome.error:
                why = f"its solution fails in {task.env}: {outcome.observation}"
                raise CoevolveError(f"demonstration {task.id}: {why}")
            messages.append({"role": "assistant", "content": to_text(action)})
            messages.append({"role": "tool", "content": outcome.observation})
        messages.append({"role": "assistant", "content": DONE})
    return messages


def replayed(pool: Pool, tasks: list[Task]) -> Iterable[tuple[Task, list[list[ActionResult]]]]:
    """Every task with the results of its solution, turn by turn."""
    for first in range(0, len(tasks), BATCH_OF_SESSIONS):
        some = tasks[first : first + BATCH_OF_SESSIONS]
        sessions = _sound(pool.open([task.start for task in some]))
        results: list[list[list[ActionResult]]] = [[] for _ in some]
        for turn in range(max(len(task.solution) for task in some)):
            acting = [i for i, task in enumerate(some) if turn < len(task.solution)]
            steps = [(sessions[i], turn, some[i].solution[turn]) for i in acting]
            for i, reply in zip(acting, _sound(pool.step(steps)), strict=True):
                results[i].append(reply)
        pool.close(sessions)
        yield from zip(some, results, strict=True)


def _sound(replies: list[Any]) -> list[Any]:
    """The replies, where none is the infrastructure's fault."""
    for reply in replies:
        if isinstance(reply, Fault):
            when = "while demonstrations were replayed"
            raise CoevolveError(f"the environment failed {when}: {reply.message}")
    return replies


def corpus(pool: Pool, tasks: list[Task], conversations: list[Messages]) -> list[str]:
    """What the tokenizer must know: demonstrations, tools' names, and words of refusals."""
    texts = [message["content"] for messages in conversations for message in messages]
    texts += [to_text(Call(name)) for name in pool.tools]
    mistakes = [Call(name) for name in ("", *pool.tools)]
    for name, tool in pool.tools.items():
        mistakes.append(Call(name, dict.fromkeys(tool.parameters["properties"], "")))
    some = tasks[:SESSIONS_WITH_REFUSALS]
    sessions: list[EnvSession] = _sound(pool.open([task.start for task in some]))
    wrong = [task.solution[0][:-1] + mistakes for task in some]
    steps = [(session, 0, calls) for session, calls in zip(sessions, wrong, strict=True)]
    for results in _sound(pool.step(steps)):
        texts += [result.observation for result in results if result.error]
    pool.close(sessions)
    return texts


def tokenise(
    tokenizer: PreTrainedTokenizerFast, conversations: list[Messages]
) -> list[Demonstration]:
    """Through the chat template, which is what the policy will be prompted with."""
    encoded = tokenizer.apply_chat_template(
        conversations,
        tokenize=True,
        return_dict=True,
        return_assistant_tokens_mask=True,
        truncation=False,
        padding=False,
    )
    pairs = zip(encoded["input_ids"], encoded["assistant_masks"], strict=True)
    return [Demonstration(list(ids), list(mask)) for ids, mask in pairs]


def fit(
    model: LlamaForCausalLM,
    demonstrations: list[Demonstration],
    settings: BootstrapSettings,
    advance: Callable[[int], None],
) -> float:
    """Fine-tunes the model in place; returns the mean loss of the last tenth of the steps."""
    import torch

    rng = random.Random(f"bootstrap-{settings.seed}")
    optimizer = torch.optim.AdamW(
        model.parameters(), settings.lr, weight_decay=0.01, betas=(0.9, 0.98), fused=True
    )
    model.train()
    losses = []
    for step in range(settings.steps):
        for group in optimizer.param_groups:
            group["lr"] = settings.lr * schedule(step, settings.steps)
        loss = _loss(model, _batch(demonstrations, settings.batch, rng))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        advance(1)
    model.eval()
    last = losses[-max(1, len(losses) // 10) :]
    return sum(last) / len(last)


def _prepare_torch() -> None:
    """No bars, and one thread unless the user says otherwise: so the bytes are the same."""
    try:
        import torch
        from transformers.utils import logging
    except ImportError as error:
        raise MissingDependency(f"{error.name} (needed for bootstrap)", INSTALL) from error
    logging.disable_progress_bar()
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


def schedule(step: int, steps: int) -> float:
    """Share of the learning rate: warm-up, constant, linear to `FLOOR` over the last `DECAY`."""
    left = (steps - step) / (DECAY * steps)
    return min(1.0, (step + 1) / WARM_UP, FLOOR + (1 - FLOOR) * left)


def _batch(
    demonstrations: list[Demonstration], size: int, rng: random.Random
) -> list[Demonstration]:
    """Demonstrations of similar length, so that little is padding."""
    some = rng.sample(demonstrations, min(len(demonstrations), size * 8))
    pool = sorted(some, key=lambda d: len(d.ids))
    first = rng.randrange(max(1, len(pool) - size + 1))
    return pool[first : first + size]


def _loss(model: LlamaForCausalLM, batch: list[Demonstration]):
    """Mean cross-entropy over the assistant's tokens; rows are padded on the right."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    ids = pad_sequence([torch.tensor(d.ids) for d in batch], batch_first=True)
    mask = pad_sequence([torch.tensor(d.mask) for d in batch], batch_first=True)[:, 1:].bool()
    hidden = model.model(ids[:, :-1]).last_hidden_state[mask]
    return torch.nn.functional.cross_entropy(model.lm_head(hidden), ids[:, 1:][mask])


def _card(
    pool: Pool, settings: BootstrapSettings, model: LlamaForCausalLM, **facts: Any
) -> dict[str, Any]:
    import torch
    import transformers

    return {
        "settings": msgspec.to_builtins(settings),
        "env_version": pool.description.version,
        "parameters": sum(p.numel() for p in model.parameters()),
        "torch": str(torch.__version__),
        "transformers": transformers.__version__,
        **facts,
    }


def _existing(out: Path, settings: BootstrapSettings) -> dict[str, Any] | None:
    """The card of a finished policy of the same settings, None where nothing is in the way."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return None
    try:
        card = msgspec.json.decode((out / CARD).read_bytes())
        if card["settings"] == msgspec.to_builtins(settings):
            return card
    except (OSError, msgspec.DecodeError, KeyError, TypeError):
        why = "exists and is no policy made by bootstrap; choose another -o"
        raise UsageError(f"{out}: {why}") from None
    why = "holds a policy made with other settings; choose another -o, or delete it"
    raise UsageError(f"{out}: {why}")


def _save(
    out: Path,
    tokenizer: PreTrainedTokenizerFast,
    model: LlamaForCausalLM,
    card: dict[str, Any],
    pool: Pool,
) -> dict[str, Any]:
    """Writes beside `out`, measures, and renames: a killed run leaves no half policy there."""
    temporary = _temporary(out)
    try:
        temporary.mkdir(parents=True)
        tokenizer.save_pretrained(temporary)
        model.save_pretrained(temporary)
        card = card | {"success": measure(temporary, pool)}
        (temporary / CARD).write_bytes(msgspec.json.format(msgspec.json.encode(card)) + b"\n")
        os.rename(temporary, out)
    except OSError as error:
        raise WriteFailed(f"{out}: cannot write: {error.strerror}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _clear_away(out)
    return card


def _try_to_write(out: Path) -> None:
    """Raises WriteFailed where nothing can be written beside `out`, before minutes of training."""
    temporary = _temporary(out)
    try:
        temporary.mkdir(parents=True)
        temporary.rmdir()
    except OSError as error:
        raise WriteFailed(f"{out}: cannot write: {error.strerror}") from error


def _temporary(out: Path) -> Path:
    return out.with_name(f".{out.name}.{os.getpid()}.tmp")


def _clear_away(out: Path) -> None:
    """Removes what killed processes left beside `out`; their numbers are in the names."""
    for left in sorted(out.parent.glob(f".{out.name}.*.tmp")):
        number = left.name.removesuffix(".tmp").rpartition(".")[2]
        if number.isdigit() and not Path("/proc", number).exists():
            shutil.rmtree(left, ignore_errors=True)


def measure(policy: Path, pool: Pool) -> dict[str, Any] | None:
    """Success at temperature 1 on the environment's development tasks, one try each: the mean over
    tasks, and by kind.

    None where the environment has no such split.
    """
    if MEASURED not in pool.description.splits:
        return None
    tried: dict[str, list[bool]] = {}
    for rollout in rollouts(pool.tasks(MEASURED), make_policy(str(policy), temperature=1.0), pool):
        if rollout.stop_reason != "env_error":
            tried.setdefault(rollout.kind, []).append(rollout.success)
    count = sum(map(len, tried.values()))
    kinds = {kind: round(sum(tries) / len(tries), 3) for kind, tries in sorted(tried.items())}
    mean = round(sum(map(sum, tried.values())) / count, 4) if count else 0.0
    return {"split": MEASURED, "tasks": count, "mean": mean, "kinds": kinds}
