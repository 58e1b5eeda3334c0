"""The policy that a trainer serves between two iterations: `--model …/READY.json`.

The server's name of it is the same in every iteration. Here it gets one of its own, for the answers
that are kept and for records: the agent loop's label of the same weights, with a digest of how they
came about, for two runs may begin with one model.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from coevolve.errors import BadInput, UsageError
from coevolve.models.transformers_lm import identity
from coevolve.records import content_id
from coevolve.training.verl.files import Ready, VerlFiles, read


class ServedPolicy(NamedTuple):
    name: str  # The name of these weights, and of no others
    at_server: str  # The server's name
    addresses: list[str]
    until: Path
    """Tasks of the next iteration: once they are there, the weights at the addresses are others."""


def served(file: str, *, newest: bool = True) -> ServedPolicy:
    """Raises UsageError for no READY.json and, where `newest`, for one served no more."""
    ready = _read(file)
    path = Path(file).resolve()
    files = VerlFiles(path.parents[min(3, len(path.parents) - 1)])
    if files.ready(ready.iteration) != path:
        raise UsageError(
            f"{file}: give it where the trainer wrote it, RUN/verl/iterations/NNN/READY.json: what "
            "is beside it tells whether the policy is still served"
        )
    if newest:
        _check(file, files, ready.iteration)
    made = content_id(ready.model, ready.weights, ready.counts, ready.metrics)[:8]
    return ServedPolicy(
        name=f"{identity(ready.model)}@step-{ready.weights}@{made}",
        at_server=ready.model,
        addresses=ready.addresses,
        until=files.tasks(ready.iteration + 1),
    )


def _read(file: str) -> Ready:
    try:
        ready = read(Path(file), Ready)
    except (BadInput, OSError) as error:
        raise UsageError(str(error)) from error
    if ready is None:
        why = "no such file; it appears when the trainer has finished the iteration"
        raise UsageError(f"{file}: {why}")
    if not ready.addresses:
        raise UsageError(f"{file}: damaged (no addresses)")
    return ready


def _check(file: str, files: VerlFiles, iteration: int) -> None:
    folders = [path.parent.name for path in files.root.glob("iterations/*/READY.json")]
    last, gone = max(int(name) for name in folders if name.isdecimal()), ""
    if last > iteration:
        gone = f"; the newest is that of {files.ready(last)}"
    elif files.tasks(iteration + 1).exists():
        coming = files.ready(iteration + 1)
        gone = f": iteration {iteration + 1} has begun, and the newest will be that of {coming}"
    if gone:
        raise UsageError(f"{file}: the trainer no longer has this policy{gone}")
