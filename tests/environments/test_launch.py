"""Workers in other interpreters: nothing of ours goes by a short name there, and nothing of the
toolkit is needed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from coevolve.environments import install, registry
from coevolve.environments.workers import launch

PROBE = """
import importlib, importlib.util, json, os, sys

def main(*arguments):
    modules, names = json.loads(arguments[0]), json.loads(arguments[1])
    for module in modules:
        importlib.import_module(f"{__package__}.{module}")
    here = os.path.dirname(os.path.abspath(__file__))
    files = {name: getattr(module, "__file__", None) or "" for name, module in sys.modules.items()}
    specs = {name: importlib.util.find_spec(name) for name in names}
    ours = [name for name, file in files.items() if file.startswith(here + os.sep)]
    ours = sorted(set(ours) - {"__main__"})
    try:
        import coevolve.records
        toolkit = True
    except ImportError:
        toolkit = False
    origins = {
        name: spec and (spec.origin or str(spec.submodule_search_locations))
        for name, spec in specs.items()
    }
    print(json.dumps({"ours": ours, "origins": origins, "path": sys.path, "toolkit": toolkit}))
"""
MODULES = {
    "desk": ["desk.worker"],
    "bfcl": ["bfcl.worker"],
    "appworld": ["appworld.worker", "appworld.demo.builder", "appworld.bundle", "appworld.policy"],
}
marked = [
    pytest.param(env, marks=getattr(pytest.mark, env)) if env != "desk" else env for env in MODULES
]


@pytest.mark.parametrize("env", marked)
def test_short_names_are_the_benchmarks_and_the_standard_librarys(env: str, tmp_path: Path):
    """Started as a worker is, in its interpreter: no name of a file or folder of the workers leads
    to that folder."""
    folder = tmp_path / "workers"
    shutil.copytree(registry.WORKERS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "probe.py").write_text(PROBE)
    names = sorted({path.stem for path in folder.rglob("*") if not path.stem.startswith("_")})
    assert {"code", "data", "state", "world", "judge", "appworld", "bfcl", "desk", "serve"} <= set(
        names
    )
    started = registry.find(env)
    command = launch.command(
        started.command[0], "probe", json.dumps(MODULES[env]), json.dumps(names)
    )
    command = [part.replace(str(registry.WORKERS), str(folder)) for part in command]
    done = subprocess.run(command, env=started.environment, capture_output=True, cwd=folder)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    found = json.loads(done.stdout)
    assert set(found["ours"]) >= {
        f"coevolve.environments.workers.{module}" for module in MODULES[env]
    }
    assert all(name.startswith("coevolve.environments.workers.") for name in found["ours"])
    assert not any(Path(place).is_relative_to(tmp_path) for place in found["path"])
    assert not any(str(tmp_path) in (origin or "") for origin in found["origins"].values())
    assert (
        Path(found["origins"]["code"]).name == "code.py"
        and "site-packages" not in found["origins"]["code"]
    )
    benchmark = found["origins"]["appworld"]
    assert (
        Path(benchmark).is_relative_to(install.directory(install.RECIPES[env]))
        if env == "appworld"
        else not benchmark
    )
    assert not found["toolkit"]


def test_the_loop_alone_is_enough_for_a_worker(tmp_path: Path):
    """A copy of serve.py beside somebody's worker serves it, in an interpreter that has nothing but
    the standard library."""
    shutil.copy(registry.WORKERS / "serve.py", tmp_path)
    worker = tmp_path / "mine.py"
    worker.write_text(
        "import serve\n"
        "class Mine:\n"
        "    def describe(self): return {'name': 'mine'}\n"
        "serve.serve(Mine())\n"
    )
    asked = b'{"id": 3, "op": "describe"}\n'
    done = subprocess.run(
        [sys.executable, "-S", "-E", worker], input=asked, capture_output=True, cwd="/"
    )
    assert json.loads(done.stdout) == {"id": 3, "result": {"name": "mine"}}, done.stderr.decode()
