"""The house rules, checked on the source: no import runs upward, nothing evaluates text, the
packages are all shipped."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOORS = [
    {"records", "errors", "options", "statistics", "supervise"},
    {"jsonl", "runs"},
    {"environments", "models"},
    {"agents"},
    {"grounding"},
    {"evaluation", "bfcl", "doctor", "loop"},
    {"signals", "exploration", "abstraction", "validation", "merging", "training", "reporting"},
    {"api"},
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
POLICY_CODE = ROOT / "coevolve/environments/workers/appworld/cell.py"
WORKERS = ROOT / "coevolve/environments/workers"
BENCHMARKS = {
    "bfcl": {"bfcl_eval", "mpmath", "openai"},
    "appworld": {
        "appworld",
        "fastapi",
        "fastapi_login",
        "freezegun",
        "pendulum",
        "sqlalchemy",
        "starlette",
    },
}
"""What the interpreter of a worker's folder has beside the standard library, and is used."""
GROUND = 2  # rooms of the two lowest floors may use one another
SOURCES = sorted(p for folder in ("coevolve", "cli") for p in (ROOT / folder).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Absolute module names that a file imports, with the line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.lineno
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def room(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "coevolve" and len(parts) > 1 else None


def test_every_room_has_a_floor():
    """A room that the table above does not know has to find its place first."""
    rooms = {
        p.relative_to(ROOT / "coevolve").parts[0].removesuffix(".py")
        for p in (ROOT / "coevolve").rglob("*.py")
    }
    assert rooms - {"__init__"} <= set(FLOOR)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_import_runs_upward_or_sideways(path: Path):
    """Lower floors never import higher ones, stages never one another, and nobody imports the
    folder `cli` by its name."""
    here = (
        None
        if path.is_relative_to(ROOT / "cli")
        else path.relative_to(ROOT / "coevolve").parts[0].removesuffix(".py")
    )
    for module, line in imports(path):
        assert module.split(".")[0] != "cli", f"line {line}: the package is coevolve_cli"
        there = room(module)
        if here in FLOOR and there in FLOOR and there != here:
            upward = FLOOR[there] > FLOOR[here] or (
                FLOOR[there] == FLOOR[here] and FLOOR[here] >= GROUND
            )
            assert not upward, f"line {line}: {here} imports {there}"
        assert here is None or module.split(".")[0] != "coevolve_cli", (
            f"line {line}: the library imports the command line"
        )


@pytest.mark.parametrize(
    "path",
    [p for p in SOURCES if p.is_relative_to(WORKERS)],
    ids=lambda p: str(p.relative_to(WORKERS)),
)
def test_a_worker_needs_nothing_of_the_toolkit(path: Path):
    """What runs in a benchmark's interpreter imports the standard library, the benchmark, and its
    neighbours by their place."""
    folders = path.relative_to(WORKERS).parts[:-1]
    allowed = sys.stdlib_module_names | BENCHMARKS.get("".join(folders[:1]), set())
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            assert node.level <= len(folders) + 1, (
                f"line {node.lineno}: beyond the folder of the workers"
            )
            continue
        named = [node.module] if isinstance(node, ast.ImportFrom) else []
        named += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        assert {name.split(".")[0] for name in named} <= allowed, f"line {node.lineno}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_nothing_is_evaluated_or_swallowed(path: Path):
    """No eval, no exec but of a policy's own cells in its own process, no bare except, no broad
    except that passes over the error."""
    banned = {"eval"} if path == POLICY_CODE else {"eval", "exec"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in banned, f"line {node.lineno}"
        if isinstance(node, ast.ExceptHandler):
            wide = node.type is None or (
                isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}
            )
            assert not (wide and all(isinstance(s, ast.Pass | ast.Continue) for s in node.body)), (
                f"line {node.lineno}"
            )


@pytest.mark.parametrize(
    "path", [p for p in SOURCES if p.name != "__init__.py"], ids=lambda p: str(p.relative_to(ROOT))
)
def test_every_module_says_what_it_is(path: Path):
    """Each module has a docstring and stays under 400 lines."""
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text))
    assert text.count("\n") <= 400


def test_the_package_list_names_every_package():
    """pyproject.toml lists the packages by hand; none is forgotten."""
    listed = set(
        tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    )
    folders = {
        str(p.parent.relative_to(ROOT)).replace("/", ".") for p in (ROOT / "coevolve").rglob("*.py")
    }
    assert listed == folders | {"coevolve_cli"}


def test_the_wheel_holds_everything_and_runs(tmp_path: Path):
    """A wheel built from the repository has every source file, and works from where it is
    unpacked."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(tmp_path),
        str(ROOT),
    ]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("coevolve-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for path in SOURCES:
        inside = (
            str(path.relative_to(ROOT)).replace("cli/", "coevolve_cli/", 1)
            if path.is_relative_to(ROOT / "cli")
            else str(path.relative_to(ROOT))
        )
        assert inside in names
    for path in (ROOT / "coevolve").rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            assert str(path.relative_to(ROOT)) in names
    assert not any(name.startswith("cli/") for name in names)
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); from coevolve_cli.main import main; "
        "import coevolve; print(coevolve.__file__, file=sys.stderr); main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "site"), "schema", "task"],
        capture_output=True,
        check=True,
        cwd=tmp_path,
    )
    assert str(tmp_path) in result.stderr.decode()
    assert b"coevolve.task/1" in result.stdout
