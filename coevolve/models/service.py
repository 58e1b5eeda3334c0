"""Models at a server, for one run of a stage: every call goes through the journal, the budget and a
limit of concurrency.

    with Models("explore", ServiceOptions(base_url="http://localhost:8000/v1")) as models:
        # explore_one is a coroutine function: await models.chat(…)
        for found in models.each(contexts, explore_one):
            ...

A question that the journal answers costs nothing. An answer that cannot be used (BadReply) is paid
for, so it counts, and the journal knows what it took: a rerun asks again, with that much less of
its budget. A call that fails at a server which answers others is lost like that (CallFailed), and
counted. The same question asked twice at a time is one call. When an error or a budget ends the
stage, calls in flight are let finish, for one attempt's time at most, and are kept; an interrupt
cuts them off. `each` runs on an event loop of its own that stands still between two results.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from coevolve.errors import CoevolveError, Unreachable, UsageError
from coevolve.models import structured_output
from coevolve.models.call_journal import CallJournal, JournalEntry, JournalQuestion
from coevolve.models.chat import AnswerRejected, BadReply, CallFailed, ChatReply, ChatRequest
from coevolve.models.openai_chat import ChatClient
from coevolve.models.options import ServiceOptions
from coevolve.models.spending import Spending, Totals, estimate, read_prices
from coevolve.records import Usage
from coevolve.runs import home

A = TypeVar("A")
B = TypeVar("B")
T = TypeVar("T")

AHEAD = 8  # Results that may wait for an earlier one, as a multiple of the width
RESERVED_FIELDS = ("messages", "model", "n", "stream", "tools")
"""Fields of a request that the stage sends or counts on, and that are never the user's `extra`."""


class Models:
    """The models of one stage; `stage` names the totals."""

    def __init__(self, stage: str, options: ServiceOptions = ServiceOptions()):
        if refused := ", ".join(sorted(options.request_extra.keys() & RESERVED_FIELDS)):
            raise UsageError(f"--request-extra: {refused} cannot be set or removed there")
        self.options = options
        prices = read_prices(options.prices) if options.prices else None
        self.spending = Spending(stage, options, prices)
        self.kept: int | None = None  # Set by the stage at its end: the records it wrote
        self.failed = ""  # Which call the server failed last, and how
        journal = options.journal or home() / "journal"
        self._journal = CallJournal(journal, writes=not options.offline)
        self._client = None
        if not options.offline:
            self._client = ChatClient(
                options.base_url, options.timeout, options.concurrency, options.at_server
            )
        self._runner = asyncio.Runner()
        self._asking: dict[str, asyncio.Task[ChatReply]] = {}
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._wasted: set[str] = set()  # Requests whose unusable answers the budget knows of
        self._closing = False

    def __enter__(self) -> Models:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(finish=kind is None or issubclass(kind, Exception))

    def close(self, finish: bool = True) -> None:
        """Ends client and loop; `finish` waits for calls in flight and keeps their answers."""
        if not self._closing:
            self._closing = True
            try:
                self._runner.run(self._close(finish))
            finally:
                self._runner.close()
                self._journal.close()

    async def _close(self, finish: bool) -> None:
        flying = list(self._asking.values())
        if flying and finish:
            await asyncio.wait(flying, timeout=self.options.timeout)
        for task in flying:
            task.cancel()
        await asyncio.gather(*flying, return_exceptions=True)
        if self._client:
            await self._client.close()

    def totals(self) -> list[Totals]:
        """The totals by model; `kept` is the stage's."""
        return [replace(totals, kept=self.kept) for totals in self.spending.all()]

    async def chat(self, request: ChatRequest) -> ChatReply:
        """The reply, from the journal or the server.

        Raises BadReply, CallFailed, ContextFull, Unreachable, BudgetReached, CoevolveError.
        """
        if self.options.request_extra:
            request = replace(request, extra=self.options.request_extra | request.extra)
        key = request.key()
        task = self._asking.get(key)
        if task is None:
            found = self._find(key, request.model)
            if found:
                return found
            if self.options.offline:
                lacking = f"--offline, and no answer to request {key}: {request.describe()}"
                raise CoevolveError(f"{self._journal.directory}: {lacking}")
            task = self._asking[key] = asyncio.create_task(self._ask(key, request))
            task.add_done_callback(lambda done: self._done(key, done))
        return await asyncio.shield(task)

    async def ask(self, request: ChatRequest, type_: type[T]) -> T:
        """The reply as a value of the type (a msgspec Struct), asked for again once with the
        reason.

        Raises AnswerRejected, and what `chat` raises.
        """
        totals = self.spending.of(request.model)
        request = replace(request, schema=structured_output.response_schema(type_))
        reply = await self.chat(request)
        decoded = structured_output.decode(reply, type_)
        if decoded.reason:
            totals.reasked += 1
            messages = structured_output.again(request.messages, reply, decoded.reason)
            reply = await self.chat(replace(request, messages=messages))
            decoded = structured_output.decode(reply, type_)
        if decoded.reason:
            totals.rejected += 1
            raise AnswerRejected(decoded.reason, reply.text)
        totals.repaired += decoded.repaired
        return decoded.value

    def each(
        self, items: Iterable[A], function: Callable[[A], Awaitable[B]], width: int | None = None
    ) -> Iterator[B]:
        """`function` of every item, `width` (default: the concurrency) at a time, in the items'
        order.

        The first failure of an item, in that order, is raised in its place; the others that run are
        cancelled. Where the server failed and no item got an answer from it, or from the journal,
        its failure is raised in place of the last result.
        """
        running = _OrderedTasks(items, function, width or self.options.concurrency)
        try:
            while running.first_is_done() or self._runner.run(running.wait()):
                result, failure = running.take(), self._unanswered()
                if failure and self._runner.run(running.is_over()):
                    raise failure
                yield result
        finally:
            if not self._closing:
                self._runner.run(running.cancel())

    def _unanswered(self) -> CoevolveError | None:
        if self._client is None or any(totals.reused.calls for totals in self.spending.all()):
            return None
        return self._client.unanswered()

    def _find(self, key: str, model: str) -> ChatReply | None:
        entry = self._journal.get(key)
        if entry is None or entry.unusable:
            return None
        self.spending.of(model).reused.add(entry)
        return entry.reply

    async def _ask(self, key: str, request: ChatRequest) -> ChatReply:
        slot = self._slots.setdefault(request.model, asyncio.Semaphore(self.options.concurrency))
        async with slot, self._journal.asking(key):
            found = self._find(key, request.model)  # another process may have asked meanwhile
            if found:
                return found
            if self._closing:
                raise asyncio.CancelledError
            before = self._journal.get(key)
            if before and key not in self._wasted:
                self._wasted.add(key)
                self.spending.waste(request.model, before.wasted)
            self.spending.begin(request.model)
            return await self._call(key, request, before.wasted if before else Usage())

    async def _call(self, key: str, request: ChatRequest, wasted: Usage) -> ChatReply:
        """Asks, and keeps what came; `wasted`: what earlier answers took that could not be used."""
        totals, began = self.spending.of(request.model), time.monotonic()
        try:
            reply, retries, seconds = await self._client.complete(request)
        except CallFailed as error:
            totals.failed += 1
            self.failed = f"{request.describe()}: {error.failure}"
            raise
        except BadReply as error:
            totals.bad += 1
            nothing = ChatReply(usage=error.usage, cached_tokens=error.cached_tokens)
            entry = self._entry(key, request, nothing, 0, round(time.monotonic() - began, 3))
            took = entry.estimated or entry.reply.usage
            wasted = Usage(
                wasted.prompt_tokens + took.prompt_tokens,
                wasted.completion_tokens + took.completion_tokens,
            )
            self._keep(replace(entry, unusable=str(error), wasted=wasted))
            self._wasted.add(key)
            raise
        totals.silent += reply.is_silent
        if (until := self.options.until) and Path(until).exists():
            gone = f"is no longer at its server: {until} has appeared"
            raise Unreachable(f"model {request.model} {gone}")
        self._keep(self._entry(key, request, reply, retries, seconds))
        return reply

    def _entry(
        self, key: str, request: ChatRequest, reply: ChatReply, retries: int, seconds: float
    ) -> JournalEntry:
        estimated, messages = estimate(request, reply), request.messages
        return JournalEntry(
            key=key,
            stage=self.spending.stage,
            asked=JournalQuestion(
                model=request.model,
                prompt=request.prompt_version,
                sample=request.sample,
                messages=len(messages),
                last=str(messages[-1].get("content"))[:500] if messages else "",
            ),
            reply=reply,
            seconds=seconds,
            retries=retries,
            cost=self.spending.price(request.model, reply, estimated),
            estimated=estimated,
        )

    def _keep(self, entry: JournalEntry) -> None:
        self._journal.put(entry)
        self.spending.pay(entry)

    def _done(self, key: str, task: asyncio.Task[ChatReply]) -> None:
        del self._asking[key]
        if not task.cancelled():
            task.exception()  # whoever asked has it, unless they were cancelled


class _OrderedTasks:
    """Items on their way through a coroutine function: `width` run, the done ones keep order."""

    def __init__(self, items: Iterable[Any], function: Callable[[Any], Awaitable[Any]], width: int):
        self._source, self._function, self._width = iter(items), function, width
        self._running = 0
        self._queue: deque[asyncio.Task[Any]] = deque()
        self._moved = asyncio.Event()
        self._exhausted = False

    async def wait(self) -> bool:
        """Waits until the first item is done; False when there is none left."""
        while True:
            # Once the next result is an exception, nothing more is begun.
            if not (self.first_is_done() and self._queue[0].exception()):
                self._fill()
            if self.first_is_done() or not self._queue:
                return bool(self._queue)
            self._moved.clear()
            await self._moved.wait()

    def first_is_done(self) -> bool:
        return bool(self._queue) and self._queue[0].done()

    def take(self) -> Any:
        try:
            return self._queue.popleft().result()
        except CallFailed as error:  # an item that cannot be lost
            raise error.failure from None

    async def is_over(self) -> bool:
        """Tells whether there is no item left."""
        self._fill()
        return self._exhausted and not self._queue

    async def cancel(self) -> None:
        for task in self._queue:
            task.cancel()
        await asyncio.gather(*self._queue, return_exceptions=True)

    def _fill(self) -> None:
        ahead = AHEAD * self._width
        while not self._exhausted and self._running < self._width and len(self._queue) < ahead:
            try:
                item = next(self._source)
            except StopIteration:
                self._exhausted = True
                return
            task = asyncio.ensure_future(self._function(item))
            task.add_done_callback(self._finished)
            self._queue.append(task)
            self._running += 1

    def _finished(self, _: object) -> None:
        self._running -= 1
        self._moved.set()
