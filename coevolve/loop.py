"""The settings of the whole loop (shell/train_loop.sh): one TOML file in, RUN/loop.toml out.

A settings file has a table `[loop]`, whose keys are the options of `LoopSettings`, and a table for
each command of the loop, whose keys are that command's options. `resolve` adds what the command
line says and what the loop itself tells its commands, so that every stage reads all its options
from one file: `coevolve explore --config RUN/loop.toml`.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec

from coevolve import jsonl
from coevolve.environments.registry import BUILT_IN, find
from coevolve.errors import UsageError
from coevolve.models.transformers_lm import is_cached
from coevolve.options import Option, Seed, Settings, fields, nearest, read_toml
from coevolve.records import Task

STAGES = ("train", "extract-signals", "explore", "abstract", "validate", "merge")
"""The commands whose tables a settings file may have."""
FILE = "loop.toml"  # The name of the settings in a run directory
MAY_CHANGE = "iterations run history workers base-url concurrency timeout prices".split()
"""Keys with which a run goes on where they differ, as with `budget-…`: how far, where and how."""
Tables = dict[str, dict[str, Any]]
ARMS = {
    "guided": "around the policy's own signals, and where its tasks cover little",
    "coverage": "where the tasks cover little, without signals",
    "curious": "wherever something was not tried yet",
    "random": "anywhere",
    "static": "there are none: the first task set stays",
}
EXPLORERS = {
    "program": "programs, without any model",
    "policy": "the policy itself, as its trainer or a server of the loop's serves it",
    "server": "a model that the loop serves (its GPUs: EXPLORER_GPUS)",
    "api": "a model at --base-url",
}


class LoopSettings(Settings, frozen=True, kw_only=True):
    """The table `[loop]`."""

    PANEL: ClassVar[str] = "The loop"

    model: Annotated[
        str | None,
        Option("Hugging Face model that the run begins with.", default="the one of verl's preset"),
    ] = None
    env: Annotated[str, Option("Environment: a name, or a command line of yours.")] = "desk"
    tasks: Annotated[
        str | None, Option("D_0.", metavar="FILE", file="in", default="made by curious exploration")
    ] = None
    initial: Annotated[int, Option("Explorations for D_0, where the loop makes it.", ge=1)] = 128
    exclude: Annotated[
        str | None, Option("Held-out tasks: no new task may touch them.", metavar="FILE", file="in")
    ] = None
    iterations: Annotated[int, Option("Times to train and to make new tasks.", ge=1)] = 10
    arm: Annotated[str, Option("Where new tasks come from.", choices=ARMS)] = "guided"
    without: Annotated[
        tuple[str, ...], Option("Kinds of signal that the guided arm leaves out.", metavar="KIND,…")
    ] = ()
    validation: Annotated[
        str,
        Option(
            "Whether new tasks are validated; D_0 always is.",
            choices={"on": "only valid ones enter", "off": "they enter as they were written"},
        ),
    ] = "on"
    explorer: Annotated[str, Option("Who explores and writes.", choices=EXPLORERS)] = "program"
    explorer_model: Annotated[str | None, Option("The model of explorer server or api.")] = None
    base_url: Annotated[
        str | None, Option("Where explorer api is; its key is OPENAI_API_KEY.", metavar="URL")
    ] = None
    solver: Annotated[bool, Option("The explorer's model also tries each new task.")] = False
    seed: Seed = 0
    workers: Annotated[int, Option("Environment processes of each command.", ge=1)] = 1


def _check_combination(loop: LoopSettings) -> None:
    """Raises UsageError for settings that mean nothing together."""
    modelled, named = loop.explorer in ("server", "api"), loop.explorer_model is not None
    for wrong, message in (
        (loop.seed < 0, f"--seed takes a whole number of at least 0, not {loop.seed}"),
        (loop.without and loop.arm != "guided", "--without needs --arm guided"),
        (loop.solver and loop.explorer == "program", "--solver needs an explorer with a model"),
        (named and not modelled, "--explorer-model needs --explorer server or api"),
        (modelled and not named, f"--explorer {loop.explorer} needs --explorer-model"),
        (loop.explorer == "api" and not loop.base_url, "--explorer api needs --base-url"),
        (loop.base_url and loop.explorer != "api", "--base-url needs --explorer api"),
    ):
        if wrong:
            raise UsageError(message)


def resolve(
    run: str, file: str | None, given: Mapping[str, Any], assigned: Iterable[str]
) -> tuple[LoopSettings, Tables]:
    """The loop's settings, and the table of each command, for a run in the directory `run`.

    `given` are fields of `LoopSettings` from the command line, `assigned` texts TABLE.KEY=VALUE;
    both win over the file. A command's own keys win over what the loop tells it. Raises UsageError
    for what cannot be read or is no setting.
    """
    tables = read_toml(file) if file else {}
    for name, table in tables.items():
        _check_table(name, file)
        if not isinstance(table, dict):
            raise UsageError(f"{file}: {name} is no table; write [{name}] and its keys below")
    for text in assigned:
        name, key, value = _assignment(text)
        _check_table(name, "--set")
        tables.setdefault(name, {})[key] = value
    options = {field.key: field for field in fields(LoopSettings).values()}
    values = {}
    for key, value in tables.pop("loop", {}).items():
        if key not in options:
            raise UsageError(
                f"{file or '--set'}: unknown key {key!r} in [loop]{nearest(key, options)}"
            )
        values[options[key].name] = options[key].parse(value, f"{key} in [loop]")
    settings = LoopSettings(**{**values, **given})
    _check_combination(settings)
    return settings, _tables(run, settings, tables)


def _check_table(name: str, where: str | None) -> None:
    if name not in ("loop", *STAGES):
        raise UsageError(f"{where}: no table {name!r}{nearest(name, ['loop', *STAGES])}")


def _assignment(text: str) -> tuple[str, str, Any]:
    name, equals, value = text.partition("=")
    table, dot, key = name.strip().rpartition(".")
    if not (equals and dot and table and key):
        raise UsageError(f"--set takes TABLE.KEY=VALUE, as train.lr=3e-4, not {text!r}")
    try:
        return table, key, tomllib.loads(f"value = {value}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return table, key, value  # a text without its quotes


def _tables(run: str, settings: LoopSettings, given: Tables) -> Tables:
    """What the loop tells each command, and over it what the user does."""
    env, model = {"env": settings.env}, {"model": settings.model} if settings.model else {}
    played = {**env, "workers": settings.workers}
    quota = (
        {"quota": ",".join(f"{kind}=0" for kind in settings.without)} if settings.without else {}
    )
    told: Tables = {
        "train": {**played, **model, "run": run, "seed": settings.seed},
        "extract-signals": {**env, **quota, "history": f"{run}/history.jsonl"},
        "explore": played,
        "abstract": {**played, "seed": settings.seed, "per-exploration": 1},
        "validate": played,
        "merge": {"exclude": settings.exclude} if settings.exclude else {},
    }
    if settings.validation == "off":
        told["merge"]["unvalidated"] = True
    return {name: {**table, **given.get(name, {})} for name, table in told.items()}


def to_toml(settings: LoopSettings, tables: Tables) -> str:
    """The text of RUN/loop.toml."""
    loop = {field.key: getattr(settings, field.name) for field in fields(LoopSettings).values()}
    lines = []
    for name, table in {"loop": loop, **tables}.items():
        lines.append(f"[{name}]")
        for key, value in table.items():
            if value not in (None, (), []):
                # JSON's texts, numbers, truth values and lists are TOML's, too
                lines.append(
                    f"{key} = {json.dumps(msgspec.to_builtins(value), ensure_ascii=False)}"
                )
    return "\n".join(lines) + "\n"


def differences(old: str, new: str) -> list[str]:
    """Settings, as TABLE.KEY, in which two files differ, but for those that may change."""
    before, after = (
        {
            f"{name}.{key}": value
            for name, table in tomllib.loads(text).items()
            for key, value in table.items()
            if key not in MAY_CHANGE and not key.startswith("budget-")
        }
        for text in (old, new)
    )
    return sorted(key for key in {*before, *after} if before.get(key) != after.get(key))


def check_files(settings: LoopSettings, tables: Tables, *, dry_run: bool = False) -> None:
    """Raises UsageError for an environment, a file or a model that is not there, BadInput for a
    file that holds anything but tasks. A dry run needs neither the model nor tasks yet."""
    if settings.env not in BUILT_IN:
        find(settings.env)
    for path in filter(None, (settings.tasks, settings.exclude)):
        if not os.path.isfile(path):
            raise UsageError(f"no such file: {path}")
        if not sum(1 for _ in jsonl.read([path], Task)) and not dry_run:
            raise UsageError(f"{path} holds no tasks")
    train = tables["train"]
    if train.get("backend") == "verl" and "preset" not in train:
        raise UsageError("train.backend verl needs train.preset")
    model = train.get("model")
    if model is None:
        if "preset" not in train:
            raise UsageError("no model: give --model, or a preset of verl (train.preset)")
    elif not Path(model, "config.json").is_file() and (
        model.startswith(("/", "."))
        or not (dry_run or os.environ.get("HF_HUB_OFFLINE") == "0" or is_cached(model))
    ):
        raise UsageError(
            f"no model {model}: neither a directory with config.json nor among the downloaded ones "
            "(HF_HUB_OFFLINE=0 lets it be downloaded)"
        )
