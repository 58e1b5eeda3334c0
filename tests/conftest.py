"""What the tests share: the installed command as a subprocess, and guards for what a machine may
lack."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

COEVOLVE = [sys.executable, "-m", "coevolve_cli.main"]
REQUIRED = os.environ.get("COEVOLVE_REQUIRE", "").split(",")


def run(
    *arguments: str | Path, stdin: str | bytes = b"", check: bool = True, **options
) -> subprocess.CompletedProcess:
    """Runs `coevolve` with the arguments; stdin is text or bytes; returns bytes on stdout and
    stderr."""
    data = stdin.encode() if isinstance(stdin, str) else stdin
    result = subprocess.run(
        [*COEVOLVE, *map(str, arguments)], input=data, capture_output=True, **options
    )
    if check and result.returncode:
        raise AssertionError(
            f"coevolve {' '.join(map(str, arguments))} exited {result.returncode}: "
            f"{result.stderr.decode()[-2000:]}"
        )
    return result


def parse(words: list[str]) -> None:
    """Reads a command line, without the name of the program, as the command would: options and
    values."""
    from coevolve_cli import commands

    command, rest = commands._load(words[0]), words[1:]
    if getattr(command, "commands", None):
        command, rest = command.commands[rest[0]], rest[1:]
    context = command.make_context(words[0], rest)
    assert not context.args
    command.read(context, dict(context.params))


@pytest.fixture
def coevolve():
    """The command, through a real process."""
    return run


@pytest.fixture(scope="session")
def command_path(tmp_path_factory) -> str:
    """A PATH whose `coevolve` is this interpreter's."""
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "coevolve"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m coevolve_cli.main "$@"\n')
    script.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def _missing(what: str, reason: str) -> None:
    if what in REQUIRED:
        pytest.fail(f"{what} is required here: {reason}")
    pytest.skip(reason)


@pytest.fixture(autouse=True)
def _needs(request: pytest.FixtureRequest):
    """Skips a test whose environment (marker) is not installed, unless COEVOLVE_REQUIRE demands
    it."""
    for marker, name in (("bfcl", "bfcl"), ("official", "bfcl-official"), ("appworld", "appworld")):
        if request.node.get_closest_marker(marker) and not _installed(name):
            _missing(marker, f"run: coevolve env install {name}")
    if request.node.get_closest_marker("verl") and importlib.util.find_spec("verl") is None:
        _missing("verl", "run: pip install -e '.[local,verl-cpu]'")
    if request.node.get_closest_marker("vllm") and importlib.util.find_spec("vllm") is None:
        _missing("vllm", "run: shell/test_vllm.sh")
    if request.node.get_closest_marker("gpu") and not _gpu():
        _missing("gpu", "torch sees no GPU")


def _gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def _installed(name: str) -> bool:
    from coevolve.environments.install import RECIPES, installed

    return name in RECIPES and installed(name)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory):
    """A tiny policy for tests/grocer.py behind `transformers serve`: its directory, which is its
    name too, and the base URL."""
    import real_server

    if gone := real_server.missing():
        _missing("serve", f"run: pip install -e '.[serve]' ({', '.join(gone)} missing)")
    import tiny_models

    folder = tmp_path_factory.mktemp("served")
    model = tiny_models.shop_policy(folder / "shop")
    with real_server.serve(model, folder / "log") as url:
        yield model, url
