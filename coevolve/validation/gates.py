"""What has to hold before execution says that a task is valid.

`strict`, the default, asks of a replayed task: every call works; two replays agree in observations, effects and states, and with
the effects that the task claims; the verifier accepts the solution; every turn changes the state or has a compared response; no
text in an argument looks like a call of a tool (some executors would rewrite or run it); every given argument of a synthetic
task is said in its query (CuES, arXiv 2512.01311; ACE, arXiv 2608.27260): in code, every constant by which a program finds or does
something (`code.words`), and the query has a word of what the program does. `paper` is the paper's
own gate, to the letter: the solution succeeds, or its reward is positive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from coevolve.agents.code.calls import api_calls
from coevolve.agents.code.words import unsaid
from coevolve.environments.protocol import CodeSyntax, Tool
from coevolve.environments.replay import (
    ReplayedEpisode,
    ReplayJob,
    checked_responses,
    effects_digest,
)
from coevolve.environments.said import said
from coevolve.provenance import sources
from coevolve.records import Call, Step, Task, canonical

Gate = Literal["strict", "paper"]
_TECHNICAL = re.compile(r"supervisor\..*|api_docs\..*|.*\.login")
_COMMON = frozenset(
    word[:4]
    for word in (
        "that this with from have your which them their what when thing things make please"
    ).split()
)


class Failure(NamedTuple):
    verdict: Literal["invalid", "nondeterministic", "timeout", "trivial"]
    reason: str


def paper(episode: ReplayedEpisode) -> Failure | None:
    """The goal is reached, or the reward is positive."""
    return (
        None
        if episode.graded.success or reward(episode) > 0
        else Failure("invalid", "no success and no reward")
    )


def reward(episode: ReplayedEpisode) -> float:
    """The environment's score or dense progress, whichever is more."""
    return max(episode.graded.score, episode.graded.progress)


def form(task: Task) -> Failure | None:
    """What can be seen without execution."""
    if not any(task.solution):
        return Failure("trivial", "the solution does nothing")
    if len(task.solution) != len(task.query):
        return Failure(
            "invalid", f"{len(task.query)} user turns, {len(task.solution)} turns of actions"
        )
    return None


def strict(
    task: Task,
    tools: Mapping[str, Tool],
    replays: list[ReplayedEpisode],
    style: CodeSyntax | None = None,
) -> Failure | None:
    """The first rule that the replays break; controls come after. `style` is how the environment writes calls as code."""
    first = replays[0]
    if any(result.fatal == "timeout" for episode in replays for result in episode.flat):
        return Failure("timeout", "an action ran out of time")
    if any(canonical(episode.results) != canonical(first.results) for episode in replays):
        return Failure("nondeterministic", "two replays differ")
    if unknown := _undescribed(task, tools):
        return Failure("invalid", f"calls {unknown}, a tool that the environment does not describe")
    if first.failure:
        return Failure("invalid", f"a call of the solution fails: {first.failure}")
    if not first.graded.success:
        return Failure(
            "invalid",
            f"the verifier rejects the solution: {first.graded.reason or 'no reason given'}",
        )
    if (
        task.effects
        and effects_digest(tools, ReplayJob(task.start, task.solution), first) != task.effects
    ):
        return Failure("invalid", "other effects than the task claims")
    if task.origin.kind == "synthesis":
        return (
            _idle_turn(task, tools, first)
            or _looks_like_call(task, tools)
            or _unsaid(task, tools, first)
            or unsaid_in_code(task, tools, style)
            or _unrelated(task, tools)
        )
    return None


def _undescribed(task: Task, tools: Mapping[str, Tool]) -> str | None:
    calls = [action for turn in task.solution for action in turn if isinstance(action, Call)]
    return next((call.tool for call in calls if call.tool not in tools), None)


def _looks_like_call(task: Task, tools: Mapping[str, Tool]) -> Failure | None:
    for action in (action for turn in task.solution for action in turn if isinstance(action, Call)):
        for name in re.findall(r"\b([a-zA-Z_]\w*)\s*\(", json.dumps(action.arguments)):
            if name in tools:
                return Failure("invalid", f"{action.tool}: a text looks like a call of {name}")
    return None


def _idle_turn(task: Task, tools: Mapping[str, Tool], episode: ReplayedEpisode) -> Failure | None:
    for turn, (actions, results) in enumerate(zip(task.solution, episode.results, strict=True)):
        if not any(result.effects for result in results) and not checked_responses(
            tools, actions, results
        ):
            return Failure("invalid", f"turn {turn} has no effect and no compared response")
    return None


def _unsaid(task: Task, tools: Mapping[str, Tool], episode: ReplayedEpisode) -> Failure | None:
    """A given argument that no turn of the query up to its own says."""
    executed = steps(task, episode)
    for step, found in zip(executed, sources(executed, _apps(tools)), strict=True):
        text = "\n".join(task.query[: step.turn + 1])
        for path, source in found.items():
            if source.step is None and not said(
                step.action.arguments, path, tools[step.action.tool], text
            ):
                return Failure(
                    "invalid", f"{step.action.tool}: nobody says {'.'.join(map(str, path))}"
                )
    return None


def unsaid_in_code(
    task: Task, tools: Mapping[str, Tool], style: CodeSyntax | None = None
) -> Failure | None:
    """A constant in code which no turn of the query up to its own says."""
    for turn, actions in enumerate(task.solution):
        text = "\n".join(task.query[: turn + 1])
        for program in (action for action in actions if isinstance(action, str)):
            if what := unsaid(program, tools, text, style):
                return Failure("invalid", f"unsaid: nobody says {what}")
    return None


def _unrelated(task: Task, tools: Mapping[str, Tool]) -> Failure | None:
    """A query without one word of any API that the code calls, beside those that every program calls."""
    code = "\n".join(action for turn in task.solution for action in turn if isinstance(action, str))
    used = [
        tools[name] for name in api_calls(code) if name in tools and not _TECHNICAL.fullmatch(name)
    ]
    if not used or any(_words(" ".join(task.query)) & _told_by(tool) for tool in used):
        return None
    return Failure("invalid", "unsaid: the query names nothing that the program does")


def _told_by(tool: Tool) -> set[str]:
    """Beginnings of the words of an API: its name, its description and what people say of it."""
    language = (
        [*tool.language.do, *tool.language.rows.values(), *tool.language.facts.values()]
        if tool.language
        else []
    )
    return _words(" ".join([tool.name, tool.description, *language]))


def _words(text: str) -> set[str]:
    """Words of four letters at least by their first four, so that `songs` is `song`; slots of phrases are none."""
    plain = re.sub(r"\{[^}]*\}|[\W_]", " ", text.lower())
    return {word[:4] for word in plain.split() if len(word) > 3} - _COMMON


def steps(task: Task, episode: ReplayedEpisode) -> list[Step]:
    """The replayed solution as steps."""
    return [
        Step(turn, action, result.observation, result.error, result.effects, result.state)
        for turn, (actions, results) in enumerate(zip(task.solution, episode.results, strict=True))
        for action, result in zip(actions, results, strict=False)
    ]


def informing(
    task: Task, tools: Mapping[str, Tool], episode: ReplayedEpisode
) -> set[tuple[int, int]]:
    """(turn, place) of the calls that gave a later call a value which the query does not say."""
    executed = steps(task, episode)
    places = [
        (turn, place) for turn, actions in enumerate(task.solution) for place in range(len(actions))
    ]
    found = set()
    for step, origins in zip(executed, sources(executed, _apps(tools)), strict=True):
        text = "\n".join(task.query[: step.turn + 1])
        for path, source in origins.items():
            if source.step is not None and not said(
                step.action.arguments, path, tools[step.action.tool], text
            ):
                found.add(places[source.step])
    return found


def _apps(tools: Mapping[str, Tool]) -> dict[str, str]:
    return {name: tool.app for name, tool in tools.items()}
