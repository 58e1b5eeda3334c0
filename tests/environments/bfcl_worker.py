"""Short ways to run BFCL episodes in a running pool."""

from __future__ import annotations

from coevolve.environments.client import EnvSession, Pool
from coevolve.environments.protocol import ActionResult, Graded
from coevolve.records import Call, Start, Task, Verifier, task_id

CLASSES = (
    "GorillaFileSystem",
    "MathAPI",
    "MessageAPI",
    "TwitterAPI",
    "TicketAPI",
    "TradingBot",
    "TravelAPI",
    "VehicleControlAPI",
)


def opened(pool: Pool, start: Start) -> EnvSession:
    (session,) = pool.open([start])
    assert isinstance(session, EnvSession), session
    return session


def act(
    pool: Pool, session: EnvSession, *calls: tuple[str, dict], turn: int = 0
) -> list[ActionResult]:
    (results,) = pool.step([(session, turn, [Call(tool, arguments) for tool, arguments in calls])])
    assert isinstance(results, list), results
    return results


def graded(pool: Pool, session: EnvSession, task: Task) -> Graded:
    (grade,) = pool.evaluate([(session, task)])
    assert isinstance(grade, Graded), grade
    return grade


def run(pool: Pool, task: Task, turns: list[list[Call]]) -> Graded:
    """The verdict on these actions, in a session of their own."""
    session = opened(pool, task.start)
    pool.step([(session, number, turn) for number, turn in enumerate(turns) if turn])
    grade = graded(pool, session, task)
    pool.close([session])
    return grade


def made(start: Start, *turns: list[tuple[str, dict]]) -> Task:
    """A synthetic task with this solution."""
    solution = [[Call(tool, arguments) for tool, arguments in turn] for turn in turns]
    query, verifier = ["do it"] * len(turns), Verifier("state")
    id_ = task_id("bfcl", start, query, solution, verifier)
    return Task(id=id_, env="bfcl", query=query, solution=solution, verifier=verifier, start=start)
