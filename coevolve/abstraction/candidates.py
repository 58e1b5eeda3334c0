"""Finds one exploration's candidate tasks, without a model.

Each goal is minimised and must be something a user asks for; goals are then joined to conversations
of at most `max_goals` turns, a goal that uses what an earlier one did first of all. The joined
calls are minimised again, put in the order of the conversation, executed once more in that form,
and written. Where actions are code, the calls become one program and the turns one request, and the
program is executed once more, and once with its changes in reverse order, which has to come to the
same. What gives no task is a `Reject`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from coevolve.abstraction.goals import (
    EnvironmentFault,
    GoalSlice,
    execute_steps,
    goals_of,
    minimise,
    replayed,
)
from coevolve.abstraction.program_writer import check_apart, one_request, write_program
from coevolve.abstraction.request_writer import RequestWriter, Unwritable
from coevolve.abstraction.tasks import (
    FAULT,
    AbstractionResult,
    Reject,
    make_task,
    reason_of,
    too_many_steps,
)
from coevolve.abstraction.trace import ExplorationTrace, read_trace
from coevolve.abstraction.turns import TurnPlan, plan_turns
from coevolve.agents.code.order import reordered
from coevolve.environments.client import Fault, Pool
from coevolve.environments.replay import ReplayCoroutine, ReplayJob, gather_replays
from coevolve.records import Exploration, Task

PARTNERS_TRIED = 3  # Other goals tried for each further turn


class _WrittenSlice(Struct, frozen=True):
    """Goals with a request: their slice, executed in the order of the turns, and the words."""

    found: GoalSlice
    turns: list[TurnPlan]
    query: list[str]
    kind: str
    program: str | None = None  # The calls as code, where the environment's actions are code


def candidates(
    exploration: Exploration, pool: Pool, most: int, rng: random.Random
) -> ReplayCoroutine[AbstractionResult]:
    """At most `most` tasks. A fault of the environment is a reject of reason `FAULT`."""
    if not exploration.steps:
        return AbstractionResult(rejects=[Reject(exploration.id, "no_steps")])
    (episode,) = yield [ReplayJob(exploration.start, [])]
    if isinstance(episode, Fault):
        rejected = Reject(exploration.id, reason_of(episode), detail=episode.message)
        return AbstractionResult(rejects=[rejected])
    trace = read_trace(exploration, episode.opened, pool.tools)
    try:
        return (yield from _CandidateSearch(exploration, trace, pool, rng).run(most))
    except EnvironmentFault as fault:
        return AbstractionResult(rejects=[Reject(exploration.id, FAULT, detail=str(fault))])


class _CandidateSearch:
    def __init__(
        self, exploration: Exploration, trace: ExplorationTrace, pool: Pool, rng: random.Random
    ):
        self._exploration, self._trace, self._pool, self._rng = exploration, trace, pool, rng
        self._code = pool.description.code if pool.description.actions == "code" else None
        self._rejects: list[Reject] = []

    def run(self, most: int) -> ReplayCoroutine[AbstractionResult]:
        goals = goals_of(self._trace, self._pool.description)
        if not goals:
            unknown = "unknown_tool" in self._trace.problems
            self._reject("unknown_tool" if unknown else "no_goal", "")
        singles = yield from gather_replays([self._single(goal) for goal in goals])
        written = yield from self._joined([single for single in singles if single], most)
        tasks = yield from gather_replays([self._task(one) for one in written])
        return AbstractionResult([task for task in tasks if task], self._rejects)

    def _reject(self, reason: str, goal: str, detail: str = "", query: Sequence[str] = ()) -> None:
        self._rejects.append(Reject(self._exploration.id, reason, goal, detail, list(query)))

    def _single(self, goal: int) -> ReplayCoroutine[_WrittenSlice | None]:
        try:
            found = yield from minimise(self._trace, (goal,))
            return (yield from self._written(found))
        except Unwritable as reason:
            self._reject(str(reason), self._trace.tool(goal).name)
            return None

    def _written(self, found: GoalSlice | None) -> ReplayCoroutine[_WrittenSlice]:
        """The slice with its words. Raises Unwritable with the reason why there are none."""
        turns = plan_turns(self._trace, found) if found else None
        if not turns:
            raise Unwritable("no_request" if found else "not_reproduced")
        if len(turns) > self._pool.description.max_goals:
            raise Unwritable("too_many_goals")
        if too_many_steps(self._pool.description.limits, [len(turn.calls) for turn in turns]):
            raise Unwritable("too_many_steps")
        # one turn, and turns that become one program, were executed in just this form already
        in_order = [i for turn in turns for i in turn.calls] == list(found.calls)
        if not in_order or (len(turns) > 1 and not self._code):
            done = yield from execute_steps(self._trace, [turn.calls for turn in turns])
            if done is None:
                raise Unwritable("not_reproduced")
            found = found._replace(calls=done[0], results=done[1])
        for turn in turns:
            changed = any(found.results[i].effects for i in turn.calls)
            if not changed and not self._trace.tool(turn.goal).checked:
                raise Unwritable("turn_without_effect")
        writer = RequestWriter(self._trace, found, self._rng)
        query = [writer.request(turn) for turn in turns]
        if len(set(query)) < len(query):
            raise Unwritable("repeated_turn")
        program = None
        if self._code:
            check_apart(self._trace, found, turns)
            program = write_program(self._trace, found, turns, query, self._code)
        ways = ["lookup" if writer.needs_lookup(turn.goal) else "given" for turn in turns]
        goals = [self._trace.tool(turn.goal).name for turn in turns]
        kind = "+".join(f"{goal}/{way}" for goal, way in zip(goals, ways, strict=True))
        return _WrittenSlice(found, turns, query, kind, program)

    def _joined(
        self, singles: Sequence[_WrittenSlice], most: int
    ) -> ReplayCoroutine[list[_WrittenSlice]]:
        """Up to `most` requests, new kinds first, each single once, their lengths by chance."""
        asked, used, joined = Counter(), set(), []
        # longer conversations more often, short ones too
        lengths = range(1, self._pool.description.max_goals + 1)
        while len(joined) < most and len(used) < len(singles):
            unused = [n for n in range(len(singles)) if n not in used]
            first = min(
                unused, key=lambda n: (asked[singles[n].kind], -len(singles[n].found.calls), n)
            )
            used.add(first)
            written = singles[first]
            wanted = self._rng.choices(lengths, lengths)[0]
            while len(written.turns) < wanted:
                partners = _partners(written, singles, [n for n in unused if n not in used])
                number, longer = yield from self._longer(written, singles, partners)
                if longer is None:
                    break
                used.add(number)
                written = longer
            goals = {turn.goal for turn in written.turns}
            used |= {n for n in unused if set(singles[n].found.goals) <= goals}
            asked.update(written.kind.split("+"))
            joined.append(written)
        return joined

    def _longer(
        self, written: _WrittenSlice, singles: Sequence[_WrittenSlice], partners: Sequence[int]
    ) -> ReplayCoroutine[tuple[int | None, _WrittenSlice | None]]:
        """The first partner that makes the request longer, (number, request), or (None, None)."""
        own = written.found
        for number in partners[:PARTNERS_TRIED]:
            partner = singles[number].found
            goals = tuple(sorted({*own.goals, *partner.goals}))
            found = yield from minimise(self._trace, goals, [own.core | partner.core])
            try:
                longer = yield from self._written(found)
            except Unwritable:
                continue
            if len(longer.turns) > len(written.turns):
                return number, longer
        return None, None

    def _task(self, written: _WrittenSlice) -> ReplayCoroutine[Task | None]:
        """The task of a request; None, with a reject, where its program does something else."""
        found, query = written.found, written.query
        if written.program is None:
            solution = [[found.calls[i] for i in turn.calls] for turn in written.turns]
            results = [[found.results[i] for i in turn.calls] for turn in written.turns]
            return self._made(written.kind, query, solution, results)
        query = [one_request(query)]
        episode = yield from replayed(self._exploration.start, [[written.program]])
        if episode.failure or not episode.flat[0].effects:
            self._reject("code_fails", written.kind, written.program, query)
            return None
        task = self._made(written.kind, query, [[written.program]], episode.results)
        other = reordered(written.program, self._pool.tools, self._code.ends) or written.program
        again = yield from replayed(task.start, [[other]], task)
        if not again.graded.success:
            self._reject("order", written.kind, other, query)
            return None
        return task

    def _made(self, kind: str, query: list[str], solution: list, results: list) -> Task:
        opened = self._trace.opened
        return make_task(self._exploration, self._pool, opened, kind, query, solution, results)


def _partners(
    written: _WrittenSlice, singles: Sequence[_WrittenSlice], unused: Sequence[int]
) -> list[int]:
    """Goals that share calls with the request first, then other tools, then the nearest."""
    own = written.found
    tools = {call.tool for call in own.calls.values()}

    def rank(number: int) -> tuple:
        other = singles[number].found
        same = other.calls[singles[number].turns[-1].goal].tool in tools
        near = min(abs(a - b) for a in own.goals for b in other.goals)
        return not own.calls.keys() & other.calls.keys(), same, near, number

    return sorted(unused, key=rank)
