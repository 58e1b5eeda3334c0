"""Commands that ask models: which model, where it is, what it may cost, and the totals at the end.

    with models.service("explore", io) as m, io.stage("explore", files) as s:
        …
        m.kept = s.written

`service` is entered first and so left last: the output is complete when it prints the totals, adds
them to RUN/model_calls.jsonl and, if the server gave answers without content or failed single
calls, ends the command as partial (exit 75).

A model can be named by the READY.json of a trainer that serves it: the command sees the name of
these weights, and the addresses as if they were --base-url.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from coevolve import jsonl
from coevolve.errors import Partial, UsageError, WriteFailed
from coevolve.models.options import ServiceOptions
from coevolve.options import Advanced, EpisodeTokens, MaxActions, Option, PromptStyle, ReplyTokens

if TYPE_CHECKING:
    from coevolve.agents.drivers import Policy
    from coevolve.models.service import Models
    from coevolve_cli.stage_options import RunStreams

READY = "READY.json"


class ModelOptions(ServiceOptions, frozen=True, kw_only=True):
    """The model that does a command's work, and its server."""

    model: Annotated[
        str | None, Option(metavar="NAME", default="programs do it, no model is asked")
    ] = None
    """The model at --base-url that does this work, or a trainer's READY.json: the policy that it
    serves."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model == "":
            raise UsageError("--model needs a name")
        for flag, value in (("--base-url", self.base_url), ("--offline", self.offline)):
            if value and self.model is None:
                raise UsageError(f"{flag} needs --model: which model?")

    def resolved(self) -> ModelOptions:
        """With the name and the addresses of the policy that a READY.json is about. Raises
        UsageError."""
        if Path(self.model or "").name != READY:
            return self
        from coevolve.training.verl.served import served

        if self.base_url:
            raise UsageError(f"--base-url: the addresses are those of {self.model}; leave it out")
        name, at_server, addresses, until = served(self.model, newest=not self.offline)
        return msgspec.structs.replace(
            self,
            model=name,
            base_url=",".join(addresses),
            at_server={name: at_server},
            until=str(until),
        )

    @contextlib.contextmanager
    def service(
        self, stage: str, io: RunStreams, *, needed: bool = True
    ) -> Iterator[Models | None]:
        """The models of one command; None where none is `needed`.

        An error of the command wins over the partial end.
        """
        if not needed:
            yield None
            return
        from coevolve.models.service import Models

        with Models(stage, self) as models:
            try:
                yield models
            finally:
                models.close(finish=not _interrupted())
                _report(models, io)
        bad, failed = (sum(getattr(t, n) for t in models.totals()) for n in ("bad", "failed"))
        lost = [f"{bad} answers of the server were empty or broken"] if bad else []
        if failed:
            lost.append(f"{failed} calls failed and others did not, the last: {models.failed}")
        if lost:
            raise Partial(f"{stage}: {'; '.join(lost)}; a rerun asks for those again")


class WriterOptions(ModelOptions, frozen=True, kw_only=True):
    """A model that explores, or writes tasks, from prompts that can be replaced."""

    temperature: Annotated[float | None, Advanced(default="the server's", ge=0)] = None
    """Sampling temperature of --model; 0 is greedy."""
    prompt_files: Annotated[str | None, Advanced(metavar="DIR")] = None
    """Prompt files of yours that replace those of the package (coevolve/prompts)."""


Player = Annotated[
    str | None,
    Option(
        "What plays the tasks: a program (below), a Hugging Face directory or id, a model at "
        "--base-url, or a trainer's READY.json: the policy that it serves.\n"
        "  solution: the task's own solution\n"
        "  nothing: hands every turn back at once\n"
        "  hollow: one harmless call a turn, reading without doing\n"
        "  random: random tools and arguments",
        metavar="NAME",
        default="no policy is run",
    ),
]


class PlayerOptions(ModelOptions, frozen=True, kw_only=True):
    """The policy that plays tasks: a program, a Hugging Face model, or a model at a server."""

    model: Player = None
    temperature: Annotated[float, Advanced(ge=0)] = 1.0
    """Sampling temperature of a model; 0 is greedy."""
    max_actions: MaxActions = None
    prompt_style: PromptStyle = "tools"
    episode_tokens: EpisodeTokens = None
    reply_tokens: ReplyTokens = None
    threads: Annotated[int | None, Advanced(default="OMP_NUM_THREADS, else 1", ge=1)] = None
    """Threads of torch, for a local model."""
    backend: Annotated[
        str,
        Advanced(
            choices={"local": "this process", "vllm": "a vLLM server that is started and ended"}
        ),
    ] = "local"
    """What runs a Hugging Face model."""
    vllm_args: Annotated[str | None, Advanced(metavar="ARGUMENTS")] = None
    """With --backend vllm: further arguments of `vllm serve`; they count more than ours."""

    @contextlib.contextmanager
    def player(self, stage: str, io: RunStreams) -> Iterator[tuple[PlayerOptions, Models | None]]:
        """The options as they are once a vLLM server of ours runs, and the models of the server, if
        there is one."""
        from coevolve_cli.vllm_options import serving

        with serving(self) as options:
            at_server = bool(options.base_url) or options.offline
            with options.service(stage, io, needed=at_server) as models:
                yield options, models

    def policy(self, models: Models | None) -> Policy:
        from coevolve.agents.rollout import make_policy

        return make_policy(
            self.model,
            models=models,
            temperature=self.temperature,
            max_tokens=self.episode_tokens,
            max_turn_tokens=self.reply_tokens,
            threads=self.threads,
            prompt=self.prompt_style,
        )

    def identity(self, policy: Policy) -> dict[str, object]:
        """What decides how the policy plays: a journal answers for nothing else."""
        names = ("temperature", "max_actions", "prompt_style", "episode_tokens", "reply_tokens")
        return {"policy": policy.name, **{name: getattr(self, name) for name in names}}


def _interrupted() -> bool:
    kind = sys.exc_info()[0]
    return kind is not None and not issubclass(kind, Exception)


def _report(models: Models, io: RunStreams) -> None:
    from coevolve.models.spending import RECORD

    totals = models.totals()
    if not io.quiet:
        for entry in totals:
            print(entry.line(), file=sys.stderr, flush=True)
    if not io.run or not totals:
        return
    path = Path(io.run) / RECORD
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab") as stream:
            stream.write(b"".join(map(jsonl.encode, totals)))
    except OSError as error:
        raise WriteFailed(f"{path}: cannot write: {error.strerror}") from error
