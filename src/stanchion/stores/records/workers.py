"""Workers: their rows, and the answers to their heartbeats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple


class LaneRange(NamedTuple):
    """The lanes of a queue that a worker serves, from the first to the last; -1: the jobs without a lane, too."""

    queue: str
    first: int
    last: int


class QueueTimes(NamedTuple):
    """Jobs of a queue and a band of priority that a worker took within the last minutes, by how long they waited, and
    attempts that ended, by how long they ran: numbers by bucket, see `rules/times.py`.
    """

    queue: str
    band: str
    delays: tuple[int, ...] = ()
    runs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A live worker as it describes itself; `heartbeat` in seconds.

    `began`: its running jobs, in the form of `lost_leases.start_of`; None if they begin at delivery. `lanes`: the
    queues that it serves only in some lanes. `order`: in which order managers send it jobs of its queues; None unless
    it is a worker that receives jobs from managers. `times`: of each queue with activity; none from a release that does
    not report them.
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
    lanes: tuple[LaneRange, ...] = ()
    order: str | None = None
    times: tuple[QueueTimes, ...] = ()


CONSUMER: Final = "consumer"
"""State of the row of a consumer with heartbeats: it takes no part in the polling, and serves no range of lanes."""

HOLDER: Final = "holder"
"""State of the row that `Store.workers` makes for a name under which consumers hold leases, without heartbeats."""

LEASES_SEARCHED_MAX: Final = 10_000
"""Maximum leases that `Store.workers` searches for names, soonest end first: per queue on Redis, else in total."""


class Beat(NamedTuple):
    """The answer to a heartbeat: the number of live workers, including the callers, and the callers' jobs to cancel.

    `sharing`: workers, including the callers, that poll the queue of theirs with the fewest such workers.
    """

    live: int
    cancelled: list[str]
    sharing: int = 1
