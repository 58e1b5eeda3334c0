"""Writing the demo root's files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def dump(path: Path, value: Any) -> None:
    write(path, json.dumps(value, indent=1))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
