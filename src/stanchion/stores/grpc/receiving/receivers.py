"""The receivers of a store: which workers get their jobs by streams, and what of a call they do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from stanchion.core.concurrency.forks import reset_after_fork
from stanchion.stores.grpc.client.calls import Calls
from stanchion.stores.grpc.client.channels import Channels
from stanchion.stores.grpc.pieces import Pieces
from stanchion.stores.grpc.receiving.receiver import Answer, Feeding, Receiver
from stanchion.stores.grpc.receiving.stream import ReceiveStream, wait_for_end
from stanchion.stores.grpc.receiving.topology import Topology
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import JobState, Lease
from stanchion.stores.records.outcomes import Commit, Extend, Outcome, Progress
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.wakeup.broadcast import started
from stanchion.stores.wakeup.listeners import Listeners

_STATES: Final[dict[Answer, JobState | None]] = {"settled": JobState.DONE, "lost": None}

_END_SECONDS = 2.0
"""Time for goodbyes."""

OPENING_SECONDS = 10.0
"""Time for streams to feed all queues of a new worker; then it takes jobs from the queues that are fed."""


class _Worker:
    """A receiver and its streams, by the addresses of their managers."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.streams: dict[str, ReceiveStream] = {}
        self.open_by = time.monotonic() + OPENING_SECONDS
        self.open = False
        """It takes jobs from its streams."""


class Receivers:
    """Feeds the claims of workers by streams from all managers.

    A new worker claims by calls until streams feed all its queues. With some jobs from streams and others from calls,
    it could not keep their order.
    """

    def __init__(self, channels: Channels, calls: Calls, pieces: Pieces, listeners: Listeners) -> None:
        self._channels, self._calls, self._pieces, self._listeners = channels, calls, pieces, listeners
        self._workers: dict[str, _Worker] = {}
        self._topology: Topology | None = None
        self._physical: Callable[[str], Iterable[str]] = lambda queue: (queue,)
        reset_after_fork(self)

    def begin(self) -> None:
        """Start without receivers; also after a fork, where the calls of streams must not be touched."""
        self._channels.keep((self._workers, self._topology))
        self._lock = threading.RLock()
        self._rows: dict[str, WorkerRow] = {}
        self._told: dict[str, Callable[[], None]] = {}
        self._workers, self._topology = {}, None

    # -- workers

    def spread(self, physical: Callable[[str], Iterable[str]]) -> None:
        """Feed workers from all physical queues of theirs, which this returns."""
        self._physical = physical

    def _fed_by(self, row: WorkerRow) -> Feeding:
        """Return the physical queues of a worker."""
        queues = {queue: tuple(self._physical(queue)) for queue in row.queues}
        lanes = [one._replace(queue=name) for one in row.lanes for name in queues.get(one.queue, (one.queue,))]
        return Feeding(tuple(name for names in queues.values() for name in names), tuple(lanes))

    def beat(self, rows: Iterable[WorkerRow]) -> None:
        """Take in how workers describe themselves."""
        changed: list[ReceiveStream] = []
        with self._lock:
            for row in rows:
                self._rows[row.id] = row
                worker = self._workers.get(row.id)
                if worker is None:
                    continue
                receiver, feeding = worker.receiver, self._fed_by(row)
                changes = (feeding, row.order) != (receiver.feeding, receiver.row.order)
                receiver.row, receiver.feeding = row, feeding
                if not _streams_to(row):
                    receiver.stop()
                elif changes:
                    changed += worker.streams.values()
        for stream in changed:
            stream.begin_again()

    def on_stop(self, worker: str, told: Callable[[], None]) -> None:
        """Call `told` once a job of a worker should stop, until it leaves."""
        self._told[worker] = told

    def leave(self, worker: str) -> None:
        """Say goodbye to all managers."""
        self._told.pop(worker, None)
        self._end(worker)

    def _end(self, worker: str) -> None:
        with self._lock:
            self._rows.pop(worker, None)
            one = self._workers.pop(worker, None)
            topology = None if self._workers else self._topology
            if topology is not None:
                self._topology = None
        if one is not None:
            one.receiver.leave()
            wait_for_end(list(one.streams.values()), _END_SECONDS)
        if topology is not None:
            topology.end()

    def close(self) -> None:
        """End all streams; jobs that are not begun go back, uncounted."""
        for worker in list(self._workers):
            row = self._rows.get(worker)
            self._end(worker)
            if row is not None:
                self._rows[worker] = row

    # -- claims

    def claim(self, claim: Claim) -> Claimed | None:
        """Return jobs delivered by streams; None if the claim must be made by a call."""
        if claim.worker is None or not claim.rows or claim.repeat or claim.ids or not claim.limit:
            return None
        worker = self._workers.get(claim.worker) or self._opened(claim.worker)
        if worker is None:
            return None
        rows = worker.receiver.claim(claim)
        # Until streams deliver the jobs of all its queues, a worker polls, and claims the jobs that it finds.
        return Claimed(rows) if rows or self._feeds(worker, worker.receiver.feeding.queues) else None

    def fed(self, queues: Collection[str]) -> bool:
        """Return whether streams deliver the jobs of all these queues."""
        return any(self.feeds(worker, queues) for worker in list(self._workers))

    def feeds(self, worker_id: str, queues: Collection[str]) -> bool:
        """Return whether streams deliver the jobs of all these queues to a worker."""
        worker = self._workers.get(worker_id)
        return worker is not None and self._feeds(worker, queues)

    def came(self, queues: Collection[str]) -> Mapping[str, Collection[int]]:
        """Return the ranks of these queues' jobs that workers have received but no claim has taken."""
        found: dict[str, set[int]] = {}
        for worker in list(self._workers.values()):
            for queue, ranks in worker.receiver.came().items():
                if queue in queues:
                    found.setdefault(queue, set()).update(ranks)
        return found

    def _feeds(self, worker: _Worker, queues: Collection[str]) -> bool:
        return self._is_open(worker.receiver.row.id) and self._brings(worker, queues)

    def _brings(self, worker: _Worker, queues: Collection[str]) -> bool:
        """Return True if each manager has a stream to a worker, and each of the queues an owner."""
        topology, receiver = self._topology, worker.receiver
        managers = () if topology is None else topology.managers
        links = [worker.streams.get(address) for address in managers]
        if topology is None or not links or receiver.stopping:
            return False
        up = all(one is not None and one.link.up for one in links)
        return up and topology.owned.issuperset(queues) and set(receiver.feeding.queues).issuperset(queues)

    def _is_open(self, worker_id: str) -> bool:
        """Return whether a worker takes jobs from its streams; once it does, it continues to."""
        worker = self._workers.get(worker_id)
        if worker is None:
            return False
        if not worker.open:
            late = time.monotonic() > worker.open_by
            worker.open = late or self._brings(worker, worker.receiver.feeding.queues)
        return worker.open

    def _opened(self, worker_id: str) -> _Worker | None:
        with self._lock:
            row = self._rows.get(worker_id)
            if row is None or not _streams_to(row):
                return None
            found = self._workers.get(worker_id)
            if found is None:
                receiver = Receiver(
                    row,
                    self._fed_by(row),
                    self._listeners.announce,
                    lambda: self._stop(worker_id),
                    lambda: self._is_open(worker_id),
                )
                found = self._workers[worker_id] = _Worker(receiver)
                if self._topology is None:
                    self._topology = Topology(self._channels, self._calls, self._follow)
                    self._topology.start()
        self._follow()
        return found

    def _stop(self, worker_id: str) -> None:
        told = self._told.get(worker_id)
        if told is not None:
            told()

    def _follow(self) -> None:
        """Open streams to managers that have come, and end those to managers that are gone."""
        gone: list[ReceiveStream] = []
        with self._lock:
            managers = {} if self._topology is None else self._topology.managers
            for worker in self._workers.values():
                gone += [worker.streams.pop(address) for address in worker.streams.keys() - managers.keys()]
                for address in managers.keys() - worker.streams.keys():
                    stream = ReceiveStream(self._channels, self._calls, worker.receiver, address, self._count)
                    worker.streams[address] = stream
                    started(stream.run, "stanchion-receive")
        # Without the lock: a fork, for which the end of a stream waits, waits in turn for a thread that follows.
        for stream in gone:
            stream.end()

    def _count(self) -> int:
        topology = self._topology
        return 0 if topology is None else len(topology.managers)

    # -- outcomes

    def settle(self, outcomes: Sequence[Outcome], *, repeat: bool) -> list[JobState | None]:
        """Store outcomes: commits of jobs that came by a stream go up by it, all others by a call.

        Only plain commits, as the manager says no more than that they are stored.
        """
        workers = list(self._workers.values())
        answers: dict[Lease, Answer | None] = {}
        if workers and not repeat:
            commits = [one for one in outcomes if type(one) is Commit and not one.jobs]
            for worker in workers:
                answers |= worker.receiver.settle(commits)
        rest = [one for one in outcomes if answers.get(one.lease) is None]
        if not rest and outcomes:
            return [_STATES[answer] for one in outcomes if (answer := answers[one.lease]) is not None]
        states = iter(self._called(rest, repeat=repeat or any(one.lease in answers for one in rest)))
        self.settled_elsewhere([one.lease for one in rest if not isinstance(one, (Extend, Progress))])
        return [next(states) if (answer := answers.get(one.lease)) is None else _STATES[answer] for one in outcomes]

    def held_leases(self, leases: Collection[Lease]) -> list[Lease]:
        """Return the leases, of the given ones, under which a worker holds a job."""
        return [lease for worker in list(self._workers.values()) for lease in worker.receiver.held_leases(leases)]

    def holds(self, lease: Lease) -> bool:
        """Return False for a claimed job that others may run, as its manager has not answered for too long."""
        return all(worker.receiver.holds(lease) for worker in list(self._workers.values()))

    def settled_elsewhere(self, leases: Collection[Lease]) -> None:
        """Take in that the ends of jobs are stored: their managers only free their room."""
        for worker in list(self._workers.values()):
            worker.receiver.settled_elsewhere(leases)

    def _called(self, outcomes: Sequence[Outcome], *, repeat: bool) -> list[JobState | None]:
        return self._pieces.all("settle", "outcomes", outcomes, repeat=repeat)


def _streams_to(row: WorkerRow) -> bool:
    """Return True for a worker that gets its jobs by streams."""
    return row.state == "running" and row.order is not None
