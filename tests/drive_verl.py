"""A driver in a process of its own, over the stand-in child: `drive_verl.py RUN TASKS MODEL ENV
[OPTION=VALUE]...`; prints the rollouts.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from coevolve import jsonl
from coevolve.errors import CoevolveError
from coevolve.records import Task
from coevolve.training.verl.driver import VerlRun, train
from coevolve.training.verl.settings import VerlSettings, preset
from coevolve_cli.main import _Signals
from verl_cpu import PRESET as CPU

COMMAND = (sys.executable, str(Path(__file__).with_name("stand_in_child.py")))
OWN = {"steps": 3, "batch": 2, "samples": 2, "prompt_tokens": 64, "episode_tokens": 128}


def drive(
    run: Path | str,
    tasks: list[Task],
    model: Path | str,
    env: str,
    iteration: int | None = None,
    **how,
) -> Path:
    """One iteration; `settings` among the options replaces settings."""
    settings = msgspec.convert(
        {"model": str(model), **OWN, **how.pop("settings", {})}, VerlSettings
    )
    chosen = VerlRun(preset(CPU), **{"command": COMMAND, "stall_timeout": 300.0, **how})
    return train(tasks, settings, str(run), env, chosen, iteration=iteration)


if __name__ == "__main__":
    signals = _Signals()
    signals.install()
    run, tasks, model, env, *more = sys.argv[1:]
    how = {key: msgspec.json.decode(value) for key, value in (text.split("=", 1) for text in more)}
    try:
        records = [line.record for line in jsonl.read([tasks], Task)]
        sys.stdout.buffer.write(drive(run, records, model, env, **how).read_bytes())
    except CoevolveError as error:
        sys.exit(f"{int(error.exit)} {error}")
