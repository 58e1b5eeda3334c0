"""The lab as a worker."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

LAB = Path(__file__).with_name("lab.py")


@pytest.fixture
def lab(tmp_path: Path) -> Callable[[str], str]:
    """The lab's command line, with words that change it; it logs the sessions it opens to
    tmp_path/opened."""
    return lambda words="": f"{sys.executable} {LAB} {tmp_path / 'opened'} {words}".strip()
