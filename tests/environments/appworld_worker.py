"""What the AppWorld tests share: sessions, cells and verdicts on a running worker, on the self-made
data."""

from __future__ import annotations

from typing import Any

from coevolve.environments.client import EnvSession, Fault, Pool
from coevolve.environments.protocol import ActionResult, Graded
from coevolve.records import Action, Call, Start, Task, Verifier, task_id

LOGIN = """
rows = apis.supervisor.show_account_passwords()
passwords = {row["account_name"]: row["password"] for row in rows}
profile = apis.supervisor.show_profile()
def login(app):
    name = profile["phone_number" if app == "phone" else "email"]
    return apis[app].login(username=name, password=passwords[app])["access_token"]
"""
BASE = "payback_1"
DONE = "apis.supervisor.complete_task()"


def own(pool: Pool, name: str) -> Task:
    """One of the data's own tasks."""
    return next(
        task
        for split in pool.description.splits
        for task in pool.tasks(split)
        if task.start.name == name
    )


def opened(
    pool: Pool, name: str = BASE, query: list[str] | None = None, config: bool = False
) -> EnvSession:
    start = Start(config={"base": name}) if config else Start(name=name)
    (session,) = pool.open([start], [query])
    assert not isinstance(session, Fault), session
    return session


def act(pool: Pool, session: EnvSession, *actions: Action) -> ActionResult:
    """The result of the last action."""
    (answer,) = pool.step([(session, 0, list(actions))])
    assert not isinstance(answer, Fault), answer
    return answer[-1]


def call(pool: Pool, session: EnvSession, tool: str, **arguments: Any) -> ActionResult:
    return act(pool, session, Call(tool, arguments))


def graded(pool: Pool, session: EnvSession, task: Task) -> Graded:
    (verdict,) = pool.evaluate([(session, task)])
    assert not isinstance(verdict, Fault), verdict
    return verdict


def synthetic(pool: Pool, solution: list[Action], query: str = "Do it.", base: str = BASE) -> Task:
    """A task of our own in the state of one of the data's."""
    start, verifier = Start(config={"base": base}), Verifier("state")
    turns = [query]
    return Task(
        id=task_id(pool.name, start, turns, [solution], verifier),
        env=pool.name,
        start=start,
        query=turns,
        solution=[solution],
        verifier=verifier,
    )


def verdict(pool: Pool, task: Task, actions: list[Action]) -> Graded:
    """The verdict on actions in a fresh session of the task."""
    (session,) = pool.open([task.start], [task.query])
    assert not isinstance(session, Fault), session
    try:
        if actions:
            act(pool, session, *actions)
        return graded(pool, session, task)
    finally:
        pool.close([session])
