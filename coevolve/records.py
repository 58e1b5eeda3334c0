"""The record types: the seam between all stages.

Every stage reads and writes these, one JSON object a line, ``"schema"`` first, small keys first. A stage that needs only
the head of a rollout decodes the bytes before ``,"messages":`` (`HEAD_END`). Structs are frozen; a change is
``msgspec.structs.replace``. Ids are the first 16 hex digits of sha256 over the canonical JSON of what defines the record
(`content_id`): never validity, difficulty or time, so that the same thing found twice has the same id.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

HEAD_END = b',"messages":'
"""Where the head of a rollout ends. Safe to search for: inside a JSON string the quotes would be escaped."""

SUCCESS = 0.5
"""A score at or above this is a success, where the environment gives a score and no verdict (paper, signals)."""

_canonical = msgspec.json.Encoder(order="sorted")


def canonical(value: Any) -> bytes:
    """Canonical JSON (keys sorted, no spaces) of records, dicts, lists and scalars."""
    return _canonical.encode(value)


def content_id(*parts: Any) -> str:
    """16 hex digits that name the given content, the same on every machine and in every process."""
    return hashlib.sha256(canonical(parts)).hexdigest()[:16]


class Call(Struct, frozen=True):
    """One tool call, as the policy wrote it."""

    tool: str
    arguments: dict[str, Any] = {}


Id = Annotated[str, Meta(min_length=1)]
"""Of a record; a line whose id is empty is no record."""

Action = Call | str
"""What a policy does: a tool call, or a block of code (AppWorld)."""


class Effect(Struct, frozen=True, order=True):
    """One change of the environment's state, computed by the worker from the state before and after."""

    entity: str
    """Table, class or app."""
    key: str
    """Row; a new row's generated id is replaced by a hash of its content, so that replays compare equal."""
    field: str
    op: Literal["add", "remove", "set"]
    value: Any = None


class Step(Struct, frozen=True):
    """One executed action and what came back."""

    turn: int
    """Index of the user's turn it belongs to."""
    action: Action
    observation: str
    error: str | None = None
    """Kind of error (`unknown_tool`, `bad_argument`, `denied`, …), None when the call worked."""
    effects: list[Effect] = []
    state: str = ""
    """Hash of the whole state after the action, hidden parts included."""
    message: int | None = None
    """Index in `messages` of the reply that held the action (rollouts only)."""


class Start(Struct, frozen=True, omit_defaults=True):
    """Where an episode begins: a state that the environment knows by name, or a configuration."""

    name: str | None = None
    config: dict[str, Any] | None = None


class Verifier(Struct, frozen=True):
    """How success is decided: `official` by the benchmark's own answer, `state` by comparison with the solution's
    final state (and checked responses), `reward` by the environment's score."""

    kind: Literal["official", "state", "reward"] = "state"


class Origin(Struct, frozen=True):
    """Where a task came from."""

    kind: Literal["environment", "synthesis", "import"] = "environment"
    """`import`: from files of a benchmark's format that say nothing of their making."""
    iteration: int = 0
    mode: str | None = None
    """Exploration mode: guided, random, curious, coverage."""
    signal: str | None = None
    """Kind of the signal that led to it."""


class Lineage(Struct, frozen=True):
    """Ids of the records that a task descends from."""

    signals: list[str] = []
    explorations: list[str] = []
    rollouts: list[str] = []


class Validity(Struct, frozen=True):
    """The gate's decision on a task, with what it is based on."""

    verdict: str
    gate: str
    evidence: dict[str, Any] = {}


class Difficulty(Struct, frozen=True):
    """Fresh trials of one learner on a task."""

    learner: str
    successes: int
    trials: int


class Author(Struct, frozen=True):
    """What the model that wrote a task said beside query and solution."""

    model: str
    guideline: str
    """How to go about the task, in a sentence or two."""
    confidence: float
    """0–1, the model's own."""
    composed: int = 0
    """Actions of the solution that the exploration does not hold; executed again like all others."""


class Task(Struct, frozen=True, kw_only=True, tag_field="schema", tag="coevolve.task/1"):
    """A datum (E, q, τ, v): environment and start state, query, solution, verifier. Id over env, start, query, solution, verifier."""

    id: Id
    env: str
    env_version: str = ""
    kind: str = ""
    """What behaviour it asks for, in the environment's terms (`farm.set/lookup`): reports group by it."""
    tags: list[str] = []
    split: str = "train"
    effects: str = ""
    """Digest of the solution's effects and checked responses: two tasks with equal text must not differ here."""
    origin: Origin = Origin()
    lineage: Lineage = Lineage()
    author: Author | UnsetType = UNSET
    """Absent unless a model wrote the task."""
    validity: Validity | None = None
    difficulty: Difficulty | None = None
    verifier: Verifier = Verifier()
    query: Annotated[list[str], Meta(min_length=1)]
    """The user's turns, at least one."""
    solution: list[list[Action]] = []
    """Reference actions, per turn."""
    start: Start


def task_id(
    env: str, start: Start, query: list[str], solution: list[list[Action]], verifier: Verifier
) -> str:
    return content_id("task", env, start, query, solution, verifier)


class Usage(Struct, frozen=True):
    """Tokens of one episode."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


class Rollout(Struct, frozen=True, kw_only=True, tag_field="schema", tag="coevolve.rollout/1"):
    """One episode of a policy on a task. Id over task_id, policy, iteration, step, sample, seed."""

    id: Id
    task_id: Id
    env: str
    group: str
    """Rollouts of one task in one training step share it."""
    sample: int = 0
    iteration: int = 0
    step: int = 0
    """Optimiser steps done by the policy that acted, counted over the whole run."""
    policy: str = ""
    kind: str = ""
    tags: list[str] = []
    split: str = ""
    success: bool = False
    """The environment's verdict; signals read it."""
    score: float = 0.0
    """The verdict as a number, 0–1."""
    progress: float = 0.0
    """Dense progress, 0–1, apart from the verdict."""
    stop_reason: str = ""
    """`done`, `max_steps`, `max_tokens`, `policy_fault` (its action broke a limit or the state), `env_error` (masked)."""
    error: str | None = None
    verdict: dict[str, Any] | UnsetType = UNSET
    """What the grader says: `reason` of a failure, and `details` beside the verdict; absent where it says nothing."""
    tools: list[str] = []
    """Names of the called tools, in order."""
    usage: Usage = Usage()
    messages: list[dict[str, Any]] = []
    steps: list[Step] = []
    task: Task | None = None
    token_ids: list[int] | None = None
    mask: list[int] | None = None
    """1 where the policy sampled the token, 0 for prompt and observations."""
    logprobs: list[float] | None = None
    """Log-probability of each token under the sampling distribution, 0 where the mask is 0."""


class Statistic(Struct, frozen=True):
    """What earned a signal."""

    test: str
    value: float
    p: float | None = None


class Outcome(Struct, frozen=True):
    """One task in one training step: how many of its rollouts succeeded."""

    iteration: int
    step: int
    successes: int
    trials: int


class Trajectory(Struct, frozen=True):
    """A rollout as evidence: trimmed, without chat text."""

    rollout: str
    success: bool
    score: float
    stop_reason: str
    steps: list[Step] = []


class Signal(Struct, frozen=True, kw_only=True, tag_field="schema", tag="coevolve.signal/1"):
    """A weakness read from rollouts. Id over kind, env, task_id, pattern (of keys and apps, its family too), iteration."""

    id: Id
    kind: str
    """forgetting, boundary, rare, …"""
    task_id: str
    env: str
    iteration: int = 0
    strength: float = 0.0
    """0–1; how strongly the evidence speaks."""
    statistic: Statistic
    pattern: list[str] = []
    """The action pattern (rare): tool names, with `^` and `$` for start and end."""
    history: list[Outcome] = []
    evidence: list[Trajectory] = []
    task: Task | None = None


class Context(Struct, frozen=True):
    """What an exploration was aimed at."""

    signal: str | None = None
    signal_kind: str | None = None
    task_id: str | None = None
    aim: list[str] = []
    """Tools it was to use."""
    reflection: str = ""


class Exploration(
    Struct, frozen=True, kw_only=True, tag_field="schema", tag="coevolve.exploration/1"
):
    """One round of exploration in a real environment. Id over env, start, context, mode, round, steps' actions."""

    id: Id
    env: str
    env_version: str = ""
    mode: str
    """guided, random, curious, coverage."""
    round: int = 0
    iteration: int = 0
    seed: str = ""
    context: Context = Context()
    visited: int = 0
    """States this exploration saw for the first time."""
    rollouts: list[str] = []
    """Rollouts it descends from."""
    usage: Usage = Usage()
    start: Start
    steps: list[Step] = []


class Verdict(Struct, frozen=True, kw_only=True, tag_field="schema", tag="coevolve.verdict/1"):
    """What validation found out about one task."""

    task_id: Id
    verdict: Literal["valid", "invalid", "error", "timeout", "nondeterministic", "trivial"]
    gate: str
    replays: list[dict[str, Any]] = []
    controls: dict[str, Any] = {}
    """Score of each control; None where the environment offers no action for it."""
    reward: float = 0.0
    reason: str = ""
    attempts: Difficulty | UnsetType = UNSET
    """Trials of an agent that saw only the query; absent without `--solver`."""


class Evaluation(
    Struct, frozen=True, kw_only=True, tag_field="schema", tag="coevolve.evaluation/1"
):
    """Success of one policy on a group of tasks."""

    policy: str
    by: str
    """overall, kind, difficulty, split, …"""
    group: str
    tasks: int
    rollouts: int
    masked: int
    success: float
    """Mean over tasks of the share of successful rollouts."""
    low: float
    high: float
    """95 % interval of `success`."""
    pass_at: dict[str, float] = {}
    """Unbiased pass@k by k."""
    against: str | None = None
    difference: float | None = None
    difference_low: float | None = None
    difference_high: float | None = None
    """Paired over tasks, with its 95 % interval, where a second policy was given."""


RECORDS: dict[str, type[Struct]] = {
    "task": Task,
    "rollout": Rollout,
    "signal": Signal,
    "exploration": Exploration,
    "verdict": Verdict,
    "evaluation": Evaluation,
}
