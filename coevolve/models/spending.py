"""What the calls of one command took, and where they have to stop.

`Spending` counts calls, tokens, seconds, retries and cost by model, apart for calls that were paid
now and for answers found in the journal. `begin` raises BudgetReached before a call that a limit
forbids: calls in flight at that moment are finished and kept, so tokens and cost may end above
their limit by what was in flight. A rerun starts a budget of its own and pays only what the journal
lacks; what answers took that could not be used counts again (`waste`) where it asks for those, so
that a server that never says anything usable ends a budget however often the command is run.

A server that counts no tokens (no `usage`, or zeros) stops no budget of tokens or cost by itself:
such calls are counted by `estimate`, said as `estimated`, and their cost is null. A limit of cost
goes by the estimate's price.

Prices are the user's: a TOML or JSON file of ``{model: {prompt, cached, completion}}`` per million
tokens, in any currency; `cached` defaults to `prompt`. A model that is not in it has cost null,
never 0.
"""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from coevolve.errors import BudgetReached, UsageError
from coevolve.models.chat import ChatReply, ChatRequest
from coevolve.records import Usage, canonical

RECORD = "model_calls.jsonl"
"""In a run directory: one line of totals per command and model."""


BYTES_PER_TOKEN = 3
"""Of an estimate, in UTF-8. Prose has more bytes a token, so that a budget ends early rather than
late."""


def estimate(request: ChatRequest, reply: ChatReply) -> Usage | None:
    """What a call took, where the server does not say: no prompt has 0 tokens, and no words. None
    where it does."""
    counted = reply.usage
    said = [reply.text, reply.reasoning, *reply.tool_calls]
    if counted.prompt_tokens and (counted.completion_tokens or not any(said)):
        return None
    asked = [request.messages, request.tools, request.schema]
    return Usage(
        counted.prompt_tokens or _tokens_of(asked), counted.completion_tokens or _tokens_of(said)
    )


def _tokens_of(parts: Any) -> int:
    return -(-len(canonical(parts)) // BYTES_PER_TOKEN)


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """Per million tokens."""

    prompt: float
    completion: float
    cached: float | None = None

    def figures(self) -> list[float]:
        return [self.prompt, self.completion, *([] if self.cached is None else [self.cached])]

    def of(self, used: Usage, cached_tokens: int) -> float:
        cached_price = self.prompt if self.cached is None else self.cached
        cached = min(cached_tokens, used.prompt_tokens)
        prompt = (used.prompt_tokens - cached) * self.prompt + cached * cached_price
        return (prompt + used.completion_tokens * self.completion) / 1e6


def read_prices(path: str) -> dict[str, Price]:
    """Model → price. Raises UsageError with the file and what is wrong in it."""
    try:
        text = Path(path).read_bytes()
        table = (
            msgspec.json.decode(text) if path.endswith(".json") else tomllib.loads(text.decode())
        )
        prices = msgspec.convert(table, dict[str, Price])
        if any(
            not 0 <= figure < math.inf for price in prices.values() for figure in price.figures()
        ):
            raise ValueError("a price is a finite number, not below 0")
        return prices
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (ValueError, msgspec.MsgspecError) as error:
        raise UsageError(
            f"{path}: no price table ({{model: {{prompt, completion, cached}}}}): {error}"
        ) from error


class Spent(Struct):
    """Sums over calls; `cost` is None as soon as one call's is unknown, and for calls without price
    table."""

    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    retries: int = 0
    seconds: float = 0.0
    cost: float | None = 0.0
    estimated: int = 0
    """Calls whose tokens are estimated, for the server did not count them."""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def add(
        self,
        reply: ChatReply,
        seconds: float,
        retries: int,
        cost: float | None,
        estimated: Usage | None = None,
    ) -> None:
        used = estimated or reply.usage
        self.calls += 1
        self.estimated += estimated is not None
        self.prompt_tokens += used.prompt_tokens
        self.cached_tokens += reply.cached_tokens
        self.completion_tokens += used.completion_tokens
        self.retries += retries
        self.seconds = round(self.seconds + seconds, 3)
        self.cost = None if self.cost is None or cost is None else self.cost + cost

    def merge(self, other: Spent) -> None:
        self.calls += other.calls
        self.prompt_tokens += other.prompt_tokens
        self.cached_tokens += other.cached_tokens
        self.completion_tokens += other.completion_tokens
        self.retries += other.retries
        self.seconds = round(self.seconds + other.seconds, 3)
        self.cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        self.estimated += other.estimated


class Totals(Struct):
    """Of one stage and model."""

    stage: str
    model: str
    paid: Spent
    reused: Spent
    """Answers that the journal had: paid by an earlier run."""
    bad: int = 0
    """Answers without content; a rerun asks again."""
    silent: int = 0
    """Empty replies of a policy, each of which handed its turn back."""
    repaired: int = 0
    """Structured answers whose JSON had to be repaired."""
    reasked: int = 0
    """Structured answers that were wrong the first time."""
    rejected: int = 0
    """… and wrong again."""
    kept: int | None = None
    """Records that the stage wrote."""

    def line(self) -> str:
        """For stderr."""
        parts = [
            f"{self.paid.calls} calls",
            f"{self.reused.calls} from the journal",
            _tokens(self.paid),
        ]
        if self.paid.calls:
            parts.append(f"{self.paid.seconds / self.paid.calls:.2g} s a call")
        parts += [f"{n} {name}" for name, n in self._exceptions().items() if n]
        if self.paid.calls and self.paid.cost is not None:
            parts.append(f"cost {self.paid.cost:.4g}")
        if self.kept:
            parts.append(self._per_record())
        return f"{self.stage}: model {self.model}: " + ", ".join(parts)

    def _exceptions(self) -> dict[str, int]:
        retries, names = self.paid.retries, ("reasked", "repaired", "rejected")
        return {
            "without usage (tokens estimated)": self.paid.estimated,
            "retries": retries,
            **{n: getattr(self, n) for n in names},
            "empty, each handing the turn back": self.silent,
            "empty or broken": self.bad,
        }

    def _per_record(self) -> str:
        """The journal's part included: what the records cost, whenever it was paid."""
        costs = [spent.cost for spent in (self.paid, self.reused)]
        calls = (self.paid.calls + self.reused.calls) / self.kept
        tokens = (self.paid.tokens + self.reused.tokens) / self.kept
        cost = "" if None in costs else f", cost {sum(costs) / self.kept:.4g}"
        return f"per record written {calls:.3g} calls, {tokens:.0f} tokens{cost}"


def _tokens(spent: Spent) -> str:
    cached = f" ({spent.cached_tokens} cached)" if spent.cached_tokens else ""
    return f"{spent.prompt_tokens}{cached} + {spent.completion_tokens} tokens"


class Limits(Struct, frozen=True):
    """Of the calls that one command pays; None: no limit."""

    calls: int | None = None
    tokens: int | None = None
    cost: float | None = None


class Spending:
    def __init__(
        self, stage: str, limits: Limits = Limits(), prices: dict[str, Price] | None = None
    ):
        self.stage, self._limits, self._prices = stage, limits, prices or {}
        self.started = 0
        """Calls begun: what --max-calls counts."""
        self._totals: dict[str, Totals] = {}
        self._cost = 0.0
        """Of the calls paid, estimates included."""
        self._wasted = 0
        """Tokens of earlier answers that could not be used."""

    def of(self, model: str) -> Totals:
        if model not in self._totals:
            self._totals[model] = Totals(self.stage, model, Spent(), Spent())
        return self._totals[model]

    def all(self) -> list[Totals]:
        return [self._totals[model] for model in sorted(self._totals)]

    def price(self, model: str, reply: ChatReply, estimated: Usage | None = None) -> float | None:
        """None where the price or what was used is unknown."""
        known = model in self._prices and estimated is None
        return self._prices[model].of(reply.usage, reply.cached_tokens) if known else None

    def pay(
        self,
        model: str,
        reply: ChatReply,
        seconds: float,
        retries: int,
        estimated: Usage | None = None,
    ) -> None:
        """Adds a call to the totals and to what the limits look at."""
        self.of(model).paid.add(
            reply, seconds, retries, self.price(model, reply, estimated), estimated
        )
        if model in self._prices:
            self._cost += self._prices[model].of(estimated or reply.usage, reply.cached_tokens)

    def waste(self, model: str, used: Usage) -> None:
        """Takes from the budget what earlier runs paid for unusable answers to a question that is
        open still."""
        self._wasted += used.prompt_tokens + used.completion_tokens
        if model in self._prices:
            self._cost += self._prices[model].of(used, 0)

    def begin(self, model: str) -> None:
        """Before every call that is paid. Raises BudgetReached, or UsageError where --max-cost has
        no price to go by."""
        if self._limits.cost is not None and model not in self._prices:
            raise UsageError(f"--max-cost needs the price of {model} in --prices")
        spent = [totals.paid for totals in self._totals.values()]
        used = {
            "calls": self.started,
            "tokens": self._wasted + sum(s.tokens for s in spent),
            "cost": self._cost,
        }
        for name, value in used.items():
            limit = getattr(self._limits, name)
            if limit is not None and value >= limit:
                raise BudgetReached(
                    f"--max-{name} {limit:g} reached{self._because() if name != 'calls' else ''}; what was paid is in the "
                    "journal, and a rerun goes on from it"
                )
        self.started += 1

    def _because(self) -> str:
        """What in the sums a user may not expect there."""
        guessed = sum(totals.paid.estimated for totals in self._totals.values())
        parts = [f"by estimate: {guessed} calls came without usage"] if guessed else []
        if self._wasted:
            parts.append(f"{self._wasted} tokens by earlier answers that could not be used")
        return f" ({'; '.join(parts)})" if parts else ""
