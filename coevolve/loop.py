"""The settings of the whole loop (shell/train_loop.sh): one TOML file in, one checked TOML file out, RUN/loop.toml.

A settings file has a table `[loop]`, whose keys are the fields of `LoopSettings`, and a table for each command of the loop,
whose keys are that command's options. `resolve` adds what the command line says and what the loop itself tells its commands,
so that every stage reads its options from one file: `coevolve explore --config RUN/loop.toml`.
"""

from __future__ import annotations

import difflib
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from coevolve.errors import UsageError

STAGES = ("train", "extract-signals", "explore", "abstract", "validate", "merge")
"""The commands whose tables a settings file may have."""
FILE = "loop.toml"
"""What a run directory keeps its settings in."""
HOW = ("workers", "base-url", "concurrency", "timeout", "prices")
"""Keys that say how the work is done and not which, as `budget-…` do: a run goes on with other values."""
Tables = dict[str, dict[str, Any]]

_Positive = Annotated[int, Meta(ge=1)]


class LoopSettings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The table `[loop]`. Raises UsageError for a combination that means nothing."""

    model: Annotated[
        str | None, Meta(description="Hugging Face model that the run begins with; presets of verl name one.")
    ] = None
    env: Annotated[str, Meta(description="Environment: a name, or the command line of your own.")] = "desk"
    tasks: Annotated[
        str | None, Meta(description="D_0, the first task set; without it, curious exploration makes one.")
    ] = None
    initial: Annotated[_Positive, Meta(description="Explorations for D_0, where it is made here.")] = 128
    exclude: Annotated[
        str | None, Meta(description="Held-out tasks: nothing that touches them enters the set.")
    ] = None
    iterations: Annotated[_Positive, Meta(description="Iterations: train, look for weaknesses, make tasks.")] = 10
    arm: Annotated[
        Literal["guided", "coverage", "random", "curious", "static"],
        Meta(description="Where new tasks come from; static: there are none, for comparison."),
    ] = "guided"
    without: Annotated[
        tuple[str, ...], Meta(description="Kinds of signal that are left out, for an ablation.")
    ] = ()
    validation: Annotated[bool, Meta(description="Whether new tasks are validated (D_0 always is).")] = True
    explorer: Annotated[
        Literal["program", "policy", "server", "api"],
        Meta(
            description="Who explores and writes tasks: programs; the policy itself; a model that the loop serves; one at base-url."
        ),
    ] = "program"
    explorer_model: Annotated[str | None, Meta(description="The model of explorer server or api.")] = None
    base_url: Annotated[str | None, Meta(description="Where explorer api is; its key is in OPENAI_API_KEY.")] = None
    solver: Annotated[bool, Meta(description="Let the explorer's model also try each new task.")] = False
    seed: Annotated[int, Meta(ge=0, description="Same seed, same run (verl and models excepted).")] = 0
    workers: Annotated[_Positive, Meta(description="Environment processes of each command.")] = 1

    def __post_init__(self) -> None:
        model = self.explorer_model
        for wrong, message in (
            (self.without and self.arm != "guided", "without needs arm guided: the other arms read no signals"),
            (self.solver and self.explorer == "program", "solver needs a model: explorer policy, server or api"),
            (model and self.explorer not in ("server", "api"), "explorer-model needs explorer server or api"),
            (not model and self.explorer in ("server", "api"), f"explorer {self.explorer} needs explorer-model"),
            (self.explorer == "api" and not self.base_url, "explorer api needs base-url"),
            (self.base_url and self.explorer != "api", "base-url needs explorer api"),
        ):
            if wrong:
                raise UsageError(message)


def resolve(file: str | None, options: Mapping[str, Any], assigned: Iterable[str]) -> tuple[LoopSettings, Tables]:
    """The loop's settings, and the table of each command.

    `options` are keys of `[loop]` from the command line, `assigned` texts TABLE.KEY=VALUE; both win over the file. A command's
    own keys win over what the loop tells it. Raises UsageError for what cannot be read or is no setting.
    """
    tables = _read(file) if file else {}
    for text in assigned:
        table, key, value = _assignment(text)
        tables.setdefault(table, {})[key] = value
    for name, table in tables.items():
        _known(name, ("loop", *STAGES), f"{file or '--set'}: no table")
        if not isinstance(table, dict):
            raise UsageError(f"{file}: {name} is no table; write [{name}] and its keys below")
    given = {**tables.pop("loop", {}), **options}
    for key in given:
        _known(key, LoopSettings.__struct_encode_fields__, "no such setting of the loop:")
    try:
        settings = msgspec.convert(given, LoopSettings)
    except msgspec.ValidationError as error:
        raise UsageError(f"[loop]: {error}") from None
    return settings, _tables(settings, tables)


def _read(file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(file).read_text())
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {error}") from None


def _assignment(text: str) -> tuple[str, str, Any]:
    name, equals, value = text.partition("=")
    table, dot, key = name.strip().rpartition(".")
    if not (equals and dot and table and key):
        raise UsageError(f"--set takes TABLE.KEY=VALUE, as train.lr=3e-4, not {text!r}")
    try:
        return table, key, tomllib.loads(f"value = {value}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return table, key, value  # a text without its quotes


def _known(name: str, names: Iterable[str], complaint: str) -> None:
    if name not in names:
        near = difflib.get_close_matches(name.replace("_", "-"), list(names), 1)
        raise UsageError(f"{complaint} {name!r}" + (f". Did you mean {near[0]!r}?" if near else ""))


def _tables(settings: LoopSettings, given: Tables) -> Tables:
    """What the loop tells each command, and over it what the user does."""
    env = {"env": settings.env}
    playing = {**env, "workers": settings.workers}
    quota = {"quota": ",".join(f"{kind}=0" for kind in settings.without)} if settings.without else {}
    told: Tables = {
        "train": {**playing, "seed": settings.seed, **({"model": settings.model} if settings.model else {})},
        "extract-signals": {**env, **quota},
        "explore": playing,
        "abstract": {**playing, "seed": settings.seed, "per-exploration": 1},
        "validate": playing,
        "merge": {"exclude": settings.exclude} if settings.exclude else {},
    }
    if not settings.validation:
        told["merge"]["unvalidated"] = True
    return {name: {**table, **given.get(name, {})} for name, table in told.items()}


def to_toml(settings: LoopSettings, tables: Tables) -> str:
    """The text of RUN/loop.toml."""
    everything = {"loop": msgspec.to_builtins(settings), **tables}
    lines = []
    for name, table in everything.items():
        lines.append(f"[{name}]")
        # JSON's texts, numbers, truth values and lists are TOML's, too
        lines += [f"{key} = {json.dumps(v)}" for key, v in table.items() if v not in (None, ())]
    return "\n".join(lines) + "\n"


def differences(old: str, new: str) -> list[str]:
    """Names of the settings, TABLE.KEY, in which a run's file and a new one differ, those of `HOW` left out."""

    def flat(text: str) -> dict[str, Any]:
        return {
            f"{name}.{key}": value
            for name, table in tomllib.loads(text).items()
            for key, value in table.items()
            if key not in HOW and not key.startswith("budget-")
        }

    before, after = flat(old), flat(new)
    return sorted(key for key in {*before, *after} if before.get(key) != after.get(key))


def check_files(settings: LoopSettings, tables: Tables) -> None:
    """Raises UsageError for a file or a model that is not there."""
    for path in (settings.tasks, settings.exclude):
        if path and not os.path.isfile(path):
            raise UsageError(f"no such file: {path}")
    model = tables["train"].get("model")
    if not model:
        if "preset" not in tables["train"]:
            raise UsageError("no model: give --model, or a preset of verl (--set train.preset=NAME)")
        return
    cache = Path(os.environ.get("HF_HUB_CACHE") or Path(os.environ.get("HF_HOME") or "~/.cache/huggingface") / "hub")
    here = Path(model, "config.json").is_file()
    cached = (cache.expanduser() / f"models--{model.replace('/', '--')}").exists()
    if not here and (model.startswith(("/", ".")) or os.environ.get("HF_HUB_OFFLINE") != "0" and not cached):
        raise UsageError(
            f"no model {model}: neither a directory with config.json nor in {cache} (HF_HUB_OFFLINE=0 lets it be downloaded)"
        )
