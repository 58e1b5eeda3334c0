"""`coevolve abstract [EXPLORATIONS]`: executed calls become tasks."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, ClassVar

import msgspec

from coevolve.abstraction.abstract import CHUNK, WHAT, abstract
from coevolve.abstraction.tasks import FAULT, Reject
from coevolve.environments.client import Pools
from coevolve.environments.faults import FaultCounter
from coevolve.options import Option, Seed, Settings
from coevolve.records import Exploration
from coevolve.runs import Journal, journal_path
from coevolve_cli.model_options import WriterOptions
from coevolve_cli.options import Files, Invocation
from coevolve_cli.stage_options import RunStreams
from coevolve_cli.streams import Stage


class AbstractSettings(Settings, frozen=True, kw_only=True):
    PANEL: ClassVar[str] = "Abstraction"

    per_exploration: Annotated[int, Option(ge=1)] = 4
    """Tasks that one exploration may give."""
    per_context: Annotated[int, Option(ge=1)] = 4
    """With --model: tasks that all rounds of one context may give."""
    min_confidence: Annotated[float, Option(ge=0, le=1)] = 0.5
    """With --model: least confidence of its own in a task."""
    seed: Seed = 0


def command(
    files: Files,
    settings: AbstractSettings,
    models: WriterOptions,
    io: RunStreams,
    call: Invocation,
) -> None:
    """Turn explorations into candidate tasks: goals minimised by execution, a request in words, the
    solution.

    With --model a model writes them, and each is checked against what was executed. Every solution
    has been executed as it stands. What gave no task goes to --rejects, with the reason.
    """
    if call.dry_run:
        return call.plan(explorations_at_a_time=CHUNK)
    reasons: Counter[str] = Counter()
    env_faults, finished = FaultCounter(WHAT), False
    with models.service("abstract", io, needed=models.model is not None) as served:
        writer = None
        about = {"seed": settings.seed, "per_exploration": settings.per_exploration}
        if served:
            from coevolve.abstraction.model_writer import ModelWriter, write

            limits = settings.per_context, settings.min_confidence
            how = models.temperature, models.prompt_files
            writer = ModelWriter(served, models.model, *limits, *how)
            about = writer.identity
        path = journal_path(io.output, io.in_run("abstract.journal"))
        journal = Journal(path, {"command": "abstract", **about})
        try:
            with (
                io.stage("abstract", files) as s,
                Pools(io.workers, io.env, any_version=io.any_version) as pools,
            ):

                def reject(rejected: Reject) -> None:
                    reasons[rejected.reason] += 1
                    s.keep_reject(msgspec.to_builtins(rejected))

                explorations = (line.record for line in s.read(Exploration))
                kept = {"journal": journal, "env_faults": env_faults, "reject": reject}
                if writer:
                    tasks = write(explorations, pools, writer, **kept)
                else:
                    tasks = abstract(explorations, pools, **about, **kept)
                for task in tasks:
                    s.write(task)
                _note(s, reasons.copy(), journal.reused)
            if served:
                served.kept = s.written
            finished = not reasons["no_reply"] and not env_faults.lost
        finally:
            journal.close(finished)
    env_faults.end()


def _note(s: Stage, reasons: Counter[str], reused: int) -> None:
    faults = reasons.pop(FAULT, 0)
    if reasons:
        counts = ", ".join(f"{reason} {n}" for reason, n in sorted(reasons.items()))
        s.note(f"rejected {reasons.total()} ({counts})")
    if faults:
        s.note(f"dropped {faults} for faults of the environment")
    if reused:
        s.note(f"resumed {reused}")
