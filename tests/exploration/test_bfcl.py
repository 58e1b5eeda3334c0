"""Exploration of the real BFCL classes."""

from __future__ import annotations

from collections import Counter

import pytest

from coevolve.environments.client import Pool
from coevolve.exploration.explore import explore
from coevolve.exploration.settings import ExploreSettings
from coevolve.grounding.sources import sources


@pytest.mark.bfcl
def test_curiosity_works_in_every_class_and_passes_values_on():
    """80 episodes: all 8 classes, 100 functions that changed state or gave a checked response, many
    with an argument that another call had told."""
    with Pool("bfcl") as pool:
        apps = {name: tool.app for name, tool in pool.tools.items()}
        found = list(explore([], pool, ExploreSettings("curious", episodes=80, seed=1)))
        worked, classes, observed = set(), Counter(), 0
        for exploration in found:
            for step, origin in zip(
                exploration.steps, sources(exploration.steps, apps), strict=True
            ):
                tool = pool.tools[step.action.tool]
                if not step.error and (step.effects or tool.checked):
                    worked.add(tool.name)
                    classes[tool.app] += 1
                    observed += any(source.step is not None for source in origin.values())
    assert len(classes) == 8 and min(classes.values()) >= 50
    assert len(worked) >= 100
    assert observed / classes.total() >= 0.15
