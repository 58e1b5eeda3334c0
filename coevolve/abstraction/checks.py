"""Is a proposed task grounded? A `Proposal` becomes a task that was executed as it stands, or a reject with its reason.

| reason | the proposal |
|---|---|
| `low_confidence`, `no_such_exploration`, `empty` | says so itself |
| `too_many_goals`, `too_many_steps`, `too_long` | is more than the environment or a user bears |
| `third_person` | talks about the user instead of as the user |
| `names_tool` | has a tool's or a parameter's name in the query (`tool_names`) |
| `fabricated` | repeats a step that was not executed like this |
| `failed_step`, `out_of_order` | repeats a step that failed, or not in the executed order |
| `unknown_tool` | composes a call of a tool that the session does not offer |
| `not_reproduced` | has a call that fails in a fresh session |
| `ungrounded` | has a value that a solver who has only the query cannot know (`coevolve.grounding`) |
| `unknowable` | has an identifier in the query that the user could not know |
| `turn_without_effect` | has a turn that neither changes the state nor has a compared response |

Arguments that an earlier step of the solution gave are taken from the execution in the fresh session, so that a step left out may
renumber what comes after it. Code is executed character by character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coevolve.abstraction.goals import EnvironmentFault, bind
from coevolve.abstraction.grounding import Trace
from coevolve.abstraction.proposals import Proposal, ProposedAction
from coevolve.abstraction.tool_names import named_tool
from coevolve.environments.client import Fault, Pool
from coevolve.environments.protocol import ActionResult, Description, Opened, Tool
from coevolve.environments.replay import ReplayCoroutine, ReplayJob, checked_responses
from coevolve.grounding.solutions import first_unknown
from coevolve.grounding.texts import mentions
from coevolve.provenance import output, sources
from coevolve.records import Action, Call, Exploration, Step, canonical

LONGEST = 1200
"""Characters of one user turn."""
_KEY = re.compile(r"(?:^|[a-z]|_)(?:id|ids|Id|ID|uuid|token|Token)$")
_CODE_LIKE = re.compile(r"[A-Z]{1,5}[-_]?\d{3,}[A-Z0-9-]*|(?=.*\d)(?=.*[a-f])[0-9a-f]{8,}")
_THIRD_PERSON = re.compile(
    r"(?:^|[.!?\n]\s*|[\"'])(?:the|this|a|our)\s+user\s+(?:also\s+|now\s+)?"
    r"(?:wants?|wanted|needs?|asks?|asked|requests?|wish(?:es)?|would|likes?|is|has|should|must|may|prefers?|plans?)\b"
    r"|^\s*user\s*:",
    re.IGNORECASE,
)
_SHORT_CODE = re.compile(r"(?<!\w)(?=\w{2,3}(?!\w))[A-Za-z]+\d+(?!\w)")
SHORT = 4
"""An identifier shorter than this is one only where the solution uses it as one."""


class RejectedProposal(Exception):
    """Why a proposal is no task."""

    def __init__(self, reason: str, detail: str = ""):
        self.reason, self.detail = reason, detail
        super().__init__(f"{reason}: {detail}")


class ExecutedSolution(NamedTuple):
    """A solution as it ran in a fresh session, per turn."""

    solution: list[list[Action]]
    results: list[list[ActionResult]]
    steps: list[Step]


def check_form(proposal: Proposal, pool: Pool, opened: Opened) -> None:
    limits, lengths = pool.description.limits, [len(turn.solution) for turn in proposal.turns]
    if (
        not proposal.turns
        or not all(lengths)
        or not all(turn.query.strip() for turn in proposal.turns)
    ):
        raise RejectedProposal("empty", "a task needs turns, each with words and actions")
    if len(lengths) > pool.description.max_goals:
        raise RejectedProposal(
            "too_many_goals", f"{len(lengths)} turns, at most {pool.description.max_goals}"
        )
    if sum(lengths) > limits.max_steps or max(lengths) > (
        limits.max_steps_per_turn or limits.max_steps
    ):
        raise RejectedProposal("too_many_steps", str(lengths))
    for turn in proposal.turns:
        if len(turn.query) > LONGEST:
            raise RejectedProposal("too_long", f"{len(turn.query)} characters")
        if found := _THIRD_PERSON.search(turn.query):
            raise RejectedProposal("third_person", found[0].strip())
        name = named_tool(turn.query, pool.tools, opened.tools or list(pool.tools))
        if name:
            raise RejectedProposal("names_tool", name)


def source(
    proposed: ProposedAction, exploration: Exploration, pool: Pool, opened: Opened
) -> tuple[int | None, Step]:
    """The index of the repeated step (None: composed), and the step as the solution begins with it."""
    claimed = proposed.action
    if proposed.step is None:
        return None, Step(turn=0, action=_composed(claimed, pool, opened), observation="")
    if not 0 <= proposed.step < len(exploration.steps):
        raise RejectedProposal("fabricated", f"no step {proposed.step}")
    step = exploration.steps[proposed.step]
    if claimed is not None and not _same(claimed, proposed, step.action):
        raise RejectedProposal("fabricated", f"step {proposed.step} was not {_short(claimed)}")
    if step.error:
        raise RejectedProposal("failed_step", f"step {proposed.step}: {step.error}")
    return proposed.step, step


def _composed(action: Action | None, pool: Pool, opened: Opened) -> Action:
    if action is None or isinstance(action, str) != (pool.description.actions == "code"):
        raise RejectedProposal("empty", "an action names a step, or says what to do")
    if isinstance(action, Call) and action.tool not in (opened.tools or pool.tools):
        raise RejectedProposal("unknown_tool", action.tool)
    return action


def _same(claimed: Action, proposed: ProposedAction, executed: Action) -> bool:
    if isinstance(claimed, Call) and isinstance(executed, Call) and proposed.arguments is None:
        return claimed.tool == executed.tool
    return canonical(claimed) == canonical(executed)


def _short(action: Action) -> str:
    return canonical(action).decode()[:200]


def check_order(numbers: Sequence[int | None]) -> None:
    given = [number for number in numbers if number is not None]
    if any(later <= earlier for earlier, later in zip(given, given[1:], strict=False)):
        raise RejectedProposal("out_of_order", str(given))


def execute(
    exploration: Exploration, opened: Opened, turns: list[list[tuple[int | None, Step]]], pool: Pool
) -> ReplayCoroutine[ExecutedSolution]:
    """Runs the solution in a fresh session, observed arguments taken from it."""
    steps = [step for turn in turns for _, step in turn]
    if pool.description.actions == "code":
        solution, results = yield from _run_code(exploration, turns)
    else:
        apps = {name: tool.app for name, tool in pool.tools.items()}
        links = [
            {p: s for p, s in found.items() if s.step is not None} for found in sources(steps, apps)
        ]
        trace = Trace(
            exploration.start, opened, steps, links, [None] * len(steps), [True] * len(steps)
        )
        places = iter(range(len(steps)))
        order = [[next(places) for _ in turn] for turn in turns]
        done = yield from bind(trace, order)
        if done is None:
            raise RejectedProposal("not_reproduced", "a call fails in a fresh session")
        solution, results = ([[found[i] for i in turn] for turn in order] for found in done)
    ran = [
        Step(turn, action, result.observation, result.error, result.effects, result.state)
        for turn, (actions, got) in enumerate(zip(solution, results, strict=True))
        for action, result in zip(actions, got, strict=True)
    ]
    return ExecutedSolution(solution, results, ran)


def _run_code(
    exploration: Exploration, turns: list[list[tuple[int | None, Step]]]
) -> ReplayCoroutine[tuple[list, list]]:
    solution = [[step.action for _, step in turn] for turn in turns]
    (episode,) = yield [ReplayJob(exploration.start, solution)]
    if isinstance(episode, Fault):
        raise EnvironmentFault(episode.message)
    if episode.failure:
        raise RejectedProposal("not_reproduced", episode.failure)
    return solution, episode.results


def check_grounded(
    executed: ExecutedSolution,
    queries: Sequence[str],
    opened: Opened,
    description: Description,
    tools: Mapping[str, Tool],
) -> None:
    """Raises where a solver who has only the queries cannot know a value of the solution."""
    style = description.code
    if what := first_unknown(executed.steps, queries, opened.observation, tools, style):
        raise RejectedProposal("ungrounded", what)


def check_knowable(
    executed: ExecutedSolution, queries: Sequence[str], exploration: Exploration, opened: Opened
) -> None:
    """Identifiers that only an observation shows do not belong into a query."""
    text = "\n".join(queries)
    user = {str(value) for value in scalars(list(opened.values.values()))}
    for code in _SHORT_CODE.findall(text):
        if code not in user and _only_observed(code, exploration, opened):
            raise RejectedProposal("unknowable", f"text {code}")
    calls = [step.action.arguments for step in executed.steps if isinstance(step.action, Call)]
    used = {
        str(value)
        for arguments in calls
        for key, value in _named(arguments, "")
        if _KEY.search(key)
    }
    for step in exploration.steps:
        for key, value in _named(output(step.observation), ""):
            form = str(value)
            if form in user or not (_KEY.search(key) or _CODE_LIKE.fullmatch(form)):
                continue
            if (
                (len(form) >= SHORT or form in used)
                and mentions(text, form)
                and not mentions(opened.observation, form)
            ):
                raise RejectedProposal("unknowable", f"{key or 'text'} {form[:80]}")


def _only_observed(code: str, exploration: Exploration, opened: Opened) -> bool:
    """Whether the environment said it before the actor did."""
    if mentions(opened.observation, code):
        return False
    for step in exploration.steps:
        if mentions(canonical(step.action).decode(), code):
            return False
        if mentions(step.observation, code):
            return True
    return False


def _named(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    """(key, scalar) of all parts of an output; members of a list carry the list's key."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from _named(member, name)
    elif isinstance(value, list):
        for member in value:
            yield from _named(member, key)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield key, value


def scalars(value: Any) -> list[Any]:
    return [scalar for _, scalar in _named(value, "")]


def check_effects(executed: ExecutedSolution, tools: Mapping[str, Tool]) -> None:
    for turn, (actions, results) in enumerate(
        zip(executed.solution, executed.results, strict=True)
    ):
        if not any(result.effects for result in results) and not checked_responses(
            tools, actions, results
        ):
            raise RejectedProposal("turn_without_effect", f"turn {turn}")
