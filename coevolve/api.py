"""The stages as Python functions: generators from records to records, as docs/python.md shows.

They are the functions behind the commands, less what only a command needs: files, journals, a
model's budget. Every argument has the default of the command's option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec

from coevolve import jsonl
from coevolve.abstraction import abstract as _abstraction
from coevolve.environments.client import Pool
from coevolve.environments.protocol import Tool
from coevolve.exploration import explore as _exploration
from coevolve.exploration.settings import ExploreSettings
from coevolve.merging.duplicates import HeldOut
from coevolve.merging.merge import MergeSettings
from coevolve.merging.merge import merge as _merge
from coevolve.records import Exploration, Rollout, Signal, Task, Verdict
from coevolve.signals import extract as _extraction
from coevolve.validation import validate as _validation

T = TypeVar("T")
