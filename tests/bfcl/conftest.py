"""One BFCL worker for a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bfcl_tasks import awkward

from coevolve.environments.client import Pool
from coevolve.records import Task


@pytest.fixture(scope="module")
def bfcl() -> Iterator[Pool]:
    with Pool("bfcl") as pool:
        yield pool


@pytest.fixture(scope="module")
def some_tasks(bfcl: Pool) -> list[Task]:
    return awkward(bfcl)
