"""Starts a module of this folder in any interpreter: this one's, or a benchmark's.

    python -P -s launch.py bfcl.worker --strict-parity    main("--strict-parity") of bfcl/worker.py

Standard library only. A benchmark's interpreter has no `coevolve`, and nothing of ours may go by a
short name in it: `code` is the standard library's module there, `appworld` the benchmark's package.
So no folder of ours is on the search path (`-P`). This folder becomes the package that it is in the
toolkit too, below parents that are empty; what runs in it imports the standard library, the
benchmark's package and, relatively, its neighbours.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

_PARENTS = ("coevolve", "coevolve.environments")
_PACKAGE = "coevolve.environments.workers"


def command(python: str | os.PathLike[str], module: str, *arguments: str) -> list[str]:
    """The command line that runs the `main` of a module (`bfcl.worker`) with these arguments."""
    return [str(python), "-P", "-s", os.path.abspath(__file__), module, *arguments]


if __name__ == "__main__":
    for _name in (*_PARENTS, _PACKAGE):
        sys.modules[_name] = ModuleType(_name)
    sys.modules[_PACKAGE].__path__ = [os.path.dirname(os.path.abspath(__file__))]
    # from here, not from a function, which would be one more frame below every cell
    importlib.import_module(f"{_PACKAGE}.{sys.argv[1]}").main(*sys.argv[2:])
