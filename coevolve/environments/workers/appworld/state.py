"""One AppWorld episode's databases and APIs: loading them, and what changed in them.

Lives in the process that serves the episode's APIs (`episode`); policy code never runs there.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

from appworld.apps import get_all_apps
from appworld.apps.api_lib import save_local_dbs
from appworld.apps.model_lib import get_db_home_path
from appworld.apps.supervisor.constants import NOT_GIVEN_ANSWER
from appworld.collections.models import ModelCollection
from appworld.common.path_store import path_store
from appworld.common.utils import import_models_module
from appworld.evaluator import answer_to_text
from sqlalchemy import event

from . import grading
from .apis import ApiResponse, AppWorldApis, Route
from .canonical import digest
from .changes import ChangeTracker
from .rows import TableSchema, refers_to

_UNCOMPARED = ("admin.PaymentCard",)
"""Models that AppWorld's own comparisons leave out: the bank's side of a card."""


class Preloaded(NamedTuple):
    """The routes and tables that all episodes share."""

    routes: list[Route]
    tables: list[TableSchema]


class EpisodeState:
    """One episode's databases and APIs."""

    def __init__(
        self, preloaded: Preloaded, root: str, base: str, instruction: str | None, secret: str
    ):
        """Opens the state of the task `base`; the instruction replaces that task's own text."""
        path_store.update_root(root)
        self._base = base
        directory = Path(root) / "data" / "tasks" / base
        specs = json.loads((directory / "specs.json").read_text(encoding="utf-8"))
        self._email = specs["supervisor"]["email"]
        self._home = get_db_home_path("memory", "task_output", base)
        start = str(directory / "dbs")
        # loads the tables' write counters too, without which AppWorld's evaluation compares every
        # table of both states
        ModelCollection.load(self._home, start, list(get_all_apps(skip_admin=True)))
        self.apis = AppWorldApis(
            preloaded.routes, self._home, start, specs["datetime"], bytes.fromhex(secret)
        )
        if instruction is not None:
            task = _task()
            task.instruction = instruction
            task.save()
        self.changes = ChangeTracker(databases(), preloaded.tables)
        for app in databases():
            self._watch_writes(app)
        self._since_start: list[dict] = []

    def _watch_writes(self, app: str) -> None:
        """Has the app's changes noted from its first write on, like AppWorld's own tracker."""

        def before(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
            if statement.lstrip()[:6].upper() in ("INSERT", "UPDATE", "DELETE", "REPLAC"):
                self.changes.watch(app)

        event.listen(import_models_module(app).SQLModel.db.engine, "before_cursor_execute", before)

    def call(self, app: str, api: str, arguments: dict[str, Any]) -> ApiResponse:
        """Makes a request, and notes what it changed."""
        answer = self.apis.call(app, api, arguments)
        self.changes.end_call()
        return answer

    def outcome(self) -> dict:
        """Returns {effects, state, completed}: what the last action changed."""
        effects = self.changes.since_last()
        if effects:
            self._since_start = self.changes.since_start()
        completed = _task().status is not None
        return {"effects": effects, "state": digest(self._since_start), "completed": completed}

    def final(self) -> dict:
        """Returns {changes, notified, concerned, status, answer, answered}: the whole difference to
        the start. People are "app user_id"; the supervisor is not among those notified."""
        task = _task()
        answer = json.loads(task.answer)
        effects, notified, concerned = self.changes.difference()
        return {
            # values and the answer as digests: their length is the policy's choice
            "changes": [
                {**effect, "value": digest(effect["value"])}
                for effect in effects
                if effect["entity"] != "supervisor.Task"
            ],
            "notified": [person for person in notified if not self._is_supervisor(person)],
            "concerned": concerned,
            "status": task.status,
            "answer": digest(answer_to_text(answer)),
            "answered": answer not in (None, NOT_GIVEN_ANSWER),
        }

    def _is_supervisor(self, person: str) -> bool:
        app, _, user = person.partition(" ")
        query = "SELECT email FROM users WHERE id = ?"
        found = databases()[app].execute(query, (int(user),)).fetchone()
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
        """Returns AppWorld's own evaluation (`grading.grade`) of the state, saved below
        `outputs`."""
        self.save(grading.saved_databases(outputs, self._base))
        return grading.grade(self._base, outputs)


def _task() -> Any:
    return import_models_module("supervisor").Task.all()[0]


def databases() -> dict[str, sqlite3.Connection]:
    """Returns the open databases, without that of the documentation, which nothing changes."""
    apps = [app for app in get_all_apps() if app != "api_docs"]
    return {app: import_models_module(app).SQLModel.db.connection for app in apps}


def tables() -> list[TableSchema]:
    """Returns the tables of the open databases."""
    found = []
    for app, connection in databases().items():
        models = {m.table_name: m.__name__ for m in import_models_module(app).SQLModel.models()}
        for name, model in models.items():
            if f"{app}.{model}" not in _UNCOMPARED:
                found.append(_table(connection, app, name, model, list(models)))
    return found


def _table(
    connection: sqlite3.Connection, app: str, name: str, model: str, names: list[str]
) -> TableSchema:
    columns = connection.execute(f'PRAGMA table_info("{name}")').fetchall()
    held = frozenset(column[1] for column in columns if column[2] == "JSON")
    keys = connection.execute(f'PRAGMA foreign_key_list("{name}")')
    references = {key[3]: key[2] for key in keys}
    lists = {column: refers_to(column, names) for column in held if column.endswith("_ids")}
    references |= {column: table for column, table in lists.items() if table}
    named = tuple(column[1] for column in columns)
    return TableSchema(app, name, f"{app}.{model}", named, references, held)
