"""Changes many tables through the APIs, then counts what changed twice: by the worker's effects,
and by AppWorld's own comparison.

    <python of the appworld environment> appworld_changes.py ROOT BASE

prints JSON {"ours", "theirs", "errors"}.

Counts are {model: [rows added, rows removed, rows updated]}. Only standard library at the top; the
program imports appworld.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

CALLS: list[tuple[str, str, dict[str, Any]]] = [
    ("spotify", "create_playlist", {"title": "Porch"}),
    ("spotify", "add_song_to_playlist", {"playlist_id": "$playlist_id", "song_id": 2}),
    ("spotify", "add_song_to_playlist", {"playlist_id": "$playlist_id", "song_id": 3}),
    ("spotify", "remove_song_from_playlist", {"playlist_id": "$playlist_id", "song_id": 2}),
    ("spotify", "update_playlist", {"playlist_id": "$playlist_id", "title": "Attic"}),
    ("spotify", "like_song", {"song_id": 4}),
    ("spotify", "unlike_song", {"song_id": 4}),
    ("spotify", "like_song", {"song_id": 5}),
    ("spotify", "review_song", {"song_id": 1, "rating": 4, "title": "t", "text": "x"}),
    ("spotify", "add_to_queue", {"song_id": 1}),
    ("spotify", "set_volume", {"volume": 7}),
    ("spotify", "download_song", {"song_id": 1}),
    (
        "venmo",
        "create_transaction",
        {"receiver_email": "$friend", "amount": 3.5, "description": "tea"},
    ),
    (
        "venmo",
        "create_payment_request",
        {"user_email": "$friend", "amount": 4.0, "description": "cake"},
    ),
    ("venmo", "remove_friend", {"user_email": "$friend"}),
    ("simple_note", "create_note", {"title": "t", "content": "c", "tags": ["b", "a"]}),
    ("simple_note", "update_note", {"note_id": "$note_id", "pinned": True}),
    ("simple_note", "create_note", {"title": "gone", "content": "c"}),
    ("simple_note", "delete_note", {"note_id": "$note_id"}),
    ("todoist", "create_project", {"name": "House"}),
    ("todoist", "create_section", {"project_id": "$project_id", "name": "Roof"}),
    ("todoist", "create_task", {"project_id": "$project_id", "title": "Nails"}),
    ("todoist", "create_task", {"project_id": "$project_id", "title": "Planks"}),
    ("todoist", "delete_task", {"task_id": "$task_id"}),
    ("splitwise", "create_group", {"name": "Trip", "member_emails": ["$friend"]}),
    ("file_system", "create_file", {"file_path": "~/a.txt", "content": "one"}),
    ("file_system", "create_directory", {"directory_path": "~/d/"}),
    (
        "file_system",
        "move_file",
        {"source_file_path": "~/a.txt", "destination_file_path": "~/d/b.txt"},
    ),
    (
        "phone",
        "create_alarm",
        {"time": "07:30", "label": "up", "repeat_days": ["monday", "friday"]},
    ),
    ("phone", "send_text_message", {"phone_number": "$phone", "message": "hi"}),
    ("gmail", "send_email", {"email_addresses": ["$friend"], "subject": "s", "body": "b"}),
    (
        "gmail",
        "create_draft",
        {"recipient_email_addresses": ["$friend"], "subject": "s", "body": "b"},
    ),
    ("amazon", "add_product_to_cart", {"product_id": 1, "quantity": 2}),
    ("amazon", "add_product_to_wish_list", {"product_id": 2}),
    ("amazon", "delete_product_from_cart", {"product_id": 1}),
    ("supervisor", "complete_task", {"answer": "x"}),
]


class Hand:
    """Makes calls, logged in, and remembers ids of what they made."""

    def __init__(self, world: Any):
        self._apis = world.apis
        self._tokens: dict[str, str] = {}
        self._known: dict[str, Any] = {}
        self.errors: list[list[str]] = []
        accounts, profile = (
            self._ask("supervisor", "show_account_passwords"),
            self._ask("supervisor", "show_profile"),
        )
        self._passwords = {row["account_name"]: row["password"] for row in accounts}
        self._profile = profile
        contact = self.call("phone", "search_contacts", {"query": ""})[0]
        friend = self.call("venmo", "search_friends", {})[0]
        self._known = {"$friend": friend["email"], "$phone": contact["phone_number"]}

    def call(self, app: str, api: str, arguments: dict[str, Any]) -> Any:
        if app != "supervisor" and app not in self._tokens:
            name = self._profile["phone_number" if app == "phone" else "email"]
            self._tokens[app] = self._ask(
                app, "login", username=name, password=self._passwords[app]
            )["access_token"]
        token = {"access_token": self._tokens[app]} if app in self._tokens else {}
        value = self._ask(
            app, api, **{key: self._filled(value) for key, value in arguments.items()}, **token
        )
        if isinstance(value, dict):
            self._known |= {f"${key}": item for key, item in value.items() if key.endswith("_id")}
        return value

    def _filled(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._filled(item) for item in value]
        return self._known[value] if isinstance(value, str) and value.startswith("$") else value

    def _ask(self, app: str, api: str, **arguments: Any) -> Any:
        self._apis.allow(1)
        answer = self._apis.call(app, api, arguments)
        if answer.error:
            self.errors.append([app, api, *answer.error])
        return answer.value


def main(root: str, base: str) -> None:
    sys.path.append(str(Path(__file__).parents[2]))  # last: this interpreter has no coevolve
    os.environ["APPWORLD_ROOT"] = root
    from coevolve.environments.workers.appworld.state import EpisodeState
    from coevolve.environments.workers.appworld.warmup import warm_up

    world = EpisodeState(warm_up(), root, base, None, bytes(32).hex())
    hand = Hand(world)
    steps = []
    for app, api, arguments in CALLS:
        hand.call(app, api, arguments)
        steps.append(len(world.outcome()["effects"]))
    with tempfile.TemporaryDirectory() as saved:
        world.save(f"{saved}/dbs")
        compared = theirs(base, f"{saved}/dbs")
    print(
        json.dumps({"ours": ours(world), "theirs": compared, "errors": hand.errors, "steps": steps})
    )


def ours(world: Any) -> dict[str, list[int]]:
    found: dict[str, list[set | list]] = {}
    for effect in world.changes.since_start():
        if effect["entity"] == "supervisor.Task":
            continue
        row = found.setdefault(effect["entity"], [[], [], set()])
        place = ("add", "remove", "set").index(effect["op"])
        row[place].add(effect["key"]) if place == 2 else row[place].append(effect["key"])
    return {entity: [len(part) for part in row] for entity, row in found.items()}


def theirs(base: str, saved: str) -> dict[str, list[int]]:
    """AppWorld's comparison of the saved state with the start."""
    from appworld.apps import get_all_apps
    from appworld.apps.model_lib import get_db_home_path
    from appworld.collections.models import ModelCollection, ModelCollectionPair

    apps = get_all_apps(skip_admin=True)
    start, end = get_db_home_path("memory", "task_input", base), get_db_home_path("memory", "test")
    disk = get_db_home_path("disk", "task_input", base)
    before = ModelCollection.load(
        from_db_home_path=disk, to_db_home_path=start, load_apps=[*apps, "admin"]
    )
    after = ModelCollection.load(
        from_db_home_path=saved, to_db_home_path=end, load_apps=[*apps, "admin"]
    )
    pair = ModelCollectionPair(start, before, end, after)
    changed = {name: pair.changed_records(name) for name in sorted(pair.changed_model_names())}
    return {
        name: [len(added), len(removed), len(updated)]
        for name, (added, updated, removed) in changed.items()
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
