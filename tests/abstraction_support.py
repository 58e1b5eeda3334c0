"""Explorations made for tests, and the shop list as a worker."""

import random
import shlex
import sys
from pathlib import Path

from coevolve.records import Call, Exploration, Step, content_id

TESTS = Path(__file__).parent
SHOP = f"{sys.executable} {TESTS / 'shop_list.py'}"


def variant(name, *words):
    """The command of a shop list with one thing changed (`shop_variants.py`)."""
    return shlex.join([sys.executable, str(TESTS / "shop_variants.py"), name, *words])


def execute(pool, start, calls, mode="random"):
    """An exploration: the calls, really executed."""
    (session,) = pool.open([start])
    (results,) = pool.step([(session, 0, calls)])
    pool.close([session])
    steps = [
        Step(
            turn=0,
            action=call,
            observation=r.observation,
            error=r.error,
            effects=r.effects,
            state=r.state,
        )
        for call, r in zip(calls, results, strict=True)
    ]
    return Exploration(
        id=content_id(pool.name, start, calls),
        env=pool.name,
        mode=mode,
        iteration=2,
        start=start,
        steps=steps,
    )


def noisy(pool, task, seed):
    """The task's solution as an explorer might stumble on it: between reads, failures and
    preparations of other apps."""
    rng = random.Random(f"noise-{seed}")
    own = {call.tool.partition(".")[0] for turn in task.solution for call in turn}
    others = sorted({tool.app for tool in pool.tools.values()} - own - {"desk"})
    calls = []
    for call in (call for turn in task.solution for call in turn):
        for _ in range(rng.randrange(3)):
            app = rng.choice(others)
            calls.append(Call(f"{app}.{rng.choice(['open', 'sync', 'save'])}"))
            calls.append(Call(f"{app}.find", {"name": rng.choice(["Nobody", "Ann", "Bob"])}))
        calls.append(Call("desk.date"))
        calls.append(call)
    return execute(pool, task.start, calls)
