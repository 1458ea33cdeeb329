"""Jobs that are reserved together, and end together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import TracebackType
from typing import Self, overload

from stanchion.context.context import Context
from stanchion.core.checks import seconds_of
from stanchion.core.concurrency.aio import off_loop
from stanchion.core.types import Transaction
from stanchion.errors import BatchLeasesLost, InvalidInput
from stanchion.jobs.held_job import HeldJob, lease_of
from stanchion.jobs.job import JobState
from stanchion.jobs.reservation import Reservation, Settlement
from stanchion.jobs.settling import settle
from stanchion.queues.receive import Receive
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Extend
from stanchion.telemetry.traces import Block


class Batch(Sequence[Reservation]):
    """The jobs of a block `with queue.batch(n) as jobs:`, whose outcomes are stored together at its end.

    Within the block `commit`, `rollback`, `move` and the like only record how a job is to end. A job without an outcome
    is committed. If an exception leaves the block, what was recorded is stored, and the other jobs are given back
    without counting the attempt.

    The end of the block raises BatchLeasesLost if jobs were lost; the outcomes of the others are stored then.
    """

    def __init__(self, context: Context, receive: Receive) -> None:
        self._context, self._receive = context, receive
        self._jobs: list[Reservation] = []
        self._settlements: dict[str, Settlement] = {}
        self._begun = self._ended = False
        self._block: Block | None = None

    @overload
    def __getitem__(self, index: int) -> Reservation: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Reservation]: ...
    def __getitem__(self, index: int | slice) -> Reservation | Sequence[Reservation]:
        return self._jobs[index]

    def __len__(self) -> int:
        return len(self._jobs)

    def __iter__(self) -> Iterator[Reservation]:
        return iter(self._jobs)

    def extend(self, seconds: float | timedelta) -> None:
        """Extend the leases of all jobs to `seconds` from now.

        Raises BatchLeasesLost if some are lost; the leases of the others are extended.
        """
        wanted = seconds_of(seconds, "extend")
        if wanted == 0:
            raise InvalidInput("extend must be more than 0 seconds; to give the jobs back, call release() of each")
        states = self._context.store.settle([Extend(lease_of(job), wanted) for job in self._jobs])
        self._refuse_lost(self._jobs, states)

    def settle(self, *, tx: Transaction | None = None) -> None:
        """End all jobs now, in the transaction `tx` if there is one, instead of at the end of the block.

        Open the transaction inside the block. Raises BatchLeasesLost if some are lost. Let it reach the transaction,
        which is rolled back then: when an exception leaves the block, the jobs still reserved are given back.
        """
        self._ended = True
        self._settle(tx, others=Reservation.committed)

    aextend = off_loop(extend)
    asettle = off_loop(settle)

    def __enter__(self) -> Self:
        self._refuse_second_use()
        return self._begin(self._receive.rows())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._traced(error):
            self._end(error)

    async def __aenter__(self) -> Self:
        self._refuse_second_use()
        return self._begin(await self._receive.arows())

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._traced(error):
            await self._aend(error)

    @contextmanager
    def _traced(self, error: BaseException | None) -> Iterator[None]:
        """End the span of the block after the spans within."""
        try:
            yield
        except BaseException as own:
            error = own
            raise
        finally:
            if self._block is not None:
                self._block.end(error)

    def _refuse_second_use(self) -> None:
        if self._begun:
            raise InvalidInput("a batch is one block: call queue.batch() for the next one")
        self._begun = True

    def _begin(self, rows: list[JobRow]) -> Self:
        self._jobs = [Reservation(self._context, row, record=self._record) for row in rows]
        if rows and (traces := self._context.traces) is not None:
            self._block = traces.block(rows[0].queue, rows)
        return self

    def _record(self, settlement: Settlement) -> None:
        job_id = settlement.reservation.id
        if job_id in self._settlements:
            raise InvalidInput(f"job {job_id} of the batch has an outcome already: each job ends once")
        self._settlements[job_id] = settlement

    def _end(self, error: BaseException | None) -> None:
        if error is None:
            if not self._ended:
                self._settle(others=Reservation.committed)
        elif self._ended:  # a transaction with their ends may have been rolled back
            settle(self._context, [job.released() for job in self._jobs])
        else:
            with suppress(BatchLeasesLost):
                self._settle(others=Reservation.released)

    _aend = off_loop(_end)

    def _settle(self, tx: Transaction | None = None, *, others: Callable[[Reservation], Settlement]) -> None:
        ends = [self._settlements.get(job.id) or others(job) for job in self._jobs if job.settled_as is None]
        self._refuse_lost([one.reservation for one in ends], settle(self._context, ends, tx))

    def _refuse_lost(self, jobs: Sequence[HeldJob], states: Sequence[JobState | None]) -> None:
        if lost := [job.id for job, state in zip(jobs, states, strict=True) if state is None]:
            raise BatchLeasesLost(lost, len(self._jobs))
