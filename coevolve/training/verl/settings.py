"""The settings that decide a verl run's results, and presets, which give those that the user left
open.

`VerlSettings` is what RUN/config.json holds: a run goes on only with the same ones. A preset is a
TOML file (`presets/`, or the user's own) with settings, and with overrides on verl's `ppo_trainer`
for the machine (overrides.py).

Objective: paper's GRPO (SPEC §1.1), the same as the local backend's: token mean, k3 KL as a loss
term, dual clip, one update per step on the whole batch.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from coevolve.errors import UsageError
from coevolve.training.settings import GrpoSettings

PRESETS = Path(__file__).with_name("presets")


class VerlSettings(GrpoSettings, frozen=True, kw_only=True):
    """What decides a run. Defaults: the paper's."""

    backend: str = "verl"
    prompt_tokens: int
    episode_tokens: int
    overrides: dict[str, str] = {}
    """What else was said about the result, by verl's keys: `recorded` fills it in."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.prompt_tokens < self.episode_tokens:
            raise UsageError(
                f"--prompt-tokens ({self.prompt_tokens}) must be below --episode-tokens "
                f"({self.episode_tokens}): replies need room"
            )


class Preset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A preset file."""

    description: str
    device: str = "cuda"
    parameters: float | None = None
    """Parameters of the model, for the estimate of disk space where the model is no directory."""
    settings: dict[str, Any] = {}  # Options of `coevolve train` with other defaults
    overrides: dict[str, Any] = {}
    """Hydra overrides, as nested tables; a key that begins with + is new to verl's files."""
    plugin: str | None = None
    """A module that each of verl's processes imports, for a platform or a rollout engine that verl
    does not have.

    It imports `coevolve.training.verl.agent_loop`. tests/verl_cpu is one.
    """
    python_path: str | None = None
    """The folder in which the plugin is found, from the preset's file on."""
    environment: dict[str, str] = {}
    """Variables of the trainer's processes, where the user's environment does not set them."""


def presets() -> list[str]:
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def preset(name: str) -> Preset:
    """Raises UsageError for a name that is none; a path of a TOML file is a preset, too."""
    path = Path(name) if name.endswith(".toml") else PRESETS / f"{name}.toml"
    if not path.is_file():
        near = difflib.get_close_matches(name, presets(), 1)
        hint = (
            f"did you mean {near[0]!r}?"
            if near
            else f"there are: {', '.join(presets())}; or a TOML file like theirs"
        )
        raise UsageError(f"no preset {name!r}; {hint}")
    try:
        found = msgspec.convert(tomllib.loads(path.read_text()), Preset)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{path}: {error}") from error
    variables = {k: os.environ.get(k, value) for k, value in found.environment.items()}
    if found.python_path:
        folders = [os.path.abspath(path.parent / found.python_path), os.environ.get("PYTHONPATH")]
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    return msgspec.structs.replace(found, environment=variables)


def resolve(given: dict[str, Any], chosen: Preset) -> VerlSettings:
    """The settings that the user gave, then the preset's, then the defaults; lengths follow from
    the model where it is a directory that states them. Raises UsageError.
    """
    values = {**chosen.settings, **given}
    if not values.get("model"):
        raise UsageError("--model is missing, and the preset names none")
    if Path(values["model"]).is_dir():
        values["model"] = os.path.abspath(values["model"])
    own_limits = _limits(Path(values["model"]))
    for name, value in own_limits.items():
        values[name] = values.get(name) or value
    if not values.get("episode_tokens"):
        raise UsageError(
            f"--episode-tokens is missing, and {values['model']} does not say what it was made for"
        )
    values["prompt_tokens"] = values.get("prompt_tokens") or values["episode_tokens"] // 2
    try:
        return msgspec.convert(values, VerlSettings)
    except msgspec.ValidationError as error:
        raise UsageError(f"the preset's settings: {error}") from error


def _limits(model: Path) -> dict[str, int | None]:
    """Tokens of an episode and of a reply that a model directory states."""
    own = _json(model / "generation_config.json")
    return {
        "episode_tokens": own.get("max_length") or context(model),
        "reply_tokens": own.get("max_new_tokens"),
    }


def context(model: Path) -> int | None:
    """Tokens that a model directory says the model can take; None where it does not say."""
    config = _json(model / "config.json")
    return config.get("max_position_embeddings") or (config.get("text_config") or {}).get(
        "max_position_embeddings"
    )


def _json(file: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError):
        return {}
