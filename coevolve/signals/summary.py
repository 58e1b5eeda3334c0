"""The extraction's summary for people: counts by kind and iteration, the most telling signals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from coevolve.signals.budget import ranked
from coevolve.signals.extract import Extraction
from coevolve.signals.inventory import Inventory
from coevolve.signals.kinds import BY_NAME, KINDS

MOST_TELLING = 10
MIN_WIDTH = 11  # Characters of a column of kinds


def lines(found: Extraction) -> Iterator[str]:
    """The whole summary, line by line."""
    yield from _table(found)
    best = list(islice(ranked(found.chosen), MOST_TELLING))
    if best:
        yield ""
        yield "the most telling:"
    width = max([MIN_WIDTH, *(len(c.kind) for c in best)])
    for c in best:
        yield f"  {c.strength:.2f} {c.kind:<{width}} {BY_NAME[c.kind].reason(c)}"


def _table(found: Extraction) -> Iterator[str]:
    chosen = Counter((c.iteration, c.kind) for c in found.chosen)
    all_ = Counter((c.iteration, c.kind) for c in found.candidates)
    kinds = [kind for kind in KINDS if any(k == kind for _, k in all_)]
    width = max([len("iteration"), *(len(str(i)) for i, _ in all_)])
    head = f"{'iteration':<{width}} {'rollouts':>8} {'success':>7} {'masked':>6}"
    widths = [max(MIN_WIDTH, len(kind)) for kind in kinds]
    yield head + "".join(f" {kind:>{w}}" for kind, w in zip(kinds, widths, strict=True))
    for iteration in sorted({counts.iteration for counts in found.counts}):
        rows = [counts for counts in found.counts if counts.iteration == iteration]
        rollouts, masked = sum(c.rollouts for c in rows), sum(c.masked for c in rows)
        success = f"{sum(c.successes for c in rows) / rollouts:.3f}" if rollouts else "-"
        cells = [_cell(chosen[iteration, kind], all_[iteration, kind]) for kind in kinds]
        line = f"{iteration:<{width}} {rollouts:>8} {success:>7} {masked:>6}"
        yield line + "".join(f" {cell:>{w}}" for cell, w in zip(cells, widths, strict=True))


def _cell(chosen: int, found: int) -> str:
    return str(found) if chosen == found else f"{chosen} of {found}"


def notes(found: Extraction, inventory: Inventory | None) -> Iterator[str]:
    """The facts that the command's summary line must not keep quiet about."""
    masked = sum(counts.masked for counts in found.counts)
    if masked:
        yield f"masked {masked} (env_error)"
    if len(found.candidates) > len(found.chosen):
        yield f"{len(found.candidates) - len(found.chosen)} more found (--max-signals)"
    if found.cold:
        yield _cold_start(found)
    if not found.candidates and list(found.counts):
        yield "no signal: nothing in these rollouts speaks clearly enough"
    if "unexplored" in found.settings.kinds:
        yield from _without_unexplored(found, inventory)
    if inventory and inventory.tools:
        yield from _foreign(found, inventory)


def _cold_start(found: Extraction) -> str:
    where = ", ".join(map(str, sorted({iteration for _, iteration in found.cold})))
    kinds = {c.kind for c in found.chosen if (c.env, c.iteration) in found.cold}
    names = {"unexplored": "unexplored tools", "progress": "what came furthest"}
    aims = " and ".join(name for kind, name in names.items() if kind in kinds)
    note = f"cold start: nothing succeeded in iteration {where}"
    return f"{note}; aims are {aims}" if aims else note


def _without_unexplored(found: Extraction, inventory: Inventory | None) -> Iterator[str]:
    """Why unexplored tools were not looked for."""
    if inventory is None or not inventory.tools:
        why = "no --env, no --tools" if inventory is None else "the inventory is empty"
        yield f"unexplored tools not looked for ({why})"
        return
    for env in dict.fromkeys(counts.env for counts in found.counts):
        if not inventory.covers(env):
            other = f"the inventory is that of {inventory.env}"
            yield f"unexplored tools of {env} not looked for ({other})"


def _foreign(found: Extraction, inventory: Inventory) -> Iterator[str]:
    """Where the inventory may be another environment's: all that was called is then unknown."""
    called: dict[str, set[str]] = {}
    for counts in found.counts:
        called.setdefault(counts.env, set()).update(counts.called)
    for env, tools in called.items():
        if inventory.covers(env) and tools and tools.isdisjoint(inventory.tools):
            yield (
                f"no rollout of {env} called a tool of the inventory; "
                "is it that of another environment?"
            )
