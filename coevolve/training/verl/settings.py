"""What a verl run is told: settings that decide its results, a preset, and the hydra overrides that follow from them.

`VerlSettings` is what RUN/config.json holds: a run goes on only with the same ones. Presets are data files in `presets/`; they
give settings that the user left open, and overrides on verl's `ppo_trainer` for the machine. The user's own overrides come
last; those that would contradict a setting are refused, because the record of the run would lie (user_overrides.py).

Objective: paper's GRPO (SPEC §1.1), the same as the local backend's: token mean, k3 KL as a loss term, dual clip, one
update per step on the whole batch.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from coevolve.errors import UsageError
from coevolve.training.settings import GrpoSettings
from coevolve.training.verl import own
from coevolve.training.verl.user_overrides import check, deciding

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
    """Of the model, for the estimate of disk space where the model is no directory."""
    settings: dict[str, Any] = {}
    """Options of `coevolve train` with other defaults."""
    overrides: dict[str, Any] = {}
    """Hydra overrides, as nested tables; a key that begins with + adds one that verl's files do not have."""


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
        return msgspec.convert(tomllib.loads(path.read_text()), Preset)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise UsageError(f"{path}: {error}") from error


def resolve(given: dict[str, Any], chosen: Preset) -> VerlSettings:
    """The settings that the user gave, then the preset's, then the defaults; lengths follow from the model where it is a
    directory that states them. Raises UsageError."""
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
    """Tokens of an episode and of a reply that a model directory states, as `models.transformers_lm` takes them."""
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


def overrides(
    settings: VerlSettings,
    chosen: Preset,
    more: list[str],
    run: Path,
    *,
    save_every: int,
    keep_checkpoints: int,
) -> list[str]:
    """The hydra overrides of a run: the preset's, those that follow from the settings, the user's. Raises UsageError."""
    values = _values(settings, chosen, run, save_every, keep_checkpoints)
    check(more, [*values, *own.KEYS])
    return [
        *_flat(chosen.overrides),
        *(f"{key}={_value(value)}" for key, value in values.items()),
        *more,
    ]


def recorded(settings: VerlSettings, chosen: Preset, more: list[str]) -> VerlSettings:
    """The settings with what preset and user say about the result in verl's own words."""
    return msgspec.structs.replace(settings, overrides=deciding([*_flat(chosen.overrides), *more]))


def _values(
    settings: VerlSettings, chosen: Preset, run: Path, save_every: int, keep_checkpoints: int
) -> dict[str, Any]:
    """What follows from the settings, by verl's keys."""
    return {
        "algorithm.adv_estimator": own.ESTIMATOR,
        "algorithm.norm_adv_by_std_in_grpo": True,
        "algorithm.use_kl_in_reward": False,
        "actor_rollout_ref.model.path": settings.model,
        "actor_rollout_ref.actor.optim.lr": settings.lr,
        "actor_rollout_ref.actor.optim.lr_scheduler_type": "constant",
        "actor_rollout_ref.actor.optim.weight_decay": settings.weight_decay,
        "actor_rollout_ref.actor.optim.clip_grad": settings.grad_clip,
        "actor_rollout_ref.actor.grad_clip": settings.grad_clip,
        "actor_rollout_ref.actor.clip_ratio_low": settings.clip_low,
        "actor_rollout_ref.actor.clip_ratio_high": settings.clip_high,
        "actor_rollout_ref.actor.clip_ratio_c": settings.clip_dual,
        "actor_rollout_ref.actor.use_kl_loss": settings.beta > 0,
        "actor_rollout_ref.actor.kl_loss_coef": settings.beta,
        "actor_rollout_ref.actor.kl_loss_type": "low_var_kl",
        "actor_rollout_ref.actor.loss_agg_mode": "token-mean",
        "actor_rollout_ref.actor.entropy_coeff": 0,
        "actor_rollout_ref.actor.ppo_epochs": 1,
        "actor_rollout_ref.actor.ppo_mini_batch_size": settings.batch,
        "actor_rollout_ref.actor.checkpoint.save_contents": [
            "model",
            "optimizer",
            "extra",
            "hf_model",
        ],
        "actor_rollout_ref.actor.checkpoint.load_contents": ["model", "optimizer", "extra"],
        "actor_rollout_ref.rollout.n": settings.samples,
        "actor_rollout_ref.rollout.temperature": settings.temperature,
        "actor_rollout_ref.rollout.top_p": 1.0,
        "actor_rollout_ref.rollout.top_k": -1,
        "actor_rollout_ref.rollout.calculate_log_probs": True,
        "data.train_batch_size": settings.batch,
        "data.max_prompt_length": settings.prompt_tokens,
        "data.max_response_length": settings.episode_tokens - settings.prompt_tokens,
        "trainer.device": chosen.device,
        "trainer.save_freq": save_every,
        "trainer.max_actor_ckpt_to_keep": keep_checkpoints,
        "trainer.default_local_dir": str(run / "verl" / "checkpoints"),
        "trainer.resume_mode": "auto",
        "trainer.test_freq": -1,
        "trainer.val_before_train": False,
    }


def _flat(table: dict[str, Any], prefix: str = "") -> list[str]:
    lines = []
    for key, value in table.items():
        plus, name = ("+", key[1:]) if key.startswith("+") else ("", key)
        if isinstance(value, dict):
            lines += [plus + line for line in _flat(value, f"{prefix}{name}.")]
        else:
            lines.append(f"{plus}{prefix}{name}={_value(value)}")
    return lines


def _value(value: Any) -> str:
    """As hydra's grammar has it."""
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{','.join(map(_value, value))}]"
    if isinstance(value, str) and not re.fullmatch(r"[\w./@-]+", value):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    return str(value)
