"""Loaded by each of verl's processes (`plugin` in cpu.toml): a platform, a rollout engine, and
draws that can be repeated.
"""

from __future__ import annotations

from typing import Any

from verl.experimental.agent_loop.agent_loop import register

from coevolve.training.verl.agent_loop import AgentLoop
from coevolve.training.verl.overrides import AGENT_LOOP
from verl_cpu import hf_rollout, platform

platform.patch_verl()


@register(AGENT_LOOP)
class KeyedAgentLoop(AgentLoop):
    """The agent loop, for an engine that draws by the reply's name: the same run samples the same
    replies.
    """

    def sampling(self, key: str) -> dict[str, Any]:
        return {"key": key} if self.rollout_config.name == hf_rollout.NAME else {}
