"""The scripts themselves: checked by shellcheck, and what they would run compared with the files of
dry_run/, in order and in full."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import parse

ROOT = Path(__file__).parent.parent.parent
SCRIPTS = sorted(p for p in (ROOT / "shell").rglob("*") if p.suffix in (".sh", ".sbatch"))
EXPECTED = Path(__file__).parent / "dry_run"
VERL = "--iterations 2 --set train.backend=verl --set train.preset"
DRY_RUNS = {
    "program": "shell/train_loop.sh RUN --model org/model --iterations 1",
    "coverage": "shell/train_loop.sh RUN --model org/model --iterations 2 --tasks D0 --exclude D0"
    " --arm coverage",
    "static": "shell/train_loop.sh RUN --model org/model --iterations 2 --tasks D0 --arm static",
    "ablation": "shell/train_loop.sh RUN --model org/model --iterations 2 --tasks D0"
    " --without forgetting,rare --validation off",
    "laptop": "shell/train_loop.sh RUN --config shell/loops/laptop.toml --model org/model"
    " --iterations 1 --set train.steps=3",
    "verl_policy": "shell/train_loop.sh RUN --config shell/loops/qwen3-4b.toml --iterations 2"
    " --tasks D0 --solver --set train.lr=1e-6 -- trainer.nnodes=1",
    "local_policy": "shell/train_loop.sh RUN --model org/model --iterations 2 --tasks D0"
    " --explorer policy",
    "server": "EXPLORER_GPUS=6,7 shell/train_loop.sh RUN --model org/model --iterations 1"
    " --explorer server --explorer-model org/teacher",
    "api": "shell/train_loop.sh RUN --model org/model --iterations 2 --explorer api"
    " --explorer-model teacher --base-url https://host/v1 --config CONFIG",
    "ssh": "KEEP=COEVOLVE_HOME COEVOLVE_HOME='/a b' HEAD_IP=10.0.0.1 shell/ray_cluster.sh"
    " --nodes 'one two three' --gpus 4 --dry-run -- shell/train_loop.sh RUN",
    "one_node": f"bash shell/slurm/train_loop.sbatch RUN {VERL}=qwen3-4b --env bfcl",
    "two_nodes": "SLURM_JOB_NUM_NODES=2 bash shell/slurm/train_loop.sbatch RUN"
    " --config shell/loops/qwen3-30b-a3b.toml --iterations 2 --env bfcl-strict",
    "teacher": "EXPLORER_MODEL=org/teacher SERVE_FLAGS='--tensor-parallel-size 8'"
    " SLURM_JOB_NUM_NODES=3 bash shell/slurm/train_loop.sbatch RUN"
    f" {VERL}=qwen3-30b-a3b --tasks D0",
}


@pytest.fixture(scope="module")
def env(command_path: str, tmp_path_factory) -> dict[str, str]:
    """Without the variables of a cluster that the tests may themselves run on."""
    foreign = ("SLURM_", "RAY_", "COEVOLVE_", "EXPLORER_", "SERVE_")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)} | {
        "PATH": command_path
    }


def dry_run(command: str, folder: Path, env: dict[str, str]) -> list[str]:
    """What the script prints, this machine's paths replaced."""
    (folder / "D0").touch()
    (folder / "CONFIG").touch()
    if "--dry-run" not in command:
        command = command.replace(" RUN", " RUN --dry-run")
    for name in ("RUN", "D0", "CONFIG"):
        command = command.replace(f" {name}", f" {folder}/{name}")
    result = subprocess.run(
        ["bash", "-uc", command],
        cwd=ROOT, env=env, capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "unbound" not in result.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["CONFIG", "D0"], (
        "a dry run does nothing"
    )
    return result.stdout.replace(str(ROOT), "ROOT").replace(str(folder), "DIR").splitlines()


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.name)
def test_shellcheck_has_nothing_to_say(path: Path):
    """At its most talkative level."""
    if shutil.which("shellcheck") is None:
        pytest.skip(
            "shellcheck is not installed here: scripts are not checked (apt install shellcheck)"
        )
    folders = ["-P", str(ROOT / "shell")]
    result = subprocess.run(
        ["shellcheck", "-x", *folders, str(path)], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    "path", [p for p in SCRIPTS if p.name != "common.sh"], ids=lambda p: p.name
)
def test_an_unset_variable_is_an_error(path: Path):
    """Every script runs under `set -u`, and can be started."""
    assert any(
        line.startswith(("set -euo pipefail", "set -uo pipefail"))
        for line in path.read_text().splitlines()
    )
    assert path.suffix == ".sbatch" or os.access(path, os.X_OK)


@pytest.mark.parametrize("name", DRY_RUNS)
def test_a_dry_run_prints_every_command(name: str, tmp_path: Path, env: dict[str, str]):
    """The same commands as the expected file, in the same order, and nothing is made or started."""
    found = dry_run(DRY_RUNS[name], tmp_path, env)
    path = EXPECTED / f"{name}.txt"
    assert found == path.read_text().splitlines()


@pytest.mark.parametrize("name", DRY_RUNS)
def test_the_command_line_takes_it(name: str, tmp_path: Path):
    """Each printed command parses, with the settings that it reads: all its options take their
    values."""
    text = (EXPECTED / f"{name}.txt").read_text().replace("DIR/", f"{tmp_path}/")
    (tmp_path / "CONFIG").touch()
    if settings := re.search(r"cat > (\S+) << 'END'\n(.*?)^END$", text, re.M | re.S):
        Path(settings[1]).parent.mkdir()
        Path(settings[1]).write_text(settings[2])
    calls = re.findall(r"^(?:srun .*?|)(coevolve .*)", text, re.M)
    assert calls or name == "ssh"
    for call in sorted(set(calls)):
        parse(shlex.split(call)[1:])


def test_one_file_for_each_dry_run():
    """No expected file is left without its command."""
    assert {path.stem for path in EXPECTED.iterdir()} == set(DRY_RUNS)
