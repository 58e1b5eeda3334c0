"""Checks the proposals of a model: each becomes a task that was executed as it stands, or a reject
with its reason.

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
| `ungrounded` | has a value that a solver with only the query cannot know (`coevolve.grounding`) |
| `unknowable` | has an identifier in the query that the user could not know |
| `turn_without_effect` | has a turn that neither changes the state nor has a compared response |

Arguments that an earlier step of the solution gave are taken from the execution in the fresh
session, so that a step left out may renumber what comes after it. Code is executed character by
character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coevolve.abstraction.goals import execute_steps, replayed
from coevolve.abstraction.proposals import Proposal, ProposedAction
from coevolve.abstraction.tasks import too_many_steps
from coevolve.abstraction.tool_names import named_tool
from coevolve.abstraction.trace import ExplorationTrace
from coevolve.environments.client import Pool
from coevolve.environments.protocol import ActionResult, Description, Opened, Tool
from coevolve.environments.replay import ReplayCoroutine, checked_responses
from coevolve.grounding.solutions import executed_steps, first_unknown
from coevolve.grounding.sources import last_name, output, parts_of, sources
from coevolve.grounding.texts import mentions
from coevolve.records import Action, Call, Exploration, Step, canonical

MAX_TURN_CHARACTERS = 1200
SHORT_CHARACTERS = 4
"""An identifier shorter than this is one only where the solution uses it as one."""
_KEY = re.compile(r"(?:^|[a-z]|_)(?:id|ids|Id|ID|uuid|token|Token)$")
_CODE_LIKE = re.compile(r"[A-Z]{1,5}[-_]?\d{3,}[A-Z0-9-]*|(?=.*\d)(?=.*[a-f])[0-9a-f]{8,}")
_SHORT_CODE = re.compile(r"(?<!\w)(?=\w{2,3}(?!\w))[A-Za-z]+\d+(?!\w)")
_THIRD_PERSON = re.compile(
    r"(?:^|[.!?\n]\s*|[\"'])(?:the|this|a|our)\s+user\s+(?:also\s+|now\s+)?"
    r"(?:wants?|wanted|needs?|asks?|asked|requests?|wish(?:es)?|would|likes?|is|has|should|must|may|prefers?|plans?)\b"
    r"|^\s*user\s*:",
    re.IGNORECASE,
)


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
    """Checks what can be seen without the exploration: sizes, and the words of the query."""
    lengths = [len(turn.solution) for turn in proposal.turns]
    if not lengths or not all(turn.query.strip() and turn.solution for turn in proposal.turns):
        raise RejectedProposal("empty", "a task needs turns, each with words and actions")
    if len(lengths) > (most := pool.description.max_goals):
        raise RejectedProposal("too_many_goals", f"{len(lengths)} turns, at most {most}")
    if too_many_steps(pool.description.limits, lengths):
        raise RejectedProposal("too_many_steps", str(lengths))
    for turn in proposal.turns:
        if len(turn.query) > MAX_TURN_CHARACTERS:
            raise RejectedProposal("too_long", f"{len(turn.query)} characters")
        if found := _THIRD_PERSON.search(turn.query):
            raise RejectedProposal("third_person", found[0].strip())
        if name := named_tool(turn.query, pool.tools, opened.tools or list(pool.tools)):
            raise RejectedProposal("names_tool", name)


def proposed_steps(
    proposal: Proposal, exploration: Exploration, pool: Pool, opened: Opened
) -> list[list[Step]]:
    """The steps as which each turn of the solution begins: repeated or composed ones."""
    repeated = [a.step for turn in proposal.turns for a in turn.solution if a.step is not None]
    turns = [
        [_proposed_step(action, exploration, pool, opened) for action in turn.solution]
        for turn in proposal.turns
    ]
    if any(later <= earlier for earlier, later in zip(repeated, repeated[1:], strict=False)):
        raise RejectedProposal("out_of_order", str(repeated))
    return turns


def _proposed_step(
    proposed: ProposedAction, exploration: Exploration, pool: Pool, opened: Opened
) -> Step:
    claimed = proposed.action
    if proposed.step is None:
        if claimed is None or isinstance(claimed, str) != (pool.description.actions == "code"):
            raise RejectedProposal("empty", "an action names a step, or says what to do")
        if isinstance(claimed, Call) and claimed.tool not in (opened.tools or pool.tools):
            raise RejectedProposal("unknown_tool", claimed.tool)
        return Step(turn=0, action=claimed, observation="")
    if not 0 <= proposed.step < len(exploration.steps):
        raise RejectedProposal("fabricated", f"no step {proposed.step}")
    step = exploration.steps[proposed.step]
    if claimed is not None and not _same(claimed, proposed, step.action):
        detail = f"step {proposed.step} was not {canonical(claimed).decode()[:200]}"
        raise RejectedProposal("fabricated", detail)
    if step.error:
        raise RejectedProposal("failed_step", f"step {proposed.step}: {step.error}")
    return step


def _same(claimed: Action, proposed: ProposedAction, executed: Action) -> bool:
    if isinstance(claimed, Call) and isinstance(executed, Call) and proposed.arguments is None:
        return claimed.tool == executed.tool
    return canonical(claimed) == canonical(executed)


def execute(
    exploration: Exploration, opened: Opened, turns: list[list[Step]], pool: Pool
) -> ReplayCoroutine[ExecutedSolution]:
    """Runs the solution in a fresh session, which gives the observed arguments."""
    if pool.description.actions == "code":
        solution = [[step.action for step in turn] for turn in turns]
        episode = yield from replayed(exploration.start, solution)
        if episode.failure:
            raise RejectedProposal("not_reproduced", episode.failure)
        results = episode.results
    else:
        steps = [step for turn in turns for step in turn]
        apps = {name: tool.app for name, tool in pool.tools.items()}
        links = [
            {p: s for p, s in found.items() if s.step is not None} for found in sources(steps, apps)
        ]
        no_problems, changed = [None] * len(steps), [True] * len(steps)
        trace = ExplorationTrace(
            exploration.start, opened, pool.tools, steps, links, no_problems, changed
        )
        places = iter(range(len(steps)))
        order = [[next(places) for _ in turn] for turn in turns]
        done = yield from execute_steps(trace, order)
        if done is None:
            raise RejectedProposal("not_reproduced", "a call fails in a fresh session")
        solution, results = ([[by[i] for i in turn] for turn in order] for by in done)
    return ExecutedSolution(solution, results, executed_steps(solution, results))


def check_grounded(
    executed: ExecutedSolution,
    queries: Sequence[str],
    opened: Opened,
    description: Description,
    tools: Mapping[str, Tool],
) -> None:
    """Checks that a solver who has only the queries can know every value of the solution."""
    what = first_unknown(executed.steps, queries, opened.observation, tools, description.code)
    if what:
        raise RejectedProposal("ungrounded", what)


def check_knowable(
    executed: ExecutedSolution, queries: Sequence[str], exploration: Exploration, opened: Opened
) -> None:
    """Checks that no identifier stands in a query that only an observation shows."""
    text = "\n".join(queries)
    user = {text for _, text in _named(list(opened.values.values()))}
    for code in _SHORT_CODE.findall(text):
        if code not in user and _only_observed(code, exploration, opened):
            raise RejectedProposal("unknowable", f"text {code}")
    calls = [step.action.arguments for step in executed.steps if isinstance(step.action, Call)]
    used = {form for arguments in calls for key, form in _named(arguments) if _KEY.search(key)}
    for step in exploration.steps:
        for key, form in _named(output(step.observation)):
            identifier = _KEY.search(key) or _CODE_LIKE.fullmatch(form)
            if form in user or not identifier:
                continue
            counts = len(form) >= SHORT_CHARACTERS or form in used
            if counts and mentions(text, form) and not mentions(opened.observation, form):
                raise RejectedProposal("unknowable", f"{key or 'text'} {form[:80]}")


def _only_observed(code: str, exploration: Exploration, opened: Opened) -> bool:
    """Whether an observation had it before any action did."""
    texts = [(opened.observation, False)]
    for step in exploration.steps:
        texts += [(canonical(step.action).decode(), False), (step.observation, True)]
    return next((observed for text, observed in texts if mentions(text, code)), False)


def _named(value: Any) -> Iterator[tuple[str, str]]:
    """(key, text) of the texts and numbers in an output; members of a list carry the list's key."""
    for path, part in parts_of(value):
        if isinstance(part, str | int | float) and not isinstance(part, bool):
            yield last_name(path), str(part)


def check_effects(executed: ExecutedSolution, tools: Mapping[str, Tool]) -> None:
    """Checks that every turn changes the state or has a compared response."""
    for turn, (actions, results) in enumerate(
        zip(executed.solution, executed.results, strict=True)
    ):
        changed = any(result.effects for result in results)
        if not changed and not checked_responses(tools, actions, results):
            raise RejectedProposal("turn_without_effect", f"turn {turn}")
