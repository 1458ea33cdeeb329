"""Moving queues from one store to another, with every job in one of them at any moment.

    source:       queue paused ──► jobs taken away, batch by batch ──► stays paused, empty
                                      ▲ only after
    destination:  queue paused ──► the batch adopted ────────────────► resumed

*None is lost*, as a job leaves the source only after the destination has it. *None is doubled*, also where no
history is kept: between the two steps it is in both stores, but both queues are paused, so neither hands it out.
A copy that dies there leaves it so. The next one adopts it again, which changes nothing, as the destination knows
its id: it can't have run there and be gone without a trace, since only a copy that has come to its end resumes the
destination. Then it is taken from the source.

Two things would break this, and are seen to:

* A claim that began before the pause may still hand out a job. No call of a client lasts longer than `SETTLE`, so
  the copy waits for that long once all queues are paused. Should the source have handed out a job all the same, the
  source keeps it, and the destination gives it up.
* A second copy could end, and resume the destination, while the first one holds rows that it has read before and
  is yet to adopt. So one copy works on a queue at a time, see `stanchion.copying.guard`.

Jobs that run in the source are left to finish there; what is rolled back meanwhile is copied too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace

from stanchion.copying.guard import HEARTBEAT, Guard
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.records.queues import Sizes
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.jobs import detached

SETTLE = 10.0
"""Seconds after which every call that began before the pause has come to its end."""

_QUEUED = Query("live", (Condition("state", "in", ("scheduled", "ready", "waiting", "dead")),))
"""All that does not run; dead letters are among them."""
_FINISHED = Query("history")
_FIRST_PAGE, _LARGEST_PAGE = 50, 1000
_CHARACTERS = 8 * 1024 * 1024
"""Of jobs in one call, unless a single one has more."""
_LOOK = 0.5


@dataclass(slots=True)
class Copied:
    """What became of one queue. `running`: jobs that the source has not finished; `resumed`: in the destination."""

    queue: str
    live: int = 0
    history: int = 0
    refused: list[str] = field(default_factory=list)
    """Ids of jobs that stay in the source, as a live job of the destination has their key."""
    of_flows: int = 0
    """Jobs that stay in the source as parts of flows, which end where they began."""
    running: int = 0
    resumed: bool = False


class Watcher:
    """Is told how a copy goes on; this one does nothing with it."""

    def standing_by(self, rival: WorkerRow) -> None:
        """Another copy of one of the queues is at work, or has died a moment ago."""

    def settling(self, seconds: float) -> None:
        """All queues are paused; calls under way are given this long to end."""

    def moved(self, queue: str, jobs: int) -> None:
        """So many more jobs of a queue are in the destination, and only there."""

    def waiting(self, running: int, seconds: float) -> None:
        """So many jobs run in the source; the copy waits for them, for so long at the most."""


class Transfer:
    """One copy of queues that the source has.

    `history`: finished jobs too. `resume`: the queues of the destination, at the end. `wait`: seconds to wait for
    jobs that run in the source. `settle`: less than SETTLE is safe only where no worker and no program takes jobs.
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
        watcher: Watcher | None = None,
    ) -> None:
        self._source, self._destination = source, destination
        self._history, self._resume, self._wait, self._settle = history, resume, wait, settle
        self._watcher = watcher or Watcher()
        self._guard = Guard(source, destination, queues, heartbeat)
        self._copied = [Copied(queue) for queue in queues]

    def run(self) -> list[Copied]:
        """Copy; return what became of each queue.

        InvalidInput for a queue that the source doesn't have, and for a store that is the source as well.
        CopyRefused while another copy works on one of the queues. To be run again after any error, and where
        jobs still run in the source.
        """
        with self._guard.held(self._watcher.standing_by):
            self._pause()
            self._copy_semaphores()
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
        known = {settings.name: asdict(settings) for settings in self._source.queues()}
        for copied in self._copied:
            if copied.queue not in known:
                raise InvalidInput(f"the source has no queue {copied.queue!r}; it has {', '.join(known) or 'none'}")
        for copied in self._copied:
            settings = {name: value for name, value in known[copied.queue].items() if name != "name"}
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

    def _move_live(self) -> None:
        """Move what is queued, again and again until nothing runs any more that could be rolled back."""
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
            self._guard.sleep(min(left, _LOOK))
            self._source.recover()  # nobody else does where no worker is left

    def _move(self, copied: Copied, such: Query) -> int:
        """Move such jobs, newest first; return their number."""
        moved, of_flows = 0, 0
        refused: list[str] = []
        query: Query | None = replace(such.also(Condition("queue", "=", copied.queue)), limit=_FIRST_PAGE)
        while query is not None:
            rows, after = self._source.select(query)
            movable = [row for row in rows if row.flow is None or row.finished_at is not None]
            of_flows += len(rows) - len(movable)
            # A database without booleans has a 0 there; what does not run is not asked to stop.
            for portion in portions([detached(row._replace(cancel_requested=False)) for row in movable]):
                count = self._hand_over(portion, refused)
                self._watcher.moved(copied.queue, count)
                moved += count
            fitting = _CHARACTERS * len(rows) // max(1, sum(map(weight, rows)))
            limit = max(1, min(_LARGEST_PAGE, 2 * query.limit, fitting))
            query = None if after is None else replace(query, after=after, limit=limit)
        if such is _QUEUED:
            copied.refused, copied.of_flows = refused, of_flows
        return moved

    def _hand_over(self, rows: list[JobRow], refused: list[str]) -> int:
        self._guard.stand()
        there = self._destination.adopt(rows)
        refused += [row.id for row, adopted in zip(rows, there, strict=True) if not adopted]
        adopted = [row.id for row, adopted in zip(rows, there, strict=True) if adopted]
        taken = set(self._source.take(adopted))
        left = [job for job in adopted if job not in taken]
        # What the source has still, it has handed out after all. What it hasn't, a take that was repeated has
        # deleted the first time: then the only one is in the destination.
        kept = list(self._source.fetch(left)) if left else []
        if kept:
            self._guard.stand()
            self._destination.take(kept)
        return len(adopted) - len(kept)


def portions(rows: Sequence[JobRow]) -> Iterator[list[JobRow]]:
    """Cut jobs where they add up to more than a call should carry."""
    portion: list[JobRow] = []
    size = 0
    for row in rows:
        if portion and size + weight(row) > _CHARACTERS:
            yield portion
            portion, size = [], 0
        portion.append(row)
        size += weight(row)
    if portion:
        yield portion


def weight(row: JobRow) -> int:
    """Return roughly how many characters a job has."""
    return 200 + sum(len(text) for text in (row.payload, row.headers, row.errors, row.result) if text)
