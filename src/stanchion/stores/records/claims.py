"""Claims: the request to reserve jobs, and the reserved jobs."""

from __future__ import annotations

from typing import Final, NamedTuple

from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.slots import Slot

POPPED: Final = "popped"
"""A delivery of jobs that are committed first."""
DIVIDED: Final = "divided"
"""A delivery of chunks that their holder divides, and does not run."""
BEGUN: Final = "begun"
"""A delivery to a worker that has a free thread for each job: they begin immediately."""
BY_MANAGER: Final = "by-manager"
"""A delivery by a manager, to one of its receivers."""
NO_ATTEMPTS: Final = frozenset({POPPED, DIVIDED})
"""Deliveries that are no attempt if the lease is lost."""

LOWEST_RANK: Final = -32_768
"""Below the rank of each job: a claim of jobs of any rank."""


class Claim(NamedTuple):
    """A request for up to `limit` due jobs of one queue, under a fresh `token`.

    The live worker with the id `worker` holds the jobs; where it is None, they are held for `lease` seconds (None: the
    queue's lease), by a consumer that may give its name, `holder`. `repeat`, after a lost reply, returns the jobs that
    the token holds already, if any. `lanes`: the first and the last lane to claim from; None for all. With `rows`
    False, only the number of jobs under the token is wanted, and a job that has lost its lease twice or more is handed
    out together with others. `full`: slots known to be full. Only stores set it: they may skip jobs that wait for one
    of these first. `min_rank`: only jobs of at least this rank, which is the priority of a job, and 1000 more while it
    holds a semaphore before it starts.

    `ids`: pairs of a job and a worker. Then exactly these jobs are reserved, each for its worker (empty: for a lease,
    as without a worker), if they are queued and due in this queue, and its limits and their slots let them start; rows
    have the order of `ids`. Such a claim never waits for a lock: it leaves out jobs that another transaction holds.
    `worker`, `lanes` and `min_rank` do not count. Empty: any jobs. `not_after`: nothing is reserved once the store's
    clock is past this time, in microseconds; it is compared in the step that reserves.

    `delivery`: `POPPED`, `DIVIDED`, `BEGUN`, `BY_MANAGER`, or None; it is stored with the jobs until the lease is over.
    `DIVIDED`, with `ids`: also jobs that are not due, whatever the pause, the limits and the order of the queue; they
    still need their slots.
    """

    queue: str
    limit: int
    token: str
    worker: str | None = None
    lease: float | None = None
    repeat: bool = False
    lanes: tuple[int, int] | None = None
    full: tuple[Slot, ...] = ()
    rows: bool = True
    holder: str | None = None
    min_rank: int = LOWEST_RANK
    ids: tuple[tuple[str, str], ...] = ()
    not_after: int | None = None
    delivery: str | None = None

    @property
    def held_by(self) -> str | None:
        """Recorded as the jobs' `worker`: the id of a worker, or the name of a lease holder."""
        return self.worker or self.holder

    @property
    def workers(self) -> dict[str, str]:
        """The worker of each job in `ids`, in their order; a job that is named twice counts by the first."""
        found: dict[str, str] = {}
        for job, worker in self.ids:
            found.setdefault(job, worker)
        return found

    def of(self, worker: str) -> Claim:
        """Return the claim as made for one of the workers in `ids` alone."""
        return self._replace(worker=worker or None)

    def is_late(self, now: int) -> bool:
        """Return True if the store's clock is past `not_after`."""
        return self.not_after is not None and now > self.not_after

    @property
    def counted(self) -> bool:
        """False for a pop or a division: it is not counted as reserved, and is no attempt if the lease is lost."""
        return self.delivery not in NO_ATTEMPTS

    @property
    def divides(self) -> bool:
        """True if the jobs are divided, and not run: they need not be due, and no limit of the queue counts."""
        return self.delivery == DIVIDED


class Claimed(NamedTuple):
    """The claimed jobs, in order; `retry_in`: seconds until a limit of the queue may allow more.

    `retry_in` is 0 if the claim stopped early because too many jobs had to wait: claim again immediately. `reserved`:
    the number of jobs reserved under the token, for a claim without rows.
    """

    rows: list[JobRow]
    retry_in: float | None = None
    reserved: int = 0
