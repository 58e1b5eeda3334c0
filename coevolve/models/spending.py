"""Counts what the calls of one command took, and stops them at the limits of its budget.

`Spending` counts calls, tokens, seconds, retries and cost by model, apart for calls that were paid
now and for answers found in the journal. `begin` raises BudgetReached before a call that a limit
forbids: calls in flight at that moment are finished and kept, so tokens and cost may end above
their limit by what was in flight. A rerun starts a budget of its own and pays only what the journal
lacks.

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
from coevolve.models.call_journal import JournalEntry
from coevolve.models.chat import ChatReply, ChatRequest
from coevolve.models.options import Budget
from coevolve.records import Usage, canonical

RECORD = "model_calls.jsonl"  # In a run directory: one line of totals per command and model
# Prose has more bytes a token, so that a budget ends early rather than late.
BYTES_PER_TOKEN = 3  # UTF-8 bytes that an estimate takes for a token


def estimate(request: ChatRequest, reply: ChatReply) -> Usage | None:
    """The tokens of a call whose server does not count them; None where it does."""
    prompt, completion = reply.usage.prompt_tokens, reply.usage.completion_tokens
    answer = [reply.text, reply.reasoning, *reply.tool_calls]
    if prompt and (completion or not any(answer)):
        return None
    question = [request.messages, request.tools, request.schema]
    return Usage(prompt or _estimated_tokens(question), completion or _estimated_tokens(answer))


def _estimated_tokens(parts: Any) -> int:
    return -(-len(canonical(parts)) // BYTES_PER_TOKEN)


class Price(Struct, frozen=True, forbid_unknown_fields=True):
    """Prices per million tokens."""

    prompt: float
    completion: float
    cached: float | None = None

    def of(self, used: Usage, cached_tokens: int) -> float:
        """The cost of a call; `cached_tokens` are a part of the prompt's."""
        cached_price = self.prompt if self.cached is None else self.cached
        cached = min(cached_tokens, used.prompt_tokens)
        prompt = (used.prompt_tokens - cached) * self.prompt + cached * cached_price
        return (prompt + used.completion_tokens * self.completion) / 1e6


def read_prices(path: str) -> dict[str, Price]:
    """Model → price. Raises UsageError with the file and what is wrong in it."""
    try:
        text = Path(path).read_bytes()
        is_json = path.endswith(".json")
        table = msgspec.json.decode(text) if is_json else tomllib.loads(text.decode())
        prices = msgspec.convert(table, dict[str, Price])
        figures = [f for p in prices.values() for f in (p.prompt, p.completion, p.cached or 0)]
        if not all(0 <= figure < math.inf for figure in figures):
            raise ValueError("a price is a finite number, not below 0")
        return prices
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (ValueError, msgspec.MsgspecError) as error:
        form = "{model: {prompt, completion, cached}}"
        raise UsageError(f"{path}: no price table ({form}): {error}") from error


class Spent(Struct):
    """Sums over calls; `cost` is None as soon as one call's is unknown."""

    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    retries: int = 0
    seconds: float = 0.0
    cost: float | None = 0.0
    estimated: int = 0  # Calls whose tokens are estimated, for the server did not count them

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def add(self, call: JournalEntry) -> None:
        used, cached = call.estimated or call.reply.usage, call.reply.cached_tokens
        tokens = (used.prompt_tokens, cached, used.completion_tokens)
        estimated = int(call.estimated is not None)
        self.merge(Spent(1, *tokens, call.retries, call.seconds, call.cost, estimated))

    def merge(self, other: Spent) -> None:
        for name in self.__struct_fields__:
            mine, theirs = getattr(self, name), getattr(other, name)
            setattr(self, name, None if None in (mine, theirs) else mine + theirs)
        self.seconds = round(self.seconds, 3)


class Totals(Struct):
    """Sums over the calls of one stage to one model."""

    stage: str
    model: str
    paid: Spent
    reused: Spent  # Answers that the journal had: paid by an earlier run
    bad: int = 0  # Answers without content; a rerun asks again
    failed: int = 0  # Calls that failed at a server which answered others; a rerun asks again
    silent: int = 0  # Empty replies of a policy, each of which handed its turn back
    repaired: int = 0  # Structured answers whose JSON had to be repaired
    reasked: int = 0  # Structured answers that were wrong the first time
    rejected: int = 0  # Structured answers that were wrong the second time, too
    kept: int | None = None  # Records that the stage wrote

    def line(self) -> str:
        """The totals as one line for stderr."""
        paid = self.paid
        cached = f" ({paid.cached_tokens} cached)" if paid.cached_tokens else ""
        parts = [
            f"{paid.calls} calls",
            f"{self.reused.calls} from the journal",
            f"{paid.prompt_tokens}{cached} + {paid.completion_tokens} tokens",
        ]
        if paid.calls:
            parts.append(f"{paid.seconds / paid.calls:.2g} s a call")
        exceptions = {
            "without usage (tokens estimated)": paid.estimated,
            "retries": paid.retries,
            "reasked": self.reasked,
            "repaired": self.repaired,
            "rejected": self.rejected,
            "empty, each handing the turn back": self.silent,
            "empty or broken": self.bad,
            "failed": self.failed,
        }
        parts += [f"{number} {name}" for name, number in exceptions.items() if number]
        if paid.calls and paid.cost is not None:
            parts.append(f"cost {paid.cost:.4g}")
        if self.kept:
            parts.append(self._per_record())
        return f"{self.stage}: model {self.model}: " + ", ".join(parts)

    def _per_record(self) -> str:
        """The price of a record, whenever it was paid: the journal's part included."""
        costs = [spent.cost for spent in (self.paid, self.reused)]
        calls = (self.paid.calls + self.reused.calls) / self.kept
        tokens = (self.paid.tokens + self.reused.tokens) / self.kept
        cost = "" if None in costs else f", cost {sum(costs) / self.kept:.4g}"
        return f"per record written {calls:.3g} calls, {tokens:.0f} tokens{cost}"


class Spending:
    """The totals of a stage by model, and what is left of its budget."""

    def __init__(
        self, stage: str, limits: Budget = Budget(), prices: dict[str, Price] | None = None
    ):
        self.stage, self._limits, self._prices = stage, limits, prices or {}
        self.started = 0  # Calls begun: what --budget-calls counts
        self._totals: dict[str, Totals] = {}
        self._cost = 0.0  # The calls paid, estimates included
        self._wasted = 0  # Tokens of earlier answers that could not be used

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

    def pay(self, call: JournalEntry) -> None:
        """Adds a call to the totals and to what the limits look at."""
        model, reply = call.asked.model, call.reply
        self.of(model).paid.add(call)
        if model in self._prices:
            used = call.estimated or reply.usage
            self._cost += self._prices[model].of(used, reply.cached_tokens)

    def waste(self, model: str, used: Usage) -> None:
        """Takes from the budget what earlier runs paid for unusable answers to an open question."""
        # So a server that never says anything usable ends a budget however often it is run.
        self._wasted += used.prompt_tokens + used.completion_tokens
        if model in self._prices:
            self._cost += self._prices[model].of(used, 0)

    def begin(self, model: str) -> None:
        """Counts a call before it is paid. Raises BudgetReached, or UsageError without a price."""
        if self._limits.budget_cost is not None and model not in self._prices:
            raise UsageError(f"--budget-cost needs the price of {model} in --prices")
        tokens = self._wasted + sum(totals.paid.tokens for totals in self._totals.values())
        used = {"calls": self.started, "tokens": tokens, "cost": self._cost}
        for name, value in used.items():
            limit = getattr(self._limits, f"budget_{name}")
            if limit is not None and value >= limit:
                why = self._unexpected() if name != "calls" else ""
                raise BudgetReached(
                    f"--budget-{name} {limit:g} reached{why}; what was paid is in the journal, "
                    "and a rerun goes on from it"
                )
        self.started += 1

    def _unexpected(self) -> str:
        """The parts of the sums that a user may not expect there."""
        guessed = sum(totals.paid.estimated for totals in self._totals.values())
        parts = [f"by estimate: {guessed} calls came without usage"] if guessed else []
        if self._wasted:
            parts.append(f"{self._wasted} tokens by earlier answers that could not be used")
        return f" ({'; '.join(parts)})" if parts else ""
