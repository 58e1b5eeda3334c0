"""A warm-up of AppWorld's engine: what the package computes once is computed before the first
fork."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

from appworld.apps.model_lib import (
    CachedDBHandler,
    ModelHashHandler,
    get_direct_cached_sqlite3_connection,
)
from appworld.common.path_store import path_store
from appworld.common.utils import import_models_module
from appworld.requester import Requester
from appworld.task import Task

from . import apis
from .state import EpisodeState, Preloaded, tables

_CALLS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("amazon", "search_products", {"query": "a"}),
    ("amazon", "add_product_to_cart", {"product_id": 1, "quantity": 1}),
    ("file_system", "create_file", {"file_path": "~/a.txt", "content": "a"}),
    ("file_system", "show_directory", {}),
    ("gmail", "send_email", {"email_addresses": ["$email"], "subject": "a", "body": "a"}),
    ("gmail", "show_inbox_threads", {}),
    ("phone", "create_alarm", {"time": "07:30", "label": "a"}),
    ("phone", "search_contacts", {"query": "a"}),
    ("simple_note", "create_note", {"title": "a", "content": "a"}),
    ("simple_note", "search_notes", {"query": "a"}),
    ("splitwise", "create_group", {"name": "a", "member_emails": ["$email"]}),
    ("spotify", "create_playlist", {"title": "a"}),
    ("spotify", "show_song_library", {}),
    ("spotify", "search_songs", {"query": "a"}),
    ("todoist", "create_project", {"name": "a"}),
    ("todoist", "show_projects", {}),
    ("venmo", "create_transaction", {"receiver_email": "$email", "amount": 1, "description": "a"}),
    ("venmo", "show_transactions", {}),
    ("venmo", "search_users", {"query": "a"}),
    ("supervisor", "complete_task", {}),
    ("api_docs", "show_api_doc", {"app_name": "spotify", "api_name": "login"}),
)
"""Calls that have each app read and write once; whether they succeed does not matter."""


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
    for app, api, arguments in _CALLS:
        filled = json.loads(json.dumps(arguments).replace("$email", other))
        call(app, api, **filled, **tokens.get(app, {}))
    state.outcome()
