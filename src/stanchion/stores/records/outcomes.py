"""Outcomes: how a reservation ends or continues."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from stanchion.core.values.framing import Content
from stanchion.stores.records.flows import FlowNode
from stanchion.stores.records.jobs import UNLANED, Lease, NewJob


class Ties(Enum):
    """Which other jobs the end of a reserved job affects."""

    NONE = auto()
    SLOTS = auto()
    """Jobs that wait for its semaphores."""
    OTHERS = auto()
    """The next job of its order key, or other jobs of its flow."""


class Tally(NamedTuple):
    """A number of items to add to a counter of a queue; a negative one takes them back."""

    queue: str
    event: str
    number: int


class TableColumn(NamedTuple):
    """A column. `kind`: its type, as in a schema (`bigint`, `array<string>`), or `id`: of a job.

    `optional`: a table that others have made may lack it; it is then not written.
    """

    name: str
    kind: str
    nullable: bool = True
    optional: bool = False


class ResultTable(NamedTuple):
    """A table: its name, perhaps with that of a schema (`reports.daily`), and the columns that are written."""

    name: str
    columns: tuple[TableColumn, ...]


class TableRows(NamedTuple):
    """Rows for a table: for each, the JSON value of each column."""

    table: ResultTable
    rows: tuple[tuple[object, ...], ...]


class Commit(NamedTuple):
    """Finish a running job as done; with `jobs` it continues as these, stored in the same step, and counts as moved.

    A job that was asked to stop is cancelled instead if it has `jobs`, which are then not stored. Jobs with a taken key
    are handled as by `push`, but never raise DuplicateKey: "raise" is treated as "return".

    `tallies`: of a chunk that its `jobs` divide, what becomes of its items; they count in place of the step. The chunk
    then has none left, or those of its new `payload`.

    `rows`: inserted into tables of the store's database in the same step, if the lease holds; the job counts as moved,
    and is cancelled instead if it was asked to stop. Only for a store with the port `ResultTables`.
    """

    lease: Lease
    result: Content | None = None
    payload: Content | None = None
    jobs: tuple[NewJob, ...] = ()
    ties: Ties | None = None
    """Known from the reserved job; None: unknown. It selects a faster route only, and never changes the result."""
    tallies: tuple[Tally, ...] = ()
    rows: tuple[TableRows, ...] = ()


class Rollback(NamedTuple):
    """Give a running job back, due in `delay` seconds.

    With an `error`, the failure is counted and stored; `group`: see `core.text.error_kinds`; `type`: module and
    class of the exception. `refund` takes back the attempt counted at the claim; with an `error` too, the
    job is put off, which is no failure, and the error is the reason. Without attempts left, the job is dead; if
    cancelled meanwhile, it is cancelled. `payload`: for the next attempt; None: unchanged.
    """

    lease: Lease
    delay: float
    error: str | None = None
    traceback: str | None = None
    group: str | None = None
    type: str | None = None
    refund: bool = False
    payload: Content | None = None


class Move(NamedTuple):
    """Commit a running job in the queue of its lease and enqueue it in `queue` under the same id, attempts from 0.

    `headers` None: unchanged. `keep_entry`: if no move has changed the payload before, and this one does, keep the
    payload of the entry. `order_key`: for a job that has none. `keep_arrival`: keep the payload with which it came to
    the queue that it leaves.
    """

    lease: Lease
    queue: str
    payload: Content | None = None
    delay: float = 0.0
    lane: int = UNLANED
    headers: str | None = None
    keep_entry: bool = False
    order_key: str | None = None
    keep_arrival: bool = False


class Bury(NamedTuple):
    """End a running job as dead. `group`: of the error, see `core.text.error_kinds`; `type`: see `Rollback`."""

    lease: Lease
    error: str
    traceback: str | None = None
    group: str | None = None
    type: str | None = None


class Abandon(NamedTuple):
    """End a running job as cancelled."""

    lease: Lease
    reason: str = ""


class Passage(NamedTuple):
    """A queue that a job passes within one attempt. `changed`: it leaves the queue before with another payload.

    `kept`: the payload with which it came to the queue before, if that is kept.
    """

    queue: str
    changed: bool = False
    kept: Content | None = None


class Pass(NamedTuple):
    """Take a running job through queues, as if it had been moved to each and reserved there, and end it in the last.

    It leaves the last one by `then`, an outcome under the same lease. `payload`: with which it came to the last one;
    None: unchanged. `headers`, `keep_entry`: see `Move`.
    """

    lease: Lease
    passages: tuple[Passage, ...]
    then: OneStop
    payload: Content | None = None
    headers: str | None = None
    keep_entry: bool = False


class Continue(NamedTuple):
    """Continue a running job as the call that its task returned, under the same id.

    A job that was asked to stop is cancelled instead.

    `job`: the new call. `nodes` and `jobs`: the rest of the flow that leads to that call. `keep_entry`,
    `keep_arrival`: see `Move`.
    """

    lease: Lease
    job: NewJob
    nodes: tuple[FlowNode, ...] = ()
    jobs: tuple[NewJob, ...] = ()
    keep_entry: bool = False
    keep_arrival: bool = False


class Extend(NamedTuple):
    """Renew the lease of a running job: it ends in `seconds` from now."""

    lease: Lease
    seconds: float


class Progress(NamedTuple):
    """Record the progress of a running job, from 0 to 1."""

    lease: Lease
    value: float


OneStop = Commit | Rollback | Move | Bury | Abandon | Continue
"""The reservation ends in the queue where the job is."""

Renewal = Extend | Progress
"""The reservation continues."""

Ending = OneStop | Pass
"""The reservation ends."""

Outcome = Ending | Renewal
