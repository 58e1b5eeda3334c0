"""`--backend vllm`: the server's life, and the policy played through it.

vLLM needs a GPU or a build of its own, so `vllm` here is a script that takes its command line and starts the real
`transformers serve` with it: addresses, names, health, chat and the end of all processes are real, the engine is another.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import real_server
from loop_in_miniature import gone

import tiny_models
from coevolve import jsonl
from coevolve.errors import MissingDependency, Unreachable
from coevolve.models import vllm_server
from coevolve.models.transformers_lm import identity
from coevolve.records import Rollout
from conftest import run

SHOP = f"{sys.executable} {Path(__file__).parent.parent / 'grocer.py'}"
STAND_IN = """#!/bin/sh
[ "$1" = serve ] && [ "$3" = --served-model-name ] && [ "$5 $6 $7 $8" = "--generation-config vllm --host 127.0.0.1" ] || exit 9
echo "$@" > "$(dirname "$0")/arguments"
cd "$(dirname "$0")" && ln -sfn "$2" "./${{4%@*}}"  # this server takes what follows an @ for a revision
HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 {python} -m transformers.cli.transformers serve "$4" --device cpu --host 127.0.0.1 --port "${{10}}" &
echo $! > server.pid
wait
"""


def vllm(folder: Path, script: str) -> str:
    """A PATH on which `vllm` is the script."""
    folder.mkdir()
    (folder / "vllm").write_text(script)
    (folder / "vllm").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.serve
def test_a_policy_through_the_server(tmp_path):
    """`rollout --backend vllm` plays the directory's model under a name with its digest, and leaves no process behind."""
    if missing := real_server.missing():
        pytest.skip(f"pip install -e '.[serve]' ({', '.join(missing)} missing)")
    model = tiny_models.shop_policy(tmp_path / "shop", steps=150)
    jsonl.write(tmp_path / "tasks.jsonl", tiny_models.shop_tasks(SHOP, 2))
    path = vllm(tmp_path / "bin", STAND_IN.format(python=sys.executable))
    environment = {**os.environ, "PATH": path, "COEVOLVE_HOME": str(tmp_path / "home")}
    options = [
        "--env",
        SHOP,
        "--policy",
        model,
        "--backend",
        "vllm",
        "--max-turn-tokens",
        16,
        "--vllm-args",
        "--seed 3",
    ]
    done = run("rollout", tmp_path / "tasks.jsonl", *options, "--samples", 2, env=environment)
    (tmp_path / "out.jsonl").write_bytes(done.stdout)
    made = [line.record for line in jsonl.read([str(tmp_path / "out.jsonl")], Rollout)]
    assert {r.policy for r in made} == {identity(str(model))} and len(made) == 4
    assert {"env_error"}.isdisjoint(r.stop_reason for r in made) and any(r.tools for r in made)
    assert (tmp_path / "bin" / "arguments").read_text().rstrip().endswith("--seed 3")
    assert gone(int((tmp_path / "bin" / "server.pid").read_text()))


def test_a_server_that_does_not_start(tmp_path, monkeypatch):
    """Its last words are quoted."""
    monkeypatch.setenv(
        "PATH",
        vllm(
            tmp_path / "bin", "#!/bin/sh\necho starting\necho 'No available memory for the cache blocks' >&2\nexit 3\n"
        ),
    )
    with pytest.raises(Unreachable, match="exit code 3: No available memory"), vllm_server.serve("m", "m"):
        pass


def test_a_server_that_never_answers(tmp_path, monkeypatch):
    """It is given up and ended, SIGTERM or not."""
    monkeypatch.setenv(
        "PATH", vllm(tmp_path / "bin", "#!/bin/sh\ntrap '' TERM\necho $$ > $0.pid\nwhile :; do sleep 0.1; done\n")
    )
    monkeypatch.setattr(vllm_server, "SECONDS", 0.5)
    monkeypatch.setattr(vllm_server, "GRACE", 0.5)
    with pytest.raises(Unreachable, match="did not answer"), vllm_server.serve("m", "m"):
        pass
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "bin" / "vllm.pid").read_text()), 0)


def test_the_server_dies_with_its_owner(tmp_path):
    """kill -9 of the command takes the server along."""
    path = vllm(tmp_path / "bin", "#!/bin/sh\necho $$ > $0.pid\nexec sleep 60\n")
    code = "from coevolve.models.vllm_server import serve\nwith serve('m', 'm'): pass"
    owner = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PATH": path})
    note = tmp_path / "bin" / "vllm.pid"
    while not (note.exists() and note.read_text().strip()):
        assert owner.poll() is None
    owner.kill()
    owner.wait()
    server = Path("/proc") / note.read_text().strip() / "cmdline"
    while server.exists() and b"sleep" in server.read_bytes():
        pass


def test_no_vllm(monkeypatch, tmp_path):
    """Without vLLM the install line is told."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(MissingDependency, match="vllm is not installed"), vllm_server.serve("m", "m"):
        pass


def test_refusals(tmp_path):
    """A program cannot be served, and there is one server at a time."""
    for more in (["--policy", "solution"], ["--policy", "m", "--base-url", "http://127.0.0.1:1/v1"]):
        done = run("rollout", "--env", "desk", "--split", "dev", "--backend", "vllm", *more, check=False)
        assert done.returncode == 2 and b"--backend vllm" in done.stderr
