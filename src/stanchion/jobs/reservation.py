"""A reserved job: held under a lease, to be committed, given back, moved or buried."""

from __future__ import annotations

import traceback
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from stanchion.context.context import Context
from stanchion.core.aio import off_loop
from stanchion.core.checks import checked_name, number, seconds_of, shown
from stanchion.core.retry import Retry
from stanchion.errors import CannotJoin, InvalidInput, LeaseLost, StoreUnavailable
from stanchion.jobs.job import Job, Meter
from stanchion.jobs.outcome import Outcome
from stanchion.stores.records import outcomes
from stanchion.stores.records.jobs import JobRow, JobState

UNCHANGED: Any = object()
"""Stands for "the payload as it is"."""

MAX_ERROR = 2_000
MAX_TRACEBACK = 8_000


class ReportingMeter(Meter):
    """Progress of a reserved job: call it to report."""

    reservation: Reservation

    def __call__(self, value: float) -> None:
        """Record that the share `value`, from 0 to 1, is done; LeaseLost when the job is no longer ours."""
        self.reservation.report_progress(value)


class Reservation(Job):
    """A running job that this caller holds.

    As a context manager it commits on exit and rolls back on an exception, which goes on to the caller.
    Every call raises LeaseLost, and changes nothing, once the lease is another's.
    """

    __slots__ = ("_asked_to_stop", "_retry", "_unanswered", "settled_as")

    def __init__(self, context: Context, row: JobRow, retry: Retry | None = None) -> None:
        super().__init__(context, row, JobState.RUNNING)
        self._retry = retry or context.retry
        self._unanswered = False
        self._asked_to_stop = bool(row.cancel_requested)
        self.settled_as: JobState | None = None
        """The state the job went to by this reservation; None while it is reserved."""

    @property
    def token(self) -> str:
        """The fencing token of this reservation."""
        assert self._row.token is not None  # noqa: S101 - a claimed row has one
        return self._row.token

    @property
    def progress(self) -> ReportingMeter:
        """The share done; call it to report."""
        meter = ReportingMeter(self._row.progress or 0.0)
        meter.reservation = self
        return meter

    @property
    def cancelled(self) -> bool:
        """True once someone asked this running job to stop."""
        if not self._asked_to_stop and self._row.worker is None:
            found = self._context.store.fetch([self.id]).get(self.id)
            self._asked_to_stop = found is not None and bool(found.cancel_requested)
        return self._asked_to_stop

    def ask_to_stop(self) -> None:
        """Make `cancelled` true; a worker calls it when the store says so."""
        self._asked_to_stop = True

    def commit(self, result: Any = None, *, payload: Any = UNCHANGED, tx: Any = None) -> None:
        """Finish the job as done; with `tx`, in that transaction."""
        text = None if result is None else self._context.codec.encode(result, "result")
        self._settle(outcomes.Commit(self.id, self.token, text, self._encoded(payload)), tx)

    def rollback(self, delay: float | timedelta | None = None, error: BaseException | str | None = None) -> None:
        """Give the job back, due in `delay` seconds (None: as the retry policy says).

        With an error the failure is counted. With the attempts used up, the job is dead.
        """
        seconds = self.retry_delay(error) if delay is None else seconds_of(delay, "delay")
        message, trace = (None, None) if error is None else described(error)
        self._settle(outcomes.Rollback(self.id, self.token, seconds, message, trace), None)

    def release(self, delay: float | timedelta = 0.0) -> None:
        """Give the job back unharmed: this attempt is not counted."""
        self._settle(outcomes.Rollback(self.id, self.token, seconds_of(delay, "delay"), refund=True), None)

    def move(self, queue: str, *, payload: Any = UNCHANGED, delay: float | timedelta = 0, tx: Any = None) -> None:
        """Commit here and enqueue in another queue, in one step: same id, attempts from 0."""
        name = checked_name(queue, "queue")
        seconds = seconds_of(delay, "delay")
        lane = self._context.lanes.lane_of(self._context.store, name, self.tenant)
        self._settle(outcomes.Move(self.id, self.token, name, self._encoded(payload), seconds, lane), tx)

    def bury(self, reason: BaseException | str = "buried") -> None:
        """End the job as dead, whatever attempts it had left."""
        message, trace = described(reason)
        self._settle(outcomes.Bury(self.id, self.token, message, trace), None)

    def abandon(self, reason: str = "") -> None:
        """End the job as cancelled."""
        self._settle(outcomes.Abandon(self.id, self.token, reason), None)

    def extend(self, seconds: float | timedelta) -> None:
        """Hold the job for `seconds` from now on."""
        wanted = outcomes.Extend(self.id, self.token, seconds_of(seconds, "extend"))
        if wanted.seconds == 0:
            raise InvalidInput("extend must be more than 0 seconds; to give the job back, call rollback() or release()")
        if self._context.store.settle([wanted]) == [None]:
            raise LeaseLost(self.id)

    def report_progress(self, value: float) -> None:
        """Record the share done."""
        share = number(value, "progress", 0, 1)
        if self._context.store.settle([outcomes.Progress(self.id, self.token, share)]) == [None]:
            raise LeaseLost(self.id)

    def retry_delay(self, error: BaseException | str | None) -> float:
        """Return the seconds that the retry policy waits after this attempt's failure."""
        return self._retry.delay(self.failures + 1, error if isinstance(error, BaseException) else None)

    acommit = off_loop(commit)
    arollback = off_loop(rollback)
    amove = off_loop(move)
    abury = off_loop(bury)
    aextend = off_loop(extend)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.settled_as is not None:
            return
        if error is None:
            self.commit()
        elif isinstance(error, LeaseLost) and error.job_id == self.id:
            return
        elif isinstance(error, (Exception, Outcome)):
            self.rollback(error=error)
        else:  # KeyboardInterrupt and the like: not the job's fault
            self.release()

    def _encoded(self, payload: Any) -> str | None:
        return None if payload is UNCHANGED else self._context.codec.encode(payload)

    def _settle(self, outcome: outcomes.Outcome, tx: Any) -> None:
        try:
            state = self._context.store.settle([outcome], tx, repeat=self._unanswered)[0]
        except StoreUnavailable:
            self._unanswered = True  # it may have been carried out; the caller may try again
            raise
        if state is None:
            if tx is not None and self.settled_as is None and self._holds():
                raise CannotJoin(
                    f"the transaction reads a snapshot from before job {self.id} was reserved, so nothing was changed: "
                    f"begin it after the job was reserved, or use the isolation level READ COMMITTED"
                )
            raise LeaseLost(self.id)
        self.settled_as = self.state = state
        self._context.upkeep.nudge()

    def _holds(self) -> bool:
        """Tell whether the job is reserved under this token, as the store sees it outside of any transaction."""
        row = self._context.store.fetch([self.id]).get(self.id)
        return row is not None and row.state == JobState.RUNNING and row.token == self.token


def described(error: BaseException | str) -> tuple[str, str | None]:
    """Return the message to keep of an error, and its traceback, both of bounded length."""
    if isinstance(error, str):
        return error[:MAX_ERROR], None
    if not isinstance(error, BaseException):
        raise InvalidInput(f"an error is an exception, or its text, not {shown(error)}")
    try:
        text = str(error)
    except Exception:  # a faulty __str__ must not hide that there was an error
        text = "(its message can't be shown)"
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    trace = "".join(traceback.format_exception(error, limit=-20)) if error.__traceback__ else None
    return message[:MAX_ERROR], trace[-MAX_TRACEBACK:] if trace else None
