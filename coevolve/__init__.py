"""Agent–data co-evolution. The names below are the stages in Python (docs/python.md); they are
imported when they are first used, so that `import coevolve` costs nothing."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "Exploration",
    "ExploreSettings",
    "MergeSettings",
    "Pool",
    "Rollout",
    "Signal",
    "SignalSettings",
    "Task",
    "Verdict",
    "abstract",
    "explore",
    "extract_signals",
    "merge",
    "read",
    "validate",
    "write",
]

if TYPE_CHECKING:
    from coevolve.api import (
        Exploration,
        ExploreSettings,
        MergeSettings,
        Pool,
        Rollout,
        Signal,
        SignalSettings,
        Task,
        Verdict,
        abstract,
        explore,
        extract_signals,
        merge,
        read,
        validate,
        write,
    )


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from coevolve import api

    return getattr(api, name)
