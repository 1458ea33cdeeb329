"""The feed that callers iterate over, in a thread or on an event loop."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Iterator
from datetime import timedelta
from types import TracebackType
from typing import Self

from stanchion.context.context import Context
from stanchion.core.backoff import Backoff, deadline_in
from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.feed.event import FeedEvent, Position
from stanchion.feed.reader import Reader
from stanchion.feed.sources import Selection
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.wakeup.signs import Signs
from stanchion.waits.poll import BACKUP_POLLS
from stanchion.waits.signals import Subscription

log = logging.getLogger("stanchion")

_SECONDS_PER_READ = 0.4
"""Seconds between two polls without a signal, per statement of a poll: an idle feed runs 2.5 statements a second."""
_CLOCK_STEP_MICROS = 2000
"""Twice the step of the coarsest clocks of stores, so that a push right after the call of `watch` is not before it."""
_APART_SECONDS, _APART_LOOKS = 0.02, 2
"""Looks that signs ask for are apart by this, and by this many times as long as one takes."""


class Feed:
    """Iterates over events: `for event in app.watch():`, `async for event in app.watch():`. It does not end by itself.

    Between two reads it holds nothing in the store. While the store is away, it waits. Use it in one thread, or in one
    task, at a time.
    """

    def __init__(
        self, context: Context, wanted: Selection, start: Position | None, overlap: float, skew: float
    ) -> None:
        self._context, self._wanted, self._start = context, wanted, start
        self._overlap, self._skew = int(overlap * SECOND), int(skew * SECOND)
        self._asked_at = time.monotonic()
        self._events: deque[FeedEvent] = deque()
        self._reader: Reader | None = None
        self._look: Iterator[list[FeedEvent]] | None = None
        self._asked_meanwhile = False
        self._reading = threading.Lock()
        self._next_at = self._not_before = 0.0
        self._backoff = Backoff()
        self._subscription: Subscription | None = None
        self._last: str | None = None
        self._closed = False

    @property
    def position(self) -> str | None:
        """The position after the last event that was taken; it moves on while there are none. None before it reads.

        Pass it as `since=` to continue there.
        """
        reader = self._reader
        if reader is None:
            return None if self._start is None else str(self._start)
        if self._events or self._look is not None:
            return self._last
        return str(reader.position)

    def next(self, timeout: float | timedelta | None = None) -> FeedEvent | None:
        """Return the next event, or None after `timeout` seconds without one; 0: look once."""
        self._context.blocking.check()
        deadline = self._deadline(timeout)
        while (nap := self._read()) is not None:
            if nap <= 0:
                continue
            now = time.monotonic()
            if now >= deadline:
                return None
            self._awaited(self._context.waits.for_sign(self._listening(), min(now + nap, deadline)).result())
        return self._taken()

    async def anext(self, timeout: float | timedelta | None = None) -> FeedEvent | None:
        """Await `next`. Waiting takes no thread."""
        deadline = self._deadline(timeout)
        while True:
            if self._events:
                return self._taken()
            nap = await asyncio.wrap_future(self._context.calls.submit(self._read))
            if nap is None or nap <= 0:
                continue
            now = time.monotonic()
            if now >= deadline:
                return None
            loop = asyncio.get_running_loop()
            waiter = self._context.waits.for_sign(self._listening(), min(now + nap, deadline), loop)
            self._awaited(await waiter.answer())

    def close(self) -> None:
        """End the feed; `position` stays."""
        self._closed = True
        if self._subscription is not None:
            self._subscription.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> FeedEvent:
        if self._closed or (event := self.next()) is None:
            raise StopIteration
        return event

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> FeedEvent:
        if self._closed or (event := await self.anext()) is None:
            raise StopAsyncIteration
        return event

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_subscription", None) is not None:
            self.close()

    def __repr__(self) -> str:
        return f"<Feed at {self.position} of {self._context!r}>"

    def _deadline(self, timeout: float | timedelta | None) -> float:
        deadline = deadline_in(timeout)
        if deadline <= time.monotonic():
            self._next_at = self._not_before = 0.0
            # A poll in progress may have read before the events that this one is to find.
            self._asked_meanwhile = self._look is not None
        return deadline

    # -- reading

    def _taken(self) -> FeedEvent:
        event = self._events.popleft()
        self._last = event.position
        return event

    def _read(self) -> float | None:
        """Read the next events; return None if there are some, else the seconds to wait for a sign, 0 to read on."""
        with self._reading:
            if self._events:
                return None
            if self._closed:
                raise InvalidInput("this feed was closed; app.watch(since=feed.position) continues it")
            now = time.monotonic()
            if self._look is None and now < (at := max(self._next_at, self._not_before)):
                return at - now
            try:
                return self._read_on()
            except StoreUnavailable as error:
                if error.lasting:
                    raise
                self._look = None
                pause = self._backoff.failed()
                self._next_at = self._not_before = time.monotonic() + pause
                log.warning("a feed waits for the store, next try in %.1f s: %s", pause, error)
                return pause

    def _read_on(self) -> float | None:
        if self._reader is None:
            self._reader = self._new_reader()
        if self._look is None:
            self._next_at = math.inf
            self._last = str(self._reader.position)
            self._look = self._reader.look()
        chunk = next(self._look, None)
        if chunk is not None:
            self._events.extend(chunk)
            return None
        self._look = None
        self._backoff.succeeded()
        now = time.monotonic()
        self._not_before = now + max(_APART_SECONDS, _APART_LOOKS * self._reader.seconds)
        self._next_at = now + self._pause(self._reader)
        if self._reader.behind or self._asked_meanwhile:
            self._asked_meanwhile = False
            self._next_at = self._not_before = now
            return 0.0
        return self._next_at - now

    def _new_reader(self) -> Reader:
        store = self._context.store
        now = store.now()
        if self._start is None:
            asked_at = now - int((time.monotonic() - self._asked_at) * SECOND) - _CLOCK_STEP_MICROS
            self._start = Position(asked_at, asked_at)
        return Reader(store, self._wanted, self._start, self._overlap, self._skew)

    # -- waiting

    def _pause(self, reader: Reader) -> float:
        """Return the seconds until the next poll, unless a signal comes earlier; starts of jobs send no signal."""
        told = self._wanted.kinds.isdisjoint({"started"}) and self._listening().hears
        return max(self._context.poll * (BACKUP_POLLS if told else 1), _SECONDS_PER_READ * reader.reads)

    def _listening(self) -> Subscription:
        """Return the subscription to the signs of all queues that are read now."""
        names = frozenset(() if self._reader is None else self._reader.names)
        work = names if self._wanted.kinds & {"pushed", "started"} else frozenset[str]()
        ends = names if self._wanted.kinds & {"started", "finished"} else frozenset[str]()
        if self._subscription is None:
            self._subscription = Subscription(self._context.waits, Signs(work, ends))
        self._subscription.want(Signs(work, ends))
        return self._subscription

    def _awaited(self, signed: bool) -> None:
        if signed:
            self._next_at = min(self._next_at, time.monotonic())
