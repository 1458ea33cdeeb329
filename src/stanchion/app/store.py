"""The calls of an app that concern its store as a whole: set it up, maintain it, watch over it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from stanchion.app.area import Area
from stanchion.core.checks import seconds_of
from stanchion.core.concurrency.aio import off_loop, off_loop_alone, off_loop_block

if TYPE_CHECKING:  # imported at first use, so that a program loads only what it uses
    from stanchion.alerts.records import Alert, Monitor
    from stanchion.context.upkeep import Maintained
    from stanchion.stores.protocol import Store
    from stanchion.stores.records.workers import WorkerRow


class StoreCalls(Area):
    """The store, its workers, and its alerts."""

    @property
    def url(self) -> str:
        """The store's URL. Raises InvalidInput if none was given."""
        return self._context.url

    @property
    def store(self) -> Store:
        """The store, opened and checked on first use."""
        return self._context.store

    def setup(self) -> None:
        """Create or migrate the tables, and store the settings and semaphores of the code. Safe to repeat."""
        self._context.setup()

    def transaction(self) -> AbstractContextManager[Any]:
        """Open a transaction of the store, to pass as `tx`. Raises CannotJoin if the store has none."""
        return self._context.transaction()

    def maintain(self, seconds: float = 60.0) -> Maintained:
        """Maintain the store once, as workers do all the time; for programs without workers.

        Takes back lost jobs, completes the outbox of dead processes, purges history, for about `seconds` at most.
        """
        return self._context.upkeep.round(seconds_of(seconds, "seconds"), self.store.now())

    def close(self) -> None:
        """Release connections and threads; a later call reopens them. Pending waits end with an error."""
        self._context.close()

    def workers(self, *, holders: bool = False) -> list[WorkerRow]:
        """Return all workers, late ones too, and consumers with heartbeats; with `holders`, those of leases too."""
        return self.store.workers(holders=holders)

    def alerts(self, limits: Mapping[str, float] | None = None) -> list[Alert]:
        """Return what needs a person, the most urgent first; `limits`: those changed, by name, see `Thresholds`."""
        return list(self.monitor(limits).alerts)

    def monitor(self, limits: Mapping[str, float] | None = None) -> Monitor:
        """Return the live jobs by band and queue, and the alerts, of one bounded reading of the store."""
        from stanchion.alerts.alerts import monitor

        return monitor(self._context, limits)

    asetup = off_loop_alone(setup)
    atransaction = off_loop_block(transaction)
    amaintain = off_loop_alone(maintain)
    aclose = off_loop_alone(close)
    aworkers = off_loop(workers)
    aalerts = off_loop(alerts)
    amonitor = off_loop(monitor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
