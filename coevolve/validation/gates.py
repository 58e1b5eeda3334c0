"""Judges replayed tasks by a gate: what has to hold before execution says that a task is valid.

`strict`, the default, asks of a replayed task: every call works; two replays agree in observations,
effects and states, and with the effects that the task claims; the verifier accepts the solution;
every turn changes the state or has a compared response; no text in an argument looks like a call of
a tool (some executors would rewrite or run it); a solver who has only the query can know every
value of a synthetic task's solution (`coevolve.grounding`; CuES, arXiv 2512.01311; ACE, arXiv
2608.27260), and the query has a word of what a program does. `paper` is the paper's own gate, to
the letter: the solution succeeds, or its reward is positive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from coevolve.agents.code.calls import api_calls
from coevolve.environments.protocol import CodeSyntax, Tool
from coevolve.environments.replay import (
    ReplayedEpisode,
    ReplayJob,
    checked_responses,
    effects_digest,
)
from coevolve.grounding.solutions import executed_steps, first_unknown, judged
from coevolve.records import Action, Call, Task, canonical

Gate = Literal["strict", "paper"]
_TECHNICAL = re.compile(r"supervisor\..*|api_docs\..*|.*\.login")
_COMMON_WORDS = "that this with from have your which them their what when thing make please".split()
_COMMON = frozenset(word[:4] for word in _COMMON_WORDS)


class GateFailure(NamedTuple):
    """Why a task does not pass."""

    verdict: Literal["invalid", "nondeterministic", "timeout", "trivial"]
    reason: str


def paper(episode: ReplayedEpisode) -> GateFailure | None:
    """The paper's gate."""
    passed = episode.graded.success or reward(episode) > 0
    return None if passed else GateFailure("invalid", "no success and no reward")


def reward(episode: ReplayedEpisode) -> float:
    """The environment's score or dense progress, whichever is more."""
    return max(episode.graded.score, episode.graded.progress)


def form(task: Task) -> GateFailure | None:
    """What the strict gate sees without execution."""
    if not any(task.solution):
        return GateFailure("trivial", "the solution does nothing")
    if len(task.solution) != len(task.query):
        turns = f"{len(task.query)} user turns, {len(task.solution)} turns of actions"
        return GateFailure("invalid", turns)
    return None


def strict(
    task: Task,
    tools: Mapping[str, Tool],
    replays: list[ReplayedEpisode],
    style: CodeSyntax | None = None,
) -> GateFailure | None:
    """The first rule that the replays break. `style` is how the environment writes code."""
    first = replays[0]
    if any(result.fatal == "timeout" for episode in replays for result in episode.flat):
        return GateFailure("timeout", "an action ran out of time")
    if any(canonical(episode.results) != canonical(first.results) for episode in replays):
        return GateFailure("nondeterministic", "two replays differ")
    reason = next(_broken(task, tools, first, style), None)
    return GateFailure("invalid", reason) if reason else None


def _broken(
    task: Task, tools: Mapping[str, Tool], episode: ReplayedEpisode, style: CodeSyntax | None
) -> Iterator[str]:
    """The rules that one replay breaks, in the order in which they can be checked."""
    calls = [action for action in _actions(task) if isinstance(action, Call)]
    if unknown := next((call.tool for call in calls if call.tool not in tools), None):
        yield f"calls {unknown}, a tool that the environment does not describe"
    if episode.failure:
        yield f"a call of the solution fails: {episode.failure}"
    if not episode.graded.success:
        yield f"the verifier rejects the solution: {episode.graded.reason or 'no reason given'}"
    if (
        task.effects
        and effects_digest(tools, ReplayJob(task.start, task.solution), episode) != task.effects
    ):
        yield "other effects than the task claims"
    if task.origin.kind != "synthesis":
        return
    for turn, (actions, results) in enumerate(zip(task.solution, episode.results, strict=True)):
        changed = any(result.effects for result in results)
        if not changed and not checked_responses(tools, actions, results):
            yield f"turn {turn} has no effect and no compared response"
    for call in calls:
        for name in re.findall(r"\b([a-zA-Z_]\w*)\s*\(", json.dumps(call.arguments)):
            if name in tools:
                yield f"{call.tool}: a text looks like a call of {name}"
    observation = episode.opened.observation
    if what := first_unknown(
        executed_steps(task.solution, episode.results), task.query, observation, tools, style
    ):
        yield f"ungrounded: the query does not state {what}"
    if not related(task, tools):
        yield "ungrounded: the query names nothing that the program does"


def related(task: Task, tools: Mapping[str, Tool]) -> bool:
    """Whether the query has a word of an API that the code calls for the task's sake."""
    code = "\n".join(action for action in _actions(task) if isinstance(action, str))
    used = [
        tools[name] for name in api_calls(code) if name in tools and not _TECHNICAL.fullmatch(name)
    ]
    query = _stems(" ".join(task.query))
    return not used or any(query & _stems(_description(tool)) for tool in used)


def _description(tool: Tool) -> str:
    """The name of an API, its description and how people talk about it."""
    language = tool.language
    phrases = [*language.do, *language.rows.values(), *language.facts.values()] if language else []
    return " ".join([tool.name, tool.description, *phrases])


def _stems(text: str) -> set[str]:
    """Words of four letters at least by their first four, without the slots of phrases."""
    plain = re.sub(r"\{[^}]*\}|[\W_]", " ", text.lower())
    return {word[:4] for word in plain.split() if len(word) > 3} - _COMMON


def _actions(task: Task) -> list[Action]:
    return [action for turn in task.solution for action in turn]


def informing(
    task: Task, tools: Mapping[str, Tool], episode: ReplayedEpisode
) -> set[tuple[int, int]]:
    """(turn, place) of the calls that show a later call a value that the query does not state."""
    places = [
        (turn, place) for turn, actions in enumerate(task.solution) for place in range(len(actions))
    ]
    values = judged(
        executed_steps(task.solution, episode.results),
        task.query,
        episode.opened.observation,
        tools,
    )
    return {places[step] for value in values for step in value.grounding.steps}
