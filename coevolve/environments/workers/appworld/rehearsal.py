"""The rehearsal of AppWorld: what the package computes once is computed before the first fork."""

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
from .world import Plan, World, tables

_REHEARSED: tuple[tuple[str, str, dict[str, Any]], ...] = (
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
"""Calls that a rehearsal makes in order to have each app read and write once; whether they succeed does not matter."""


def rehearse() -> Plan:
    """Plays a short episode, so that what the package computes once is computed before the first fork, and closes all of it
    again: no database may be open in a process that forks.
    """
    root = path_store.root
    routes = apis.warm(Path(root))
    base = sorted(path.name for path in (Path(root) / "data" / "tasks").iterdir())[0]
    world = World(Plan(routes, []), root, base, None, bytes(32).hex())
    watched = tables()
    world.apis.allow(1000)
    me, tokens = world.apis.call("supervisor", "show_profile", {}).value, {}
    for account in world.apis.call("supervisor", "show_account_passwords", {}).value:
        app, name = (
            account["account_name"],
            me["phone_number" if account["account_name"] == "phone" else "email"],
        )
        login = world.apis.call(app, "login", {"username": name, "password": account["password"]})
        tokens[app] = {"access_token": login.value["access_token"]} if login.value else {}
    other = next(
        user.email for user in import_models_module("venmo").User.all() if user.email != me["email"]
    )
    for app, api, arguments in _REHEARSED:
        filled = json.loads(json.dumps(arguments).replace("$email", other))
        world.apis.call(app, api, filled | tokens.get(app, {}))
    world.outcome()
    importlib.import_module("pytest")  # as evaluations do when they first compare
    Task.load(base, load_ground_truth=False).model_collection.admin.MainUser.all()
    Requester.close_all()
    CachedDBHandler.reset()
    ModelHashHandler.reset()
    get_direct_cached_sqlite3_connection.cache_clear()
    sys.dont_write_bytecode = True  # the evaluations that are imported later lie among the data
    return Plan(routes, watched)
