"""A weight update that fails as vLLM's once did under verl: the engine's error gets lost, and the
trainer waits forever.

verl imports this module in its workers (`rollout.checkpoint_engine.custom_backend_module`). It does
nothing unless the file that STUCK_WEIGHTS names exists.
"""

import asyncio
import os
from pathlib import Path

from verl_cpu.hf_rollout import Adapter

update = Adapter.update_weights


async def update_weights(self, *arguments, **named):
    while Path(os.environ["STUCK_WEIGHTS"]).exists():
        await asyncio.sleep(0.1)
    await update(self, *arguments, **named)


Adapter.update_weights = update_weights
