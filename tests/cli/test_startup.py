"""Starting is cheap: help imports no verb and no heavy library, and costs little more than Python
itself."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from coevolve_cli.commands import COMMANDS

HEAVY = (
    "torch",
    "transformers",
    "openai",
    "numpy",
    "pydantic",
    "rich",
    "jinja2",
    "verl",
    "vllm",
    "ray",
)
PROBE = """
import sys
sys.argv = ["coevolve", *{argv!r}]
from coevolve_cli.main import run
run(sys.argv[1:])
print(sorted(m for m in {heavy!r} if m in sys.modules), file=sys.stderr)
"""


def imported(*argv: str, stdin: bytes = b"", heavy: tuple[str, ...] = HEAVY) -> str:
    """The heavy modules that a command has loaded by its end."""
    code = PROBE.format(argv=list(argv), heavy=heavy)
    result = subprocess.run(
        [sys.executable, "-c", code], input=stdin, capture_output=True, check=True
    )
    return result.stderr.decode().strip().splitlines()[-1]


def test_help_imports_nothing_heavy():
    """`--help` loads no heavy library and no verb."""
    assert imported("--help") == "[]"
    verbs = tuple(f"coevolve_cli.{name.replace('-', '_')}" for name in COMMANDS)
    assert imported("--help", heavy=verbs) == "[]"


@pytest.mark.parametrize("verb", ["extract-signals", "merge"])
def test_filters_import_nothing_heavy(verb: str):
    """A filter run on an empty input loads no heavy library, and neither does its help."""
    assert imported(verb) == imported(verb, "--help") == "[]"


def cpu_seconds(argv: list[str], times: int = 7) -> float:
    """The least user+system time of several runs."""
    best = float("inf")
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(argv, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


@pytest.mark.skipif(bool(os.environ.get("COVERAGE_RUN")), reason="a tracer is not the command")
def test_help_costs_little_cpu():
    """CPU time of `--help`, as a ratio to `python -c 'import typer'`: the registry adds little to
    Typer itself."""
    help_ = cpu_seconds([sys.executable, "-m", "coevolve_cli.main", "--help"])
    typer = cpu_seconds([sys.executable, "-c", "import typer"])
    assert help_ <= 2 * typer, f"--help {help_ * 1000:.0f} ms, import typer {typer * 1000:.0f} ms"


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_verb_has_help_with_examples(verb: str):
    """Each verb explains itself, with at least one example, on stdout, exit 0."""
    result = subprocess.run(
        [sys.executable, "-m", "coevolve_cli.main", verb, "--help"], capture_output=True
    )
    assert result.returncode == 0
    assert b"Usage:" in result.stdout
    assert (
        b"coevolve " + verb.encode() in result.stdout.split(b"Usage:")[1].split(b"\n", 1)[1]
        or verb == "env"
    )
