"""A warm-up of AppWorld's engine: what the package computes once is computed before the first
fork."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from appworld.apps.model_lib import (
    CachedDBHandler,
    ModelHashHandler,
    get_direct_cached_sqlite3_connection,
)
from appworld.common.path_store import path_store
from appworld.common.utils import import_models_module
from appworld.requester import Requester
from appworld.task import Task

from ..data_files import read_data
from . import apis
from .state import EpisodeState, Preloaded, tables


class _WarmupFile(NamedTuple):
    calls: list[tuple[str, str, dict[str, Any]]]


def warm_up() -> Preloaded:
    """Plays a short episode and closes all of it again; returns what later episodes share."""
    root = path_store.root
    routes = apis.warm_up(Path(root))
    base = min(path.name for path in (Path(root) / "data" / "tasks").iterdir())
    state = EpisodeState(Preloaded(routes, []), root, base, None, bytes(32).hex())
    preloaded = Preloaded(routes, tables())
    _play(state)
    importlib.import_module("pytest")  # as evaluations do when they first compare
    Task.load(base, load_ground_truth=False).model_collection.admin.MainUser.all()
    # no database may be open in a process that forks
    Requester.close_all()
    CachedDBHandler.reset()
    ModelHashHandler.reset()
    get_direct_cached_sqlite3_connection.cache_clear()
    sys.dont_write_bytecode = True  # the evaluations that are imported later lie among the data
    return preloaded


def _play(state: EpisodeState) -> None:
    def call(app: str, api: str, **arguments: Any) -> Any:
        return state.apis.call(app, api, arguments).value

    state.apis.allow(1000)
    me, tokens = call("supervisor", "show_profile"), {}
    for account in call("supervisor", "show_account_passwords"):
        app, password = account["account_name"], account["password"]
        name = me["phone_number" if app == "phone" else "email"]
        login = call(app, "login", username=name, password=password)
        tokens[app] = {"access_token": login["access_token"]} if login else {}
    users = import_models_module("venmo").User.all()
    other = next(user.email for user in users if user.email != me["email"])
    file: _WarmupFile = read_data(Path(__file__).with_name("warmup.toml"), _WarmupFile)
    for app, api, arguments in file.calls:
        filled = json.loads(json.dumps(arguments).replace("$email", other))
        call(app, api, **filled, **tokens.get(app, {}))
    state.outcome()
