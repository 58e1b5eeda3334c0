"""The client of environments: a pool of worker processes that answers in lists.

    with Pool("desk", workers=2) as pool:
        session, = pool.open([pool.start("seed")])
        (result,), = pool.step([(session, 0, [Call("mail.list")])])

Sessions are spread over the workers in turn; every method works on all workers at once, and its answers are in the order of
its requests and the same for any number of workers. Each action has `call_timeout` seconds by this process's clock, opening,
grading and listing have `setup_timeout` (the environment's own if None), a worker has `memory_mb` (see worker.py). An action
that breaks one of them twice (slot.py) is the policy's failure; what the infrastructure breaks is a `Fault`. A worker that
cannot start raises `Unreachable`. Nothing outlives the pool: not after an exception, a signal, or kill -9 of this process.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from coevolve.environments import registry
from coevolve.environments.faults import Fault
from coevolve.environments.protocol import (
    PROTOCOL,
    ActionResult,
    Description,
    Graded,
    Tool,
    is_plain,
)
from coevolve.environments.registry import Launch
from coevolve.environments.slot import (
    EnvSession,
    PoolJob,
    Slot,
    WorkerLimits,
    open_request,
    step_request,
)
from coevolve.environments.worker import Guard, WorkerRequest
from coevolve.errors import Unreachable, UsageError
from coevolve.jsonl import warn
from coevolve.records import Action, Start, Task, Verifier, task_id

__all__ = ["Fault", "Pool", "EnvSession"]

_NOT_JSON = (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError)


class _OwnTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task as a worker lists it."""

    kind: str = ""
    tags: list[str] = []
    split: str | None = None
    effects: str = ""
    verifier: Verifier = Verifier("official")
    query: list[str]
    solution: list[list[Action]] = []
    start: Start


class _OwnTasks(msgspec.Struct, frozen=True):
    tasks: list[_OwnTask]


def _told(launch: Launch, call_timeout: float, memory_mb: int) -> Launch:
    """The launch with the limits in its environment, for a worker that runs its sessions in processes of their own."""
    limits = {"COEVOLVE_CALL_SECONDS": f"{call_timeout:g}", "COEVOLVE_MEMORY_MB": str(memory_mb)}
    return launch._replace(environment=launch.environment | limits)


class Pool:
    """Worker processes of one environment. Thread-safe; to be used as a context manager."""

    name: str
    """What a task record has in `env`."""
    description: Description
    tools: dict[str, Tool]

    def __init__(
        self,
        env: str,
        *,
        workers: int = 1,
        call_timeout: float = 30,
        memory_mb: int = 2048,
        setup_timeout: float | None = None,
        any_version: bool = False,
    ):
        self.name = env
        self._launch = _told(registry.find(env), call_timeout, memory_mb)
        self._limits = WorkerLimits(
            call_timeout, setup_timeout or self._launch.setup_seconds, memory_mb
        )
        self._count = workers
        self._ids, self._asked = itertools.count(), itertools.count()
        self._slots: list[Slot] = []
        self._threads: ThreadPoolExecutor | None = None
        self._guard: Guard | None = None
        self._any_version, self._compared, self._unnamed = any_version, False, False

    def __enter__(self) -> Pool:
        self._guard = Guard()
        told: set[str] = set()
        self._slots = [
            Slot(self._launch, self._guard, self._limits, told) for _ in range(self._count)
        ]
        self._threads = ThreadPoolExecutor(self._count, "environment") if self._count > 1 else None
        try:
            self.description = self._describe()
        except BaseException:
            self._shut()
            raise
        self.tools = {tool.name: tool for tool in self.description.tools}
        return self

    def __exit__(self, *_: object) -> None:
        self._shut()

    def _shut(self) -> None:
        for slot in self._slots:
            slot.close()
        if self._threads:
            self._threads.shutdown()
        if self._guard:
            self._guard.close()

    def _describe(self) -> Description:
        answer = self._ask("describe", {})
        if isinstance(answer, Fault):
            raise Unreachable(f"{self.name}: the environment cannot start: {answer.message}")
        try:
            description = msgspec.json.decode(answer, type=Description)
        except (msgspec.MsgspecError, ValueError) as error:
            raise Unreachable(
                f"{self.name}: describe: the reply is not what the protocol says: {error}"
            ) from None
        if description.protocol != PROTOCOL:
            raise Unreachable(
                f"{self.name}: speaks protocol {description.protocol}, this coevolve speaks {PROTOCOL}"
            )
        if odd := [ascii(tool.name)[:80] for tool in description.tools if not is_plain(tool.name)]:
            raise Unreachable(
                f"{self.name}: describe: no names of tools: {', '.join(odd[:3])}; a name is of letters, digits and _ . : / -, "
                "at most 128 characters"
            )
        return description

    def tasks(self, split: str) -> list[Task]:
        """The environment's own tasks. Raises UsageError for a split that it does not have."""
        answer = self._ask("tasks", {"split": split})
        if isinstance(answer, Fault) and answer.kind in ("bad_request", "unsupported"):
            raise UsageError(f"{self.name} has no split {split!r}; it has: {self.splits()}")
        if isinstance(answer, Fault):
            raise Unreachable(f"{self.name}: {answer.message}")
        try:
            own = msgspec.json.decode(answer, type=_OwnTasks).tasks
        except (msgspec.MsgspecError, ValueError) as error:
            raise Unreachable(
                f"{self.name}: tasks: the reply is not what the protocol says: {error}"
            ) from None
        return [self._task(task, split) for task in own]

    def splits(self) -> str:
        """Its splits and their sizes, in words."""
        return (
            ", ".join(f"{name} ({n})" for name, n in self.description.splits.items())
            or "no tasks of its own"
        )

    def compare(self, versions: Iterable[str]) -> None:
        """Raises UsageError where records were made with another version of the environment than the one that runs: what they
        say of start states, effects and verdicts need not hold here. With `any_version` it is a warning, once. Records that name
        no version are taken for the running one's, with a warning, once.
        """
        own, named = self.description.version, list(versions)
        if own and "" in named and not self._unnamed:
            self._unnamed = True
            warn(
                f"{self.name}: there are records without a version; they are taken for version {own}, which is running"
            )
        other = next((version for version in named if version and version != own), None)
        if other and not self._any_version:
            raise UsageError(
                f"{self.name}: there are records made with version {other}, and version {own} is running; "
                "--any-version takes them all the same"
            )
        if other and not self._compared:
            self._compared = True
            warn(
                f"{self.name}: there are records made with version {other}; version {own} is running"
            )

    def _task(self, own: _OwnTask, split: str) -> Task:
        return Task(
            id=task_id(self.name, own.start, own.query, own.solution, own.verifier),
            env=self.name,
            env_version=self.description.version,
            kind=own.kind,
            tags=own.tags,
            split=own.split or split,
            effects=own.effects,
            verifier=own.verifier,
            query=own.query,
            solution=own.solution,
            start=own.start,
        )

    def start(self, seed: str, apps: list[str] | None = None) -> Start:
        """A fresh training start state, a pure function of the arguments."""
        answer = self._ask("start", {"seed": seed, **({"apps": apps} if apps else {})})
        if not isinstance(answer, Fault):
            return answer.start
        if answer.kind == "unsupported":
            return Start(name="default")
        raise (UsageError if answer.kind == "bad_request" else Unreachable)(
            f"{self.name}: {answer.message}"
        )

    def open(
        self, starts: list[Start], queries: list[list[str] | None] | None = None
    ) -> list[EnvSession | Fault]:
        """A new session from each start state; `queries` are the user's turns, for an environment that wants them."""
        told = queries if queries and self.description.query else [None] * len(starts)
        sessions = []
        for start, query in zip(starts, told, strict=True):
            number = next(self._ids)
            sessions.append(
                EnvSession(f"s{number}", start, self._slots[number % self._count], query)
            )
        requests = [open_request(session, self._limits) for session in sessions]
        answers = self._run(
            [PoolJob(s, "open", r, [r]) for s, r in zip(sessions, requests, strict=True)]
        )
        return [a if isinstance(a, Fault) else s for s, a in zip(sessions, answers, strict=True)]

    def step(
        self, requests: list[tuple[EnvSession, int, list[Action]]]
    ) -> list[list[ActionResult] | Fault]:
        """Executes each session's actions in order. A fatal result is the last of its list; later calls repeat it."""
        answers: list[Any] = [None] * len(requests)
        jobs, places = [], []
        for place, (session, turn, actions) in enumerate(requests):
            if session.ended or not actions:
                answers[place] = self._without_worker(session, actions)
                continue
            try:
                whole = step_request(session, turn, actions, self._limits)
                parts = (
                    [step_request(session, turn, [action], self._limits) for action in actions]
                    if len(actions) > 1
                    else [whole]
                )
            except _NOT_JSON as error:
                answers[place] = self._one_by_one(session, turn, actions, error)
                continue
            jobs.append(PoolJob(session, "step", whole, parts, turn, actions))
            places.append(place)
        for place, answer in zip(places, self._run(jobs), strict=True):
            answers[place] = answer
        return answers

    def _without_worker(
        self, session: EnvSession, actions: list[Action]
    ) -> list[ActionResult] | Fault:
        if session.ended is None or not actions:
            return []
        return session.ended if isinstance(session.ended, Fault) else [session.ended]

    def _one_by_one(
        self, session: EnvSession, turn: int, actions: list[Action], error: Exception
    ) -> list[ActionResult] | Fault:
        """Actions of which some cannot be sent: those fail as the policy's, readably."""
        if len(actions) == 1:
            observation = (
                f"Error: the arguments cannot be written as JSON ({type(error).__name__})."
            )
            state = session.log[-1][2] if session.log else session.opened.state
            return [ActionResult(observation=observation, error="bad_argument", state=state)]
        results: list[ActionResult] = []
        for action in actions:
            (answer,) = self.step([(session, turn, [action])])
            if isinstance(answer, Fault):
                return answer
            results += answer
            if session.ended:
                break
        return results

    def evaluate(self, requests: list[tuple[EnvSession, Task]]) -> list[Graded | Fault]:
        """Grades each session by its task's verifier. A session that ended fatally has failed, whatever its state."""
        jobs = []
        for session, task in requests:
            fields = msgspec.json.encode({"session": session.id, "task": task})
            request = WorkerRequest("evaluate", fields, self._limits.setup_seconds)
            jobs.append(PoolJob(session, "evaluate", request, [request]))
        return self._run(jobs)

    def close(self, sessions: list[EnvSession]) -> None:
        """Forgets the sessions; they answer nothing any more."""
        for slot in self._slots:
            if mine := [s for s in sessions if s.slot is slot]:
                slot.forget(mine)

    def _ask(self, op: str, fields: dict[str, Any]) -> Any:
        """A request that belongs to no session, to the workers in turn."""
        slot = self._slots[0 if op in ("describe", "tasks") else next(self._asked) % self._count]
        request = WorkerRequest(op, msgspec.json.encode(fields), self._limits.setup_seconds)
        return slot.run([PoolJob(None, op, request, [request])])[0]

    def _run(self, jobs: Iterable[PoolJob]) -> list[Any]:
        """Runs each job on its session's slot, the slots at the same time."""
        jobs = list(jobs)
        places: dict[int, list[int]] = {}
        for place, job in enumerate(jobs):
            places.setdefault(id(job.session.slot), []).append(place)
        groups = list(places.values())
        answers: list[Any] = [None] * len(jobs)
        runs = [(jobs[group[0]].session.slot, [jobs[p] for p in group]) for group in groups]
        done = (
            self._threads.map(lambda run: run[0].run(run[1]), runs)
            if len(runs) > 1
            else (s.run(j) for s, j in runs)
        )
        for group, results in zip(groups, done, strict=True):
            for place, answer in zip(group, results, strict=True):
                answers[place] = answer
        return answers
