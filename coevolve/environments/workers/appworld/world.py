"""One AppWorld episode's databases: loading them, what changed in them, and AppWorld's own verdict on them.

Lives in the process that serves the episode's APIs (`episode`); policy code never runs there.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from appworld import evaluator
from appworld.apps import get_all_apps
from appworld.apps.api_lib import save_local_dbs
from appworld.apps.model_lib import get_db_home_path
from appworld.apps.supervisor.constants import NOT_GIVEN_ANSWER
from appworld.collections.models import ModelCollection, ModelCollectionPair
from appworld.common.path_store import path_store
from appworld.common.utils import import_models_module
from appworld.evaluator import answer_to_text, evaluate_task
from sqlalchemy import event

from . import apis, confine, rows
from .channel import Channel, now, pair

EXPERIMENT = "episode"
GRADE_SECONDS = 40.0
_OUTSIDE = ("admin.PaymentCard",)
"""What AppWorld's own comparisons leave out: the bank's side of a card."""


class Plan(NamedTuple):
    """What all episodes share."""

    routes: list[apis.Route]
    tables: list[rows.Table]


class World:
    """One episode's databases and APIs."""

    def __init__(self, plan: Plan, root: str, base: str, instruction: str | None, secret: str):
        path_store.update_root(root)
        self._base = base
        directory = Path(root) / "data" / "tasks" / base
        specs = json.loads((directory / "specs.json").read_text(encoding="utf-8"))
        self._home = get_db_home_path("memory", "task_output", base)
        start = str(directory / "dbs")
        # loads the tables' write counters too, without which AppWorld's evaluation compares every table of both states
        ModelCollection.load(self._home, start, list(get_all_apps(skip_admin=True)))
        self.apis = apis.Apis(
            plan.routes, self._home, start, specs["datetime"], bytes.fromhex(secret)
        )
        self._supervisor, self._email = (
            import_models_module("supervisor"),
            specs["supervisor"]["email"],
        )
        if instruction is not None:
            self._instruct(instruction)
        self._rows = rows.Rows(databases(), plan.tables)
        for app in databases():
            self._listen(app)
        self._changed: list[dict] = []

    def _listen(self, app: str) -> None:
        """Has the app's changes noted from its first write on, like AppWorld's own tracker."""

        def before(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
            if statement.lstrip()[:6].upper() in ("INSERT", "UPDATE", "DELETE", "REPLAC"):
                self._rows.watch(app)

        event.listen(import_models_module(app).SQLModel.db.engine, "before_cursor_execute", before)

    def _instruct(self, text: str) -> None:
        """Writes the task's text where `show_active_task` reads it: the seed task's own must not be told."""
        task = self._supervisor.Task.all()[0]
        task.instruction = text
        task.save()

    def _task(self) -> Any:
        return self._supervisor.Task.all()[0]

    def call(self, app: str, api: str, arguments: dict[str, Any]) -> apis.Answer:
        """Makes a request, and sees what it did."""
        answer = self.apis.call(app, api, arguments)
        self._rows.end_call()
        return answer

    def outcome(self) -> dict:
        """What the last action did."""
        effects = self._rows.since_last()
        if effects:
            self._changed = self._rows.since_start()
        return {
            "effects": effects,
            "state": rows.digest(self._changed),
            "completed": self._task().status is not None,
        }

    def final(self) -> dict:
        """{changes, told, concerned, status, answer, answered}: the whole difference to the start.

        Values and the answer are their digests, so that their length is not the policy's choice. `told` are people who
        got notices that changes entail, `concerned` those whom the changes are about, each as "app user".
        """
        task = self._task()
        answer = json.loads(task.answer)
        changes, told, concerned = self._rows.difference()
        return {
            "changes": [
                {**change, "value": rows.digest(change["value"])}
                for change in changes
                if change["entity"] != "supervisor.Task"
            ],
            "told": [person for person in told if not self._is_supervisor(person)],
            "concerned": concerned,
            "status": task.status,
            "answer": rows.digest(answer_to_text(answer)),
            "answered": answer not in (None, NOT_GIVEN_ANSWER),
        }

    def _is_supervisor(self, person: str) -> bool:
        app, _, user = person.partition(" ")
        found = (
            databases()[app]
            .execute("SELECT email FROM users WHERE id = ?", (int(user),))
            .fetchone()
        )
        return found is not None and found[0] == self._email

    def save(self, directory: str) -> None:
        """Writes the databases' changes as AppWorld does."""
        save_local_dbs(
            from_db_home_path=self._home,
            to_db_home_path=directory,
            format="changes",
            app_names=list(get_all_apps()),
            delete_if_exists=True,
            save_model_hashes=True,
        )

    def grade(self, outputs: str) -> dict:
        """AppWorld's own evaluation of the saved state, in a process that is forked for it, so that this one stays as it is."""
        self.save(os.path.join(outputs, EXPERIMENT, "tasks", self._base, "dbs"))
        mine, its = pair()
        parent, pid = os.getpid(), os.fork()
        if not pid:
            _grader(parent, its, self._base, outputs)
        its.close()
        try:
            return Channel(mine).receive(now() + GRADE_SECONDS)
        finally:
            mine.close()
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _grader(parent: int, line: socket.socket, task: str, outputs: str) -> NoReturn:
    try:
        confine.die_with_parent(parent)
        type(path_store).experiment_outputs = property(lambda _: outputs)
        beyond, answers = _watch_comparisons(), _watch_answers()
        tracker = evaluate_task(task, EXPERIMENT, suppress_errors=True, save_report=False)
        answer = {
            "success": bool(tracker.success),
            "tests": tracker.num_tests,
            "difficulty": tracker.difficulty,
            "passes": [test["label"] for test in tracker.passes],
            "failures": [test["label"] for test in tracker.failures],
            "damage": bool(beyond) or any(_is_damage(test, answers) for test in tracker.failures),
        }
        Channel(line).send(answer, now() + GRADE_SECONDS)
    finally:
        os._exit(0)


def _is_damage(failure: dict, answers: list[str]) -> bool:
    """Whether a failed test says that something was changed: doing nothing passes it, and it did not fail on the answer."""
    return failure["label"] == "no_op_pass" and failure["requirement"] not in answers


def _watch_answers() -> list[str]:
    """Has the evaluation's tests that fail on the answer, which is no record in an app, note their requirements."""
    failed: list[str] = []
    compare = evaluator.TestTracker.answer

    def answer(tracker: Any, *args: Any, **options: Any) -> None:
        try:
            compare(tracker, *args, **options)
        except Exception:
            failed.append(tracker.requirement)
            raise

    evaluator.TestTracker.answer = answer
    return failed


class _ChangedModels(set):
    """What AppWorld's evaluations compare with the models that may change."""


def _watch_comparisons() -> list[str]:
    """Has the evaluation's failing comparisons of the changed models note those that it does not expect.

    A test that names the models has the same label whether too few or too many changed; data without solutions tell no more.
    """
    beyond: list[str] = []
    names, compare = ModelCollectionPair.changed_model_names, evaluator.assert_plus

    def changed(pair: ModelCollectionPair, *args: Any, **options: Any) -> set[str]:
        return _ChangedModels(names(pair, *args, **options))

    def compared(*args: Any, **options: Any) -> None:
        try:
            compare(*args, **options)
        except AssertionError:
            if (
                len(args) > 2
                and isinstance(args[0], _ChangedModels)
                and isinstance(args[2], set | list | tuple)
            ):
                beyond.extend(sorted(set(args[0]) - set(args[2])))
            raise

    ModelCollectionPair.changed_model_names, evaluator.assert_plus = changed, compared
    return beyond


def databases() -> dict[str, sqlite3.Connection]:
    """The open databases, without that of the documentation, which nothing changes."""
    return {
        app: import_models_module(app).SQLModel.db.connection
        for app in get_all_apps()
        if app != "api_docs"
    }


def tables() -> list[rows.Table]:
    found = []
    for app, connection in databases().items():
        models = [
            (model.table_name, model.__name__)
            for model in import_models_module(app).SQLModel.models()
        ]
        for name, model in models:
            if f"{app}.{model}" in _OUTSIDE:
                continue
            columns = connection.execute(f'PRAGMA table_info("{name}")').fetchall()
            held = frozenset(column[1] for column in columns if column[2] == "JSON")
            references = {
                key[3]: key[2] for key in connection.execute(f'PRAGMA foreign_key_list("{name}")')
            }
            lists = {
                column: rows.refers_to(column, [table for table, _ in models]) for column in held
            }
            references |= {
                column: table
                for column, table in lists.items()
                if column.endswith("_ids") and table
            }
            found.append(
                rows.Table(
                    app,
                    name,
                    f"{app}.{model}",
                    tuple(column[1] for column in columns),
                    references,
                    held,
                )
            )
    return found
