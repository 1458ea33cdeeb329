"""The calls of an app that run its jobs: a worker, or here and now in tests and scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload

from stanchion.app.area import Area
from stanchion.context.testing import START, Clock, url_of_test
from stanchion.core.aio import off_loop
from stanchion.core.hooks import Per, When
from stanchion.jobs.options import named_queues
from stanchion.stores.registry import open_store

if TYPE_CHECKING:
    from stanchion.cron.ticker import Ticker
    from stanchion.jobs.job import Job
    from stanchion.stores.protocol import Store
    from stanchion.tasks.task import Task

H = TypeVar("H", bound=Callable[[], Any])


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

    @overload
    def on_worker_start(self, function: H, /) -> H: ...
    @overload
    def on_worker_start(self, /, *, per: Per = "process") -> Callable[[H], H]: ...
    def on_worker_start(self, function: H | None = None, /, *, per: Per = "process") -> H | Callable[[H], H]:
        """Call a function when a worker starts: once in its process, or, `per="thread"`, in each of its threads.

        An async one runs on the event loop of the worker; `per="thread"`: on each loop that it has. If it fails, the
        worker stops.
        """
        return self._hooked("start", per, function)

    @overload
    def on_worker_stop(self, function: H, /) -> H: ...
    @overload
    def on_worker_stop(self, /, *, per: Per = "process") -> Callable[[H], H]: ...
    def on_worker_stop(self, function: H | None = None, /, *, per: Per = "process") -> H | Callable[[H], H]:
        """Call a function when a worker has run its last job; the one that was registered last comes first."""
        return self._hooked("stop", per, function)

    def _hooked(self, when: When, per: Per, function: H | None) -> H | Callable[[H], H]:
        def register(function: H) -> H:
            self.context.hooks.add(when, per, function)
            return function

        return register if function is None else register(function)

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
