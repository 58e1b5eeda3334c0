"""verl's configuration from hydra overrides, checked by verl itself before anything is started.

`compose` runs where verl is imported anyway (the child); `resolved` does it in a process of its
own, for a dry run: its import takes ten seconds, prints, and loads torch. A key that the installed
verl does not have is a UsageError with the nearest one.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from coevolve.errors import CoevolveError, UsageError

if TYPE_CHECKING:
    from omegaconf import DictConfig


_COMPLAINTS = (AssertionError, ValueError, TypeError, ArithmeticError, RuntimeError)
"""What verl's checks raise."""


class _Composed(msgspec.Struct):
    config: dict[str, Any] = {}
    error: str | None = None


def compose(overrides: list[str]) -> DictConfig:
    """The configuration of `ppo_trainer`, validated. Raises UsageError."""
    import verl
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    folder = Path(verl.__file__).parent / "trainer" / "config"
    with initialize_config_dir(config_dir=str(folder), version_base=None):
        try:
            config = hydra_compose("ppo_trainer", overrides=overrides)
        except (HydraException, OmegaConfBaseException) as error:
            known = OmegaConf.to_container(hydra_compose("ppo_trainer"), resolve=False)
            why = _explained(str(error), _keys(known))
            raise UsageError(f"verl's configuration: {why}") from error
    validate(config)
    return config


def validate(config: DictConfig) -> None:
    """verl's own checks, its data classes included. Raises UsageError."""
    from hydra.errors import HydraException
    from omegaconf.errors import OmegaConfBaseException
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    parts = config.actor_rollout_ref
    try:
        validate_config(config, need_reference_policy(config), need_critic(config))
        for part in (parts.rollout, parts.actor, config.algorithm):
            omega_conf_to_dataclass(part)
    except (*_COMPLAINTS, HydraException, OmegaConfBaseException) as error:
        reason = error.__cause__ if isinstance(error, HydraException) and error.__cause__ else error
        why = " ".join(str(reason).split())
        raise UsageError(f"verl refuses the configuration: {why}") from error


def resolved(overrides: list[str], environment: dict[str, str]) -> dict[str, Any]:
    """The composed and validated configuration as plain data, resolved where it can be."""
    done = subprocess.run(
        [sys.executable, "-m", __spec__.name],
        input=msgspec.json.encode(overrides),
        capture_output=True,
        env=os.environ | environment,
    )
    try:
        answer = msgspec.json.decode(done.stdout, type=_Composed)
    except msgspec.MsgspecError:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        why = last or f"exit {done.returncode}"
        raise CoevolveError(f"verl's configuration cannot be composed: {why}") from None
    if answer.error:
        raise UsageError(answer.error)
    return answer.config


def _explained(text: str, known: list[str]) -> str:
    """Hydra's complaint in one line, with the nearest key where one is misspelt."""
    first = " ".join(text.splitlines()[0].split())
    unknown = re.search(r"'?([\w+~]+(?:\.[\w+]+)+)'?", first)
    near = difflib.get_close_matches(unknown[1].lstrip("+~"), known, 1, 0.8) if unknown else []
    return first + (f" Did you mean {near[0]}?" if near and near[0] != unknown[1] else "")


def _keys(value: Any, prefix: str = "") -> list[str]:
    if not isinstance(value, dict):
        return [prefix]
    return [
        key
        for name, part in value.items()
        for key in _keys(part, f"{prefix}.{name}" if prefix else str(name))
    ]


def _answer(overrides: list[str]) -> _Composed:
    from omegaconf import OmegaConf

    try:
        config = compose(overrides)
    except UsageError as error:
        return _Composed(error=str(error))
    try:
        return _Composed(OmegaConf.to_container(config, resolve=True))
    except Exception:  # noqa: BLE001 - some of verl's interpolations name keys that only other engines have
        return _Composed(OmegaConf.to_container(config, resolve=False))


def main() -> None:
    """Reads overrides on stdin; the answer is all that comes on stdout."""
    out = os.dup(1)
    os.dup2(2, 1)
    overrides = msgspec.json.decode(sys.stdin.buffer.read(), type=list[str])
    with open(out, "wb") as stream:
        stream.write(msgspec.json.encode(_answer(overrides)))


if __name__ == "__main__":
    main()
