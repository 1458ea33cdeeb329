"""A reserved job: held under a lease until it is committed, rolled back, moved or buried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, NamedTuple, Self

from stanchion.context.context import Context, HasContext
from stanchion.core.aio import off_loop
from stanchion.core.checks import number, seconds_of
from stanchion.core.partition_names import checked_queue
from stanchion.core.retry import Retry
from stanchion.core.times import moment
from stanchion.errors import CannotJoin, InvalidInput, LeaseLost, StoreUnavailable, TaskInterrupted
from stanchion.jobs.call import encoded_result, with_checkpoint
from stanchion.jobs.failures import Failure, failure_of
from stanchion.jobs.job import Job, Meter
from stanchion.jobs.outcome import UNCHANGED, Cancel, Outcome, Snooze
from stanchion.stores.records import outcomes
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.records.leases import Lease
from stanchion.stores.rules.claims import holds
from stanchion.stores.rules.outcomes import commit_of
from stanchion.telemetry.traces import Block


class ReportingMeter(Meter):
    """Progress of a reserved job: call it to report."""

    reservation: Reservation

    def __call__(self, value: float) -> None:
        """Record that the share `value`, from 0 to 1, is done. Raises LeaseLost."""
        self.reservation.report_progress(value)


class Settlement(NamedTuple):
    """How a reserved job is to end; see `Stanchion.settle`."""

    reservation: Reservation
    outcome: outcomes.Ending


class Reservation(Job):
    """A running job that this caller has reserved.

    As a context manager it commits on exit; on an exception it rolls back and propagates the exception.
    Every call raises LeaseLost, and changes nothing, once the lease is lost.
    """

    __slots__ = ("_asked_to_stop", "_block", "_record", "_retry", "_told", "has_outcome", "reply_lost", "settled_as")

    def __init__(
        self,
        context: Context,
        row: JobRow,
        retry: Retry | None = None,
        record: Callable[[Settlement], None] | None = None,
        *,
        told: bool = False,
    ) -> None:
        """`record`: takes how the job is to end, for a batch that ends all its jobs together. `told`: a worker calls
        `ask_to_stop` when the job is to stop; otherwise `cancelled` asks the store.
        """
        super().__init__(context, row, JobState.RUNNING)
        self._retry, self._record, self._told = retry or context.retry, record, told
        self.reply_lost = False
        """A store that did not answer may have applied an outcome; the next one is a repeat."""
        self._asked_to_stop = bool(row.cancel_requested)
        self.settled_as: JobState | None = None
        """The state that this reservation settled the job as; None while it is reserved."""
        self.has_outcome = False
        """An outcome was stored, or recorded for the batch of this job."""
        self._block: Block | None = None

    @property
    def token(self) -> str:
        """The fencing token of this reservation."""
        assert self._row.token is not None  # noqa: S101 - a claimed row has one
        return self._row.token

    @property
    def lease(self) -> Lease:
        """The lease under which this reservation holds the job."""
        return self._row.lease

    @property
    def lease_until(self) -> datetime | None:
        """When its lease ran out as it was read; None if a worker or a consumer holds it by heartbeats."""
        return moment(self._row.lease_until)

    @property
    def progress(self) -> ReportingMeter:
        """The share done; call it to report."""
        meter = ReportingMeter(self._row.progress or 0.0)
        meter.reservation = self
        return meter

    @property
    def cancelled(self) -> bool:
        """True once this running job was asked to stop."""
        if not self._asked_to_stop and not self._told:
            found = self._context.store.fetch([self.id]).get(self.id)
            self._asked_to_stop = found is not None and bool(found.cancel_requested)
        return self._asked_to_stop

    def ask_to_stop(self) -> None:
        """Set `cancelled`; a worker calls this for jobs that the store lists as cancelled."""
        self._asked_to_stop = True

    # -- in other processes

    def to_dict(self) -> dict[str, Any]:
        """Return the job and its lease as plain values, for JSON; it is a credential, as the token is in it."""
        return {name: value for name, value in self._row._asdict().items() if value is not None}

    @classmethod
    def from_dict(cls, app: HasContext, data: Mapping[str, Any]) -> Self:
        """Return the reservation that `to_dict` was called on, here or in another process."""
        try:
            row = JobRow(**data)
        except TypeError as error:
            raise InvalidInput(f"this is not what Reservation.to_dict() returned: {error}") from None
        if not row.token:
            raise InvalidInput("this is not what Reservation.to_dict() returned: it has no token")
        return cls(app.context, row)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle with the app's settings, for other processes; its store is opened there when it is used."""
        return type(self), (self._context, self._row)

    # -- how it is to end, for `Stanchion.settle`

    def committed(self, result: Any = None, *, payload: Any = UNCHANGED) -> Settlement:
        """Return what `commit` does."""
        plain = self._context.registry.stored_result(self.task, result)
        text = encoded_result(self._context.codec, plain)
        return Settlement(self, commit_of(self._row, text, self.payload_text(payload)))

    def rolled_back(
        self,
        delay: float | timedelta | None = None,
        error: BaseException | str | None = None,
        *,
        payload: Any = UNCHANGED,
    ) -> Settlement:
        """Return what `rollback` does."""
        seconds = self.retry_delay(error) if delay is None else seconds_of(delay, "delay")
        back = outcomes.Rollback(self.lease, seconds, payload=self.payload_text(payload))
        return Settlement(self, back if error is None else back._replace(**self._failure_of(error)._asdict()))

    def released(self, delay: float | timedelta = 0.0, *, payload: Any = UNCHANGED) -> Settlement:
        """Return what `release` does."""
        seconds, new_payload = seconds_of(delay, "delay"), self.payload_text(payload)
        return Settlement(self, outcomes.Rollback(self.lease, seconds, refund=True, payload=new_payload))

    def moved(
        self, queue: str, *, payload: Any = UNCHANGED, delay: float | timedelta = 0, keep_entry: bool = False
    ) -> Settlement:
        """Return what `move` does."""
        name = checked_queue(queue)
        seconds = seconds_of(delay, "delay")
        new = NewJob(self.id, name, "", tenant=self.tenant)
        placed = self._context.lanes.placed(self._context.store, new)
        new_payload = None if payload is UNCHANGED else self._context.codec.encode(payload)
        going = new._replace(payload=self._row.payload if new_payload is None else new_payload, task=self.task)
        self._context.check_fits(going)
        move = outcomes.Move(self.lease, name, new_payload, seconds, placed.lane, keep_entry=keep_entry)
        return Settlement(self, move._replace(order_key=placed.order_key))

    def buried(self, reason: BaseException | str = "buried") -> Settlement:
        """Return what `bury` does."""
        return Settlement(self, outcomes.Bury(self.lease, *self._failure_of(reason)))

    def abandoned(self, reason: str = "") -> Settlement:
        """Return what `abandon` does."""
        return Settlement(self, outcomes.Abandon(self.lease, self._failure_of(reason).error))

    def _failure_of(self, error: BaseException | str) -> Failure:
        return failure_of(error, self.task, self._context.hidden.masking(self.task, lambda: self.payload))

    def payload_text(self, payload: Any) -> str | None:
        """Return `payload=` of an outcome as stored, None for UNCHANGED; for a task it goes beside the arguments."""
        if payload is UNCHANGED:
            return None
        codec = self._context.codec
        if self.task is None:
            return codec.encode(payload)
        try:
            return codec.encode(with_checkpoint(codec.decode(self._row.payload), payload))
        except ValueError as error:
            raise InvalidInput(f"job {self.id} takes no checkpoint: {error}") from None

    # -- ending it

    def commit(self, result: Any = None, *, payload: Any = UNCHANGED, tx: Any = None) -> None:
        """Finish the job as done; with `tx`, in that transaction.

        `payload`: what `checkpoint` is from now on. A replay starts from the payload that the job had at first.
        """
        self._settle(self.committed(result, payload=payload), tx)

    def rollback(
        self,
        delay: float | timedelta | None = None,
        error: BaseException | str | None = None,
        *,
        payload: Any = UNCHANGED,
    ) -> None:
        """Give the job back, due in `delay` seconds (None: by the retry policy).

        With an error, the attempt counts as a failure. If no attempts are left, the job is dead. `payload`: a
        checkpoint of the work done so far. The next attempt gets it in place of the payload; a task keeps its
        arguments, and finds it as `job.checkpoint`.
        """
        self._settle(self.rolled_back(delay, error, payload=payload))

    def release(self, delay: float | timedelta = 0.0, *, payload: Any = UNCHANGED) -> None:
        """Give the job back without counting this attempt, due in `delay` seconds; `payload`: see `rollback`."""
        self._settle(self.released(delay, payload=payload))

    def move(
        self,
        queue: str,
        *,
        payload: Any = UNCHANGED,
        delay: float | timedelta = 0,
        keep_entry: bool = False,
        tx: Any = None,
    ) -> None:
        """Commit here and enqueue in another queue, atomically, with the same id and attempts from 0.

        `keep_entry`: if the payload changes now for the first time, keep the present one as `entry_payload`.
        """
        self._settle(self.moved(queue, payload=payload, delay=delay, keep_entry=keep_entry), tx)

    def bury(self, reason: BaseException | str = "buried") -> None:
        """End the job as dead, even if it has attempts left."""
        self._settle(self.buried(reason))

    def abandon(self, reason: str = "") -> None:
        """End the job as cancelled."""
        self._settle(self.abandoned(reason))

    def extend(self, seconds: float | timedelta) -> None:
        """Extend the lease to `seconds` from now."""
        wanted = outcomes.Extend(self.lease, seconds_of(seconds, "extend"))
        if wanted.seconds == 0:
            raise InvalidInput("extend must be more than 0 seconds; to give the job back, call rollback() or release()")
        if self._context.store.settle([wanted]) == [None]:
            raise LeaseLost(self.id)

    def report_progress(self, value: float) -> None:
        """Record the share done, from 0 to 1; see `context.progress`."""
        self._context.progress.report(self.lease, number(value, "progress", 0, 1))

    def retry_delay(self, error: BaseException | str | None) -> float:
        """Return the seconds that the retry policy waits after this attempt's failure."""
        return self._retry.delay(self.failures + 1, error if isinstance(error, BaseException) else None)

    acommit = off_loop(commit)
    arollback = off_loop(rollback)
    amove = off_loop(move)
    abury = off_loop(bury)
    aextend = off_loop(extend)

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

    def _leave(self, error: BaseException | None) -> None:
        if self.has_outcome:
            return
        if error is None:
            self.commit()
        elif isinstance(error, LeaseLost) and error.job_id == self.id:
            return
        elif isinstance(error, TaskInterrupted):
            self.rollback(error=error.outside())
        elif isinstance(error, (Exception, Outcome)):
            self.rollback(error=error)
        else:  # KeyboardInterrupt and the like are not the job's fault
            self.release()

    def _settle(self, settlement: Settlement, tx: Any = None) -> None:
        if self._record is not None and tx is None:
            self._record(settlement)
            self.has_outcome = True
        elif settled(self._context, [settlement], tx) == [None]:
            raise LeaseLost(self.id)


def settled(context: Context, settlements: Sequence[Settlement], tx: Any = None) -> list[JobState | None]:
    """End reserved jobs by one call of the store; return the state of each now, None if its lease is lost.

    Raises CannotJoin if `tx` can't see that they are reserved.
    """
    if context.traces is None or not settlements:
        return _settled(context, settlements, tx)
    names = {type(one.outcome).__name__.lower() for one in settlements}
    rows = [one.reservation._row for one in settlements]
    with context.traces.settling(rows, names.pop() if len(names) == 1 else "settle"):
        return _settled(context, settlements, tx)


def _settled(context: Context, settlements: Sequence[Settlement], tx: Any) -> list[JobState | None]:
    repeat = any(one.reservation.reply_lost for one in settlements)
    try:
        if last := context.progress.take(one.outcome.lease for one in settlements):
            context.current_store().settle(last, tx)
        states = context.current_store().settle([one.outcome for one in settlements], tx, repeat=repeat)
    except StoreUnavailable:
        for reservation, _ in settlements:
            reservation.reply_lost = True  # the store may have applied it; the caller may try again
        raise
    lost = []
    for (reservation, _), state in zip(settlements, states, strict=True):
        if state is not None:
            reservation.settled_as = reservation.state = state
            reservation.has_outcome = True
        elif reservation.settled_as is None:
            lost.append(reservation)
    if lost and tx is not None:
        _refuse_snapshot_before(context, lost)
    context.answered()
    context.upkeep.nudge()
    return states


def _refuse_snapshot_before(context: Context, lost: Sequence[Reservation]) -> None:
    """Raise CannotJoin if the store, outside of any transaction, has one of these jobs reserved under its token."""
    rows, now = context.store.fetch([one.id for one in lost]), context.store.now()
    for one in lost:
        if holds(rows.get(one.id), one.lease, now):
            raise CannotJoin(
                f"the transaction reads a snapshot from before job {one.id} was reserved, so nothing was changed for "
                f"it: roll the transaction back, and begin it after the job was reserved, or use the isolation level "
                f"READ COMMITTED"
            )
