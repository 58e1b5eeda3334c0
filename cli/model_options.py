"""What the commands that call models share: the options of server, journal and budget, and the totals at the end.

    @with_model_options
    def command(files: streams.Files = None, …, *, models: ModelOptions) -> None:
        with models.service("explore", run=run, quiet=quiet) as m, streams.stage(…) as s:
            …
            m.kept = s.written

`service` is entered first and so left last: the output is complete when it prints the totals, adds them to
RUN/model_calls.jsonl and, if the server gave answers without content, ends the command as partial (exit 75).

A model can be named by the READY.json of a trainer that serves it: the command sees the name of these weights, and the addresses
as if they were --base-url.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_origin, get_type_hints

import msgspec
import typer

from coevolve import jsonl
from coevolve.errors import Partial, UsageError, WriteFailed

if TYPE_CHECKING:
    from coevolve.models.service import Models

READY = "READY.json"

Prompts = Annotated[str | None, typer.Option("--prompts", metavar="DIR", help="Prompt files that replace those of the package (coevolve/prompts).", show_default=False)]  # fmt: skip
Model = Annotated[str | None, typer.Option("--model", metavar="NAME", help="Let this model of a server do it (--base-url), or the policy of a trainer's READY.json.", show_default=False)]  # fmt: skip
Temperature = Annotated[float | None, typer.Option("--temperature", min=0, help="Of --model; default: the server's.", show_default=False)]  # fmt: skip


# fmt: off
class ModelOptions(NamedTuple):
    base_url: Annotated[str | None, typer.Option("--base-url", metavar="URL", help="An OpenAI-compatible server, or several of one model (URL,URL); its key only from OPENAI_API_KEY.", show_default=False)] = None
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Calls in flight at the server.")] = 16
    timeout: Annotated[float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="Of one attempt at a call.")] = 600.0
    journal: Annotated[str | None, typer.Option("--journal", metavar="DIR", help="Paid answers; default $COEVOLVE_HOME/journal. A rerun pays for none twice.", show_default=False)] = None
    offline: Annotated[bool, typer.Option("--offline", help="Answers from the journal only: a question it lacks is an error.")] = False
    prices: Annotated[str | None, typer.Option("--prices", metavar="FILE", help="TOML or JSON: prompt, completion, cached per million tokens, by model.", show_default=False)] = None
    max_calls: Annotated[int | None, typer.Option("--max-calls", min=0, help="Stop (exit 5) before one more paid call.", show_default=False)] = None
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", min=0, help="Stop (exit 5) once paid calls took this many.", show_default=False)] = None
    max_cost: Annotated[float | None, typer.Option("--max-cost", min=0, help="Stop (exit 5) once paid calls cost this much (with --prices).", show_default=False)] = None
    request_extra: Annotated[str | None, typer.Option("--request-extra", metavar="JSON", help="Further fields of every request; null removes one.", show_default=False)] = None
    # fmt: on
    at_server: dict[str, str] = {}
    """These two are no options: see `Options` of the service."""
    until: str | None = None

    @contextlib.contextmanager
    def service(self, stage: str, *, run: str | None = None, quiet: bool = False) -> Iterator[Models]:
        """The models of one command. An error of the command wins over the partial end."""
        from coevolve.models.service import Models

        with Models(stage, self._options()) as models:
            try:
                yield models
            finally:
                models.close(finish=not _interrupted())
                _report(models, run, quiet)
        bad = sum(totals.bad for totals in models.totals())
        if bad:
            raise Partial(f"{stage}: {bad} answers of the server were empty or broken; a rerun asks for those again")

    @contextlib.contextmanager
    def if_at_server(self, stage: str, *, run: str | None = None, quiet: bool = False) -> Iterator[Models | None]:
        """`service` where --base-url or --offline says that the model is at a server; else None."""
        if self.base_url is None and not self.offline:
            yield None
            return
        with self.service(stage, run=run, quiet=quiet) as models:
            yield models

    def _options(self) -> Any:
        from coevolve.models.service import Options
        from coevolve.models.spending import Limits

        return Options(
            base_url=self.base_url,
            concurrency=self.concurrency,
            timeout=self.timeout,
            journal=self.journal,
            offline=self.offline,
            prices=self.prices,
            limits=Limits(calls=self.max_calls, tokens=self.max_tokens, cost=self.max_cost),
            extra=_extra(self.request_extra),
            at_server=self.at_server,
            until=self.until,
        )

    def served(self, ready: str) -> tuple[str, ModelOptions]:
        """The name of the policy that a trainer's READY.json is about, and how it is reached. Raises UsageError."""
        from coevolve.training.verl.served import served

        if self.base_url:
            raise UsageError(f"--base-url: the addresses are those of {ready}; leave it out")
        name, at_server, addresses, until = served(ready, newest=not self.offline)
        return name, self._replace(base_url=",".join(addresses), at_server={name: at_server}, until=str(until))


def with_model_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of `ModelOptions` in place of its parameter `models`."""
    signature = inspect.signature(command)
    hints = get_type_hints(command, include_extras=True)
    hinted = get_type_hints(ModelOptions, include_extras=True)
    shared = {name: hint for name, hint in hinted.items() if get_origin(hint) is Annotated}
    own = [p.replace(annotation=hints[p.name]) for p in signature.parameters.values() if p.name != "models"]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=ModelOptions._field_defaults[name], annotation=hint)
        for name, hint in shared.items()
    ]

    def wrapped(**arguments: Any) -> None:
        who = _check(arguments)
        models = ModelOptions(**{name: arguments.pop(name) for name in shared})
        if Path(arguments[who] or "").name == READY:
            arguments[who], models = models.served(arguments[who])
        if models.base_url and "ctx" in arguments:  # --dry-run prints what is there
            arguments["ctx"].params["base_url"] = _shown(models.base_url)
        command(**arguments, models=models)

    wrapped.__doc__ = command.__doc__
    wrapped.__signature__ = inspect.Signature([*own, *more])
    wrapped.__annotations__ = {p.name: p.annotation for p in [*own, *more]}
    return wrapped


def _check(arguments: dict[str, Any]) -> str:
    """Raises UsageError for what no command could mean. Returns the parameter that names the model."""
    for name, value in arguments.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"--{name.replace('_', '-')} takes a finite number, not {value}")
    who = next(name for name in ("model", "solver", "policy") if name in arguments)
    if arguments[who] == "":
        raise UsageError(f"--{who} needs a name")
    for name in ("base_url", "offline"):
        if arguments[name] and arguments[who] is None:
            raise UsageError(f"--{name.replace('_', '-')} needs --{who}: which model?")
    return who


def _shown(urls: str) -> str:
    """What may be printed of --base-url."""
    from coevolve.models.redaction import public_address

    return ",".join(map(public_address, urls.split(",")))


def _extra(text: str | None) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise UsageError(f"--request-extra takes a JSON object: {error}") from error


def _interrupted() -> bool:
    kind = sys.exc_info()[0]
    return kind is not None and not issubclass(kind, Exception)


def _report(models: Models, run: str | None, quiet: bool) -> None:
    from coevolve.models.spending import RECORD

    totals = models.totals()
    if not quiet:
        for entry in totals:
            print(entry.line(), file=sys.stderr, flush=True)
    if not run or not totals:
        return
    path = Path(run) / RECORD
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab") as stream:
            stream.write(b"".join(map(jsonl.encode, totals)))
    except OSError as error:
        raise WriteFailed(f"{path}: cannot write: {error.strerror}") from error
