"""The client of environments: a pool of worker processes that answers in lists.

    with Pool("desk", workers=2) as pool:
        session, = pool.open([pool.start("seed")])
        (result,), = pool.step([(session, 0, [Call("mail.list")])])

Sessions are spread over the workers in turn; every method works on all workers at once, and its
answers are in the order of its requests and the same for any number of workers. Each action has
`call_timeout` seconds by this process's clock, opening, grading and listing have `setup_timeout`
(the environment's own if None), a worker has `memory_mb` (worker.py). An action that breaks one of
them twice (slot.py) is the policy's failure; what the infrastructure breaks is a `Fault`. A worker
that cannot start raises `Unreachable`. Nothing outlives the pool: not after an exception, a signal,
or kill -9 of this process.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import msgspec

from coevolve.environments import registry
from coevolve.environments.faults import Fault
from coevolve.environments.protocol import (
    PROTOCOL,
    ActionResult,
    Description,
    Graded,
    OwnTask,
    Tool,
    is_plain,
)
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
from coevolve.records import Action, Start, Task, task_id

__all__ = ["EnvSession", "Fault", "Pool", "Pools"]

_NOT_JSON = (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError)
_ODD_NAMES = "a name is of letters, digits and _ . : / -, at most 128 characters"


class Pool:
    """Worker processes of one environment. Thread-safe; to be used as a context manager."""

    name: str  # The value of `env` in a task record
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
        launch = registry.find(env)
        # For a worker that runs its sessions in processes of their own.
        limits = {
            "COEVOLVE_CALL_SECONDS": f"{call_timeout:g}",
            "COEVOLVE_MEMORY_MB": f"{memory_mb}",
        }
        self._launch = launch._replace(environment=launch.environment | limits)
        setup_seconds = setup_timeout or launch.setup_seconds
        self._limits = WorkerLimits(call_timeout, setup_seconds, memory_mb)
        self._count = workers
        self._session_ids, self._requests = itertools.count(), itertools.count()
        self._slots: list[Slot] = []
        self._threads: ThreadPoolExecutor | None = None
        self._guard: Guard | None = None
        self._any_version = any_version
        self._warned: set[str] = set()

    def __enter__(self) -> Pool:
        self._guard = guard = Guard()
        reported: set[str] = set()
        count = range(self._count)
        self._slots = [Slot(self._launch, guard, self._limits, reported) for _ in count]
        self._threads = ThreadPoolExecutor(self._count, "environment") if self._count > 1 else None
        try:
            self.description = self._describe()
        except BaseException:
            self.__exit__()
            raise
        self.tools = {tool.name: tool for tool in self.description.tools}
        return self

    def __exit__(self, *_: object) -> None:
        for slot in self._slots:
            slot.close()
        if self._threads:
            self._threads.shutdown()
        if self._guard:
            self._guard.close()

    def _describe(self) -> Description:
        description = self._ask("describe", {})
        if isinstance(description, Fault):
            why = description.message
            raise Unreachable(f"{self.name}: the environment cannot start: {why}")
        if (theirs := description.protocol) != PROTOCOL:
            raise Unreachable(
                f"{self.name}: speaks protocol {theirs}, this coevolve speaks {PROTOCOL}"
            )
        if odd := [ascii(tool.name)[:80] for tool in description.tools if not is_plain(tool.name)]:
            names = ", ".join(odd[:3])
            raise Unreachable(f"{self.name}: describe: no names of tools: {names}; {_ODD_NAMES}")
        return description

    def tasks(self, split: str) -> list[Task]:
        """The environment's own tasks. Raises UsageError for a split that it does not have."""
        answer = self._ask("tasks", {"split": split})
        if isinstance(answer, Fault) and answer.kind in ("bad_request", "unsupported"):
            raise UsageError(f"{self.name} has no split {split!r}; it has: {self.splits()}")
        if isinstance(answer, Fault):
            raise Unreachable(f"{self.name}: {answer.message}")
        return [self._task(task, split) for task in answer.tasks]

    def _task(self, own: OwnTask, split: str) -> Task:
        id_ = task_id(self.name, own.start, own.query, own.solution, own.verifier)
        fields = msgspec.structs.asdict(own) | {"split": own.split or split}
        return Task(id=id_, env=self.name, env_version=self.description.version, **fields)

    def splits(self) -> str:
        """Its splits and their sizes, in words."""
        sizes = self.description.splits.items()
        return ", ".join(f"{name} ({n})" for name, n in sizes) or "no tasks of its own"

    def compare(self, versions: Iterable[str]) -> None:
        """Raises UsageError where records were made with another version of the environment than
        the one that runs: what they say of start states, effects and verdicts need not hold here.

        With `any_version` it is a warning, once. Records that name no version are taken for the
        running one's, with a warning, once.
        """
        own, named = self.description.version, list(versions)
        if own and "" in named:
            taken = f"they are taken for version {own}, which is running"
            self._warn_once("no version", f"there are records without a version; {taken}")
        if not (other := next((v for v in named if v and v != own), None)):
            return
        made = f"there are records made with version {other}"
        if not self._any_version:
            raise UsageError(
                f"{self.name}: {made}, and version {own} is running; "
                "--any-version takes them all the same"
            )
        self._warn_once("another version", f"{made}; version {own} is running")

    def _warn_once(self, kind: str, message: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warn(f"{self.name}: {message}")

    def start(self, seed: str, apps: list[str] | None = None) -> Start:
        """A fresh start state for training, a pure function of the arguments."""
        answer = self._ask("start", {"seed": seed, **({"apps": apps} if apps else {})})
        if not isinstance(answer, Fault):
            return answer.start
        if answer.kind == "unsupported":
            return Start(name="default")
        kind = UsageError if answer.kind == "bad_request" else Unreachable
        raise kind(f"{self.name}: {answer.message}")

    def open(
        self, starts: list[Start], queries: list[list[str] | None] | None = None
    ) -> list[EnvSession | Fault]:
        """Opens a session from each start state; `queries` are the user's turns, where wanted."""
        turns = queries if queries and self.description.query else [None] * len(starts)
        sessions, jobs = [], []
        for start, query in zip(starts, turns, strict=True):
            number = next(self._session_ids)
            slot = self._slots[number % self._count]
            session = EnvSession(f"s{number}", start, slot, query)
            sessions.append(session)
            jobs.append(PoolJob(session, open_request(session, self._limits)))
        answers = self._run(jobs)
        return [a if isinstance(a, Fault) else s for s, a in zip(sessions, answers, strict=True)]

    def step(
        self, requests: list[tuple[EnvSession, int, list[Action]]]
    ) -> list[list[ActionResult] | Fault]:
        """Executes each session's actions in order; a request is (session, user's turn, actions).

        A fatal result is the last of its list; later calls repeat it.
        """
        answers: list[Any] = [None] * len(requests)
        jobs: dict[int, PoolJob] = {}
        for place, (session, turn, actions) in enumerate(requests):
            if session.ended or not actions:
                answers[place] = session.answer_after_end("step") if actions else []
                continue
            try:
                request = step_request(session, turn, actions, self._limits)
            except _NOT_JSON as error:
                answers[place] = self._one_by_one(session, turn, actions, error)
            else:
                jobs[place] = PoolJob(session, request, turn, actions)
        for place, answer in zip(jobs, self._run(list(jobs.values())), strict=True):
            answers[place] = answer
        return answers

    def _one_by_one(
        self, session: EnvSession, turn: int, actions: list[Action], error: Exception
    ) -> list[ActionResult] | Fault:
        """Actions of which some cannot be sent: those fail as the policy's, readably."""
        if len(actions) == 1:
            text = f"Error: the arguments cannot be written as JSON ({type(error).__name__})."
            return [ActionResult(observation=text, error="bad_argument", state=session.state)]
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
        """Grades each session by its task's verifier. A session that ended fatally has failed."""
        jobs = []
        for session, task in requests:
            fields = msgspec.json.encode({"session": session.id, "task": task})
            request = WorkerRequest("evaluate", fields, self._limits.setup_seconds)
            jobs.append(PoolJob(session, request))
        return self._run(jobs)

    def close(self, sessions: list[EnvSession]) -> None:
        """Forgets the sessions; they answer nothing any more."""
        for slot in self._slots:
            if mine := [s for s in sessions if s.slot is slot]:
                slot.forget(mine)

    def _ask(self, op: str, fields: dict[str, Any]) -> Any:
        """A request that belongs to no session, to the workers in turn."""
        first = op in ("describe", "tasks")
        slot = self._slots[0 if first else next(self._requests) % self._count]
        request = WorkerRequest(op, msgspec.json.encode(fields), self._limits.setup_seconds)
        return slot.run([PoolJob(None, request)])[0]

    def _run(self, jobs: list[PoolJob]) -> list[Any]:
        """Runs each job on its session's slot, the slots at the same time."""
        by_slot: dict[Slot, list[int]] = {}
        for place, job in enumerate(jobs):
            by_slot.setdefault(job.session.slot, []).append(place)

        def run(slot: Slot) -> list[Any]:
            return slot.run([jobs[place] for place in by_slot[slot]])

        done = self._threads.map(run, by_slot) if len(by_slot) > 1 else map(run, by_slot)
        answers: list[Any] = [None] * len(jobs)
        for places, results in zip(by_slot.values(), done, strict=True):
            for place, answer in zip(places, results, strict=True):
                answers[place] = answer
        return answers


class Pools:
    """The pools of a stage whose records name their environments: `pools(env)` is a running one.

    A pool is started when its first record comes, and all end with this context manager. A command
    line that stands in a record is started only if the user named it too (`registry.recorded`).
    """

    def __init__(self, workers: int = 1, named: str | None = None, *, any_version: bool = False):
        self._workers, self._named, self._any_version = workers, named, any_version
        self._running: dict[str, Pool] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Pools:
        return self

    def __exit__(self, *error: object) -> None:
        self._running.clear()
        self._stack.__exit__(*error)

    def __call__(self, env: str) -> Pool:
        if env not in self._running:
            name = registry.recorded(env, self._named)
            pool = Pool(name, workers=self._workers, any_version=self._any_version)
            self._running[env] = self._stack.enter_context(pool)
        return self._running[env]
