"""Builds the self-made AppWorld root: people, records, tasks and evaluations of our own, which the real engine accepts.

    appworld.demo.builder ROOT

writes ROOT/data in the layout of the official data (research: `data/{api_docs,base_dbs,tasks,datasets}`). The apps, their
schemas and their documents come from the installed package; what the databases hold is invented in `people`
and `tasks`. The result is deterministic in content. It must never be published unencrypted: API documents and
databases fall under AppWorld's licence, which is why it is built where it is used.

Catalogues (songs, products) and accounts are made with the models; everything a person does (notes, payments, emails) goes
through the public APIs at a moment in the past, so that the records are as the apps leave them.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from . import people
from .tasks import SPLITS, DemoTask, tasks

APPS = (
    "amazon",
    "phone",
    "file_system",
    "spotify",
    "venmo",
    "gmail",
    "splitwise",
    "simple_note",
    "todoist",
)
"""Those in which people have accounts."""
BASE = ":memory:base"
"""AppWorld's name for the database that is being built."""
COMPANIES = ("Amazon", "File System", "Simple Note", "Splitwise", "Spotify", "Todoist", "Venmo")
"""Whose notifications arrive by email and phone, from accounts of their own."""
SEED = 100
HITS = 12
"""Songs at the beginning of the catalogue that go round among all."""
LIBRARY = (7, 18)
"""Songs in each person's library: of the hits, and of the rest; more than one page."""


def password(app: str, person: int) -> str:
    return f"{app.replace('_', '-')}-secret-{person + 1}"


def phone_number(person: int) -> str:
    return f"555010{person + 1:04d}"


def card(person: int) -> dict[str, Any]:
    return {
        "owner_name": people.PEOPLE[person].name,
        "card_name": "Visa",
        "card_number": 4000_0000_0000_0000 + 11 * (person + 1),
        "expiry_year": 2030,
        "expiry_month": 1 + person,
        "cvv_number": 101 + person,
    }


def address(person: int) -> dict[str, Any]:
    return {
        "street_address": f"{12 + 7 * person} Alder Lane",
        "city": people.PEOPLE[person].city,
        "state": "Maine",
        "country": "United States",
        "zip_code": 10101 + 37 * person,
    }


class Builder:
    """One root. The engine must not have been imported before APPWORLD_ROOT was set."""

    def __init__(self, root: Path):
        from appworld.apps import get_all_apps
        from appworld.collections.models import ModelCollection

        self.data = root / "data"
        self.apps = tuple(get_all_apps())
        self.models = ModelCollection.load(
            to_db_home_path=BASE, from_db_home_path=BASE, load_apps=list(self.apps), create_db=True
        )
        self.libraries: list[list[dict[str, Any]]] = []

    def build(self) -> None:
        from appworld.apps.api_lib import set_local_date_and_time, unset_local_date_and_time
        from appworld.apps.model_lib import CachedDBHandler
        from appworld.common.constants import DB_VERSION, DEFAULT_SYSTEM_DATETIME

        freezer = set_local_date_and_time(DEFAULT_SYSTEM_DATETIME)
        self.documents()
        self.catalogues()
        self.accounts()
        unset_local_date_and_time(freezer)
        self.lives()
        freezer = set_local_date_and_time(DEFAULT_SYSTEM_DATETIME)
        self.models.save(
            db_home_path=str(self.data / "base_dbs"),
            app_names=list(self.apps),
            format="full",
            delete_if_exists=True,
            save_model_hashes=True,
        )
        unset_local_date_and_time(freezer)
        CachedDBHandler.reset()
        (self.data / "version.txt").write_text(DB_VERSION)
        for task in tasks(self.libraries):
            self.task(task)
        for split, scenarios in SPLITS.items():
            ids = [
                task.id for task in tasks(self.libraries) if task.id.partition("_")[0] in scenarios
            ]
            _write(self.data / "datasets" / f"{split}.txt", "\n".join(ids) + "\n")

    def documents(self) -> None:
        """The API documents: files for the engine, rows for the app api_docs."""
        from appworld.apps import get_all_apps
        from appworld.collections.api_docs import ApiDocCollection
        from appworld.common.constants import CANARY_STRING

        table = self.models.api_docs.ApiDoc
        for app, own in ApiDocCollection.build(
            load_apps=tuple(get_all_apps(skip_admin=True))
        ).items():
            marked = {
                name: {**document, "canary_string": CANARY_STRING} for name, document in own.items()
            }
            _dump(self.data / "api_docs" / "standard" / f"{app}.json", marked)
            fields = ("api_name", "path", "method", "description", "parameters", "response_schemas")
            rows = [
                table.create(app_name_=app, **{name: one[name] for name in fields})
                for one in own.values()
            ]
            table.save_all(rows)

    def catalogues(self) -> None:
        from appworld.common.datetime import DateTime

        spotify, amazon, long_ago = self.models.spotify, self.models.amazon, DateTime(2020, 1, 1)
        artists = [
            spotify.Artist.create_save(name=name, genre=genre, created_at=long_ago)
            for name, genre in people.ARTISTS
        ]
        albums = []
        for number, (title, artist) in enumerate(people.ALBUMS):
            albums.append(
                spotify.Album.create_save(
                    title=title,
                    artist_ids=[artists[artist].id],
                    release_date=DateTime(2018 + number, 3, 1),
                    genre=people.ARTISTS[artist][1],
                    rating=3.0 + number / 2,
                )
            )
        for number, (title, artist, seconds, rating, plays) in enumerate(people.SONGS):
            spotify.Song.create_save(
                title=title,
                artist_ids=[artists[artist].id],
                album_id=albums[artist].id,
                duration=seconds,
                release_date=DateTime(2018 + artist, 3 + number // 28, 1 + number % 28),
                genre=people.ARTISTS[artist][1],
                rating=rating,
                play_count=plays,
            )
        sellers = [
            amazon.Seller.create_save(name=name, rating=4.0 + n / 2)
            for n, name in enumerate(people.SELLERS)
        ]
        for number, (name, kind, seller, price, days) in enumerate(people.PRODUCTS):
            amazon.Product.create_save(
                name=name,
                product_type=kind,
                description=f"{name}, by {people.SELLERS[seller]}.",
                seller_id=sellers[seller].id,
                price=price,
                delivery_days=days,
                inventory_quantity=20 + number,
                weight=0.5 + number / 4,
                length=6.0 + number,
                width=4.0,
                height=3.0,
                rating=3.0 + number % 4 / 2,
                seller_rating=4.0 + seller / 2,
            )
        for name in ("UPS", "USPS", "FedEx"):
            amazon.Deliverer.create_save(name=name)

    def accounts(self) -> None:
        from appworld.apps.api_lib import CompanyNotifier
        from appworld.common.datetime import DateTime

        for company in COMPANIES:
            CompanyNotifier(company).create_accounts()
        admin = self.models.admin
        for number, person in enumerate(people.PEOPLE):
            main = admin.MainUser.create_save(
                first_name=person.first,
                last_name=person.last,
                email=person.email,
                phone_number=phone_number(number),
                birthday=person.birthday,
                sex=person.sex,
            )
            admin.PaymentCard.create_save(main_user_id=main.id, balance=800.0, **card(number))
            place = admin.GlobalAddress.create_save(**address(number))
            admin.UserAddress.create_save(
                global_address_id=place.id, main_user_id=main.id, name="Home"
            )
            for app in APPS:
                admin.AccountPassword.create_save(
                    main_user_id=main.id, account_name=app, password=password(app, number)
                )
                self.account(app, number, DateTime(2022, 1, 1 + number))
        for one in range(len(people.PEOPLE)):
            for other in range(len(people.PEOPLE)):
                if one != other:
                    admin.Friendship.create_save(main_user_id=one + 1, friend_id=other + 1)

    def account(self, app: str, number: int, created_at: Any) -> None:
        person, user = people.PEOPLE[number], self.models[app].User
        own: dict[str, Any] = {
            "first_name": person.first,
            "last_name": person.last,
            "password": password(app, number),
        }
        own |= {"phone_number": phone_number(number)} if app == "phone" else {"email": person.email}
        dates = {"created_at": created_at, "last_logged_in": created_at}
        rest = {"verified": True, "venmo_balance": 200.0 + 25 * number, **dates}
        row = user.create_save(
            **own, **{name: value for name, value in rest.items() if name in user.__fields__}
        )
        if app == "spotify":
            self.models.spotify.MusicPlayer.create_save(user_id=row.id)
        if app == "file_system":
            self.models.file_system.Directory.create_save(
                user_id=row.id, path=row.home_directory_path
            )

    def lives(self) -> None:
        """What the people did, through the public APIs."""
        import freezegun
        from appworld.apps.api_lib import set_local_random_seed
        from appworld.collections.apis import ApiCollection

        from .lives import BEGIN, live

        set_local_random_seed(SEED)
        apis, requester = ApiCollection.load(
            to_db_home_path=BASE,
            from_db_home_path=BASE,
            load_apps=list(self.apps),
            raise_on_failure=True,
            max_num_requests=None,
        )
        with freezegun.freeze_time(BEGIN) as clock:
            self.libraries = live(apis, clock)
        requester.close()

    def task(self, task: DemoTask) -> None:
        """The task's folder: specification, database changes, ground truth."""
        from appworld.apps.api_lib import set_local_date_and_time, unset_local_date_and_time
        from appworld.apps.model_lib import CachedDBHandler, get_db_home_path
        from appworld.collections.models import ModelCollection
        from appworld.common.constants import CANARY_STRING, DB_VERSION, DEFAULT_SYSTEM_DATETIME

        where, number = self.data / "tasks" / task.id, task.supervisor
        person = people.PEOPLE[number]
        freezer = set_local_date_and_time(DEFAULT_SYSTEM_DATETIME)
        models = ModelCollection.load(
            to_db_home_path=get_db_home_path("memory", "task_input", task.id),
            from_db_home_path=get_db_home_path("disk", "base"),
            load_apps=list(self.apps),
        )
        contact = {"email": person.email, "phone_number": phone_number(number)}
        name = {"first_name": person.first, "last_name": person.last}
        supervisor = models.supervisor
        row = supervisor.Supervisor.create_save(
            **name, **contact, birthday=person.birthday, sex=person.sex
        )
        supervisor.Task.create_save(supervisor_id=row.id, instruction=task.instruction)
        for app in APPS:
            supervisor.AccountPassword.create_save(
                supervisor_id=row.id, account_name=app, password=password(app, number)
            )
        supervisor.PaymentCard.create_save(supervisor_id=row.id, **card(number))
        supervisor.Address.create_save(supervisor_id=row.id, name="Home", **address(number))
        user = models.file_system.User.find_one(email=person.email)
        for path, content in task.files:
            full = f"{user.home_directory_path.rstrip('/')}/{path}"
            models.file_system.File.create_save(user_id=user.id, path=full, content=content)
        models.save(
            db_home_path=str(where / "dbs"),
            app_names=list(self.apps),
            format="changes",
            delete_if_exists=True,
            save_model_hashes=True,
        )
        unset_local_date_and_time(freezer)
        CachedDBHandler.reset()
        specification = {"instruction": task.instruction, "supervisor": {**name, **contact}}
        when = {"datetime": DEFAULT_SYSTEM_DATETIME.isoformat(), "db_version": DB_VERSION}
        _dump(where / "specs.json", {**specification, **when, "canary_string": CANARY_STRING})
        _truth(where / "ground_truth", task)


def _truth(where: Path, task: DemoTask) -> None:
    """What only the judge sees."""
    from appworld.common.constants import CANARY_STRING

    marked = f"# Canary String: {CANARY_STRING}\n"
    solution = f"{marked}def solution(apis, requester):\n" + "".join(
        f"    {line}\n" for line in task.solution.splitlines()
    )
    _write(where / "evaluation.py", f"{marked}{task.evaluation}")
    _write(where / "solution.py", solution)
    _write(where / "compiled_solution.py", solution)
    _dump(where / "public_data.json", task.public)
    _dump(where / "private_data.json", task.private)
    _dump(where / "answer.json", task.answer)
    _dump(
        where / "test_data.json",
        [{"requirement": one.requirement, "label": one.label} for one in task.checks],
    )
    _dump(where / "required_apps.json", list(task.apps))
    calls = task.solution.count("apis.")
    _dump(
        where / "metadata.json",
        {
            "mode": "full",
            "difficulty": task.difficulty,
            "num_apps": len(task.apps),
            "num_apis": calls,
            "num_api_calls": calls,
            "num_solution_code_lines": task.solution.count("\n"),
        },
    )


def _dump(path: Path, value: Any) -> None:
    _write(path, json.dumps(value, indent=1))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main(directory: str) -> None:
    root = Path(directory).resolve()
    if "memory" in str(root):
        sys.exit(
            f"{root}: AppWorld takes a path with 'memory' in it for a database in memory; choose another"
        )
    if (root / "data").exists():
        sys.exit(f"{root / 'data'} exists; it is not replaced")
    os.environ["APPWORLD_ROOT"] = str(root)
    warnings.simplefilter("ignore")  # PyJWT on the length of AppWorld's key, once a call
    Builder(root).build()
