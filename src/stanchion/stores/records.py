"""What goes into a store and comes out of it: plain records, times in microseconds since 1970 UTC.

A record holds text where the model holds values: payloads, results and headers arrive encoded, as JSON or, where
they are encrypted, as base64, and thus without control characters; names are printable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, NamedTuple

SECOND = 1_000_000
"""One second in the unit of every stored time."""

QUEUED: Literal["queued"] = "queued"
"""The stored state of jobs that are scheduled or ready; `run_at` against the store's clock tells which."""

UNLANED = 0
"""Stored as the lane of jobs that came while their queue had no lanes; lane n is stored as n + 1."""


class JobState(StrEnum):
    """Where a job is in its life; the first four are live, the others final."""

    SCHEDULED = "scheduled"
    READY = "ready"
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    DEAD = "dead"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """True for a job that is in history."""
        return self in _FINAL


_FINAL = frozenset({JobState.DONE, JobState.DEAD, JobState.CANCELLED})


class NewJob(NamedTuple):
    """A job to store. Due at `run_at`, or `delay` seconds from the store's now, or now.

    One that `waits_for` a gate is stored as waiting, until the gate opens.
    """

    id: str
    queue: str
    payload: str
    task: str | None = None
    priority: int = 0
    run_at: int | None = None
    delay: float | None = None
    headers: str | None = None
    tenant: str | None = None
    key: str | None = None
    on_duplicate: str = "return"
    order_key: str | None = None
    limits: str | None = None
    flow: str | None = None
    origin: str | None = None
    max_attempts: int = 25
    timeout: float | None = None
    lane: int = UNLANED
    waits_for: str | None = None


class Pushed(NamedTuple):
    """What became of a NewJob. For a duplicate, `id` is that of the live job which has the key."""

    id: str
    run_at: int
    enqueued_at: int
    duplicate: bool = False


class JobRow(NamedTuple):
    """A whole job as stored, live or finished.

    `held`: how many of its gates it holds, in their order; `permit`: the token under which it took them, or two, see
    `permits_of`; `waits_for`, `waits_since`: the gate that it is parked at, and since when; of a job that its rate has
    deferred, `waits_since` tells of `gates.promise_of`.
    """

    id: str
    queue: str
    lane: int
    state: str
    priority: int
    run_at: int
    enqueued_at: int
    payload: str
    task: str | None = None
    headers: str | None = None
    tenant: str | None = None
    key: str | None = None
    order_key: str | None = None
    limits: str | None = None
    flow: str | None = None
    origin: str | None = None
    attempts: int = 0
    failures: int = 0
    max_attempts: int = 25
    timeout: float | None = None
    errors: str | None = None
    progress: float | None = None
    token: str | None = None
    worker: str | None = None
    lease_until: int | None = None
    started_at: int | None = None
    cancel_requested: bool = False
    held: int = 0
    permit: str | None = None
    waits_for: str | None = None
    waits_since: int | None = None
    finished_at: int | None = None
    result: str | None = None


class Claim(NamedTuple):
    """A wish for up to `limit` due jobs of one queue, under a fresh `token`.

    Held by the live `worker` of that id, or, where `worker` is None, for `lease` seconds (the queue's
    own lease where that is None too). A `repeat`, after a call that was never answered, gives the jobs
    that the token holds already, if any. `lanes`: the first and the last lane to take them from; None for all.
    `full`: gates without a free slot. A store may leave out the jobs that wait for one of them first; it is for the
    stores alone to set.
    """

    queue: str
    limit: int
    token: str
    worker: str | None = None
    lease: float | None = None
    repeat: bool = False
    lanes: tuple[int, int] | None = None
    full: tuple[str, ...] = ()


class Claimed(NamedTuple):
    """The jobs claimed, in order; `retry_in`: seconds until a limit of the queue may allow more.

    It is 0 where the call has met so many jobs that must wait for something that it broke off: ask again at once.
    """

    rows: list[JobRow]
    retry_in: float | None = None


class Commit(NamedTuple):
    """Finish a running job as done; with `jobs` it goes on as these, stored in the same step, and counts as moved.

    One that was asked to stop is cancelled instead if it has `jobs`; none of them is stored then. A job whose key is
    taken is dealt with as `push` does, but none raises DuplicateKey: "raise" is taken as "return".
    """

    id: str
    token: str
    result: str | None = None
    payload: str | None = None
    jobs: tuple[NewJob, ...] = ()


class Rollback(NamedTuple):
    """Give a running job back, due in `delay` seconds.

    With an `error` the failure is counted and kept. `refund` takes back the attempt that the delivery
    counted; with an `error` the job is put off, which is no failure, and the error tells why. Attempts used up, the
    job is dead; cancelled meanwhile, it is cancelled.
    """

    id: str
    token: str
    delay: float
    error: str | None = None
    traceback: str | None = None
    refund: bool = False


class Move(NamedTuple):
    """Commit a running job here and enqueue it in `queue` under the same id, attempts from 0.

    `headers` None: as they are.
    """

    id: str
    token: str
    queue: str
    payload: str | None = None
    delay: float = 0.0
    lane: int = UNLANED
    headers: str | None = None


class Bury(NamedTuple):
    """End a running job as dead."""

    id: str
    token: str
    error: str
    traceback: str | None = None


class Abandon(NamedTuple):
    """End a running job as cancelled."""

    id: str
    token: str
    reason: str = ""


class NodeState(StrEnum):
    """Where a node of a flow is; all but the first are final."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Node(NamedTuple):
    """What the members of a part of a flow add up to.

        running ──all members done, and closed──► done      its gate opens
           ├──a member failed──► failed                      its handler is enqueued, who waits for it is cancelled
           └──flow cancelled──► cancelled

    `root`: the flow. `kind`: "one" (the value of its only member), "list" (of all, in their places) or "none".
    `parent`: where it is a member itself, as "node:place". `size`: members so far; all of them once it is `closed`.
    `handler`: a NewJob as JSON, for a failure. `definition`: what it shows of itself, as JSON.
    """

    id: str
    root: str
    kind: str = "one"
    parent: str | None = None
    size: int = 1
    closed: bool = True
    ended: int = 0
    state: str = NodeState.RUNNING.value
    created_at: int = 0
    finished_at: int | None = None
    handler: str | None = None
    definition: str | None = None


class End(NamedTuple):
    """How the member in a place of a node has ended: a job, with its result, or a `child` node."""

    node: str
    place: int
    state: str
    job: str | None = None
    child: str | None = None
    result: str | None = None


class Continue(NamedTuple):
    """Let a running job go on as another call, under its id: the call that its task has returned.

    One that was asked to stop is cancelled instead.

    `job` says what it is from now on. `nodes` and `jobs` are the rest of the flow that leads to that call.
    """

    id: str
    token: str
    job: NewJob
    nodes: tuple[Node, ...] = ()
    jobs: tuple[NewJob, ...] = ()


Outcome = Commit | Rollback | Move | Bury | Abandon | Continue


class Finish(NamedTuple):
    """Commit all jobs of a queue that are in hand under a token, if they are still exactly so many."""

    queue: str
    token: str
    jobs: int


class NoteChange(NamedTuple):
    """A note to be written by compare-and-set, as `set_note` does."""

    kind: str
    name: str
    text: str
    version: int


class Publication(NamedTuple):
    """Make staged jobs real, all or none, once.

    `attempts`: those that count, each with the number of jobs it staged; jobs of other attempts are dropped.
    `note`: what is written in the same step, and tells whether this was published before; None: the write's own
    note, of kind "write" and named like it. `finish`: what is committed in the same step.
    """

    write: str
    attempts: tuple[tuple[str, int], ...] = ()
    note: NoteChange | None = None
    finish: Finish | None = None


class SemaphoreRow(NamedTuple):
    """A semaphore: what it may give, and how much of it is held and waited for."""

    name: str
    capacity: int
    held: int = 0
    waiting: int = 0


class Extension(NamedTuple):
    """A new lease for a running job: `seconds` from now."""

    id: str
    token: str
    seconds: float


class Progress(NamedTuple):
    """How far a running job is, from 0 to 1."""

    id: str
    token: str
    value: float


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The stored settings of a queue; rates in jobs started per second, times in seconds."""

    name: str
    paused: bool = False
    max_rate: float | None = None
    max_running: int | None = None
    lanes: int = 1
    lanes_per_tenant: int = 1
    history_ttl: float = 7 * 86_400.0
    dead_letter: str | None = None
    lease: float = 30.0
    laned: bool = False
    """True once it had more than one lane: its jobs may be in any."""
    expires: float | None = None
    """It is removed when nobody has pushed, reserved or finished in it for so long."""
    expires_with_jobs: bool = False
    declared: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What the code declared last, which need not be in force; see `stanchion.declaring`."""

    @property
    def throttled(self) -> bool:
        """True when a claim must look at more than the jobs."""
        return self.paused or self.laned or self.max_rate is not None or self.max_running is not None


class Sizes(NamedTuple):
    """Live jobs of a queue."""

    total: int = 0
    ready: int = 0
    scheduled: int = 0
    waiting: int = 0
    running: int = 0


class Counts(NamedTuple):
    """What happened in a queue since it was made; a duplicate is not a push."""

    pushed: int = 0
    popped: int = 0
    reserved: int = 0
    committed: int = 0
    rolled_back: int = 0
    moved: int = 0
    buried: int = 0
    cancelled: int = 0
    expired: int = 0


@dataclass(frozen=True, slots=True)
class Find:
    """A search over live and finished jobs, newest first. None means any."""

    queue: str | None = None
    states: tuple[JobState, ...] = ()
    task: str | None = None
    tenant: str | None = None
    since: int | None = None
    until: int | None = None
    text: str | None = None
    flow: str | None = None
    """The id of a flow."""
    stored: bool = False
    """The states are those in the queues, where a dead letter is queued; else it is dead, as the outside sees it."""
    limit: int = 100
    after: str | None = None
    """Only jobs with an id below this one: the next page."""


class Condition(NamedTuple):
    """What a field of a job is compared with: `=`, `<`, `<=`, `>`, `>=` a value, or `in` a tuple of them.

    A job without a value there does not meet it. The fields are SCANNED; a state is what the outside sees.
    """

    field: str
    op: Literal["=", "<", "<=", ">", ">=", "in"]
    value: Any


SCANNED = frozenset(
    {
        *("id", "queue", "lane", "state", "task", "tenant", "priority"),
        *("run_at", "enqueued_at", "started_at", "finished_at"),
    }
)
"""The fields by which a scan can choose."""


@dataclass(frozen=True, slots=True)
class Scan:
    """A wish for all live jobs, or all of history, that meet all conditions."""

    of: Literal["jobs", "history"] = "jobs"
    where: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One live worker, as it describes itself; `heartbeat` in seconds.

    `began`: the jobs that run, as `losses.start_of` has them; None from a release that does not say.
    """

    id: str
    host: str
    pid: int
    queues: tuple[str, ...]
    threads: int
    heartbeat: float
    state: str = "running"
    started_at: int = 0
    last_seen_at: int = 0
    running: int = 0
    began: tuple[str, ...] | None = None


class Beat(NamedTuple):
    """The answer to a heartbeat: live workers (this one included), and its jobs that are to be cancelled.

    `sharing`: how many workers poll for the same work, this one included: for that of its queues which the fewest do.
    """

    live: int
    cancelled: list[str]
    sharing: int = 1


class Redriven(StrEnum):
    """What became of a job that was to be retried."""

    READY = "ready"
    MISSING = "missing"
    DONE = "done"
    RUNNING = "running"
    KEY_TAKEN = "key taken"


class Note(NamedTuple):
    """A small text under a name; its `version` counts its changes."""

    name: str
    text: str
    version: int


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store can do beyond the semantics that all of them share."""

    name: str
    joins_transactions: bool
    push_wakeup: bool
    wakeup: str
    atomic_batches: bool
    durable: str
    processes: bool
    extra: str | None = None
    """What is to be installed for it: `pip install 'stanchion[extra]'`."""
    arrow: bool = False
    """It can give a scan as Arrow, by a driver of its own."""
