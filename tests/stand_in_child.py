"""A stand-in for the child of `coevolve train --backend verl`: it speaks the file protocol and
trains nothing.

The driver and its watchdog know the child by its files and its process alone, so what they do about
a child that waits, dies, hangs or ends too early is tested without the minute that Ray and verl
take to start. tests/training/verl/test_child.py runs the real one. Its address answers GET /health,
with 503 below /ill, and nothing else.

PLAN, a file beside this run (RUN.plan), tells what goes wrong, a line each time: `hang`, `die`,
`error`, `nothing`, `torn`, `lively` (a heartbeat without progress).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from coevolve import jsonl
from coevolve.records import Rollout, Task, content_id
from coevolve.training import batches
from coevolve.training.verl.files import (
    Heartbeat,
    Ready,
    TrainerFailure,
    VerlFiles,
    VerlJob,
    read,
    write,
)

STEP_SECONDS = 0.05


class Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response({"/health": 200, "/ill/health": 503}.get(self.path, 404))
        self.end_headers()


class StandIn:
    def __init__(self, run: str):
        self.engine = HTTPServer(("127.0.0.1", 0), Health)
        threading.Thread(target=self.engine.serve_forever, daemon=True).start()
        self.files = VerlFiles(run)
        self.job = read(self.files.job, VerlJob)
        self.settings = self.job.settings
        self.progress = 0
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    def main(self) -> None:
        """From the newest checkpoint on, iteration after iteration."""
        # A process of another session, as Ray's are: only the mark in its environment tells whose
        # it is.
        subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
        )
        tracker = self.files.checkpoints / "latest_checkpointed_iteration.txt"
        self.done = int(tracker.read_text()) if tracker.exists() else 0
        self.beat("starting")
        while True:
            iteration = self.done // self.settings.steps + 1
            if self.done % self.settings.steps == 0:
                if self.done:
                    self.ready(iteration - 1)
                self.wait(iteration)
            self.tasks = [
                line.record for line in jsonl.read([str(self.files.tasks(iteration))], Task)
            ]
            self.step(iteration)

    def wait(self, iteration: int) -> None:
        self.beat("waiting")
        until = time.monotonic() + self.job.limits.wait_timeout
        while not self.files.tasks(iteration).exists() or self.files.stop.exists():
            last = self.job.stop_after
            if (
                self.files.stop.exists()
                or time.monotonic() > until
                or (last is not None and iteration > last)
            ):
                sys.exit(0)
            time.sleep(0.05)

    def step(self, iteration: int) -> None:
        self.beat("rollout")
        plan = batches.plan(self.tasks, self.settings, self.done)
        fault = self.fault()
        lines = [
            self.episode(task, iteration, sample)
            for task in plan
            for sample in range(self.settings.samples)
        ]
        file = self.files.episode_file(iteration, self.job.attempt, os.getpid())
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "ab") as stream:
            stream.write(b"".join(lines if not fault else lines[:1] + [lines[1][:30]]))
        self.go_wrong(fault)
        time.sleep(STEP_SECONDS)
        self.done += 1
        metrics = {
            "step": self.done,
            "iteration": iteration,
            "attempt": self.job.attempt,
            "sampled_tokens": 7,
            "success_mean": 0.5,
        }
        with open(self.files.metrics, "ab") as stream:
            stream.write(jsonl.encode(metrics))
        if self.done % self.settings.steps == 0:
            self.save()

    def episode(self, task: Task, iteration: int, sample: int) -> bytes:
        return jsonl.encode(
            Rollout(
                id=content_id(task.id, self.done, sample),
                task_id=task.id,
                env=task.env,
                group=f"{iteration}-{self.done}-{task.id}",
                sample=sample,
                iteration=iteration,
                step=self.done,
                policy=f"attempt {self.job.attempt}",
                stop_reason="done",
                messages=[{"role": "user", "content": task.query[0]}],
            )
        )

    def save(self) -> None:
        self.beat("saving")
        model = self.files.checkpoints / f"global_step_{self.done}" / "actor" / "huggingface"
        model.mkdir(parents=True, exist_ok=True)
        (model / "model.safetensors").write_text(f"weights {self.done}")
        (self.files.checkpoints / "latest_checkpointed_iteration.txt").write_text(str(self.done))

    def ready(self, iteration: int) -> None:
        write(
            self.files.ready(iteration),
            Ready(
                iteration=iteration,
                step=self.done,
                weights=self.done,
                addresses=[f"http://127.0.0.1:{self.engine.server_port}/v1"],
                model=self.settings.model,
                checkpoint=f"verl/checkpoints/global_step_{self.done}",
            ),
        )

    def beat(self, phase: str) -> None:
        self.progress += 1
        self.write(phase)

    def write(self, phase: str) -> None:
        write(
            self.files.heartbeat,
            Heartbeat(os.getpid(), phase, 0, self.done, self.progress, time.time()),
        )

    def fault(self) -> str:
        """The plan's next line, which is taken from it."""
        plan = Path(f"{self.files.run}.plan")
        lines = plan.read_text().split() if plan.exists() else []
        if lines:
            plan.write_text("\n".join(lines[1:]))
        return lines[0] if lines and lines[0] != "well" else ""

    def go_wrong(self, fault: str) -> None:
        if fault in ("hang", "lively"):
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            print("entering a collective operation", flush=True)
            while True:
                if fault == "lively":
                    self.write("rollout")
                time.sleep(0.1)
        if fault == "die":
            raise ValueError("no room for the KV cache")
        if fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "error":
            write(self.files.error, TrainerFailure(69, "the environment cannot be started"))
            sys.exit(1)
        if fault == "nothing":
            sys.exit(0)


if __name__ == "__main__":
    StandIn(sys.argv[1]).main()
