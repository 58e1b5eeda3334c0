"""Effects and hashes of states: told from what a call touched, they are those of the whole state
before and after it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from coevolve.environments import install

pytestmark = pytest.mark.bfcl

REFERENCES = "ca7e6aba838dbab8"
"""Digest of every result of the 800 reference solutions: observations, errors, effects, hashes.
Records of months compare by them."""


def test_effects_and_hashes_are_those_of_the_whole_state():
    """Reference solutions, as they are and changed, and random calls in generated states; and what
    is told stays what it was."""
    command = [install.python("bfcl"), Path(__file__).with_name("bfcl_states.py")]
    told = subprocess.run(
        command, env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, check=True
    ).stdout
    report = json.loads(told)
    assert report["different"] == []
    assert report["steps"] > 15_000
    assert report["digest"] == REFERENCES
