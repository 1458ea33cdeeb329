"""Testing an app: a fresh store within a block, and a clock that the test moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal

from stanchion.context.context import Context
from stanchion.core.checks import aware, brief, seconds_of
from stanchion.core.concurrency.aio import off_loop_alone
from stanchion.core.times import micros, moment
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.registry import open_store, refusal_of_transactions, rehearsal_store

if TYPE_CHECKING:
    from stanchion.cron.ticker import Ticker
    from stanchion.tasks.testing.inline import AtOnce

AT: Final = datetime(2024, 1, 1, tzinfo=UTC)
"""Default start of a test's clock: a Monday at midnight, so each run gets the same ticks."""

Run = Literal["when_drained", "at_once"]
"""When the jobs of a test run: in `drain`, or as soon as they are due."""


class Clock:
    """The clock of a store under test. In memory, only `advance` moves it."""

    def __init__(self, context: Context, ticker: Ticker, at_once: AtOnce | None = None) -> None:
        self._context, self._ticker, self._at_once = context, ticker, at_once

    def advance(self, seconds: float | timedelta, *, ticking: bool = False) -> None:
        """Move the clock forward.

        `ticking`: schedules fire on the way, each at the time of its tick. With `run="at_once"`, each job runs when it
        is due.
        """
        store = self._context.store
        end = store.now() + round(seconds_of(seconds, "seconds") * SECOND)
        while (step := self._next_step(end, ticking=ticking)) is not None:
            self._move(store, step)
        self._move(store, end)
        if ticking:
            self._ticker.tick()
        if self._at_once is not None:
            self._at_once()

    aadvance = off_loop_alone(advance)

    def now(self) -> datetime:
        """Return the time it shows."""
        return moment(self._context.store.now())

    def _next_step(self, end: int, *, ticking: bool) -> int | None:
        """Fire schedules and run jobs that are due now; return the next due time before `end`."""
        now = self._context.store.now()
        times = [self._ticker.tick().next_tick if ticking else None]
        if self._at_once is not None:
            self._at_once()
            times.append(self._at_once.next_due(now))
        return min((time for time in times if time is not None and now < time < end), default=None)

    def _move(self, store: Store, to: int) -> None:
        left = to - store.now()
        while left > 0:  # a real clock advances meanwhile, and fractions of a second are rounded
            store.clock_offset += max(left, 1) / SECOND
            left = to - store.now()


def at_microseconds(at: datetime) -> int:
    """Return the start of a clock in microseconds. Raises InvalidInput for a time without a zone."""
    return micros(aware(at, "at"))


@contextmanager
def fresh_store(context: Context, at: datetime, url: str | None, changed: Callable[[], None]) -> Iterator[Store]:
    """Open an empty store for a test: in memory, or the test database with this URL."""
    if url is not None:
        from stanchion.app.test_database import emptied

        with emptied(open_store(url), url) as store:
            store.clock_offset += (at_microseconds(at) - store.now()) / SECOND
            yield store
        return
    store = rehearsal_store(at_microseconds(at), changed, _refusal(context))
    try:
        yield store
    finally:
        store.close()


def _refusal(context: Context) -> str | None:
    """Return why the store of the app joins no transaction; None if it may, or if the app has no URL."""
    try:
        return refusal_of_transactions(context.url, context.database)
    except InvalidInput:
        return None


def checked_run(run: str, url: str | None) -> bool:
    """Return whether jobs run as soon as they are due. Raises InvalidInput for an unknown or unsupported choice."""
    if run not in ("when_drained", "at_once"):
        raise InvalidInput(f"run must be 'when_drained' or 'at_once', not {brief(run)}")
    if run == "at_once" and url is not None:
        raise InvalidInput("run='at_once' needs the store in memory: leave out url, or run the jobs with app.drain()")
    return run == "at_once"
