"""Synthetic BFCL tasks, made by hand."""

from __future__ import annotations

from coevolve.environments.client import Pool
from coevolve.records import Call, Start, Task, Verifier, task_id


def synthetic(start: Start, *turns: list[Call]) -> Task:
    query, solution = [f"turn {n}" for n in range(len(turns))], list(turns)
    id_ = task_id("bfcl", start, query, solution, Verifier())
    return Task(id=id_, env="bfcl", query=query, solution=solution, start=start)


def awkward(pool: Pool) -> list[Task]:
    """Synthetic tasks with awkward texts and all kinds of values."""
    start = pool.start("files", ["TicketAPI", "GorillaFileSystem"])
    texts = ['it\'s "so"', "line\nbreak \\n", "ünïcödé 😀", "{'a': 1}"]
    return [
        synthetic(
            start,
            [Call("touch", {"file_name": "new.txt"})],
            [Call("echo", {"content": text, "file_name": "new.txt"}), Call("ls", {"a": True})],
        )
        for text in texts
    ] + [synthetic(pool.start("files", ["MathAPI"]), [Call("mean", {"numbers": [1, 2.5, -3e22]})])]
