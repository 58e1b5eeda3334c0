"""The protocol between the client and a worker: JSON lines on the worker's stdin and stdout.

A request is ``{"id": 7, "op": "step", ...}``; its reply ``{"id": 7, "result": {...}}`` or ``{"id":
7, "error": {"kind": "bad_request", "message": "..."}}``. Requests are answered in order. A worker
may print nothing else on stdout. Ops and their fields (types below; `?` = may be left out):

| op | request | result |
|---|---|---|
| describe | – | `Description` |
| tasks | split | `OwnTasks` |
| start | seed (text), apps? (names that must occur) | `NewStart`: a pure function of the request |
| open | session (text, chosen by the client), start, query? (the user's turns) | `Opened` |
| step | steps: [{"session", "turn", "actions": [Action, …]}] | `Stepped` |
| evaluate | session, task (a task record) | `Graded` |
| close | session | {} |

Only `describe`, `open`, `step`, `evaluate` and `close` are required; another op is answered by an
error of kind `unsupported`. A worker without `start` has the single start state ``{"name":
"default"}``. Nothing is shared between sessions. An action that fails is an `ActionResult` with an
error and an observation that the policy can read, never an error reply: those are faults of the
worker (kinds: `bad_request`, `unsupported`, `internal`). After a `fatal` result the entry's list
ends. `query` is sent only to a worker whose description asks for it, and only where there is a
task.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from coevolve.records import Action, Effect, Start, Verifier

PROTOCOL = 1
_PLAIN = re.compile(r"[\w.:/-]{1,128}")


def is_plain(name: str) -> bool:
    """Tells whether a name may stand among a prompt's own words."""
    return _PLAIN.fullmatch(name) is not None


class Language(Struct, frozen=True):
    """How people talk about a tool: all that a writer without a model needs to turn calls into a
    request.

    Templates hold ``{parameter}`` slots. A tool without `do` is a helper that nobody asks for by
    itself (open, save). Without any Language a writer falls back on the tool's description.
    """

    do: list[str] = []
    """Alternative imperative clauses or questions: ``set {name} to {text} in farm``."""
    optional: dict[str, str] = {}
    """Parameter → text appended where the call has that argument: `` with the tags {tags}``."""
    refer: dict[str, str] = {}
    """Key of the output → noun phrase for that value: {"text": "the clinic note of {name}"};
    the key "" is the whole output."""
    rows: dict[str, str] = {}
    """Key of an object in the output → noun phrase for what the value stands for, an identifier for
    its row; its slots are keys of that same object: {"song_id": "{title}"}. It is said where a
    parameter of that name is wanted."""
    facts: dict[str, str] = {}
    """The same for a value that describes its object: {"duration": "the length of {title}"}."""
    words: dict[str, dict[str, str]] = {}
    """Parameter → JSON text of a value → how it is said: {"unlock": {"false": "Lock"}}."""
    lookup_only: list[str] = []
    """Parameters whose value a user would not say: it must come from an observation."""
    literal: list[str] = []
    """Parameters whose value a user says as it is (a password), and no phrase in its place."""
    absent: dict[str, str] = {}
    """Parameter → text appended where the call lacks it, if that matters: ``, with priority 1``."""


class Tool(Struct, frozen=True):
    """A tool that sessions may offer."""

    name: str
    """Plain (`is_plain`); for servers that take fewer characters ``__`` stands for the others."""
    description: str
    parameters: dict[str, Any]  # JSON Schema of an object
    app: str = ""  # The tools of one app share state and conventions
    checked: bool = False
    """The verifier compares this tool's response, so that reading can be a goal of its own."""
    read_only: bool = False
    language: Language | None = None
    document: dict[str, Any] | None = None
    """The benchmark's own description of the tool, as its official prompts show it."""


class EpisodeLimits(Struct, frozen=True):
    """Bounds of an episode, and of the number of sessions."""

    max_steps: int = 30  # Actions per episode
    max_steps_per_turn: int | None = None
    """Replies with calls to one turn of the user's; one more fails the episode."""
    sessions: int | None = None
    """Sessions that all workers together should have open; None where they cost little."""


class CodeSyntax(Struct, frozen=True):
    """The syntax of calls in a program, where actions are code and calls are taken as well."""

    call: str = "{tool}({arguments})"
    setup: dict[str, str] = {}
    """Variable → the statement that sets it, which may use variables that stand before it."""
    arguments: dict[str, dict[str, str]] = {}
    """Tool → arguments that only code has to pass: expressions, which may use `setup`."""
    end: str = ""  # The statement that finishes a program, unless a call of `ends` does
    ends: list[str] = []  # Tools whose call finishes a program


class Description(Struct, frozen=True, kw_only=True):
    """An environment's description of itself."""

    name: str
    version: str  # Covers the environment and its data
    protocol: int = PROTOCOL
    tools: list[Tool]
    splits: dict[str, int] = {}  # Split → number of the environment's own tasks
    held_out: list[str] = []
    """Splits whose start states, queries and solutions no synthetic task may touch."""
    limits: EpisodeLimits = EpisodeLimits()
    max_goals: int = 1  # Goals that one synthetic task should combine at most, each a user's turn
    actions: str = "calls"  # `calls` or `code`
    code: CodeSyntax | None = None
    """Where actions are code: the environment takes calls too, and programs explore by them."""
    query: bool = False  # `open` wants the user's turns, because the world itself tells its task
    harmless: list[dict[str, Any]] = []
    """Calls {"tool", "arguments"} that change and tell next to nothing: the hollow control."""
    app_tags: bool = False
    """Tasks, also those made from explorations, are tagged with the apps that they are about."""


class OwnTask(Struct, frozen=True, kw_only=True):
    """A task as a worker lists it: a task record without id and environment."""

    kind: str = ""
    tags: list[str] = []
    split: str | None = None
    effects: str = ""
    verifier: Verifier = Verifier("official")
    query: list[str]
    solution: list[list[Action]] = []
    start: Start


class OwnTasks(Struct, frozen=True):
    """The result of `tasks`."""

    tasks: list[OwnTask]


class NewStart(Struct, frozen=True):
    """The result of `start`."""

    start: Start


class Opened(Struct, frozen=True, kw_only=True):
    """A session at its beginning."""

    observation: str = ""  # Shown before the first user turn, if not empty
    tools: list[str] = []  # Names offered in this session from its beginning; empty = all
    later: dict[str, list[str]] = {}
    """Index of a user's turn, as text → names offered from that turn on, beside `tools`."""
    values: dict[str, list[Any]] = {}
    """Values that a user of this state knows, by ``tool.parameter`` (wins) or ``parameter``."""
    state: str = ""  # Hash of the start state


class ActionResult(Struct, frozen=True, kw_only=True):
    """The effects and the observation of one action."""

    observation: str
    error: str | None = None
    effects: list[Effect] = []
    state: str = ""  # Hash of the state after it
    fatal: str | None = None
    """Ends the episode as the policy's failure: `corrupt_state`, `timeout`, `memory`, `died`."""
    done: bool = False
    """The policy has told the environment that the task is complete: nothing more need be asked."""
    tools: list[str] | None = None
    """Tools that a code action called, in their order; None where the environment does not say."""


class Stepped(Struct, frozen=True):
    """The result of `step`."""

    results: list[list[ActionResult]]  # Per entry of the request, per action


class Graded(Struct, frozen=True, kw_only=True):
    """The verdict on a session."""

    success: bool
    score: float
    progress: float = 0.0
    reason: str = ""
    details: dict[str, Any] = {}
    """Facts that the environment tells beside the verdict; never part of it."""


RESULT_TYPES = {
    "describe": Description,
    "tasks": OwnTasks,
    "start": NewStart,
    "open": Opened,
    "step": Stepped,
    "evaluate": Graded,
    "close": dict,
}
"""Op → the type of its result."""
