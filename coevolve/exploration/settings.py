"""The settings of `coevolve explore`: all that decides its output, beside the inputs and the
environment."""

from __future__ import annotations

from typing import Annotated, ClassVar

from coevolve.options import Advanced, Iteration, Option, Seed, Settings

MODES = {
    "guided": "around the signals of the input, the policy's weaknesses",
    "random": "any tool with arguments drawn from what a user of the start state knows",
    "curious": "what was not tried in a state like this before",
    "coverage": "towards the tools with the fewest tasks so far (--tasks)",
}


class ExploreSettings(Settings, frozen=True):
    PANEL: ClassVar[str] = "Exploration"

    mode: Annotated[str, Option(choices=MODES)] = "guided"
    """What an episode aims at; only guided reads an input."""
    episodes: Annotated[int, Option(ge=1)] = 48
    """Episodes in all, every round counted."""
    rounds: Annotated[int, Option(ge=1)] = 2
    """Guided: episodes for each signalled task, each from another start state."""
    max_actions: Annotated[int, Option(ge=1)] = 40
    """Actions (tool calls) that an episode may take."""
    max_contexts: Annotated[int, Advanced(ge=0)] = 32
    """Guided: at most this many signalled tasks are explored."""
    seed: Seed = 0
    iteration: Iteration = 0
