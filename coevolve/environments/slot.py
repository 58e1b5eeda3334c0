"""One place in a pool: a worker, its successors after a death, and the sessions that live there.

A worker that dies during a request is replaced, and that request is tried once more, alone, after its session has been opened
anew and its logged actions replayed. If the same action kills the second worker too, it is the policy's failure: a `ActionResult`
with `fatal`. Deaths while opening, replaying or grading, replies that are none, and error replies are the infrastructure's:
a `Fault`. The other sessions are replayed when they are next used, and notice nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from coevolve.environments.faults import Fault
from coevolve.environments.protocol import ActionResult, Graded, NewStart, Opened
from coevolve.environments.registry import Launch
from coevolve.environments.worker import Death, Guard, Worker, WorkerReply, WorkerRequest, printable
from coevolve.jsonl import warn
from coevolve.records import Action, Start


class WorkerLimits(NamedTuple):
    call_seconds: float
    setup_seconds: float
    memory_mb: int


class EnvSession:
    """An open episode. One thread at a time may use it."""

    __slots__ = ("ended", "generation", "id", "log", "opened", "query", "slot", "start")

    def __init__(self, id_: str, start: Start, slot: Slot, query: list[str] | None = None):
        self.id, self.start, self.slot, self.query = id_, start, slot, query
        self.opened = Opened()
        self.log: list[tuple[int, Action, str]] = []
        """Turn, action, state after it: what a fresh worker has to replay."""
        self.generation = -1
        """Which of the slot's workers knows the session."""
        self.ended: ActionResult | Fault | None = None


class PoolJob(NamedTuple):
    """One request of the pool. A step's `parts` are its actions, one a message; `whole` is all of them."""

    session: EnvSession | None
    op: str
    whole: WorkerRequest
    parts: list[WorkerRequest]
    turn: int = 0
    actions: list[Action] = []


class _Results(msgspec.Struct, frozen=True):
    results: list[list[ActionResult]]


_TYPES = {"open": Opened, "step": _Results, "evaluate": Graded, "start": NewStart, "close": dict}
_DECODERS = {op: msgspec.json.Decoder(type_) for op, type_ in _TYPES.items()}
_encode = msgspec.json.encode


def open_request(session: EnvSession, limits: WorkerLimits) -> WorkerRequest:
    query = {} if session.query is None else {"query": session.query}
    return WorkerRequest(
        "open",
        _encode({"session": session.id, "start": session.start, **query}),
        limits.setup_seconds,
    )


def step_request(
    session: EnvSession, turn: int, actions: list[Action], limits: WorkerLimits
) -> WorkerRequest:
    """May raise what an encoder raises on arguments that are no JSON."""
    fields = {"steps": [{"session": session.id, "turn": turn, "actions": actions}]}
    return WorkerRequest("step", _encode(fields), limits.call_seconds * max(1, len(actions)))


class Slot:
    """Runs jobs one after another on the worker of the moment."""

    def __init__(
        self, launch: Launch, guard: Guard, limits: WorkerLimits, told: set[str] | None = None
    ):
        """`told`: kinds of death that the user was told of already, shared by the slots of a pool."""
        self._launch, self._guard, self._limits = launch, guard, limits
        self._told = set() if told is None else told
        self._worker: Worker | None = None
        self._lock = threading.Lock()
        self._closed = False
        self.generation = 0

    def run(self, jobs: list[PoolJob]) -> list[Any]:
        """The answer of each job: `Opened`, list of `ActionResult`, `Graded`, raw JSON of another op, or `Fault`."""
        answers: list[Any] = []
        with self._lock:
            while len(answers) < len(jobs):
                answers += self._wave(jobs[len(answers) :])
        return answers

    def forget(self, sessions: list[EnvSession]) -> None:
        """Closes the sessions that the current worker knows."""
        with self._lock:
            known = [s for s in sessions if s.generation == self.generation]
            if self._worker and known:
                requests = [
                    WorkerRequest("close", _encode({"session": s.id}), self._limits.setup_seconds)
                    for s in known
                ]
                if self._worker.exchange(requests)[1]:
                    self._drop()
            for session in sessions:
                session.generation = -1
                session.ended = session.ended or Fault("the session is closed", "closed")

    def close(self) -> None:
        """Kills the worker, also under a thread that waits for its reply."""
        self._closed = True
        if worker := self._worker:
            worker.kill()
        with self._lock:
            self._drop()

    def _wave(self, jobs: list[PoolJob]) -> list[Any]:
        """Answers some of the jobs, from the first on: all, or up to and including the one that a worker died of."""
        try:
            worker = self._ready()
        except OSError as error:
            return [Fault(f"cannot start {self._launch.command[0]}: {error.strerror}")] * len(jobs)
        plan = list(self._plan(jobs))
        replies, death = worker.exchange([request for request, _, _ in plan])
        answers = []
        for (request, job, expected), reply in zip(plan, replies, strict=False):
            if expected is None:
                answers.append(self._answer(job, job.actions, reply))
            else:
                self._replayed(job.session, request.op, expected, reply)
        if death:
            self._drop()
            answers.append(self._retry(jobs[len(answers)], death))
        return answers

    def _plan(self, jobs: list[PoolJob]) -> Iterator[tuple[WorkerRequest, PoolJob, str | None]]:
        """Every request to send, its job, and None, or in a replay before the job the state that must come out."""
        planned: set[str] = set()
        for job in jobs:
            if job.session and job.session.id not in planned:
                planned.add(job.session.id)
                yield from ((request, job, state) for request, state in self._replay(job))
            yield job.whole, job, None

    def _replay(self, job: PoolJob) -> list[tuple[WorkerRequest, str]]:
        """What makes the current worker know the job's session as it was: requests, and the state after each."""
        session = job.session
        if (
            session is None
            or job.op == "open"
            or session.ended
            or session.generation == self.generation
        ):
            return []
        steps = [
            (step_request(session, turn, [action], self._limits), state)
            for turn, action, state in session.log
        ]
        return [(open_request(session, self._limits), session.opened.state), *steps]

    def _replayed(self, session: EnvSession, op: str, expected: str, reply: WorkerReply) -> None:
        """Takes note of one reply of a replay; another state than before ends the session."""
        if session.ended:
            return
        if op == "open":
            session.generation = self.generation
        answer = self._decode(op, reply)
        if isinstance(answer, Fault):
            session.ended = Fault(f"replay failed: {answer.message}", answer.kind)
        elif [expected] != (
            [answer.state] if op == "open" else [r.state for rs in answer.results for r in rs]
        ):
            session.ended = Fault(
                "a replay of the same actions led to another state", "nondeterministic"
            )

    def _retry(self, job: PoolJob, first: Death) -> Any:
        """The job that a worker died of, alone in a fresh one, action by action."""
        if job.session and job.session.ended:
            return _after_the_end(job)
        if self._closed:
            return Fault("the pool is closed", "closed")
        if job.op == "describe":
            return Fault(first.message, first.kind)
        self._tell(job, first)
        for request, expected in self._replay(job):
            reply = self._once(request)
            if isinstance(reply, Death):
                return self._end(job, Fault(f"replay: {request.op} {reply.message}", reply.kind))
            self._replayed(job.session, request.op, expected, reply)
            if job.session.ended:
                return _after_the_end(job)
        results: list[ActionResult] = []
        for place, request in enumerate(job.parts):
            reply = self._once(request)
            if isinstance(reply, Death):
                return self._died_again(job, reply, results)
            answer = self._answer(job, job.actions[place : place + 1], reply)
            if job.op != "step" or isinstance(answer, Fault):
                return answer
            results += answer
            if job.session.ended:
                break
        return results

    def _tell(self, job: PoolJob, death: Death) -> None:
        """One line for each kind of death, however many workers die of it."""
        if death.kind not in self._told:
            self._told.add(death.kind)
            again = "; trying once more in a fresh worker, as with every further one (each kind is told once)"
            warn(f"{printable(self._launch.name)}: {_what(job)} {death.message}{again}")

    def _once(self, request: WorkerRequest) -> WorkerReply | Death:
        try:
            replies, death = self._ready().exchange([request])
        except OSError as error:
            return Death("unreachable", f"cannot start {self._launch.command[0]}: {error.strerror}")
        if death:
            self._drop()
        return death or replies[0]

    def _died_again(self, job: PoolJob, death: Death, results: list[ActionResult]) -> Any:
        if job.op != "step" or death.kind in ("garbage", "unreachable") or self._closed:
            return self._end(job, Fault(f"{job.op}: {death.message}", death.kind))
        job.session.ended = _fatal(death, job.session)
        return [*results, job.session.ended]

    def _answer(self, job: PoolJob, actions: list[Action], reply: WorkerReply) -> Any:
        session = job.session
        if session and session.ended:
            return _after_the_end(job)
        answer = self._decode(job.op, reply)
        if isinstance(answer, Fault):
            return self._end(job, answer) if job.op in ("open", "step") else answer
        if job.op == "open":
            session.opened, session.generation = answer, self.generation
        if job.op == "step":
            return self._stepped(job, actions, answer.results)
        return answer

    def _stepped(
        self, job: PoolJob, actions: list[Action], entries: list[list[ActionResult]]
    ) -> Any:
        session = job.session
        results = entries[0] if len(entries) == 1 else []
        fatal = bool(results) and results[-1].fatal is not None
        if len(results) > len(actions) or (len(results) < len(actions) and not fatal):
            return self._end(
                job, Fault(f"step: {len(results)} results for {len(actions)} actions", "garbage")
            )
        session.log += [
            (job.turn, action, r.state) for action, r in zip(actions, results, strict=False)
        ]
        if fatal:
            session.ended = results[-1]
        return results

    def _decode(self, op: str, reply: WorkerReply) -> Any:
        if reply.error:
            return Fault(f"{op}: {printable(reply.error.message)}", reply.error.kind)
        decoder = _DECODERS.get(op)
        if decoder is None:
            return reply.result
        try:
            return decoder.decode(reply.result)
        except (msgspec.MsgspecError, ValueError) as error:
            return Fault(f"{op}: the reply is not what the protocol says: {error}", "garbage")

    def _end(self, job: PoolJob, fault: Fault) -> Fault:
        if job.session:
            job.session.ended = fault
        return fault

    def _ready(self) -> Worker:
        if self._closed:
            raise OSError(0, "the pool is closed")
        if self._worker is None:
            self._worker = Worker(self._launch, self._guard, self._limits.memory_mb)
        return self._worker

    def _drop(self) -> None:
        if self._worker:
            self._worker.close()
            self._worker = None
            self.generation += 1


def _after_the_end(job: PoolJob) -> Any:
    """What a session that has ended answers: its end, or the grade that the policy's own failure has."""
    end = job.session.ended
    if isinstance(end, Fault):
        return end
    if job.op == "evaluate":
        return Graded(success=False, score=0.0, reason=f"ended by {end.fatal}")
    return [end]


def _what(job: PoolJob) -> str:
    if job.op != "step":
        return job.op
    names = [
        printable(action.tool) if not isinstance(action, str) else "code" for action in job.actions
    ]
    return f"an action ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})"


def _fatal(death: Death, session: EnvSession) -> ActionResult:
    state = session.log[-1][2] if session.log else session.opened.state
    observation = f"Error: this call {death.message}. The episode ends here."
    return ActionResult(observation=observation, error=death.kind, state=state, fatal=death.kind)
