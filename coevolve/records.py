"""The record types: the seam between all stages, and the first file to read.

    Task → Rollout → Signal → Exploration → Task → Verdict → Task, and Evaluation beside them

Every stage reads and writes these, one JSON object a line, ``"schema"`` first, small keys first. A
stage that needs only the head of a rollout decodes the bytes before ``,"messages":`` (`HEAD_END`).
Structs are frozen; a change is ``msgspec.structs.replace``. Ids are the first 16 hex digits of
sha256 over the canonical JSON of what defines the record (`content_id`): never validity, difficulty
or time, so that the same thing found twice has the same id.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

HEAD_END = b',"messages":'
"""The end of a rollout's head; safe to search for, as a JSON string holds no bare quotes."""

MASKED = "env_error"
"""Stop reason of a rollout that the infrastructure ended: it says nothing about the policy."""

SUCCESS = 0.5
"""A score at or above this is a success, where there is a score and no verdict (paper, signals)."""


def canonical(value: Any) -> bytes:
    """Canonical JSON (keys sorted, no spaces) of records, dicts, lists and scalars."""
    return msgspec.json.encode(value, order="sorted")


def content_id(*parts: Any) -> str:
    """16 hex digits that name the given content, the same on every machine and in every process."""
    return hashlib.sha256(canonical(parts)).hexdigest()[:16]


class Call(Struct, frozen=True):
    """One tool call, as the policy wrote it."""

    tool: str
    arguments: dict[str, Any] = {}


Id = Annotated[str, Meta(min_length=1)]  # An id of a record; a line whose id is empty is no record

Action = Call | str  # What a policy does: a tool call, or a block of code (AppWorld)


class Effect(Struct, frozen=True, order=True):
    """One change of the environment's state, which the worker finds by comparing states."""

    entity: str  # Table, class or app
    key: str  # Row; a new row's id is a hash of its content, so that replays compare equal
    field: str
    op: Literal["add", "remove", "set"]
    value: Any = None  # The new value, or the removed one where the environment tells it


class Step(Struct, frozen=True):
    """One executed action and what came back."""

    turn: int  # Index of the user's turn that it belongs to
    action: Action
    observation: str  # The environment's answer, as the policy sees it
    error: str | None = None
    """Kind of error (`unknown_tool`, `bad_argument`, `denied`, …), None when the call worked."""
    effects: list[Effect] = []
    state: str = ""  # Hash of the whole state after the action, hidden parts included
    message: int | None = None
    """Index in `messages` of the reply that held the action (rollouts only)."""


class Start(Struct, frozen=True, omit_defaults=True):
    """Where an episode begins: a state that the environment knows by name, or a configuration."""

    name: str | None = None
    config: dict[str, Any] | None = None


class Verifier(Struct, frozen=True):
    """How success is decided: `official` by the benchmark's own answer, `state` by comparison with
    the solution's final state (and checked responses), `reward` by the environment's score."""

    kind: Literal["official", "state", "reward"] = "state"


class Origin(Struct, frozen=True):
    """Where a task came from."""

    kind: Literal["environment", "synthesis", "import"] = "environment"
    """`environment`: one of the environment's own; `synthesis`: made from an exploration; `import`:
    from files of a benchmark's format that say nothing of their making."""
    iteration: int = 0
    """Iteration of the loop in which it was made; 0 for the anchors that are never evicted."""
    mode: str | None = None  # Exploration mode: guided, random, curious, coverage
    signal: str | None = None  # Kind of the signal that led to it


class Lineage(Struct, frozen=True):
    """Ids of the records that a task descends from."""

    signals: list[str] = []
    explorations: list[str] = []
    rollouts: list[str] = []


class Validity(Struct, frozen=True):
    """The gate's decision on a task, with what it is based on."""

    verdict: str  # As `Verdict.verdict`
    gate: str  # Which gate was applied (`validate --gate`)
    evidence: dict[str, Any] = {}


class Difficulty(Struct, frozen=True):
    """Fresh trials of one learner on a task."""

    learner: str  # Name of the model
    successes: int
    trials: int


class Author(Struct, frozen=True):
    """What the model that wrote a task said beside query and solution."""

    model: str
    guideline: str  # How to go about the task, in a sentence or two
    confidence: float  # 0–1, the model's own
    composed: int = 0
    """Actions of the solution that the exploration lacks; executed again like all others."""


class Task(Struct, frozen=True, kw_only=True, tag_field="schema", tag="coevolve.task/1"):
    """A datum (E, q, τ, v): environment and start state, query, solution, verifier.

    Its id is over env, start, query, solution and verifier.
    """

    id: Id
    env: str  # Name of the environment, or the command line that starts its worker
    env_version: str = ""  # Version of the environment that made the task
    kind: str = ""  # What it asks for, in the environment's terms (`farm.set/lookup`)
    tags: list[str] = []
    """Free labels; `scenario:…` and `difficulty:…` have a meaning in `evaluation`."""
    split: str = "train"
    effects: str = ""
    """Digest of the solution's effects: tasks with equal text must not differ here."""
    origin: Origin = Origin()
    lineage: Lineage = Lineage()
    author: Author | UnsetType = UNSET  # Absent unless a model wrote the task
    validity: Validity | None = None  # None until the task is validated
    difficulty: Difficulty | None = None  # None until a learner has tried it
    verifier: Verifier = Verifier()
    query: Annotated[list[str], Meta(min_length=1)]  # The user's turns, at least one
    solution: list[list[Action]] = []  # Reference actions, per turn
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
    """One episode of a policy. Id over task_id, policy, iteration, step, sample and seed."""

    id: Id
    task_id: Id
    env: str
    group: str  # Rollouts of one task in one training step share it
    sample: int = 0  # Number of the rollout within its group
    iteration: int = 0  # Iteration of the loop
    step: int = 0  # Optimiser steps that the policy had done, counted over the whole run
    policy: str = ""
    kind: str = ""
    tags: list[str] = []
    split: str = ""  # Kind, tags and split are the task's
    success: bool = False  # The environment's verdict; signals read it
    score: float = 0.0  # The verdict as a number, 0–1
    progress: float = 0.0  # Dense progress, 0–1, apart from the verdict
    stop_reason: str = ""
    """`done`, `max_steps`, `max_tokens`, `policy_fault` (broke a limit), `env_error` (masked)."""
    error: str | None = None  # The message of what stopped it, where there is one
    verdict: dict[str, Any] | UnsetType = UNSET
    """What the grader says, if anything: a failure's `reason`, `details` beside the verdict."""
    tools: list[str] = []  # Names of the called tools, in order
    usage: Usage = Usage()
    messages: list[dict[str, Any]] = []  # The chat, in the form of OpenAI's API
    steps: list[Step] = []
    task: Task | None = None  # The whole task, so that later stages need no second file
    token_ids: list[int] | None = None
    """All tokens of the episode, prompts included; None where nobody trains on it."""
    mask: list[int] | None = None
    """1 where the policy sampled the token, 0 for prompt and observations."""
    logprobs: list[float] | None = None
    """Log-probability of each token under the sampling distribution, 0 where the mask is 0."""


class Statistic(Struct, frozen=True):
    """The measurement that earned a signal."""

    test: str  # Name of the test or measure: `fisher`, `wilson_low`, …
    value: float
    p: float | None = None  # p-value, of tests that have one


class Outcome(Struct, frozen=True):
    """One task in one training step: how many of its rollouts succeeded."""

    iteration: int
    step: int
    successes: int
    trials: int


class Trajectory(Struct, frozen=True):
    """A rollout as evidence: trimmed, without chat text."""

    rollout: str  # The rollout's id
    success: bool
    score: float
    stop_reason: str
    steps: list[Step] = []


class Signal(Struct, frozen=True, kw_only=True, tag_field="schema", tag="coevolve.signal/1"):
    """A weakness read from rollouts.

    Its id is over kind, env, task_id, pattern (of keys and apps, its family too) and iteration.
    """

    id: Id
    kind: str  # A module of `signals/kinds`: forgetting, boundary, rare, …
    task_id: str  # The task it is about, or that of its first evidence; may be empty
    env: str
    iteration: int = 0
    strength: float = 0.0  # 0–1; how strongly the evidence speaks
    statistic: Statistic
    pattern: list[str] = []
    """The action pattern (rare): tool names, with `^` and `$` for start and end."""
    history: list[Outcome] = []  # The task's groups that the statistic is over, in order
    evidence: list[Trajectory] = []
    task: Task | None = None


class Context(Struct, frozen=True):
    """What an exploration was aimed at."""

    signal: str | None = None  # Id of the signal that leads it; None in unguided modes
    signal_kind: str | None = None
    task_id: str | None = None
    aim: list[str] = []  # Tools it was to use
    reflection: str = ""
    """Where the policy is weak and why: a model's words, or the statistics of the signals."""


class Exploration(
    Struct, frozen=True, kw_only=True, tag_field="schema", tag="coevolve.exploration/1"
):
    """One round of exploration in a real environment.

    Its id is over env, start, context, mode, round and the steps' actions.
    """

    id: Id
    env: str
    env_version: str = ""
    mode: str  # guided, random, curious, coverage
    round: int = 0  # Number of the round in its context
    iteration: int = 0
    seed: str = ""  # The seed of everything random in it
    context: Context = Context()
    visited: int = 0  # States that this exploration saw for the first time
    rollouts: list[str] = []  # Ids of the rollouts that it descends from
    usage: Usage = Usage()  # Tokens of the model that explored
    start: Start
    steps: list[Step] = []


class Verdict(Struct, frozen=True, kw_only=True, tag_field="schema", tag="coevolve.verdict/1"):
    """What validation found out about one task."""

    task_id: Id
    verdict: Literal["valid", "invalid", "error", "timeout", "nondeterministic", "trivial"]
    gate: str  # Which gate was applied (`validate --gate`)
    replays: list[dict[str, Any]] = []  # What each execution of the solution came to
    controls: dict[str, Any] = {}
    """Score of each control; None where the environment offers no action for it."""
    reward: float = 0.0  # Score of the solution, 0–1
    reason: str = ""
    attempts: Difficulty | UnsetType = UNSET
    """Trials of an agent that saw only the query; absent without a solver (`validate --model`)."""


class Evaluation(
    Struct, frozen=True, kw_only=True, tag_field="schema", tag="coevolve.evaluation/1"
):
    """Success of one policy on a group of tasks."""

    policy: str
    by: str  # The grouping: overall, kind, difficulty, split, …
    group: str  # The group's name within the grouping
    tasks: int
    rollouts: int  # Rollouts that count; `masked` ones do not
    masked: int
    success: float  # Mean over tasks of the share of successful rollouts
    low: float
    high: float  # 95 % interval of `success`
    pass_at: dict[str, float] = {}  # Unbiased pass@k by k
    against: str | None = None  # The policy compared with
    difference: float | None = None  # `success` minus the other policy's, paired over tasks
    difference_low: float | None = None
    difference_high: float | None = None  # 95 % interval of `difference`


_TYPES = (Task, Rollout, Signal, Exploration, Verdict, Evaluation)
RECORDS: dict[str, type[Struct]] = {type_.__name__.lower(): type_ for type_ in _TYPES}
"""The types that have a schema of their own, by name."""
