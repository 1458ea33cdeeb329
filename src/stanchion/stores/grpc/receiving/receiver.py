"""A worker of this process as managers see it: its jobs, from all managers, and the queues it takes.

    stream ──► buffer ──claim──► held ──settle──► up the stream ──► confirmed, or stored by a call after a second

A job is held until its outcome is confirmed. When a stream ends, its jobs in the buffer are dropped: the manager
returns jobs that the next hello does not name. Claimed jobs don't begin any more: the manager returns them soon,
unless a new stream opens first, and only a manager knows which happened first.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from stanchion.core.ids import new_id
from stanchion.core.names.partition_names import logical_name
from stanchion.stores.grpc.receiving.guard import Epochs, stamp
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, JobRow, Lease
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.records.workers import LaneRange, WorkerRow
from stanchion.stores.rules.expiry import seconds_left
from stanchion.stores.rules.leases.lost_leases import is_alone
from stanchion.stores.wire.outcomes import Elsewhere, Refused, Reported

Answer = Literal["settled", "lost"]
"""A manager's answer to an outcome."""

_KEPT_SECONDS = 1.0


class Capacity:
    """The most that was asked for in the last one to two seconds: one claim may ask for less than the others."""

    def __init__(self) -> None:
        self._before = self._now = 0
        self._since = time.monotonic()

    def asked(self, jobs: int) -> None:
        """Take in how many jobs the worker would have after a claim that gets all that it asks for."""
        self._turn()
        self._now = max(self._now, jobs)

    @property
    def jobs(self) -> int:
        """Jobs that the worker takes in all."""
        return max(self._before, self._now)

    def _turn(self) -> None:
        now = time.monotonic()
        if now - self._since >= _KEPT_SECONDS:
            self._before, self._now, self._since = self._now, 0, now


class Settling:
    """The outcomes of one call that have gone up by streams. Used under the lock of the receiver."""

    def __init__(self, leases: Collection[Lease]) -> None:
        self.waiting = set(leases)
        self.answers: dict[Lease, Answer] = {}

    def answer(self, leases: Iterable[Lease], answer: Answer) -> None:
        """Process a manager's answers; ignore leases of other calls."""
        for lease in leases:
            if lease in self.waiting:
                self.waiting.discard(lease)
                self.answers[lease] = answer

    def give_up(self, leases: Iterable[Lease]) -> None:
        """Wait no more for outcomes whose stream has ended."""
        self.waiting.difference_update(leases)


ANSWER_SECONDS = 1.0
"""Time for a manager to confirm outcomes; then they are stored by a call of another one."""

PASSED_OVER_SECONDS = 1.0
"""Time that jobs of other queues may overtake a job in the buffer; then it is returned."""


SURE_SECONDS = 1.25
SURE_SHARE = 1 / 4
"""Time, and share of a manager's lease, during which an answered stamp reserves jobs for this worker: the shorter one.
After the end of a stream, which this process may not have seen, a manager waits longer than that, and in silence for a
lease."""


class Link:
    """A receiver's state of its stream to one manager. `up`: jobs and outcomes pass; read it under the lock."""

    def __init__(self) -> None:
        self.up = False
        self.jobs = 0
        """Jobs that the receiver has by it, in its buffer or held."""
        self.outgoing: deque[Reported] = deque()
        self.unconfirmed: set[Lease] = set()
        self.sure_until = -math.inf
        """Until when its manager gives no job of this receiver to others, in microseconds as `stamp`."""
        self.asks = False
        """A stamp should be sent immediately, because a job is about to begin."""
        self.silent = False
        """The manager has not answered in time: no other job waits for that."""

    @property
    def sure(self) -> bool:
        """True while its manager gives no job of this receiver to others."""
        return stamp() < self.sure_until

    def send(self, outcome: Reported) -> None:
        """Send an outcome with the next message. Nothing is lost if the stream ends before."""
        if self.up:
            self.outgoing.append(outcome)


class Feeding(NamedTuple):
    """Queues that streams deliver to a worker: jobs of these physical queues, for some only in these lanes.

    Partitions of a queue are listed separately.
    """

    queues: tuple[str, ...]
    lanes: tuple[LaneRange, ...] = ()


class _Waiting(NamedTuple):
    """A job in the buffer, the link that delivered it, and the start of its wait on the monotonic clock."""

    row: JobRow
    link: Link
    since: float


class _Held(NamedTuple):
    """A claimed job: the link to its manager, its lane, and when it expires, on the monotonic clock."""

    link: Link
    lane: int
    begins_by: float | None


class Receiver:
    """The jobs of one worker.

    `arrived` is called with the queues of jobs that have come, `stop` once one of its jobs should stop. There is no
    room for jobs before `opened` returns True.
    """

    def __init__(
        self,
        row: WorkerRow,
        feeding: Feeding,
        arrived: Callable[[Collection[str]], None],
        stop: Callable[[], None] = lambda: None,
        opened: Callable[[], bool] = lambda: True,
    ) -> None:
        self.id, self.row, self.feeding = new_id(), row, feeding
        self._arrived, self.stop_jobs, self._opened = arrived, stop, opened
        lock = threading.RLock()
        self.changed, self._answered = threading.Condition(lock), threading.Condition(lock)
        """For streams, which then have something to send; for callers waiting for answers to outcomes."""
        self.capacity, self.epochs = Capacity(), Epochs()
        self.stopping = self.leaving = False
        """It takes no more jobs; it has none left and ends its streams."""
        self._buffer: dict[str, list[_Waiting]] = {}
        self._served: dict[str, float] = {}
        """When a claim got jobs of a queue or of any of its partitions, on the monotonic clock."""
        self._held: dict[Lease, _Held] = {}
        self._lost: set[Lease] = set()
        """Held jobs whose stream has ended: of these, none must begin."""
        self._jobs = 0
        self._settling: list[Settling] = []

    # -- jobs down; under the lock

    def holding(self) -> Iterator[Lease]:
        """Yield all jobs that it has."""
        yield from self._held
        for rows in self._buffer.values():
            for one in rows:
                yield one.row.lease

    def room(self) -> int:
        """Return how many more jobs it takes."""
        if self.stopping or not self._opened():
            return 0
        return max(0, self.capacity.jobs - self._jobs)

    def _count(self, link: Link, jobs: int) -> None:
        link.jobs += jobs
        self._jobs += jobs

    def _ended(self, lease: Lease) -> Link | None:
        """Forget a job that was held; return its link, None if it was not."""
        held = self._held.pop(lease, None)
        self._lost.discard(lease)
        if held is None:
            return None
        self._count(held.link, -1)
        return held.link

    def take_in(self, link: Link, rows: Sequence[JobRow], late: Sequence[bool]) -> None:
        """Buffer the jobs of a message; refuse late ones."""
        queues, now = set(), time.monotonic()
        for row, is_late in zip(rows, late, strict=True):
            if is_late or self.stopping:
                link.send(Refused(row.lease))
            else:
                self._buffer.setdefault(row.queue, []).append(_Waiting(row, link, now))
                self._count(link, 1)
                queues.add(row.queue)
        if queues:
            self._arrived(queues)

    def answered(self, link: Link, heard: int, lease_left: int, lease: float) -> None:
        """Take in that a manager has heard a stamp, when its session is sure to last so much longer, in microseconds.

        `lease`: seconds of silence after which it takes the receiver for gone.
        """
        sure = min(SURE_SHARE * lease, SURE_SECONDS) * SECOND
        link.sure_until, link.silent = max(link.sure_until, heard + min(sure, lease_left)), False
        self._answered.notify_all()

    def owned(self, link: Link, queue: str, first: int, last: int) -> None:
        """Take in that the manager of a link has the jobs of these lanes from now on, those sent by others too."""
        for lease, held in self._held.items():
            by = held.link
            if by is not link and lease.queue == queue and first <= held.lane <= last and lease not in by.unconfirmed:
                self._held[lease] = held._replace(link=link)
                by.jobs, link.jobs = by.jobs - 1, link.jobs + 1
        for place, one in enumerate(waiting := self._buffer.get(queue, [])):
            if one.link is not link and first <= one.row.lane <= last:
                waiting[place] = one._replace(link=link)
                one.link.jobs, link.jobs = one.link.jobs - 1, link.jobs + 1

    def confirmed(self, link: Link, settled: Sequence[Lease], lost: Sequence[Lease]) -> None:
        """Record which outcomes are stored, and which can't be."""
        for lease in (*settled, *lost):
            link.unconfirmed.discard(lease)
            self._ended(lease)
        for one in self._settling:
            one.answer(settled, "settled")
            one.answer(lost, "lost")
        self._answered.notify_all()

    def cut(self, link: Link) -> None:
        """Take in that a stream has ended: its outcomes are stored by calls, its jobs not begun are dropped."""
        link.up, link.asks, link.sure_until = False, False, -math.inf
        self._lost.update(lease for lease, held in self._held.items() if held.link is link)
        for one in self._settling:
            one.give_up(link.unconfirmed)
        link.unconfirmed.clear()
        link.outgoing.clear()
        for queue, rows in list(self._buffer.items()):
            self._buffer[queue] = kept = [one for one in rows if one.link is not link]
            self._count(link, len(kept) - len(rows))
        self._answered.notify_all()
        self.changed.notify_all()

    # -- the worker's calls

    def claim(self, claim: Claim) -> list[JobRow]:
        """Take jobs from the buffer, highest rank first; remember how many are asked for."""
        with self.changed:
            before = self.capacity.jobs
            self.capacity.asked(len(self._held) + claim.limit)
            if self.capacity.jobs > before:
                self.changed.notify_all()
            waiting = self._buffer.get(claim.queue, [])
            fitting = sorted((one for one in waiting if one.row.rank >= claim.min_rank), key=lambda one: -one.row.rank)
            taken = fitting[: claim.limit]
            alone = next((place for place, one in enumerate(taken) if is_alone(one.row)), None)
            if alone is not None:  # such a job is delivered alone
                taken = taken[: max(1, alone)]
            for one in taken:
                waiting.remove(one)
                self._ended(one.row.lease)  # not held, unless it came twice
                begins_by = None if one.row.expires is None else one.since + seconds_left(one.row)
                self._held[one.row.lease] = _Held(one.link, one.row.lane, begins_by)
            if taken:
                self._give_back_passed_over(claim.queue)
            return [one.row for one in taken]

    def came(self) -> dict[str, set[int]]:
        """Return the ranks of the jobs in the buffer, by queue."""
        with self.changed:
            return {queue: {one.row.rank for one in rows} for queue, rows in self._buffer.items() if rows}

    def _give_back_passed_over(self, queue: str) -> None:
        """Return jobs of queues that were overtaken by this one for long: another worker may have no such jobs."""
        now = time.monotonic()
        name = logical_name(queue)  # claims from its partitions go in turn
        since, self._served[name] = now - PASSED_OVER_SECONDS, now
        for other, rows in self._buffer.items():
            if not rows or self._served.get(logical_name(other), 0.0) > since:
                continue
            for one in rows:
                if one.since < since:
                    self._give_back(one)
            self._buffer[other] = [one for one in rows if one.since >= since]

    def _give_back(self, one: _Waiting) -> None:
        self._count(one.link, -1)
        one.link.send(Refused(one.row.lease))

    def settle(self, commits: Sequence[Commit]) -> dict[Lease, Answer | None]:
        """Send outcomes of jobs with a stream; return their answers, None if there is none in time."""
        with self.changed:
            mine: dict[Lease, Link] = {}
            for one in commits:
                held = self._held.get(one.lease)
                if held is not None and (link := held.link).up:
                    mine[one.lease] = link
                    link.outgoing.append(one)
                    link.unconfirmed.add(one.lease)
            if not mine:
                return {}
            settling = Settling(mine)
            self._settling.append(settling)
            self.changed.notify_all()
            deadline = time.monotonic() + ANSWER_SECONDS
            while settling.waiting and (left := deadline - time.monotonic()) > 0:
                self._answered.wait(left)
            self._settling.remove(settling)
            for lease in settling.waiting:
                link = mine[lease]
                link.unconfirmed.discard(lease)
                link.outgoing = deque(one for one in link.outgoing if one.lease != lease)
            return {lease: settling.answers.get(lease) for lease in mine}

    def held_leases(self, leases: Collection[Lease]) -> list[Lease]:
        """Return the leases, of the given ones, under which it holds a job."""
        with self.changed:
            return [lease for lease in leases if lease in self._held]

    def holds(self, lease: Lease) -> bool:
        """Return False if a claimed job must not begin: it has expired, or others may run it. May ask its manager."""
        held = self._held.get(lease)
        if held is not None and held.begins_by is not None and held.begins_by <= time.monotonic():
            return False
        if held is None or (held.link.sure and lease not in self._lost):  # in this order, as no lock is taken
            return True
        with self.changed:
            deadline = time.monotonic() + ANSWER_SECONDS
            while (held := self._held.get(lease)) is not None and lease not in self._lost:
                if held.link.sure:
                    return True
                held.link.asks = True
                self.changed.notify_all()
                if held.link.silent or (left := deadline - time.monotonic()) <= 0:
                    held.link.silent = True
                    return False
                self._answered.wait(left)
            return False

    def settled_elsewhere(self, leases: Collection[Lease]) -> None:
        """Take in that jobs have ended by other calls: their managers only free their room."""
        with self.changed:
            links = [(lease, self._ended(lease)) for lease in leases]
            for lease, link in links:
                if link is not None:
                    link.send(Elsewhere(lease))
            if any(link is not None for _, link in links):
                self.changed.notify_all()

    def stop(self) -> None:
        """Take no more jobs; return jobs not begun, uncounted."""
        with self.changed:
            self.stopping = True
            for rows in self._buffer.values():
                for one in rows:
                    self._give_back(one)
            self._buffer.clear()
            self.changed.notify_all()

    def leave(self) -> None:
        """End the streams, with a goodbye if no job is held."""
        self.stop()
        with self.changed:
            self.leaving = True
            self.changed.notify_all()

    @property
    def empty(self) -> bool:
        """True if it has no jobs; look under the lock."""
        return not self._jobs
