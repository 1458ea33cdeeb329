"""A job as it was read from the store."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from stanchion.context.context import Context
from stanchion.context.shard import shown_lane
from stanchion.core.names.partition_names import logical_name, partition_number
from stanchion.core.text.error_kinds import group_in
from stanchion.core.times import moment
from stanchion.errors import InvalidInput
from stanchion.jobs.call import checkpoint_in, without_checkpoint
from stanchion.stores.records.jobs import SECOND, JobRow, JobState, NewJob, Pushed
from stanchion.stores.records.slots import NODE, ORDER
from stanchion.stores.rules.capacity.limits import limits_in
from stanchion.stores.rules.capacity.slots import promise_of
from stanchion.stores.rules.lifecycle.dead_letters import is_letter
from stanchion.stores.rules.lifecycle.error_entries import entries_of
from stanchion.stores.rules.lifecycle.jobs import created
from stanchion.stores.rules.lifecycle.past_waits import past_waits_of
from stanchion.stores.rules.lifecycle.trail import entry_payload, stops_of

if TYPE_CHECKING:
    from stanchion.core.chunks.item import Item

__all__ = ["Job", "JobState"]


class Meter(float):
    """The progress of a job, from 0 to 1. In the running job, call it to report."""

    def __call__(self, value: float) -> None:  # noqa: ARG002 - the reservation's takes it
        raise InvalidInput("only the running job can report progress")


class Stop(NamedTuple):
    """A queue on the way of a job: when it came there, and its attempts there (None: it is still there)."""

    queue: str
    entered_at: datetime
    attempts: int | None


WAIT_KINDS = ("semaphore", "order_key", "rate", "flow", "pause")
"""The kinds of past waits."""


class PastWait(NamedTuple):
    """A wait that is over: what for, and from when to when.

    `kind`, `name`: a `semaphore` or a `rate` and its name; an `order_key`; or a `flow`, of which a part, with the id
    in `name`, had to be done first.
    """

    kind: str
    name: str
    since: datetime
    until: datetime


_WAIT_KINDS = {ORDER: "order_key", NODE: "flow"}


class Job:
    """A job at the moment it was read. Times are aware datetimes in UTC."""

    __slots__ = ("_context", "_row", "duplicate", "state")

    def __init__(self, context: Context, row: JobRow, state: JobState, *, duplicate: bool = False) -> None:
        self._context, self._row, self.state = context, row, state
        self.duplicate = duplicate
        """True if an enqueue found this live job under its key and stored no new one."""

    @property
    def id(self) -> str:
        """UUID version 7."""
        return self._row.id

    @property
    def queue(self) -> str:
        """The queue's name."""
        return logical_name(self._row.queue)

    @property
    def partition(self) -> int | None:
        """The number of its partition; None if the queue has none, or if the job is in the queue itself."""
        return partition_number(self._row.queue)

    @property
    def task(self) -> str | None:
        """The name of the task; None for a bare payload."""
        return self._row.task

    @property
    def payload(self) -> Any:
        """The value that was pushed, or that `payload=` of an outcome has set since; for a task, its arguments.

        Of a job that carries a chunk: a sequence of its items, which are decoded when they are needed.
        """
        stored = self._context.value_of(self._row.payload)
        return stored if self._row.task is None else without_checkpoint(stored)

    @property
    def items(self) -> int | None:
        """The number of items of a chunk, 0 once it is divided into other jobs; None of a job that carries one item."""
        return self._row.items

    def item(self, place: int) -> Item:
        """Return an item of a chunk by its number: its name, payload, result and error.

        Raises InvalidInput if the job has no such item, carries one item, or was divided.
        """
        from stanchion.core.chunks.item import item_of

        failed = self.state is not JobState.DONE and self.errors
        return item_of(self, place, str(failed[-1]["error"]) if failed else None)

    @property
    def checkpoint(self) -> Any:
        """The value that the last attempt left for the next one by `payload=`, or None.

        It does not change the arguments of a task. For a bare payload, it is the payload.
        """
        if self._row.arrival_payload is None:
            return None
        stored = self._context.value_of(self._row.payload)
        return stored if self._row.task is None else checkpoint_in(stored)

    @property
    def headers(self) -> dict[str, Any]:
        """Metadata stored with the payload; empty if another program has stored something other than a JSON object."""
        try:
            found = json.loads(self._row.headers) if self._row.headers else None
        except (ValueError, RecursionError):
            found = None
        return found if isinstance(found, dict) else {}

    @property
    def priority(self) -> int:
        """From -100 to 100, higher first."""
        return self._row.priority

    @property
    def tenant(self) -> str | None:
        """The tenant that the job belongs to."""
        return self._row.tenant

    @property
    def lane(self) -> int | None:
        """Its lane in the queue; None if the queue had no lanes when the job was stored."""
        return shown_lane(self._row.lane)

    @property
    def key(self) -> str | None:
        """The unique key."""
        return self._row.key

    @property
    def order_key(self) -> str | None:
        """Jobs with the same order key run one at a time, in the order of their enqueue calls."""
        return self._row.order_key

    @property
    def limits(self) -> list[str]:
        """The semaphores that it holds while it runs."""
        return list(limits_in(self._row.limits).semaphores)

    @property
    def run_at(self) -> datetime:
        """When it is or was due."""
        return moment(self._row.run_at)

    @property
    def enqueued_at(self) -> datetime:
        """When it was stored."""
        return moment(self._row.enqueued_at)

    @property
    def waits_since(self) -> datetime | None:
        """Since when it waits for a slot, an order key or another job of its flow; None if it does not wait."""
        return moment(self._row.waits_since) if self.state is JobState.WAITING else None

    @property
    def past_waits(self) -> list[PastWait]:
        """The last ten waits that are over, oldest first.

        Empty in a running job's own handle, because claims do not read them.
        """
        found = past_waits_of(self._row)
        over = found[:-1] if is_deferred(self) else found
        return [
            PastWait(_WAIT_KINDS.get(slot.kind, slot.kind), slot.name, moment(since), moment(until))
            for slot, since, until in over
        ]

    @property
    def started_at(self) -> datetime | None:
        """When the last attempt started."""
        return moment(self._row.started_at)

    @property
    def finished_at(self) -> datetime | None:
        """When it became final; for a dead letter, when it died."""
        return self.dead_at if is_letter(self._row) else moment(self._row.finished_at)

    @property
    def died_in(self) -> str | None:
        """The queue where it died, which a dead letter has left; None unless it is dead."""
        return (self.dead_from or self.queue) if self.state is JobState.DEAD else None

    @property
    def dead_from(self) -> str | None:
        """Of a dead letter, the queue where it died, also while it runs."""
        home = self._row.dead_from
        return None if home is None else logical_name(home)

    @property
    def dead_at(self) -> datetime | None:
        """Of a dead letter, when it died."""
        return moment(self._row.dead_at)

    @property
    def dead_attempts(self) -> int | None:
        """Of a dead letter, the number of its deliveries until it died."""
        return self._row.dead_attempts

    @property
    def pickup_delay(self) -> float | None:
        """Seconds from due to the start of the last attempt."""
        row = self._row
        return None if row.started_at is None else max(0, row.started_at - row.run_at) / SECOND

    @property
    def attempt(self) -> int:
        """The number of this attempt, 1 for the first."""
        return self._row.attempts

    @property
    def attempts(self) -> int:
        """The number of deliveries so far; of a dead letter, until it died."""
        return (self._row.dead_attempts or 0) if is_letter(self._row) else self._row.attempts

    @property
    def failures(self) -> int:
        """The number of failed attempts."""
        return self._row.failures

    @property
    def max_attempts(self) -> int:
        """The number of deliveries without success after which the job is dead."""
        return self._row.max_attempts

    @property
    def timeout(self) -> float | None:
        """Seconds that one attempt may run; None: no limit, or the task's."""
        return self._row.timeout

    @property
    def expires(self) -> float | None:
        """Seconds after its push until it is cancelled, unless an attempt has begun by then; None: it never expires."""
        return self._row.expires

    @property
    def errors(self) -> list[dict[str, Any]]:
        """The last errors: `attempt`, `at` (seconds since 1970), `error`, `group`, and where they are known `type`
        (module and class of the exception), `traceback`, `worker`, `started`, and `until`, when the job was due again.

        While the job is put off because workers do not know its task, the last one also has `times` and `since`. Of the
        attempts before the last ten errors, `earlier` of the first one has `started`, when the first attempt began, and
        `workers`, those of up to 50 attempts, the latest last, None for an unknown one.
        """
        return entries_of(self._row)

    @property
    def error_group(self) -> str | None:
        """The key of the group of its last error, 8 hexadecimal digits; None if it has none.

        Errors of a group have the same task, type and message, but for what varies, such as numbers and hosts; or the
        same task and `fingerprint`.
        """
        errors = self.errors
        return group_in(errors[-1], self.task) if errors else None

    @property
    def result(self) -> Any:
        """The result the job was committed with; a sequence of results if it is a chunk."""
        return self._context.value_of(self._row.result)

    @property
    def progress(self) -> Meter:
        """The share done, from 0 to 1, as last reported."""
        return Meter(self._row.progress or 0.0)

    @property
    def worker(self) -> str | None:
        """The id of the worker that runs the job or ran it last, or the name of the `holder` that reserved it."""
        return self._row.worker

    @property
    def origin(self) -> str | None:
        """The id of the finished job that this one replays."""
        return self._row.origin

    @property
    def trail(self) -> list[Stop]:
        """The queues that it has passed, oldest first, and the one where it is: the first one, and the last 99.

        An item that was split from another begins with the stops of the other.
        """
        return [Stop(stop.queue, moment(stop.entered_at), stop.attempts) for stop in stops_of(self._row)]

    @property
    def entry_payload(self) -> Any:
        """The payload at its entry into its first queue; None if a move has changed it, and it was not kept."""
        stored = self._context.value_of(entry_payload(self._row))
        return stored if self._row.task is None else without_checkpoint(stored)

    @property
    def flow(self) -> str | None:
        """The id of its flow; `app.flow(job.flow)` returns a handle."""
        return self._row.flow_root

    @property
    def cancelled(self) -> bool:
        """True if the job was cancelled, or was asked to stop."""
        return self.state is JobState.CANCELLED or bool(self._row.cancel_requested)

    def __repr__(self) -> str:
        task = f" {self.task}" if self.task else ""
        return f"<{type(self).__name__} {self.id}{task} in {self.queue!r}: {self.state}>"


def row_of(job: Job) -> JobRow:
    """Return a job as it is stored."""
    return job._row


def is_deferred(job: Job) -> bool:
    """Return whether a job is scheduled because its rate has put it off until `run_at`."""
    return job.state is JobState.SCHEDULED and promise_of(job._row) is not None


class FreshJob(Job):
    """A job that has just been stored; its row is created when needed."""

    __slots__ = ("_new", "_pushed")

    def __init__(self, context: Context, new: NewJob, pushed: Pushed) -> None:
        self._context, self._new, self._pushed = context, new, pushed
        self.state = JobState.READY if pushed.run_at <= pushed.enqueued_at else JobState.SCHEDULED
        self.duplicate = pushed.duplicate

    @property
    def id(self) -> str:
        """UUID version 7."""
        return self._pushed.id

    @property
    def _row(self) -> JobRow:  # type: ignore[override] # in place of a slot
        return created(self._new, self._pushed.enqueued_at)._replace(id=self._pushed.id, run_at=self._pushed.run_at)
