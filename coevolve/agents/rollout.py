"""Rollouts: policies on tasks, as records.

    policy = make_policy("runs/a/policy", temperature=1.0)
    for rollout in rollouts(tasks, policy, pool, samples=8, seed=1): ...

The output is in the order of the tasks, then of the samples, whatever the pool's number of workers
is. Every random draw of an episode is keyed by (seed, step, task, sample), so an episode doesn't
depend on the others in its batch, except for the last bits of floating-point sums of a local model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from math import lcm
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coevolve.agents.code.prompts import episode_style
from coevolve.agents.drivers import LocalPolicy, Policy, ProgramPolicy, ServerPolicy, chunks
from coevolve.agents.episode import Episode, refusal
from coevolve.agents.policies import PROGRAMS
from coevolve.agents.prompts.styles import Style, style
from coevolve.environments.protocol import EpisodeLimits
from coevolve.errors import Unreachable, UsageError
from coevolve.records import Rollout, Task, content_id
from coevolve.runs import Journal

if TYPE_CHECKING:
    from coevolve.environments.client import Pool
    from coevolve.models.service import Models

__all__ = ["make_policy", "resumed", "rollouts"]


def make_policy(
    name: str,
    *,
    models: Models | None = None,
    temperature: float = 1.0,
    max_tokens: int | None = None,
    max_turn_tokens: int | None = None,
    device: str | None = None,
    threads: int | None = None,
    prompt: str = "tools",
) -> Policy:
    """The policy of a name: a server's model (`models`), a control, or a Hugging Face model.

    `max_tokens` caps an episode and `max_turn_tokens` a reply; a local model has defaults for both.
    `prompt` names a style of `prompts`. Raises UsageError or Unreachable for what is neither,
    MissingDependency where torch is needed and missing.
    """
    prompt_style = style(prompt)
    if models is not None:
        if prompt_style.render:
            raise UsageError(
                f"the prompt {prompt} is a whole text, and a chat server renders its own: "
                "use a local model"
            )
        return ServerPolicy(name, models, temperature, max_turn_tokens, prompt_style)
    if name in PROGRAMS:
        return ProgramPolicy(name, PROGRAMS[name])
    from coevolve.models.transformers_lm import LocalModel, identity

    try:
        model = LocalModel.load(
            name,
            device=device,
            threads=threads,
            max_tokens=max_tokens,
            max_turn_tokens=max_turn_tokens,
            render=prompt_style.render,
        )
    except (UsageError, Unreachable) as error:
        if Path(name).is_dir():
            raise
        known = f"{', '.join(PROGRAMS)}; a Hugging Face directory or id"
        known += "; with --base-url, the server's name of a model"
        raise type(error)(f"{error}. A policy is one of {known}") from error
    return LocalPolicy(identity(name), model, temperature, prompt_style)


def rollouts(
    tasks: Iterable[Task],
    policy: Policy,
    pool: Pool,
    *,
    samples: int = 1,
    seed: int = 0,
    iteration: int = 0,
    step: int = 0,
    max_steps: int | None = None,
    keep_tokens: bool = False,
) -> Iterator[Rollout]:
    """Plays every task `samples` times. `max_steps` replaces the environment's cap of an episode.

    A task that occurs again makes a group of its own. Raises UsageError for a task of another
    environment.
    """
    limits = pool.description.limits
    if max_steps is not None:
        limits = msgspec.structs.replace(limits, max_steps=max_steps)
    keys = (f"{seed}-{step}", f"{iteration}-{step}")
    prompt_style = episode_style(pool, policy.style)
    episodes = _episodes(tasks, pool, limits, samples, keys, prompt_style)
    for episode in policy.play(episodes, pool):
        yield episode.record(
            policy=policy.name, iteration=iteration, step=step, seed=seed, keep_tokens=keep_tokens
        )


def resumed(
    tasks: list[Task],
    play: Callable[[list[Task]], Iterator[Rollout]],
    journal: Journal,
    policy: Policy,
    samples: int,
) -> Iterator[Rollout]:
    """The rollouts of different tasks; those that the journal holds are not played again.

    Tasks are kept and played again in units that fill whole batches of the policy, so that a batch
    is made of the same rows after an interruption as without one. A unit with an `env_error` isn't
    kept: it deserves another try, unless it is the task that the environment refuses.
    """
    units = list(chunks(tasks, lcm(policy.rows, samples) // samples))
    keys = [content_id([task.id for task in unit]) for unit in units]
    found = [journal.get(key, list[Rollout]) for key in keys]
    missing = (unit for unit, known in zip(units, found, strict=True) if known is None)
    played = play(list(chain.from_iterable(missing)))
    for unit, key, known in zip(units, keys, found, strict=True):
        if known is None:
            known = list(islice(played, len(unit) * samples))
            if all(rollout.stop_reason != "env_error" or refusal(rollout) for rollout in known):
                journal.put(key, known)
        yield from known


def _episodes(
    tasks: Iterable[Task],
    pool: Pool,
    limits: EpisodeLimits,
    samples: int,
    keys: tuple[str, str],
    prompt_style: Style,
) -> Iterator[Episode]:
    """The episodes of the tasks; `keys` begin the keys of random draws and the names of groups."""
    key, group = keys
    seen: Counter[str] = Counter()
    for task in tasks:
        pool.compare([task.env_version])
        if task.env != pool.name:
            raise UsageError(
                f"task {task.id} is of environment {task.env!r}, and this run plays {pool.name!r}"
            )
        if not task.query:
            raise UsageError(f"task {task.id} has no user turn")
        again = seen[task.id]
        seen[task.id] += 1
        name = f"{group}-{task.id}" + (f"-{again}" if again else "")
        for sample in range(again * samples, (again + 1) * samples):
            yield Episode(
                task,
                limits,
                key=f"{key}-{task.id}-{sample}",
                group=name,
                sample=sample,
                tools=pool.tools,
                style=prompt_style,
            )
