"""How models at a server are reached, and what may be paid to them: options of every command that
asks one."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from coevolve.options import Advanced, Option, Settings

BUDGET = "Budget"


class Budget(Settings, frozen=True, kw_only=True):
    """What one command may pay; None: no limit."""

    PANEL: ClassVar[str] = BUDGET

    budget_calls: Annotated[
        int | None,
        Advanced(
            "Paid calls after which the command stops (exit 5); a rerun goes on.",
            default="no limit",
            ge=0,
        ),
    ] = None
    budget_tokens: Annotated[
        int | None,
        Advanced(
            "Tokens of paid calls, replies included, after which the command stops (exit 5).",
            default="no limit",
            ge=0,
        ),
    ] = None
    budget_cost: Annotated[
        float | None,
        Advanced(
            "Cost of paid calls (as in --prices) after which the command stops (exit 5).",
            default="no limit",
            ge=0,
        ),
    ] = None


class ServiceOptions(Budget, frozen=True, kw_only=True):
    """How models are reached and what they may cost."""

    PANEL: ClassVar[str] = "Models at a server"

    base_url: Annotated[
        str | None,
        Option(
            "Address of an OpenAI-compatible server that has --model, or URL,URL for several. "
            "Its key is read from OPENAI_API_KEY only.",
            metavar="URL",
        ),
    ] = None
    concurrency: Annotated[int, Advanced("Calls in flight at the server at once.", ge=1)] = 16
    timeout: Annotated[float, Advanced("Seconds that one attempt at a call may take.", ge=0.1)] = (
        600.0
    )
    journal: Annotated[
        str | None,
        Advanced(
            "Where paid answers are kept, so that a rerun pays for none twice.",
            metavar="DIR",
            default="$COEVOLVE_HOME/journal",
        ),
    ] = None
    offline: Annotated[
        bool, Advanced("Take answers from the journal only; a question that it lacks is an error.")
    ] = False
    prices: Annotated[
        str | None,
        Advanced(
            "TOML or JSON, a table a model: prompt, completion, cached, per million tokens.",
            panel=BUDGET,
            file="in",
        ),
    ] = None
    request_extra: Annotated[
        dict[str, Any],
        Advanced("Further fields of every request; null removes one.", metavar="a JSON object"),
    ] = {}
    at_server: dict[str, str] = {}
    """Name of a model → the server's name of it, where that is another."""
    until: str | None = None
    """A file: once it is there, the server has other models under these names, and nothing that it
    says is kept."""
