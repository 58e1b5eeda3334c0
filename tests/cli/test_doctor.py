"""`coevolve doctor`: what is there agrees with what the interpreter says, what is missing has an
install line."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

from coevolve import doctor
from coevolve.errors import installation
from coevolve_cli.commands import COMMANDS
from conftest import run

PYPROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


def records(*arguments, **options):
    done = run("doctor", *arguments, **options)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


def test_what_is_there():
    """Versions are the metadata's; the interpreter is this one."""
    found, table = records()
    parts = {r["part"]: r for r in found if "part" in r}
    assert parts["core"]["ok"] and parts["core"]["where"] == sys.executable
    for name, version in parts["core"]["found"].items():
        assert importlib.metadata.version(name) == version and f"{name} {version}" in table
    assert any(r.get("command") == "train" for r in found) and sys.executable in table


def test_what_is_missing(tmp_path):
    """An empty home has no environments: exit 0, with the install lines; asked for by name, exit
    69."""
    environment = {**os.environ, "COEVOLVE_HOME": str(tmp_path), "PATH": "/nowhere"}
    found, table = records(env=environment)
    (bfcl,) = [r for r in found if r.get("part") == "bfcl"]
    assert (
        not bfcl["ok"]
        and bfcl["install"] == "coevolve env install bfcl"
        and "coevolve env install bfcl" in table
    )
    (official,) = [r for r in found if r.get("command") == "evaluate --official"]
    assert official["install"] == ["coevolve env install bfcl-official"]
    done = run("doctor", "core", "bfcl", env=environment, check=False)
    assert done.returncode == 69 and b"bfcl lacks the environment bfcl" in done.stderr
    assert run("doctor", "core").returncode == 0
    assert b"Did you mean 'bfcl'" in run("doctor", "bfc", check=False).stderr


@pytest.mark.parametrize(
    ("version", "fits"), [("5.8.9", False), ("5.9", True), ("5.10.4", True), ("5.11.0", False)]
)
def test_versions(version, fits):
    """A range includes its lower end only, number by number."""
    assert doctor.fits(version, "transformers>=5.9,<5.11") is fits


def test_a_gpu_and_a_torch_for_cpus(tmp_path, monkeypatch):
    """With a GPU in the machine, a torch without CUDA is what is missing; an old driver is told
    from a new one."""
    script = tmp_path / "nvidia-smi"
    script.write_text("#!/bin/sh\necho 'NVIDIA H100 80GB HBM3, 81559 MiB, 570.12'\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(doctor, "_torch_build", lambda: "cpu")
    assert doctor._gpu().missing == ["a torch built for CUDA (this one is for CPUs)"]
    monkeypatch.setattr(doctor, "_torch_build", lambda: "13.0")
    assert doctor._gpu().missing == ["a driver of 580 or later for CUDA 13.0 (there is 570)"]
    monkeypatch.setattr(doctor, "_torch_build", lambda: "12.8")
    assert doctor._gpu().ok and doctor._gpu().found["gpu 0"].startswith("NVIDIA H100")


def test_the_tables_agree_with_the_package():
    """Ranges are those of pyproject.toml, and every command that is named exists."""
    stated = {"core": PYPROJECT["dependencies"], **PYPROJECT["optional-dependencies"]}
    for name in ("core", "local", "models"):
        assert sorted(doctor.NEEDS.extras[name].packages) == sorted(stated[name])
    assert any("verl==0.9.1" in line for line in stated["verl-cpu"])
    for command in doctor.NEEDS.uses:
        for word in command.split(" --")[0].split(", "):
            assert word.split()[0] in COMMANDS
    for extra in doctor.NEEDS.extras.values():
        if names := re.search(r"'\.\[([\w,-]+)\]'", extra.install):
            assert extra.install.startswith(installation(*names[1].split(",")))
    assert {need for needs in doctor.NEEDS.uses.values() for need in needs} <= {
        part.part for part in doctor.parts()
    }
