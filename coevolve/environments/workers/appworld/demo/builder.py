"""Builds the demo root: people, records, tasks and evaluations of our own, which the real engine
accepts.

    appworld.demo.builder ROOT

writes ROOT/data in the layout of the official data: `data/{api_docs,base_dbs,tasks,datasets}`. The
apps, their schemas and their documents come from the installed package; the content of the
databases is invented (`world.toml`, `tasks.toml`). Catalogues and accounts are made with the
models; everything a person does (notes, payments, emails) goes through the public APIs at a moment
in the past, so that the records are as the apps leave them. The result is deterministic in content.

It must never be published unencrypted: API documents and databases fall under AppWorld's licence,
which is why it is built where it is used.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path


def main(directory: str) -> None:
    root = Path(directory).resolve()
    if "memory" in str(root):
        sys.exit(
            f"{root}: AppWorld takes a path with 'memory' in it for a database in memory; "
            "choose another"
        )
    if (root / "data").exists():
        sys.exit(f"{root / 'data'} exists; it is not replaced")
    os.environ["APPWORLD_ROOT"] = str(root)
    warnings.simplefilter("ignore")  # PyJWT on the length of AppWorld's key, once a call
    _build(root / "data")


def _build(data: Path) -> None:
    # the engine reads APPWORLD_ROOT when it is imported
    from appworld.common.constants import DB_VERSION

    from .databases import build_databases
    from .files import write
    from .task_folders import write_task
    from .tasks import tasks

    libraries = build_databases(data)
    write(data / "version.txt", DB_VERSION)
    splits: dict[str, list[str]] = {}
    for task in tasks(libraries):
        write_task(data / "tasks" / task.id, task)
        splits.setdefault(task.scenario.split, []).append(task.id)
    for split, ids in splits.items():
        write(data / "datasets" / f"{split}.txt", "\n".join(ids) + "\n")
