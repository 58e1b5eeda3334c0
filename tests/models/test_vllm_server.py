"""`--backend vllm`: the server's life, and the policy played through it.

vLLM needs a GPU or a build of its own, so `vllm` here is a script that takes its command line and
starts the real `transformers serve` with it: addresses, names, health, chat and the end of all
processes are real, the engine is another.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import real_server
from loop_in_miniature import gone

import tiny_models
from coevolve import jsonl
from coevolve.errors import MissingDependency, Unreachable, UsageError
from coevolve.models import vllm_server
from coevolve.models.transformers_lm import identity
from coevolve.records import Rollout
from conftest import run

SHOP = f"{sys.executable} {Path(__file__).parent.parent / 'grocer.py'}"
STAND_IN = """#!/bin/sh
[ "$1" = serve ] && [ "$3" = --served-model-name ] || exit 9
[ "$5 $6 $7 $8" = "--generation-config vllm --host 127.0.0.1" ] || exit 9
echo "$@" > "$(dirname "$0")/arguments"
# this server takes what follows an @ for a revision
cd "$(dirname "$0")" && ln -sfn "$2" "./${{4%@*}}"
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1
set -- "$4" --device cpu --host 127.0.0.1 --port "${{10}}"
{python} -m transformers.cli.transformers serve "$@" &
echo $! > server.pid
wait
"""
ANSWERS = """\
#!/bin/sh
echo $$ > $0.pid
printf '%s\\n' "$@" > $0.arguments
cd "$(dirname "$0")" && touch health && echo loaded
exec {python} -m http.server --bind 127.0.0.1 "${{10}}" 2> /dev/null > /dev/null
"""


def vllm(folder: Path, script: str) -> str:
    """A PATH on which `vllm` is the script."""
    folder.mkdir()
    (folder / "vllm").write_text(script)
    (folder / "vllm").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.serve
def test_a_policy_through_the_server(tmp_path):
    """`rollout --backend vllm` plays the directory's model under a name with its digest, and leaves
    no process behind."""
    if missing := real_server.missing():
        pytest.skip(f"pip install -e '.[serve]' ({', '.join(missing)} missing)")
    model = tiny_models.shop_policy(tmp_path / "shop", steps=150)
    jsonl.write(tmp_path / "tasks.jsonl", tiny_models.shop_tasks(SHOP, 2))
    path = vllm(tmp_path / "bin", STAND_IN.format(python=sys.executable))
    environment = {**os.environ, "PATH": path, "COEVOLVE_HOME": str(tmp_path / "home")}
    options = [
        "--env",
        SHOP,
        "--model",
        model,
        "--backend",
        "vllm",
        "--reply-tokens",
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


WORKER = "(VllmWorker-0 pid=2) ERROR 11-30 01:44:50 [multiproc_executor.py:948]"
SERVER = "(APIServer pid=1)"
ABOVE = "Engine core initialization failed. See root cause above."
FAILED = f"""\
#!/bin/sh
cat >&2 << END
{SERVER} WARNING 11-30 01:44:48 [system_utils.py:249] This can cause errors like \
OSError: [Errno 24] Too many open files.
{WORKER} Traceback (most recent call last):
{WORKER}     raise ValueError(
{WORKER} ValueError: Available memory on node 0 is less than desired
(EngineCore pid=2) ERROR 11-30 01:44:51 [core.py:710] \
Exception: WorkerProc failed. See stack trace for root cause.
{SERVER}     raise RuntimeError("{ABOVE}")
{SERVER} RuntimeError: {ABOVE} Failed core proc(s): {{}}
[rank0]: a last word
END
exit 1
"""
INVALID = """\
#!/bin/sh
cat >&2 << END
Traceback (most recent call last):
    s.__pydantic_validator__.validate_python(arguments)
pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig
  Value error, User-specified max_model_len (99999) is greater than 256
    For further information visit a page
END
exit 1
"""
REFUSED = """\
#!/bin/sh
echo 'usage: vllm serve' >&2
echo 'vllm: error: unrecognized arguments: --nonsense' >&2
exit 2
"""
SHORT = (
    "#!/bin/sh\necho starting >&2\necho 'No available memory for the cache blocks' >&2\nexit 3\n"
)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (FAILED, "exit code 1: ValueError: Available memory on node 0 is less than desired (its"),
        (
            INVALID,
            "1 validation error for ModelConfig Value error, "
            "User-specified max_model_len (99999) is greater",
        ),
        (REFUSED, "exit code 2: vllm: error: unrecognized arguments: --nonsense (its"),
        (SHORT, "exit code 3: No available memory for the cache blocks (its"),
        ("#!/bin/sh\nkill -9 $$\n", "exit code 137: it said nothing"),
    ],
)
def test_a_server_that_does_not_start(tmp_path, monkeypatch, script, said):
    """The cause is quoted: the last exception but the one that points to it; without one, the last
    words. The log is kept."""
    monkeypatch.setenv("PATH", vllm(tmp_path / "bin", script))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(Unreachable, match=re.escape(said)) as raised, vllm_server.serve("m", "m"):
        pass
    logs = list(tmp_path.glob("coevolve-vllm-*.log"))
    assert len(logs) == (script in (FAILED, INVALID, REFUSED, SHORT)) and all(
        f"(its log: {log})" in str(raised.value) for log in logs
    )
    written = subprocess.run([tmp_path / "bin" / "vllm"], capture_output=True).stderr
    assert all(log.read_bytes() == written for log in logs)


def test_a_server_that_ends_too_early(tmp_path, monkeypatch, capfd):
    """Where the block goes on without a server, or fails for that, a warning says why and where the
    log is."""
    monkeypatch.setenv("PATH", vllm(tmp_path / "bin", ANSWERS.format(python=sys.executable)))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(OSError, match="reset"), vllm_server.serve("m", "m") as url:
        server = int((tmp_path / "bin" / "vllm.pid").read_text())
        os.kill(server, signal.SIGKILL)
        assert gone(server)
        time.sleep(1)  # five looks of the supervisor
        raise OSError(f"{url} reset")
    (log,) = tmp_path.glob("coevolve-vllm-*.log")
    assert f"vllm serve ended with exit code 137: loaded (its log: {log})" in capfd.readouterr().err


def test_what_ends_well_leaves_no_log(tmp_path, monkeypatch, capfd):
    """The arguments come after the defaults, which they overrule: vLLM takes the last."""
    monkeypatch.setenv("PATH", vllm(tmp_path / "bin", ANSWERS.format(python=sys.executable)))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with vllm_server.serve("m", "name", "--dtype float32 --hf-overrides '{\"a b\": 1}'") as url:
        assert url.endswith("/v1")
    told = (tmp_path / "bin" / "vllm.arguments").read_text().splitlines()
    assert told[:4] == ["serve", "m", "--served-model-name", "name"]
    defaults = "--dtype bfloat16 --enable-auto-tool-choice --tool-call-parser hermes".split()
    assert told[-9:] == [*defaults, "--dtype", "float32", "--hf-overrides", '{"a b": 1}']
    assert not list(tmp_path.glob("coevolve-vllm-*.log")) and not capfd.readouterr().err


def test_a_proxy_is_not_asked_about_loopback(tmp_path, monkeypatch):
    """The server is found ready where the environment names a proxy that is not there."""
    monkeypatch.setenv("PATH", vllm(tmp_path / "bin", ANSWERS.format(python=sys.executable)))
    monkeypatch.setattr(vllm_server, "SECONDS", 30)
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with vllm_server.serve("m", "m") as url:
        assert url.startswith("http://127.0.0.1:")


def test_a_server_that_never_answers(tmp_path, monkeypatch):
    """It is given up and ended, SIGTERM or not."""
    monkeypatch.setenv(
        "PATH",
        vllm(
            tmp_path / "bin",
            "#!/bin/sh\ntrap '' TERM\necho $$ > $0.pid\nwhile :; do sleep 0.1; done\n",
        ),
    )
    monkeypatch.setattr(vllm_server, "SECONDS", 0.5)
    monkeypatch.setattr(vllm_server, "GRACE", 0.5)
    with pytest.raises(Unreachable, match="did not answer"), vllm_server.serve("m", "m"):
        pass
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "bin" / "vllm.pid").read_text()), 0)


STUBBORN = """\
#!/bin/sh
trap '' TERM
echo $$ > $0.pid
sh -c 'echo $$ > '$0'.child; while :; do sleep 0.1; done' &
while :; do sleep 0.1; done
"""
OWNER = """
from coevolve.models import vllm_server
vllm_server.GRACE = 0.5
with vllm_server.serve("m", "m"): pass
"""


def started(folder: Path, code: str, script: str) -> tuple[subprocess.Popen, list[int]]:
    """A process that serves by the script, and the ids of the server and its child."""
    path = vllm(folder, script)
    owner = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, "PATH": path}, stderr=subprocess.DEVNULL
    )
    notes = [folder / "vllm.pid", folder / "vllm.child"]
    while not all(note.exists() and note.read_text().strip() for note in notes):
        assert owner.poll() is None
    return owner, [int(note.read_text()) for note in notes]


@pytest.mark.parametrize(
    "script", [STUBBORN, STUBBORN.replace("trap '' TERM\n", "")], ids=["deaf", "obedient"]
)
def test_the_server_dies_with_its_owner(tmp_path, script):
    """kill -9 of the command takes the server and its children along, whether they heed SIGTERM or
    not."""
    owner, processes = started(tmp_path / "bin", OWNER, script)
    owner.kill()
    owner.wait()
    assert all(gone(pid) for pid in processes)


def test_an_interrupted_end(tmp_path):
    """A second interruption ends the server without the grace."""
    owner, processes = started(tmp_path / "bin", OWNER.replace("0.5", "3600"), STUBBORN)
    owner.send_signal(signal.SIGINT)
    time.sleep(1)
    assert owner.poll() is None
    owner.send_signal(signal.SIGINT)
    owner.wait(20)
    assert all(gone(pid) for pid in processes)


def test_no_vllm(monkeypatch, tmp_path):
    """Without vLLM the install line is told."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with (
        pytest.raises(MissingDependency, match="vllm is not installed"),
        vllm_server.serve("m", "m"),
    ):
        pass


@pytest.mark.parametrize(
    "argument",
    [
        "--port 9000",
        "--port=9000",
        "--por 9000",
        "--host 0.0.0.0",
        "--served_model_name=x",
        "--served-model-name x",
    ]
    + [
        "--uds s",
        "--model m",
        "--api-key k",
        "--ssl-certfile c",
        "--headless",
        "--max-model-len 9 --grpc",
        "'",
    ],
)
def test_arguments_that_are_not_the_users(tmp_path, monkeypatch, argument):
    """Whatever would put the server elsewhere is refused before it is started, in every spelling
    that vLLM takes."""
    monkeypatch.setenv("PATH", vllm(tmp_path / "bin", "#!/bin/sh\ntouch $0.started\n"))
    with pytest.raises(UsageError, match="--vllm-args"), vllm_server.serve("m", "m", argument):
        pass
    assert not (tmp_path / "bin" / "vllm.started").exists()


def test_refusals(tmp_path):
    """A program cannot be served, nor a path without a model; there is one server at a time, and
    its arguments need it."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("{}")
    wrong = [
        ["solution"],
        ["m", "--base-url", "http://127.0.0.1:1/v1"],
        ["m", "--vllm-args", "--port 1"],
    ]
    wrong += [
        [path]
        for path in (
            "/nonexistent",
            "./m",
            "~/m",
            "runs/a/policy",
            tmp_path / "empty",
            tmp_path / "file",
        )
    ]
    wrong += [["solution", "--backend", "local", "--vllm-args", "--dtype float32"]]
    environment = {**os.environ, "PATH": vllm(tmp_path / "bin", "#!/bin/sh\ntouch $0.started\n")}
    for policy, *more in wrong:
        options = ["--env", "desk", "--split", "dev", "--backend", "vllm", "--model", policy, *more]
        done = run("rollout", *options, check=False, env=environment)
        assert done.returncode == 2 and (
            b"--backend vllm" in done.stderr or b"--vllm-args" in done.stderr
        ), policy
    assert not (tmp_path / "bin" / "vllm.started").exists()
