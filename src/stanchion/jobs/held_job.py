"""A job held under a lease, and how it can end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Self, TypeVar

from stanchion.context import HasContext, context_of
from stanchion.context.context import Context
from stanchion.core.checks import number, seconds_of
from stanchion.core.concurrency.aio import off_loop
from stanchion.core.names.partition_names import checked_queue
from stanchion.core.retry import Retry
from stanchion.core.times import moment
from stanchion.core.values.framing import as_content, as_text, encoded
from stanchion.errors import InvalidInput
from stanchion.jobs.call import encoded_result, with_checkpoint
from stanchion.jobs.failures import Failure, failure_of
from stanchion.jobs.job import Job, Meter
from stanchion.jobs.outcome import UNCHANGED, Bury
from stanchion.stores.fields.jobs import Kind, names
from stanchion.stores.records import outcomes
from stanchion.stores.records.jobs import JobRow, JobState, Lease, NewJob
from stanchion.stores.rules.lifecycle.jobs import arrival_payload
from stanchion.stores.rules.lifecycle.outcomes import commit_of
from stanchion.telemetry.traces import Block

Ended = TypeVar("Ended", bound=outcomes.Outcome | None)

_CONTENTS = names(Kind.CONTENT)


class ReportingMeter(Meter):
    """Progress of a reserved job: call it to report."""

    reservation: HeldJob

    def __call__(self, value: float) -> None:
        """Record that the share `value`, from 0 to 1, is done. Raises LeaseLost."""
        self.reservation.report_progress(value)


class Settlement(NamedTuple):
    """How a reserved job is to end; see `Stanchion.settle`. `error`: the exception that was given as the reason."""

    reservation: HeldJob
    outcome: outcomes.Ending
    error: BaseException | None = None


class Passing(NamedTuple):
    """The way of an item through stations in memory: to its worker it is as if moved to each, and reserved there.

    `first`: the row as it was claimed, which the store still has. `passages`: the queues since then. `behind`: its
    ends at the stations that it has left, each with its job, None if nobody asked for one. `since`: when its first
    attempt started, on the monotonic clock.
    """

    first: JobRow
    passages: tuple[outcomes.Passage, ...]
    behind: tuple[tuple[outcomes.Move, HeldJob | None], ...]
    since: float

    def after(self, row: JobRow, move: outcomes.Move, job: HeldJob | None = None) -> Passing:
        """Return the way behind a further station. `row`: the item there; `move`: its end; `job`: for `behind`."""
        kept = encoded(arrival_payload(row)) if move.keep_arrival else None
        passage = outcomes.Passage(move.queue, move.payload is not None, kept)
        return Passing(self.first, (*self.passages, passage), (*self.behind, (move, job)), self.since)

    def stored(self, here: JobRow, then: outcomes.Ending) -> outcomes.Pass:
        """Return the outcome for the store. `here`: the item at this station; `then`: how it ends there."""
        assert not isinstance(then, outcomes.Pass)  # noqa: S101 - made once, from the outcome of one station
        first, (before, _) = self.first, self.behind[-1]
        return outcomes.Pass(
            first.lease,
            self.passages,
            encoded_outcome(then)._replace(lease=first.lease),
            None if here.payload == first.payload else encoded(here.payload),
            None if here.headers == first.headers else here.headers,
            before.keep_entry,
        )


def encoded_outcome(outcome: Ended) -> Ended:
    """Return an outcome as a store takes it: a chunk that moves on as a whole is encoded."""
    if isinstance(outcome, outcomes.Move) and outcome.payload is not None:
        return outcome._replace(payload=encoded(outcome.payload))
    if isinstance(outcome, outcomes.Continue):
        return outcome._replace(job=outcome.job._replace(payload=encoded(outcome.job.payload)))
    return outcome


class HeldJob(Job):
    """A running job under a lease, and the settlements that it can end by."""

    __slots__ = (
        *("_asked_to_stop", "_block", "_has_outcome", "_passing", "_record", "_reply_lost", "_retry", "_told"),
        "settled_as",
    )

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
        `ask_to_stop()` when the job is to stop; otherwise `cancelled` asks the store.
        """
        super().__init__(context, row, JobState.RUNNING)
        self._retry, self._record, self._told = retry or context.retry, record, told
        self._reply_lost = False
        """A store that did not answer may have applied an outcome; the next one is a repeat."""
        self._asked_to_stop = bool(row.cancel_requested)
        self.settled_as: JobState | None = None
        """The state that this reservation settled the job as; None while it is reserved."""
        self._has_outcome = False
        """An outcome was stored, or recorded for the batch of this job."""
        self._block: Block | None = None
        """The span of its block, with traces."""
        self._passing: Passing | None = None

    @property
    def token(self) -> str:
        """The fencing token of this reservation."""
        assert self._row.token is not None  # noqa: S101 - a claimed row has one
        return self._row.token

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
        """True once this running job was asked to stop; without a worker, read from the store: see `get_cancelled`."""
        return self.get_cancelled()

    def get_cancelled(self) -> bool:
        """Return whether this running job was asked to stop."""
        if not self._asked_to_stop and not self._told:
            found = self._context.store.fetch([self.id]).get(self.id)
            self._asked_to_stop = found is not None and bool(found.cancel_requested)
        return self._asked_to_stop

    # -- in other processes

    def to_dict(self) -> dict[str, Any]:
        """Return the job and its lease as plain values, for JSON; it is a credential, as the token is in it."""
        self._refuse_passing()
        found = {name: value for name, value in self._row._asdict().items() if value is not None}
        return found | {name: as_text(found[name]) for name in _CONTENTS if name in found}

    @classmethod
    def from_dict(cls, app: HasContext, data: Mapping[str, Any]) -> Self:
        """Return the reservation that `to_dict` was called on, here or in another process."""
        contents = {name: as_content(value) for name in _CONTENTS if isinstance(value := data.get(name), str)}
        try:
            row = JobRow(**{**data, **contents})
        except TypeError as error:
            raise InvalidInput(f"this is not what Reservation.to_dict() returned: {error}") from None
        if not row.token:
            raise InvalidInput("this is not what Reservation.to_dict() returned: it has no token")
        return cls(context_of(app), row)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with the app's settings, for other processes; its store is opened there when it is used."""
        self._refuse_passing()
        return type(self), (self._context, self._row)

    def _refuse_passing(self) -> None:
        if self._passing is not None:
            raise InvalidInput(
                f"item {self.id} came to {self.queue!r} in memory, so no other process can hold it; declare the "
                f"station with stored=True"
            )

    # -- how it is to end, for `Stanchion.settle`

    def committed(self, result: object = None, *, payload: object = UNCHANGED) -> Settlement:
        """Return what `commit` does."""
        plain = self._context.registry.stored_result(self.task, result)
        text = encoded_result(self._context.codec, plain)
        return Settlement(self, commit_of(self._row, text, payload_text(self, payload)))

    def rolled_back(
        self,
        delay: float | timedelta | None = None,
        error: BaseException | str | None = None,
        *,
        payload: object = UNCHANGED,
    ) -> Settlement:
        """Return what `rollback` does."""
        try:
            seconds = self._retry_delay(error) if delay is None else seconds_of(delay, "delay")
        except Bury as outcome:  # raised by the policy
            return self.buried(outcome.reason if error is None else error)
        if seconds is None:
            return self.buried("the retry policy gives up" if error is None else error)
        back = outcomes.Rollback(self._row.lease, seconds, payload=payload_text(self, payload))
        if error is None:
            return Settlement(self, back)
        return Settlement(self, back._replace(**self._failure_of(error)._asdict()), _exception(error))

    def released(self, delay: float | timedelta = 0.0, *, payload: object = UNCHANGED) -> Settlement:
        """Return what `release` does."""
        seconds, new_payload = seconds_of(delay, "delay"), payload_text(self, payload)
        return Settlement(self, outcomes.Rollback(self._row.lease, seconds, refund=True, payload=new_payload))

    def moved(
        self,
        queue: str,
        *,
        payload: object = UNCHANGED,
        delay: float | timedelta = 0,
        keep_entry: bool = False,
        keep_arrival: bool = False,
    ) -> Settlement:
        """Return what `move` does."""
        name = checked_queue(queue)
        seconds = seconds_of(delay, "delay")
        new = NewJob(self.id, name, "", tenant=self.tenant)
        placed = self._context.lanes.placed(self._context.store, new)
        new_payload = None if payload is UNCHANGED else self._context.codec.encode(payload)
        going = new._replace(payload=self._row.payload if new_payload is None else new_payload, task=self.task)
        self._context.check_fits(going)
        move = outcomes.Move(self._row.lease, name, new_payload, seconds, placed.lane, keep_entry=keep_entry)
        return Settlement(self, move._replace(order_key=placed.order_key, keep_arrival=keep_arrival))

    def buried(self, reason: BaseException | str = "buried") -> Settlement:
        """Return what `bury` does."""
        return Settlement(self, outcomes.Bury(self._row.lease, *self._failure_of(reason)), _exception(reason))

    def abandoned(self, reason: str = "") -> Settlement:
        """Return what `abandon` does."""
        return Settlement(self, outcomes.Abandon(self._row.lease, self._failure_of(reason).error))

    def _failure_of(self, error: BaseException | str) -> Failure:
        return failure_of(error, self.task, self._context.hidden.masking(self.task, lambda: self.payload))

    def report_progress(self, value: float) -> None:
        """Record the share done, from 0 to 1; see `context.progress`."""
        self._context.progress.report(lease_of(self), number(value, "progress", 0, 1))

    def _retry_delay(self, error: BaseException | str | None) -> float | None:
        """Return the retry policy's delay in seconds after this attempt's failure; None for no retry."""
        return self._retry.delay(self.failures + 1, error if isinstance(error, BaseException) else None)

    aget_cancelled = off_loop(get_cancelled)
    amoved = off_loop(moved)
    areport_progress = off_loop(report_progress)


def lease_of(job: HeldJob) -> Lease:
    """Return the lease under which the store has a reserved job."""
    return job._row.lease if job._passing is None else job._passing.first.lease


def row_here(job: HeldJob) -> JobRow:
    """Return the row of a reserved job at its station, where it may have come in memory."""
    return job._row


def passing_of(job: HeldJob) -> Passing | None:
    """Return the way of an item that passes stations in memory."""
    return job._passing


def hold_passing(job: HeldJob, passing: Passing | None) -> None:
    """Note that a job came to its station in memory."""
    job._passing = passing


def stored_outcome(job: HeldJob, outcome: outcomes.Ending) -> outcomes.Ending:
    """Return the outcome of a job for the store."""
    return encoded_outcome(outcome) if job._passing is None else job._passing.stored(job._row, outcome)


def ask_to_stop(job: HeldJob) -> None:
    """Set `cancelled`; a worker calls this for jobs that the store lists as cancelled."""
    job._asked_to_stop = True


def is_asked_to_stop(job: HeldJob) -> bool:
    """Return whether a job was asked to stop, as far as this process knows."""
    return job._asked_to_stop


def record_no_more(job: HeldJob) -> None:
    """Let the outcomes of a job go to the store from now on, as the batch that has recorded them is over."""
    job._record = None


def _exception(reason: BaseException | str) -> BaseException | None:
    return reason if isinstance(reason, BaseException) else None


def payload_text(job: HeldJob, payload: object) -> str | None:
    """Return `payload=` of an outcome as stored, None for UNCHANGED; for a task it is stored next to the arguments."""
    if payload is UNCHANGED:
        return None
    codec = job._context.codec
    if job.task is None:
        return codec.encode(payload)
    try:
        return codec.encode(with_checkpoint(codec.decode(job._row.payload), payload))
    except ValueError as error:
        raise InvalidInput(f"job {job.id} takes no checkpoint: {error}") from None


def is_repeat(job: HeldJob) -> bool:
    """Return whether a store that did not answer may have applied an outcome before."""
    return job._reply_lost


def reply_lost(job: HeldJob) -> None:
    """Note that the store did not answer, and may have applied the outcome; the caller may try again."""
    job._reply_lost = True


def note_settled(job: HeldJob, state: JobState) -> None:
    """Note the state that the store settled a job as."""
    job.settled_as = job.state = state
    job._has_outcome = True


def is_told(job: HeldJob) -> bool:
    """Return True if a worker tells a job when it was asked to stop, so that asking costs nothing."""
    return job._told
