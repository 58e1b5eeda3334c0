"""One exploration's candidate tasks.

Each goal is minimised and must be something a user asks for; goals are then joined to conversations of at most `max_goals` turns,
a goal that uses what an earlier one did first of all. The joined calls are minimised again, put in the order of the conversation,
executed once more in that form, and written. Where actions are code, the calls become one program and the turns one request, and
the program is executed once more, and once with its changes in reverse order, which has to come to the same. What gives no task is a
`Reject`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from coevolve.abstraction.code_writer import Unwritable, check_apart, one_request, write
from coevolve.abstraction.goals import EnvironmentFault, Slice, bind, find, minimise
from coevolve.abstraction.grounding import Trace, trace
from coevolve.abstraction.turns import Turn, compose
from coevolve.abstraction.writers import Unsayable, Writer
from coevolve.agents.code.order import reordered
from coevolve.environments.client import Fault, Pool
from coevolve.environments.protocol import ActionResult, Description, Tool
from coevolve.environments.replay import (
    ReplayCoroutine,
    ReplayedEpisode,
    ReplayJob,
    effects_digest,
    gather_replays,
)
from coevolve.records import Action, Call, Exploration, Lineage, Origin, Task, Verifier, task_id

FAULT = "environment"
REFUSED = "refused_start"
PARTNERS_TRIED = 3
"""Other goals tried for each further turn."""


class Reject(Struct, frozen=True):
    """Something that became no task."""

    exploration: str
    reason: str
    goal: str = ""
    """Tool of the goal, or kind of the task."""
    detail: str = ""
    query: list[str] = []


class Found(Struct, frozen=True):
    """What one exploration gave."""

    tasks: list[Task] = []
    rejects: list[Reject] = []


def reason_of(fault: Fault) -> str:
    """Why an exploration whose start cannot be opened gives no task: the environment refuses it, or has a fault."""
    return REFUSED if fault.kind == "bad_request" else FAULT


def tags(
    description: Description, tools: Mapping[str, Tool], solution: Sequence[Sequence[Action]]
) -> list[str]:
    """The apps whose tools a solution calls, where the environment tags its own tasks so."""
    if not description.app_tags:
        return []
    return sorted(
        {tools[call.tool].app for turn in solution for call in turn if isinstance(call, Call)}
    )


class _Request(Struct, frozen=True):
    """Goals that can be asked for: their slice, executed in the order of the turns, and the words."""

    found: Slice
    turns: list[Turn]
    query: list[str]
    kind: str


def candidates(
    exploration: Exploration, pool: Pool, most: int, rng: random.Random
) -> ReplayCoroutine[Found]:
    """At most `most` tasks. A fault of the environment is a reject of reason `FAULT`."""
    try:
        return (yield from _Candidates(exploration, pool, rng).find(most))
    except EnvironmentFault as fault:
        return Found(rejects=[Reject(exploration.id, FAULT, detail=str(fault))])


class _Candidates:
    def __init__(self, exploration: Exploration, pool: Pool, rng: random.Random):
        self._exploration, self._tools, self._description, self._rng = (
            exploration,
            pool.tools,
            pool.description,
            rng,
        )
        self._trace: Trace
        self._rejects: list[Reject] = []

    def find(self, most: int) -> ReplayCoroutine[Found]:
        if not self._exploration.steps:
            self._reject("no_steps", "")
            return Found(rejects=self._rejects)
        (episode,) = yield [ReplayJob(self._exploration.start, [])]
        if isinstance(episode, Fault):
            return Found(
                rejects=[Reject(self._exploration.id, reason_of(episode), detail=episode.message)]
            )
        self._trace = trace(self._exploration, episode.opened, self._tools)
        goals = find(self._trace, self._tools, self._description)
        if not goals:
            self._reject(
                "unknown_tool" if "unknown_tool" in self._trace.problems else "no_goal", ""
            )
        singles = yield from gather_replays([self._single(goal) for goal in goals])
        requests = yield from self._joined([single for single in singles if single], most)
        if self._description.actions == "code":
            tasks = yield from gather_replays([self._coded(request) for request in requests])
            return Found([task for task in tasks if task], self._rejects)
        return Found([self._task(request) for request in requests], self._rejects)

    def _single(self, goal: int) -> ReplayCoroutine[_Request | None]:
        found = yield from minimise(self._trace, self._tools, (goal,))
        request = (yield from self._request(found)) if found else "not_reproduced"
        if isinstance(request, str):
            self._reject(request, self._trace.steps[goal].action.tool)
            return None
        return request

    def _reject(self, reason: str, goal: str) -> None:
        self._rejects.append(Reject(self._exploration.id, reason, goal))

    def _request(self, found: Slice) -> ReplayCoroutine[_Request | str]:
        """The request for a slice, or the reason why there is none."""
        turns = compose(self._trace, self._tools, found)
        if turns is None:
            return "no_request"
        if len(turns) > self._description.max_goals:
            return "too_many_goals"
        if self._too_long(turns):
            return "too_many_steps"
        if not self._executed(found, turns):
            done = yield from bind(self._trace, [turn.calls for turn in turns])
            if done is None:
                return "not_reproduced"
            found = found._replace(calls=done[0], results=done[1])
        if any(not self._reached(found, turn) for turn in turns):
            return "turn_without_effect"
        writer = Writer(self._trace, self._tools, found, self._rng)
        try:
            query = [writer.request(turn) for turn in turns]
            if len(set(query)) < len(query):
                return "repeated_turn"
            if self._description.actions == "code":
                check_apart(self._trace, found, turns)
                self._program(found, turns, query)
            return _Request(found, turns, query, self._kind(found, turns, writer))
        except (Unsayable, Unwritable) as reason:
            return str(reason)

    def _executed(self, found: Slice, turns: Sequence[Turn]) -> bool:
        """Whether the slice was executed in just this form: one turn, or, where turns become one program, the same order."""
        code = self._description.actions == "code"
        return (code or len(turns) == 1) and [i for turn in turns for i in turn.calls] == list(
            found.calls
        )

    def _too_long(self, turns: Sequence[Turn]) -> bool:
        limits, lengths = self._description.limits, [len(turn.calls) for turn in turns]
        return sum(lengths) > limits.max_steps or max(lengths) > (
            limits.max_steps_per_turn or limits.max_steps
        )

    def _reached(self, found: Slice, turn: Turn) -> bool:
        """The turn changes the state, or its goal's response is compared."""
        return (
            any(found.results[i].effects for i in turn.calls)
            or self._tools[found.calls[turn.goal].tool].checked
        )

    def _kind(self, found: Slice, turns: Sequence[Turn], writer: Writer) -> str:
        goals = [turn.goal for turn in turns]
        return "+".join(
            f"{found.calls[g].tool}/{'lookup' if writer.lookup(g) else 'given'}" for g in goals
        )

    def _joined(self, singles: Sequence[_Request], most: int) -> ReplayCoroutine[list[_Request]]:
        """Up to `most` requests, kinds not yet asked for first, each single used once, each as long as chance has it."""
        asked, used, requests = Counter(), set(), []
        while len(requests) < most and len(used) < len(singles):
            open_ = [n for n in range(len(singles)) if n not in used]
            first = min(
                open_, key=lambda n: (asked[singles[n].kind], -len(singles[n].found.calls), n)
            )
            used.add(first)
            request = singles[first]
            wanted = self._rng.choices(*_lengths(self._description.max_goals))[0]
            while len(request.turns) < wanted:
                partners = _partners(request, singles, [n for n in open_ if n not in used])
                number, longer = yield from self._longer(request, singles, partners)
                if longer is None:
                    break
                used.add(number)
                request = longer
            used |= {
                n
                for n in open_
                if set(singles[n].found.goals) <= {turn.goal for turn in request.turns}
            }
            asked.update(request.kind.split("+"))
            requests.append(request)
        return requests

    def _longer(
        self, request: _Request, singles: Sequence[_Request], partners: Iterator[int]
    ) -> ReplayCoroutine:
        """The first partner with which the request becomes a longer one: (its number, the request), or (None, None)."""
        for number, _ in zip(partners, range(PARTNERS_TRIED), strict=False):
            partner = singles[number].found
            goals = tuple(sorted({*request.found.goals, *partner.goals}))
            joined = yield from minimise(
                self._trace, self._tools, goals, [request.found.core | partner.core]
            )
            longer = (yield from self._request(joined)) if joined else None
            if isinstance(longer, _Request) and len(longer.turns) > len(request.turns):
                return number, longer
        return None, None

    def _program(self, found: Slice, turns: Sequence[Turn], query: Sequence[str]) -> str:
        return write(self._trace, self._tools, found, turns, query, self._description.code)

    def _coded(self, request: _Request) -> ReplayCoroutine[Task | None]:
        """The request as a task of code, executed as it stands; None, with a reject, where the code does not do it."""
        query, program = (
            [one_request(request.query)],
            self._program(request.found, request.turns, request.query),
        )
        (episode,) = yield [ReplayJob(self._exploration.start, [[program]])]
        if isinstance(episode, Fault):
            raise EnvironmentFault(episode.message)
        if episode.failure or not episode.flat[0].effects:
            self._rejects.append(
                Reject(self._exploration.id, "code_fails", request.kind, program, query)
            )
            return None
        task = self._made(request.kind, query, [[program]], episode.results)
        other = reordered(program, self._tools, self._description.code.ends)
        (again,) = yield [ReplayJob(task.start, [[other or program]], task)]
        if isinstance(again, Fault):
            raise EnvironmentFault(again.message)
        if not again.graded.success:
            self._rejects.append(
                Reject(self._exploration.id, "order", request.kind, other or program, query)
            )
            return None
        return task

    def _task(self, request: _Request) -> Task:
        found = request.found
        solution = [[found.calls[index] for index in turn.calls] for turn in request.turns]
        results = [[found.results[index] for index in turn.calls] for turn in request.turns]
        return self._made(request.kind, request.query, solution, results)

    def _made(
        self,
        kind: str,
        query: list[str],
        solution: list[list[Action]],
        results: list[list[ActionResult]],
    ) -> Task:
        exploration, verifier = self._exploration, Verifier("state")
        job = ReplayJob(exploration.start, solution)
        signal = exploration.context.signal
        return Task(
            id=task_id(exploration.env, exploration.start, query, solution, verifier),
            env=exploration.env,
            env_version=self._description.version,
            kind=kind,
            tags=tags(self._description, self._tools, solution),
            effects=effects_digest(self._tools, job, ReplayedEpisode(self._trace.opened, results)),
            origin=Origin(
                "synthesis",
                exploration.iteration,
                exploration.mode,
                exploration.context.signal_kind,
            ),
            lineage=Lineage(
                [signal] if signal else [], [exploration.id], list(exploration.rollouts)
            ),
            verifier=verifier,
            query=query,
            solution=solution,
            start=exploration.start,
        )


def _lengths(most: int) -> tuple[list[int], list[int]]:
    """Numbers of turns and their weights: longer ones more often, short ones too."""
    return list(range(1, most + 1)), list(range(1, most + 1))


def _partners(
    request: _Request, singles: Sequence[_Request], open_: Sequence[int]
) -> Iterator[int]:
    """Goals that share calls with the request (one uses what the other did) first, then other tools, then the nearest."""
    calls, tools = set(request.found.calls), {call.tool for call in request.found.calls.values()}

    def rank(number: int) -> tuple:
        other = singles[number]
        same = other.found.calls[other.turns[-1].goal].tool in tools
        near = min(abs(a - b) for a in request.found.goals for b in other.found.goals)
        return not calls & set(other.found.calls), same, near, number

    return iter(sorted(open_, key=rank))
