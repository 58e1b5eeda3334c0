"""Loaded by every verl process through `actor_rollout_ref.model.external_lib`: registers our agent loop, and on a CPU the
rollout engine, and mends what of verl needs an accelerator."""

from __future__ import annotations

import os

from coevolve.training.verl import agent_loop

__all__ = ["agent_loop"]

if os.environ.get("VERL_PLATFORM") == "cpu":
    from coevolve.training.verl import cpu, hf_rollout

    cpu.mend()
    __all__ += ["cpu", "hf_rollout"]
