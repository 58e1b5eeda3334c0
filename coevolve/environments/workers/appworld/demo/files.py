"""Writing the demo root's files and databases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from appworld.apps import get_all_apps


def dump(path: Path, value: Any) -> None:
    write(path, json.dumps(value, indent=1))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def save_databases(models: Any, folder: Path, format_: str) -> None:
    """Writes the databases of a `ModelCollection`: `full`, or their `changes` to the base."""
    models.save(
        db_home_path=str(folder),
        app_names=list(get_all_apps()),
        format=format_,
        delete_if_exists=True,
        save_model_hashes=True,
    )
