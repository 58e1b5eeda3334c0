"""A demo task's folder in AppWorld's layout: specification, database changes, ground truth."""

from __future__ import annotations

from pathlib import Path

from appworld.apps import get_all_apps
from appworld.apps.api_lib import set_local_date_and_time, unset_local_date_and_time
from appworld.apps.model_lib import CachedDBHandler, get_db_home_path
from appworld.collections.models import ModelCollection
from appworld.common.constants import CANARY_STRING, DB_VERSION, DEFAULT_SYSTEM_DATETIME

from .content import APPS
from .files import dump, save_databases, write
from .tasks import DemoTask


def write_task(folder: Path, task: DemoTask) -> None:
    person, apps = task.supervisor, list(get_all_apps())
    freezer = set_local_date_and_time(DEFAULT_SYSTEM_DATETIME)
    models = ModelCollection.load(
        to_db_home_path=get_db_home_path("memory", "task_input", task.id),
        from_db_home_path=get_db_home_path("disk", "base"),
        load_apps=apps,
    )
    supervised = {"first_name": person.first, "last_name": person.last, **person.contact}
    supervisor = models.supervisor
    row = supervisor.Supervisor.create_save(**supervised, birthday=person.birthday, sex=person.sex)
    supervisor.Task.create_save(supervisor_id=row.id, instruction=task.instruction)
    for app in APPS:
        supervisor.AccountPassword.create_save(
            supervisor_id=row.id, account_name=app, password=person.app_password(app)
        )
    supervisor.PaymentCard.create_save(supervisor_id=row.id, **person.card)
    supervisor.Address.create_save(supervisor_id=row.id, name="Home", **person.address)
    user = models.file_system.User.find_one(email=person.email)
    home = user.home_directory_path.rstrip("/")
    for path, content in task.files.items():
        models.file_system.File.create_save(user_id=user.id, path=f"{home}/{path}", content=content)
    save_databases(models, folder / "dbs", "changes")
    unset_local_date_and_time(freezer)
    CachedDBHandler.reset()
    specification = {
        "instruction": task.instruction,
        "supervisor": supervised,
        "datetime": DEFAULT_SYSTEM_DATETIME.isoformat(),
        "db_version": DB_VERSION,
        "canary_string": CANARY_STRING,
    }
    dump(folder / "specs.json", specification)
    _write_truth(folder / "ground_truth", task)


def _write_truth(folder: Path, task: DemoTask) -> None:
    """Writes the files that only the judge reads."""
    marked = f"# Canary String: {CANARY_STRING}\n"
    lines = "".join(f"    {line}\n" for line in task.solution.splitlines())
    solution = f"{marked}def solution(apis, requester):\n{lines}"
    write(folder / "evaluation.py", f"{marked}{task.evaluation}")
    write(folder / "solution.py", solution)
    write(folder / "compiled_solution.py", solution)
    calls = task.solution.count("apis.")
    contents = {
        "public_data": task.public,
        "private_data": task.private,
        "answer": task.answer,
        "test_data": [{"requirement": c.requirement, "label": c.label} for c in task.checks],
        "required_apps": task.scenario.apps,
        "metadata": {
            "mode": "full",
            "difficulty": task.scenario.difficulty,
            "num_apps": len(task.scenario.apps),
            "num_apis": calls,
            "num_api_calls": calls,
            "num_solution_code_lines": task.solution.count("\n"),
        },
    }
    for name, content in contents.items():
        dump(folder / f"{name}.json", content)
