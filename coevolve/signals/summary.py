"""What was found, for people: counts by kind and iteration, and the most telling signals with one line of reason each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from coevolve.signals.budget import ranked
from coevolve.signals.candidate import Candidate
from coevolve.signals.extract import Found
from coevolve.signals.inventory import Inventory
from coevolve.signals.settings import KINDS

TELLING = 10


def lines(found: Found) -> Iterator[str]:
    """The whole summary, line by line."""
    yield from _counts(found)
    best = list(islice(ranked(found.chosen), TELLING))
    if best:
        yield ""
        yield "the most telling:"
    for candidate in best:
        yield f"  {candidate.strength:.2f} {candidate.kind:<11} {reason(candidate)}"


def _counts(found: Found) -> Iterator[str]:
    chosen = Counter((c.iteration, c.kind) for c in found.chosen)
    all_ = Counter((c.iteration, c.kind) for c in found.candidates)
    kinds = [kind for kind in KINDS if any(k == kind for _, k in all_)]
    width = max([len("iteration"), *(len(str(i)) for i, _ in all_)])
    yield f"{'iteration':<{width}} {'rollouts':>8} {'success':>7} {'masked':>6}" + "".join(
        f" {kind:>11}" for kind in kinds
    )
    for iteration in sorted({iteration for _, iteration in found.tally.updates}):
        updates = [u for (_, i), u in found.tally.updates.items() if i == iteration]
        rollouts, masked = sum(u.rollouts for u in updates), sum(u.masked for u in updates)
        success = f"{sum(u.successes for u in updates) / rollouts:.3f}" if rollouts else "-"
        cells = [_cell(chosen[iteration, kind], all_[iteration, kind]) for kind in kinds]
        yield f"{iteration:<{width}} {rollouts:>8} {success:>7} {masked:>6}" + "".join(
            f" {cell:>11}" for cell in cells
        )


def _cell(chosen: int, found: int) -> str:
    return str(found) if chosen == found else f"{chosen} of {found}"


def reason(candidate: Candidate) -> str:
    """One line that says why this is a signal."""
    c, value, p = candidate, candidate.statistic.value, candidate.statistic.p
    task, pattern = f"task {c.task_id}", " → ".join(c.pattern)
    groups = [f"{o.successes}/{o.trials}" for o in c.history]
    texts = {
        "forgetting": f"{task}: {', '.join(groups[:-1])}, now {''.join(groups[-1:])}"
        + (f", p = {p:.2g}" if p is not None else ""),
        "boundary": f"{task}: {', '.join(groups)} succeed",
        "rare": f"{pattern}: {len(c.rows)} or more rollouts, {100 * value:.2g} % of all patterns ({c.statistic.test})",
        "unexplored": f"{pattern}: never called"
        + (f", though {value:.1f} times were to be expected" if p is not None else ""),
        "error": f"{pattern}: in at least {100 * value:.0f} % of the rollouts that call it",
        "combination": f"{' with '.join(c.pattern)}: fail {100 * value:.0f} points more often together, p = {p or 0:.2g}",
        "stall": f"{task}: {pattern} in at least {100 * value:.0f} % of its rollouts",
        "safety": f"{task}: {pattern} removed what nobody asked to remove, in {100 * value:.0f} % of its rollouts",
        "progress": f"{task}: nothing succeeded; came as far as {value:.2f}",
    }
    return texts[c.kind]


def notes(found: Found, inventory: Inventory | None) -> Iterator[str]:
    """What the summary line of the command should not keep quiet about."""
    masked = sum(update.masked for update in found.tally.updates.values())
    if masked:
        yield f"masked {masked} (env_error)"
    if len(found.candidates) > len(found.chosen):
        yield f"{len(found.candidates) - len(found.chosen)} more found (--max-signals)"
    if found.cold:
        yield _cold(found)
    if not found.candidates and found.tally.updates:
        yield "no signal: nothing in these rollouts speaks clearly enough"
    if "unexplored" in found.tally.settings.kinds:
        yield from _blind(found, inventory)


def _cold(found: Found) -> str:
    where = ", ".join(
        str(iteration) for iteration in sorted({iteration for _, iteration in found.cold})
    )
    kinds = {c.kind for c in found.chosen if (c.env, c.iteration) in found.cold}
    names = {"unexplored": "unexplored tools", "progress": "what came furthest"}
    aims = " and ".join(name for kind, name in names.items() if kind in kinds)
    return f"cold start: nothing succeeded in iteration {where}" + (
        f"; aims are {aims}" if aims else ""
    )


def _blind(found: Found, inventory: Inventory | None) -> Iterator[str]:
    """Why unexplored tools were not looked for, or may be none."""
    if inventory is None:
        yield "unexplored tools not looked for (no --env, no --tools)"
        return
    if not inventory.tools:
        yield "unexplored tools not looked for (the inventory is empty)"
        return
    updates = {
        env: [u for (e, _), u in found.tally.updates.items() if e == env]
        for env, _ in found.tally.updates
    }
    for env, made in sorted(updates.items()):
        called = {tool for update in made for tool in update.called}
        if not inventory.covers(env):
            yield f"unexplored tools of {env} not looked for (the inventory is that of {inventory.env})"
        elif called and called.isdisjoint(inventory.tools):
            yield f"no rollout of {env} called a tool of the inventory; is it that of another environment?"
