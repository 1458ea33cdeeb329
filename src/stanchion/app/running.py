"""The calls of an app that run its jobs: a worker, or here and now in tests and scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from stanchion.app.area import Area
from stanchion.context.testing import START, Clock, url_of_test
from stanchion.core.aio import off_loop
from stanchion.jobs.options import named_queues
from stanchion.stores.registry import open_store

if TYPE_CHECKING:
    from stanchion.cron.ticker import Ticker
    from stanchion.jobs.job import Job
    from stanchion.stores.protocol import Store
    from stanchion.tasks.task import Task


class RunCalls(Area):
    """Workers, drains, and tests."""

    _own_ticker: Ticker | None = None

    def run(self, queues: Sequence[str] | None = None, threads: int = 8, **options: Any) -> None:
        """Run a worker in this process until SIGTERM, SIGINT or an exception; see `stanchion.Worker`."""
        from stanchion.worker.worker import run_worker

        run_worker(self.context, queues, threads, **options)

    def drain(self, queues: Sequence[str] | None = None) -> int:
        """Run all due jobs of these queues, by default of all tasks and stations; return the number of attempts."""
        from stanchion.tasks.inline import drained

        return drained(self.context, self.context.registry.own_queues() if queues is None else named_queues(queues))

    @property
    def _ticker(self) -> Ticker:
        """The ticker of this process, which remembers what it has fired; made at first use."""
        from stanchion.cron.ticker import Ticker

        if self._own_ticker is None:
            self._own_ticker = Ticker(self.context)
        return self._own_ticker

    def tick(self) -> int:
        """Enqueue the jobs of all due ticks, as a worker does; return how many. For tests and scripts."""
        return self._ticker.tick().jobs

    atick = off_loop(tick)

    @contextmanager
    def testing(self, start: datetime = START) -> Iterator[Clock]:
        """Use a fresh store in memory within the block; its clock begins at `start`, and the test moves it."""
        with self.on_store(store := open_store(url_of_test(start))):
            yield Clock(store)

    @contextmanager
    def on_store(self, store: Store) -> Iterator[None]:
        """Use another store within the block."""
        ticker, self._own_ticker = self._own_ticker, None
        try:
            with self.context.on_store(store):
                self.tick()  # schedules start when they are first stored
                yield
        finally:
            self._own_ticker = ticker

    def assert_enqueued(self, task: Task[..., Any] | str, /, *args: Any, **kwargs: Any) -> Job:
        """Return a live job that calls the task with these arguments. Raises AssertionError if there is none."""
        from stanchion.tasks.inline import enqueued

        return enqueued(self.context, task, args, kwargs)
