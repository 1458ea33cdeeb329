"""Moving queues from one store to another; every job is in at least one of them at any time.

    source:       queue paused ──► jobs deleted, batch by batch ────► stays paused, empty
                                      ▲ only after
    destination:  queue paused ──► the batch adopted ────────────────► resumed

*No job is lost*: a job leaves the source only after the destination has it. *No job is duplicated*, even without
history: between the two steps a job is in both stores, but both queues are paused, so neither hands it out. A copy
that dies there leaves it so. The next copy adopts the job again, which changes nothing, as the destination has its
id: the job can't have run and vanished there, since only a copy that has finished resumes the destination. Then the
job is deleted from the source.

Two things could break this:

* A claim that started before the pause may still deliver a job. No call of a client lasts longer than `SETTLE`, so
  the copy waits for that long once all queues are paused. If the source has delivered a job nevertheless, the
  source keeps it and the destination drops it.
* A second copy could finish and resume the destination while the first one has read rows that it has not adopted
  yet. So only one copy of a queue runs at a time, see `stanchion.copying.guard`.

Running jobs finish in the source; jobs that are rolled back meanwhile are copied too.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace

from stanchion.copying.guard import HEARTBEAT, Guard
from stanchion.core.names.partition_names import is_queue
from stanchion.errors import InvalidInput, NotPermitted
from stanchion.partitions.opening import with_partitions
from stanchion.schemas.stored import declare, stored_schema
from stanchion.stores.hand_over import chunks, fitting, hand_over
from stanchion.stores.ports import Partitions
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.records.queues import STORED_SETTINGS, QueueSettings, Sizes
from stanchion.stores.records.values import DECLARED
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.lifecycle.job_checks import check_stored
from stanchion.stores.rules.lifecycle.jobs import detached

SETTLE = 10.0
"""Seconds after which every call that started before the pause has ended."""

_QUEUED = Query("live", (Condition("state", "in", ("scheduled", "ready", "waiting", "dead")),))
"""All jobs that are not running, including dead letters."""
_FINISHED = Query("history")
_FIRST_PAGE, _LARGEST_PAGE = 50, 1000
_POLL_SECONDS = 0.5


@dataclass(slots=True)
class Copied:
    """The result for one queue. `running`: jobs that still run in the source; `resumed`: in the destination."""

    queue: str
    live: int = 0
    history: int = 0
    refused: list[str] = field(default_factory=list)
    """Ids of jobs that stay in the source, as a live job of the destination has their key."""
    unfit: dict[str, str] = field(default_factory=dict)
    """Ids of jobs that stay in the source, as no store should keep them, with the reason."""
    of_flows: int = 0
    """Jobs that stay in the source as members of flows, which finish where they started."""
    running: int = 0
    resumed: bool = False


_OWN = ("name", "lanes_seen", "partitioned", "schema_after")
"""Settings that each store writes itself."""


class Watcher:
    """Gets the progress of a copy. This one ignores it."""

    def standing_by(self, rival: WorkerRow) -> None:
        """Another copy of one of the queues is running, or has just died."""

    def settling(self, seconds: float) -> None:
        """All queues are paused; calls in progress get `seconds` to end."""

    def jobs_moved(self, queue: str, jobs: int) -> None:
        """`jobs` more jobs of a queue have moved to the destination."""

    def waiting(self, running: int, seconds: float) -> None:
        """`running` jobs run in the source; the copy waits for them, up to `seconds`."""


def settings_of(source: Store, queues: Sequence[str]) -> dict[str, QueueSettings]:
    """Return the settings of queues of the source. Raises InvalidInput for one that it does not have."""
    known = {settings.name: settings for settings in source.queues()}
    for queue in queues:
        if queue not in known:
            raise InvalidInput(f"the source has no queue {queue!r}; it has {', '.join(known) or 'none'}")
        if not is_queue(queue):
            raise InvalidInput(
                f"no queue may be named like {queue!r} of the source: delete it there, or name the queues to copy"
            )
    return {queue: known[queue] for queue in queues}


class Transfer:
    """One copy of queues of the source.

    `history`: copy finished jobs too. `resume`: resume the queues of the destination at the end. `wait`: seconds to
    wait for jobs that run in the source. `settle`: less than SETTLE is safe only if no process claims jobs.
    """

    def __init__(
        self,
        source: Store,
        destination: Store,
        queues: Sequence[str],
        *,
        history: bool = False,
        resume: bool = True,
        wait: float = 60.0,
        settle: float = SETTLE,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        self._source = with_partitions(source)
        self._destination = with_partitions(destination, always=self._source.extension(Partitions) is not None)
        self._history, self._resume, self._wait, self._settle = history, resume, wait, settle
        self._watcher = Watcher()
        self._guard = Guard(source, destination, queues, heartbeat)
        self._copied = [Copied(queue) for queue in queues]

    def run(self, watcher: Watcher | None = None) -> list[Copied]:
        """Copy; return the result for each queue. `watcher` gets the progress.

        Raises InvalidInput for a queue that the source does not have, or if both stores are the same; CopyRefused
        while another copy of one of the queues is running. Run it again after any error, and if jobs still run in
        the source.
        """
        self._watcher = watcher or self._watcher
        with self._guard.hold(self._watcher.standing_by):
            self._pause()
            self._copy_semaphores()
            self._copy_declarations()
            self._move_live()
            for copied in self._copied:
                if self._history:
                    copied.history = self._move(copied, _FINISHED)
                if self._resume and not copied.running:
                    self._guard.stand()
                    self._destination.configure(copied.queue, {"paused": False})
                    copied.resumed = True
        return self._copied

    def _pause(self) -> None:
        known = settings_of(self._source, [copied.queue for copied in self._copied])
        for copied in self._copied:
            if (schema := stored_schema(self._source, copied.queue).schema) is not None:
                declare(self._destination, copied.queue, schema)
        for copied in self._copied:
            given = asdict(known[copied.queue])
            settings = {name: given[name] for name in STORED_SETTINGS if name not in _OWN}
            if given["partitions"] > 1:
                settings["partitions"] = given["partitions"]
            self._source.configure(copied.queue, {"paused": True})
            self._destination.configure(copied.queue, {**settings, "paused": True})
        if self._settle and any(sizes.total for sizes in self._sizes().values()):
            self._watcher.settling(self._settle)
            self._guard.sleep(self._settle)

    def _sizes(self) -> dict[str, Sizes]:
        stats = self._source.stats([copied.queue for copied in self._copied], ["states"])
        return {queue: one.states for queue, one in stats.items()}

    def _copy_semaphores(self) -> None:
        there = {row.name for row in self._destination.semaphores()}
        for row in self._source.semaphores():
            if row.name not in there:
                self._destination.set_semaphore(row.name, row.capacity)

    def _copy_declarations(self) -> None:
        """Copy the values that the destination lacks, so that its rates and hidden values apply immediately."""
        for kind in DECLARED:
            there = {value.name for value in self._destination.values(kind)}
            for value in self._source.values(kind):
                if value.name not in there:
                    with suppress(NotPermitted):  # a manager lets only some callers declare: then jobs decide
                        self._destination.compare_and_set(kind, value.name, value.text, 0)

    def _move_live(self) -> None:
        """Move queued jobs, repeatedly until no job runs that could be rolled back."""
        deadline = None
        while True:
            sizes = self._sizes()
            for copied in self._copied:
                copied.running = sizes[copied.queue].running
            for copied in self._copied:
                copied.live += self._move(copied, _QUEUED)
            running = sum(copied.running for copied in self._copied)
            deadline = deadline or time.monotonic() + self._wait
            left = deadline - time.monotonic()
            if not running or left <= 0:
                return
            self._watcher.waiting(running, left)
            self._guard.sleep(min(left, _POLL_SECONDS))
            self._source.recover()  # there may be no workers left to do it

    def _move(self, copied: Copied, such: Query) -> int:
        """Move the jobs of a query, newest first; return their number."""
        moved, of_flows = 0, 0
        refused: list[str] = []
        query: Query | None = replace(such.also(Condition("queue", "=", copied.queue)), limit=_FIRST_PAGE)
        while query is not None:
            page = self._source.select(query)
            rows, after, now = page.rows, page.next, self._source.now()
            movable = [row for row in rows if row.flow_root is None or row.finished_at is not None]
            of_flows += len(rows) - len(movable)
            # A database without booleans has 0 here; jobs that are not running are not asked to stop.
            arriving = [detached(row._replace(cancel_requested=False), now) for row in movable]
            unfit = {row.id: fault for row in arriving if (fault := _fault(row)) is not None}
            copied.unfit |= unfit
            for chunk in chunks([row for row in arriving if row.id not in unfit]):
                count = self._hand_over(chunk, refused)
                self._watcher.jobs_moved(copied.queue, count)
                moved += count
            limit = fitting(rows, min(_LARGEST_PAGE, 2 * query.limit))
            query = None if after is None else query.following(after, limit)
        if such is _QUEUED:
            copied.refused, copied.of_flows = refused, of_flows
        return moved

    def _hand_over(self, rows: list[JobRow], refused: list[str]) -> int:
        handed = hand_over(self._source, self._destination, rows, self._guard.stand)
        refused += handed.refused
        return handed.moved


def _fault(row: JobRow) -> str | None:
    """Return why no store should keep a job; None: one may. Another program may have stored it."""
    try:
        check_stored(row)
    except InvalidInput as error:
        return str(error)
    return None
