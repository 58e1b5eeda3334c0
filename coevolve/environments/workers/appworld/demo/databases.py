"""The base databases of the demo root: catalogues (songs, products), accounts and API documents.

They are made with the models of the installed package. The engine must not have been imported
before APPWORLD_ROOT was set.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import freezegun
from appworld.apps import get_all_apps
from appworld.apps.api_lib import (
    CompanyNotifier,
    set_local_date_and_time,
    set_local_random_seed,
    unset_local_date_and_time,
)
from appworld.apps.model_lib import CachedDBHandler
from appworld.collections.api_docs import ApiDocCollection
from appworld.collections.apis import ApiCollection
from appworld.collections.models import ModelCollection
from appworld.common.constants import CANARY_STRING, DEFAULT_SYSTEM_DATETIME
from appworld.common.datetime import DateTime

from .content import APPS, CATALOGUES, CONTENT, DemoPerson
from .files import dump, save_databases
from .history import BEGIN, record_history

BASE = ":memory:base"  # AppWorld's name for the database that is being built
COMPANIES = ("Amazon", "File System", "Simple Note", "Splitwise", "Spotify", "Todoist", "Venmo")
"""Senders of notifications by email and phone, from accounts of their own."""
SEED = 100


def build_databases(data: Path) -> list[list[dict[str, Any]]]:
    """Writes DATA/base_dbs and DATA/api_docs; returns the songs in each person's library."""
    apps = list(get_all_apps())
    models = ModelCollection.load(
        to_db_home_path=BASE, from_db_home_path=BASE, load_apps=apps, create_db=True
    )
    freezer = set_local_date_and_time(DEFAULT_SYSTEM_DATETIME)
    _documents(models, data / "api_docs" / "standard")
    _catalogues(models)
    _accounts(models)
    unset_local_date_and_time(freezer)
    libraries = _history(apps)
    freezer = set_local_date_and_time(DEFAULT_SYSTEM_DATETIME)
    save_databases(models, data / "base_dbs", "full")
    unset_local_date_and_time(freezer)
    CachedDBHandler.reset()
    return libraries


def _documents(models: Any, folder: Path) -> None:
    """Writes the API documents: files for the engine, rows for the app api_docs."""
    table = models.api_docs.ApiDoc
    fields = ("api_name", "path", "method", "description", "parameters", "response_schemas")
    documented = ApiDocCollection.build(load_apps=tuple(get_all_apps(skip_admin=True)))
    for app, own in documented.items():
        marked = {name: {**doc, "canary_string": CANARY_STRING} for name, doc in own.items()}
        dump(folder / f"{app}.json", marked)
        rows = [{name: doc[name] for name in fields} for doc in own.values()]
        table.save_all([table.create(app_name_=app, **row) for row in rows])


def _catalogues(models: Any) -> None:
    for app, tables in CATALOGUES.items():
        for model, table in tables.items():
            for row in table.rows:
                getattr(models[app], model).create_save(
                    **dict(zip(table.columns, map(_as_date, row), strict=True))
                )


def _as_date(value: Any) -> Any:
    return DateTime(value.year, value.month, value.day) if isinstance(value, date) else value


def _accounts(models: Any) -> None:
    for company in COMPANIES:
        CompanyNotifier(company).create_accounts()
    admin = models.admin
    for number, person in enumerate(CONTENT.people):
        main = admin.MainUser.create_save(
            first_name=person.first,
            last_name=person.last,
            **person.contact,
            birthday=person.birthday,
            sex=person.sex,
        )
        admin.PaymentCard.create_save(main_user_id=main.id, balance=800.0, **person.card)
        place = admin.GlobalAddress.create_save(**person.address)
        admin.UserAddress.create_save(global_address_id=place.id, main_user_id=main.id, name="Home")
        for app in APPS:
            admin.AccountPassword.create_save(
                main_user_id=main.id, account_name=app, password=person.app_password(app)
            )
            _account(models, app, number, person)
    numbers = range(1, len(CONTENT.people) + 1)
    for one, other in ((one, other) for one in numbers for other in numbers if one != other):
        admin.Friendship.create_save(main_user_id=one, friend_id=other)


def _account(models: Any, app: str, number: int, person: DemoPerson) -> None:
    user, created_at = models[app].User, DateTime(2022, 1, 1 + number)
    row = {
        "first_name": person.first,
        "last_name": person.last,
        "password": person.app_password(app),
        "phone_number" if app == "phone" else "email": person.user_name(app),
    }
    optional = {
        "verified": True,
        "venmo_balance": 200.0 + 25 * number,
        "created_at": created_at,
        "last_logged_in": created_at,
    }
    row |= {name: value for name, value in optional.items() if name in user.__fields__}
    saved = user.create_save(**row)
    if app == "spotify":
        models.spotify.MusicPlayer.create_save(user_id=saved.id)
    if app == "file_system":
        directory, home = models.file_system.Directory, saved.home_directory_path
        directory.create_save(user_id=saved.id, path=home)


def _history(apps: list[str]) -> list[list[dict[str, Any]]]:
    set_local_random_seed(SEED)
    apis, requester = ApiCollection.load(
        to_db_home_path=BASE,
        from_db_home_path=BASE,
        load_apps=apps,
        raise_on_failure=True,
        max_num_requests=None,
    )
    with freezegun.freeze_time(BEGIN) as clock:
        libraries = record_history(apis, clock)
    requester.close()
    return libraries
