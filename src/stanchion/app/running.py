"""The calls of an app that run its jobs: a worker, or here and now in tests and scripts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING

from stanchion.app.area import Area
from stanchion.app.testing import AT, Clock, Run, checked_run, fresh_store
from stanchion.core.concurrency.aio import off_loop_alone
from stanchion.jobs.options import named_queues

if TYPE_CHECKING:
    from stanchion.cron.ticker import Ticker
    from stanchion.jobs.job import Job
    from stanchion.stores.protocol import Store
    from stanchion.tasks.task import Task


class RunCalls(Area):
    """Workers, drains, and tests."""

    _own_ticker: Ticker | None = None

    def run(self, queues: Sequence[str] | None = None, threads: int = 8, **options: object) -> None:
        """Run a worker in this process until SIGTERM, SIGINT or an exception; see `stanchion.Worker`."""
        from stanchion.worker.worker import run_worker

        run_worker(self._context, queues, threads, **options)

    def drain(self, queues: Sequence[str] | None = None) -> int:
        """Run all due jobs of these queues, by default of all tasks and stations; return the number of attempts.

        On the thread of a running event loop, use `await app.adrain()`, which runs async tasks on that loop.
        """
        from stanchion.tasks.coroutines import refuse_running_loop
        from stanchion.tasks.testing.inline import drained

        refuse_running_loop("app.adrain")
        return drained(self._context, self._context.registry.own_queues() if queues is None else named_queues(queues))

    adrain = off_loop_alone(drain)

    @property
    def _ticker(self) -> Ticker:
        """The ticker of this process, which remembers what it has fired; made at first use."""
        from stanchion.cron.ticker import Ticker

        if self._own_ticker is None:
            self._own_ticker = Ticker(self._context)
        return self._own_ticker

    @contextmanager
    def testing(self, at: datetime = AT, *, run: Run = "when_drained", url: str | None = None) -> Iterator[Clock]:
        """Use a fresh store within the block, whose clock begins at `at`; the test moves it.

        The store is in memory, and set up. A job that is enqueued with `tx` appears when that transaction commits.
        `run`: "at_once" runs jobs as soon as they are due, within the call that made them so; "when_drained" leaves
        that to `drain`. `url`: use the real store of this test database instead, which is emptied.
        """
        from stanchion.tasks.testing.inline import AtOnce

        at_once = AtOnce(self._context) if checked_run(run, url) else None
        begun = False

        def changed() -> None:
            if begun and at_once is not None:
                at_once()

        with fresh_store(self._context, at, url, changed) as store, on_store(self, store):
            self._context.setup()
            begun = True
            yield Clock(self._context, self._ticker, at_once)
            begun = False

    def assert_enqueued(
        self,
        task: Task[..., object] | str,
        /,
        args: Sequence[object] | None = None,
        kwargs: Mapping[str, object] | None = None,
        *,
        times: int | None = None,
    ) -> list[Job]:
        """Return the jobs that call the task with these arguments, oldest first, live or finished.

        Without `args` and `kwargs`, all its jobs. Raises AssertionError unless there are `times` of them, by default at
        least one; the message lists what was enqueued.
        """
        from stanchion.tasks.testing.assertions import asserted

        return asserted(self._context, task, args, kwargs, times)


def tick(app: RunCalls) -> int:
    """Enqueue the jobs of all due ticks, as a worker does; return how many."""
    return app._ticker.tick().jobs


@contextmanager
def on_store(app: RunCalls, store: Store) -> Iterator[None]:
    """Use another store within the block."""
    ticker, app._own_ticker = app._own_ticker, None
    try:
        with app._context.on_store(store):
            tick(app)  # schedules start when they are first stored
            yield
    finally:
        app._own_ticker = ticker
