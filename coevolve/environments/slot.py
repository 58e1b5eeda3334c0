"""One place in a pool: a worker, its successors after a death, and the sessions that live there.

A worker that dies during a request is replaced, and that request is tried once more, alone, after
its session has been opened anew and its logged actions replayed. If the same action kills the
second worker too, it is the policy's failure: an `ActionResult` with `fatal`. Deaths while opening,
replaying or grading, replies that are none, and error replies are the infrastructure's: a `Fault`.
The other sessions are replayed when they are next used, and notice nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from coevolve.environments.faults import Fault
from coevolve.environments.protocol import RESULT_TYPES, ActionResult, Graded, Opened
from coevolve.environments.registry import Launch
from coevolve.environments.worker import Death, Guard, Worker, WorkerReply, WorkerRequest, printable
from coevolve.jsonl import warn
from coevolve.records import Action, Start

_DECODERS = {op: msgspec.json.Decoder(type_) for op, type_ in RESULT_TYPES.items()}
_encode = msgspec.json.encode


class WorkerLimits(NamedTuple):
    """The time that a worker has for an action and for any other request, and its memory."""

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
        self.generation = -1  # Which of the slot's workers knows the session
        self.ended: ActionResult | Fault | None = None

    @property
    def state(self) -> str:
        """Hash of the state after the last action."""
        return self.log[-1][2] if self.log else self.opened.state

    def answer_after_end(self, op: str) -> Any:
        """The answer of a session that has ended: its end, or the grade of the policy's failure."""
        if isinstance(self.ended, Fault):
            return self.ended
        if op == "evaluate":
            return Graded(success=False, score=0.0, reason=f"ended by {self.ended.fatal}")
        return [self.ended]


class PoolJob(NamedTuple):
    """One request of the pool; a step has its turn and actions besides."""

    session: EnvSession | None
    request: WorkerRequest
    turn: int = 0
    actions: Sequence[Action] = ()

    @property
    def op(self) -> str:
        return self.request.op

    def __str__(self) -> str:
        """The job as a line for the user names it."""
        if self.op != "step":
            return self.op
        names = ["code" if isinstance(a, str) else printable(a.tool) for a in self.actions]
        return f"an action ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})"


def open_request(session: EnvSession, limits: WorkerLimits) -> WorkerRequest:
    query = {} if session.query is None else {"query": session.query}
    fields = {"session": session.id, "start": session.start, **query}
    return WorkerRequest("open", _encode(fields), limits.setup_seconds)


def step_request(
    session: EnvSession, turn: int, actions: Sequence[Action], limits: WorkerLimits
) -> WorkerRequest:
    """May raise what an encoder raises on arguments that are no JSON."""
    fields = {"steps": [{"session": session.id, "turn": turn, "actions": actions}]}
    return WorkerRequest("step", _encode(fields), limits.call_seconds * max(1, len(actions)))


class Slot:
    """Runs jobs one after another on the worker of the moment."""

    def __init__(self, launch: Launch, guard: Guard, limits: WorkerLimits, reported: set[str]):
        """`reported`: kinds of death that the user was told of, shared by the slots of a pool."""
        self._launch, self._guard, self._limits = launch, guard, limits
        self._reported = reported
        self._worker: Worker | None = None
        self._lock = threading.Lock()
        self._closed = False
        self.generation = 0

    def run(self, jobs: list[PoolJob]) -> list[Any]:
        """The answer of each job: the type of its op (a step's list of results), or `Fault`."""
        answers: list[Any] = []
        with self._lock:
            while rest := jobs[len(answers) :]:
                try:
                    done, death = self._attempt(rest)
                except OSError as error:
                    return answers + [Fault(self._cannot_start(error))] * len(rest)
                answers += done
                if death:
                    answers.append(self._retry(rest[len(done)], death))
        return answers

    def forget(self, sessions: list[EnvSession]) -> None:
        """Closes the sessions that the current worker knows."""
        with self._lock:
            known = [s for s in sessions if s.generation == self.generation]
            if self._worker and known:
                ids = [_encode({"session": s.id}) for s in known]
                seconds = self._limits.setup_seconds
                if self._worker.exchange([WorkerRequest("close", i, seconds) for i in ids])[1]:
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

    def _attempt(self, jobs: Sequence[PoolJob]) -> tuple[list[Any], Death | None]:
        """The answers of the jobs, or of the first ones and the death that the next one met.

        Raises OSError where the worker cannot be started.
        """
        worker, plan = self._ready(), list(self._plan(jobs))
        replies, death = worker.exchange([request for request, _, _ in plan])
        answers = []
        for (request, job, expected), reply in zip(plan, replies, strict=False):
            if expected is None:
                answers.append(self._answer(job, reply))
            else:
                self._replayed(job.session, request.op, expected, reply)
        if death:
            self._drop()
            request, _, expected = plan[len(replies)]
            death = death._replace(replaying=request.op if expected is not None else "")
        return answers, death

    def _plan(self, jobs: Sequence[PoolJob]) -> Iterator[tuple[WorkerRequest, PoolJob, str | None]]:
        """Yields each request, its job, and None or, in a replay, the state that must come out."""
        planned: set[str] = set()
        for job in jobs:
            if job.session and job.session.id not in planned:
                planned.add(job.session.id)
                yield from ((request, job, state) for request, state in self._replay(job))
            yield job.request, job, None

    def _replay(self, job: PoolJob) -> list[tuple[WorkerRequest, str]]:
        """The requests that restore a session in the current worker, and the state after each."""
        session = job.session
        if session is None or job.op == "open" or session.ended:
            return []
        if session.generation == self.generation:
            return []
        opening = open_request(session, self._limits), session.opened.state
        steps = (
            (step_request(session, turn, [action], self._limits), state)
            for turn, action, state in session.log
        )
        return [opening, *steps]

    def _replayed(self, session: EnvSession, op: str, expected: str, reply: WorkerReply) -> None:
        """Takes note of one reply of a replay; another state than before ends the session."""
        if session.ended:
            return
        if op == "open":
            session.generation = self.generation
        answer = self._decode(op, reply)
        if isinstance(answer, Fault):
            session.ended = Fault(f"replay failed: {answer.message}", answer.kind)
            return
        results = [answer] if op == "open" else [r for rs in answer.results for r in rs]
        if [result.state for result in results] != [expected]:
            message = "a replay of the same actions led to another state"
            session.ended = Fault(message, "nondeterministic")

    def _retry(self, job: PoolJob, first: Death) -> Any:
        """The job that a worker died of, alone in a fresh one, action by action."""
        session = job.session
        if session and session.ended:
            return session.answer_after_end(job.op)
        if self._closed:
            return Fault("the pool is closed", "closed")
        if job.op == "describe":
            return Fault(first.message, first.kind)
        self._report(job, first)
        if job.op != "step":
            answers, death = self._attempt_again(job)
            return self._died_again(job, death) if death else answers[0]
        results: list[ActionResult] = []
        for action in job.actions:
            request = step_request(session, job.turn, [action], self._limits)
            answers, death = self._attempt_again(PoolJob(session, request, job.turn, [action]))
            if death:
                end = self._died_again(job, death)
                return end if isinstance(end, Fault) else results + end
            if isinstance(answers[0], Fault):
                return answers[0]
            results += answers[0]
            if session.ended:
                break
        return results

    def _attempt_again(self, job: PoolJob) -> tuple[list[Any], Death | None]:
        try:
            return self._attempt([job])
        except OSError as error:
            return [], Death("unreachable", self._cannot_start(error))

    def _died_again(self, job: PoolJob, death: Death) -> Any:
        """The infrastructure's fault or, where an action killed two workers, the policy's end."""
        session = job.session
        if session and session.ended:
            return session.answer_after_end(job.op)
        if death.replaying:
            return self._end(job, Fault(f"replay: {death.replaying} {death.message}", death.kind))
        if job.op != "step" or death.kind in ("garbage", "unreachable") or self._closed:
            return self._end(job, Fault(f"{job.op}: {death.message}", death.kind))
        session.ended = ActionResult(
            observation=f"Error: this call {death.message}. The episode ends here.",
            error=death.kind,
            state=session.state,
            fatal=death.kind,
        )
        return [session.ended]

    def _cannot_start(self, error: OSError) -> str:
        return f"cannot start {self._launch.command[0]}: {error.strerror}"

    def _report(self, job: PoolJob, death: Death) -> None:
        """One line for each kind of death, however many workers die of it."""
        if death.kind not in self._reported:
            self._reported.add(death.kind)
            name = printable(self._launch.name)
            again = "trying once more in a fresh worker, as with every further one"
            warn(f"{name}: {job} {death.message}; {again} (each kind is told once)")

    def _answer(self, job: PoolJob, reply: WorkerReply) -> Any:
        session = job.session
        if session and session.ended:
            return session.answer_after_end(job.op)
        answer = self._decode(job.op, reply)
        if isinstance(answer, Fault):
            return self._end(job, answer) if job.op in ("open", "step") else answer
        if job.op == "open":
            session.opened, session.generation = answer, self.generation
        return self._log(job, answer.results) if job.op == "step" else answer

    def _log(self, job: PoolJob, entries: list[list[ActionResult]]) -> list[ActionResult] | Fault:
        """The results of a step, once they are in the session's log."""
        results = entries[0] if len(entries) == 1 else []
        fatal = bool(results) and results[-1].fatal is not None
        missing = len(job.actions) - len(results)
        if missing < 0 or (missing > 0 and not fatal):
            message = f"step: {len(results)} results for {len(job.actions)} actions"
            return self._end(job, Fault(message, "garbage"))
        done = zip(job.actions, results, strict=False)
        job.session.log += [(job.turn, action, result.state) for action, result in done]
        if fatal:
            job.session.ended = results[-1]
        return results

    def _decode(self, op: str, reply: WorkerReply) -> Any:
        if reply.error:
            return Fault(f"{op}: {printable(reply.error.message)}", reply.error.kind)
        try:
            return _DECODERS[op].decode(reply.result)
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
