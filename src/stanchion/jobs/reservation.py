"""A reserved job: held under a lease until it is committed, rolled back, moved or buried."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import Self

from stanchion.context.context import Context
from stanchion.core.checks import seconds_of
from stanchion.core.concurrency.aio import off_loop
from stanchion.core.types import Transaction
from stanchion.errors import CannotJoin, InvalidInput, LeaseLost, StoreUnavailable, TaskInterrupted, seen_outside
from stanchion.jobs.held_job import (
    HeldJob,
    ReportingMeter,
    Settlement,
    is_repeat,
    lease_of,
    note_settled,
    reply_lost,
    stored_outcome,
)
from stanchion.jobs.job import row_of
from stanchion.jobs.outcome import UNCHANGED, Cancel, Outcome, Snooze
from stanchion.stores.records import outcomes
from stanchion.stores.records.jobs import JobState
from stanchion.stores.rules.lifecycle.claims import holds

__all__ = ["ReportingMeter", "Reservation", "Settlement", "settled"]


class Reservation(HeldJob):
    """A running job that this caller has reserved.

    As a context manager, `with job:` or `async with job:`, it commits on exit; on an exception it rolls back and
    propagates the exception. Every call raises LeaseLost, and changes nothing, once the lease is lost.
    """

    __slots__ = ()

    # -- ending it

    def commit(self, result: object = None, *, payload: object = UNCHANGED, tx: Transaction | None = None) -> None:
        """Finish the job as done; with `tx`, in that transaction.

        `payload`: what `checkpoint` is from now on. A replay starts from the payload that the job had at first.
        """
        self._settle(self.committed(result, payload=payload), tx)

    def rollback(
        self,
        delay: float | timedelta | None = None,
        error: BaseException | str | None = None,
        *,
        payload: object = UNCHANGED,
    ) -> None:
        """Give the job back, due in `delay` seconds (None: by the retry policy).

        With an error, the attempt counts as a failure. The job is dead if no attempts are left, or if the policy gives
        up on the error. `payload`: a checkpoint of the work done so far. The next attempt gets it in place of the
        payload; a task keeps its arguments, and finds it as `job.checkpoint`.
        """
        self._settle(self.rolled_back(delay, error, payload=payload))

    def release(self, delay: float | timedelta = 0.0, *, payload: object = UNCHANGED) -> None:
        """Give the job back without counting this attempt, due in `delay` seconds; `payload`: see `rollback`."""
        self._settle(self.released(delay, payload=payload))

    def move(
        self,
        queue: str,
        *,
        payload: object = UNCHANGED,
        delay: float | timedelta = 0,
        keep_entry: bool = False,
        keep_arrival: bool = False,
        tx: Transaction | None = None,
    ) -> None:
        """Commit here and enqueue in another queue, atomically, with the same id and attempts from 0.

        `keep_entry`: if the payload changes now for the first time, keep the present one as `entry_payload`.
        `keep_arrival`: keep the payload with which it came here, so that a pipeline can replay it from here.
        """
        keeps = {"keep_entry": keep_entry, "keep_arrival": keep_arrival}
        self._settle(self.moved(queue, payload=payload, delay=delay, **keeps), tx)

    def bury(self, reason: BaseException | str = "buried") -> None:
        """End the job as dead, even if it has attempts left."""
        self._settle(self.buried(reason))

    def abandon(self, reason: str = "") -> None:
        """End the job as cancelled."""
        self._settle(self.abandoned(reason))

    def extend(self, seconds: float | timedelta) -> None:
        """Extend the lease to `seconds` from now."""
        wanted = outcomes.Extend(lease_of(self), seconds_of(seconds, "extend"))
        if wanted.seconds == 0:
            raise InvalidInput("extend must be more than 0 seconds; to give the job back, call rollback() or release()")
        if self._context.store.settle([wanted]) == [None]:
            raise LeaseLost(self.id)

    acommit = off_loop(commit)
    arollback = off_loop(rollback)
    amove = off_loop(move)
    abury = off_loop(bury)
    aextend = off_loop(extend)
    arelease = off_loop(release)
    aabandon = off_loop(abandon)

    def __enter__(self) -> Self:
        if (traces := self._context.traces) is not None:
            self._block = traces.block(self._row.queue, [self._row])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        block, self._block = self._block, None
        try:
            self._leave(error)
        except BaseException as own:
            error = own
            raise
        finally:
            if block is not None:
                block.end(None if isinstance(error, (Snooze, Cancel)) else error)

    _aexit = off_loop(__exit__)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._aexit(kind, error, trace)

    def _leave(self, error: BaseException | None) -> None:
        if self._has_outcome:
            return
        if error is None:
            self.commit()
        elif isinstance(error, LeaseLost) and error.job_id == self.id:
            return
        elif isinstance(error, TaskInterrupted):
            self.rollback(error=seen_outside(error))
        elif isinstance(error, (Exception, Outcome)):
            self.rollback(error=error)
        else:  # KeyboardInterrupt and the like are not the job's fault
            self.release()

    def _settle(self, settlement: Settlement, tx: object = None) -> None:
        if self._record is not None and tx is None:
            self._record(settlement)
            self._has_outcome = True
        elif settled(self._context, [settlement], tx) == [None]:
            raise LeaseLost(self.id)


def settled(context: Context, settlements: Sequence[Settlement], tx: object = None) -> list[JobState | None]:
    """End reserved jobs by one call of the store; return the state of each now, None if its lease is lost.

    Raises CannotJoin if `tx` can't see that they are reserved.
    """
    if context.traces is None or not settlements:
        return _settled(context, settlements, tx)
    names = {type(one.outcome).__name__.lower() for one in settlements}
    rows = [row_of(one.reservation) for one in settlements]
    with context.traces.settling(rows, names.pop() if len(names) == 1 else "settle"):
        return _settled(context, settlements, tx)


def _settled(context: Context, settlements: Sequence[Settlement], tx: object) -> list[JobState | None]:
    repeat = any(is_repeat(one.reservation) for one in settlements)
    try:
        if last := context.progress.take(lease_of(one.reservation) for one in settlements):
            context.current_store().settle(last, tx)
        ends = [stored_outcome(one.reservation, one.outcome) for one in settlements]
        states = context.current_store().settle(ends, tx, repeat=repeat)
    except StoreUnavailable:
        for reservation in (one.reservation for one in settlements):
            reply_lost(reservation)
        raise
    lost = []
    for (reservation, *_), state in zip(settlements, states, strict=True):
        if state is not None:
            note_settled(reservation, state)
        elif reservation.settled_as is None:
            lost.append(reservation)
    if lost and tx is not None:
        _refuse_snapshot_before(context, lost)
    context.answered()
    context.upkeep.nudge()
    return states


def _refuse_snapshot_before(context: Context, lost: Sequence[HeldJob]) -> None:
    """Raise CannotJoin if the store, outside of any transaction, has one of these jobs reserved under its token."""
    rows, now = context.store.fetch([one.id for one in lost]), context.store.now()
    for one in lost:
        if holds(rows.get(one.id), lease_of(one), now):
            raise CannotJoin(
                f"the transaction reads a snapshot from before job {one.id} was reserved, so nothing was changed for "
                f"it: roll the transaction back, and begin it after the job was reserved, or use the isolation level "
                f"READ COMMITTED"
            )
