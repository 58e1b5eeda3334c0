"""How models at a server are reached, and what may be paid to them: options of every command that
asks one."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from coevolve.options import Advanced, Option, Settings

BUDGET = "Budget"


class Budget(Settings, frozen=True, kw_only=True):
    """What one command may pay; None: no limit."""

    PANEL: ClassVar[str] = BUDGET

    budget_calls: Annotated[int | None, Advanced(default="no limit", ge=0)] = None
    """Paid calls after which the command stops (exit 5); a rerun goes on."""
    budget_tokens: Annotated[int | None, Advanced(default="no limit", ge=0)] = None
    """Tokens of paid calls, replies included, after which the command stops (exit 5)."""
    budget_cost: Annotated[float | None, Advanced(default="no limit", ge=0)] = None
    """Cost of paid calls (as in --prices) after which the command stops (exit 5)."""


class ServiceOptions(Budget, frozen=True, kw_only=True):
    """How models are reached and what they may cost."""

    PANEL: ClassVar[str] = "Model"

    base_url: Annotated[str | None, Option(metavar="URL")] = None
    """Address of an OpenAI-compatible server that has --model, or URL,URL for several. Its key is
    read from OPENAI_API_KEY only."""
    concurrency: Annotated[int, Advanced(ge=1)] = 16
    """Calls in flight at the server at once."""
    timeout: Annotated[float, Advanced(ge=0.1)] = 600.0
    """Seconds that one attempt at a call may take."""
    journal: Annotated[str | None, Advanced(metavar="DIR", default="$COEVOLVE_HOME/journal")] = None
    """Where paid answers are kept, so that a rerun pays for none twice."""
    offline: Annotated[bool, Advanced()] = False
    """Take answers from the journal only; a question that it lacks is an error."""
    prices: Annotated[str | None, Advanced(panel=BUDGET, file="in")] = None
    """TOML or JSON, a table a model: prompt, completion, cached, per million tokens."""
    request_extra: Annotated[dict[str, Any], Advanced(metavar="a JSON object")] = {}
    """Further fields of every request; null removes one."""
    at_server: dict[str, str] = {}
    """Name of a model → the server's name of it, where that is another."""
    until: str | None = None
    """A file: once it is there, the server has other models under these names, and nothing that it
    says is kept."""
