"""The receivers, and how much room each has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush

from stanchion.manager.dispatch.receivers.flight import Flights
from stanchion.manager.dispatch.receivers.precedence import NONE, Precedence
from stanchion.manager.dispatch.receivers.receiver import Receiver


class Peer:
    """A receiver, over all of its streams. `receiver`: its stream, or its last one.

    `reserved`: jobs for it in calls of the store under way. `heard`: the last stamp of its clock; None: none yet.
    `heard_at`: when that arrived, by own clock. `asked`: the last take-over that its report will answer; None: it was
    not asked, or has answered.
    """

    __slots__ = ("ask_again", "asked", "connected", "heard", "heard_at", "receiver", "reserved", "streams", "told_at")

    def __init__(self, receiver: Receiver, now: float) -> None:
        self.receiver, self.connected, self.streams = receiver, True, 1
        self.reserved = 0
        self.heard: int | None = None
        self.heard_at = now
        self.asked: int | None = None
        self.ask_again = False
        self.told_at = -1e9
        """When a log line said that it is slow."""

    @property
    def id(self) -> str:
        """The id of the instance."""
        return self.receiver.id

    def serves(self, queue: str, lane: int) -> bool:
        """Return True if it takes jobs of this queue and lane."""
        if queue not in self.receiver.queues:
            return False
        lanes = self.receiver.lanes.get(queue)
        return lanes is None or lanes[0] <= lane <= lanes[1]


class Peers:
    """All receivers, by the id of their instance. `inherited`: how many jobs of a worker a former owner has sent."""

    def __init__(self, flights: Flights, inherited: Callable[[str], int]) -> None:
        self._all: dict[str, Peer] = {}
        self._flights, self._inherited = flights, inherited

    def __len__(self) -> int:
        return len(self._all)

    def all(self) -> list[Peer]:
        """Return all, including ones that may return."""
        return list(self._all.values())

    def connected(self) -> list[Peer]:
        """Return the receivers with a stream."""
        return [peer for peer in self._all.values() if peer.connected]

    def get(self, receiver: str) -> Peer | None:
        """Return a receiver by the id of its instance."""
        return self._all.get(receiver)

    def of(self, stream: Receiver) -> Peer | None:
        """Return the receiver that has this stream now."""
        peer = self._all.get(stream.id)
        return peer if peer is not None and peer.receiver is stream and peer.connected else None

    def current(self, stream: Receiver) -> Receiver:
        """Return the stream that a receiver has now, in place of an older one."""
        peer = self._all.get(stream.id)
        return peer.receiver if peer is not None and peer.connected else stream

    def add(self, peer: Peer) -> None:
        """Add a receiver."""
        self._all[peer.id] = peer

    def remove(self, peer: Peer) -> None:
        """Forget a receiver."""
        self._all.pop(peer.id, None)

    def busy(self, peer: Peer) -> int:
        """Return how many jobs a receiver has, or will have."""
        worker = peer.receiver.worker
        return self._flights.count(peer.id) + peer.reserved + (self._inherited(worker) if worker else 0)

    def room(self, peer: Peer) -> int:
        """Return how many more jobs a receiver takes now: none before its first stamp, without which none are good."""
        if not peer.connected or peer.heard is None:
            return 0
        return max(0, peer.receiver.capacity - self.busy(peer))


class Placing:
    """Chooses receivers for jobs of one queue: the least busy one that serves the lane, and for which no other queue
    has precedence; reserves its room. Jobs are to be passed by rank, higher ones first.
    """

    def __init__(self, peers: Peers, queue: str, precedence: Precedence) -> None:
        self._queue = queue
        self._room: dict[str, int] = {}
        self._lowest: dict[str, int] = {}
        self._heap: list[tuple[float, int, Peer]] = []
        for number, peer in enumerate(peers.connected()):
            room = peers.room(peer) if queue in peer.receiver.queues else 0
            if room and (lowest := precedence.lowest(peer.receiver, queue)) < NONE:
                self._room[peer.id], self._lowest[peer.id] = room, lowest
                self._heap.append((self._load(peer), number, peer))
        heapify(self._heap)

    @property
    def room(self) -> int:
        """How many jobs all of them take."""
        return sum(self._room.values())

    def choose(self, lane: int, rank: int) -> Peer | None:
        """Return a receiver for a job of a lane and rank, whose room is reserved; None if none has room."""
        passed = []
        chosen = None
        while self._heap and chosen is None:
            entry = heappop(self._heap)
            if rank < self._lowest[entry[2].id]:
                continue  # nor does it get one of a lower rank
            if entry[2].serves(self._queue, lane):
                chosen = entry
            else:
                passed.append(entry)
        for entry in passed:
            heappush(self._heap, entry)
        if chosen is None:
            return None
        _, number, peer = chosen
        peer.reserved += 1
        self._room[peer.id] -= 1
        if self._room[peer.id]:
            heappush(self._heap, (self._load(peer), number, peer))
        return peer

    def _load(self, peer: Peer) -> float:
        return 1 - self._room[peer.id] / peer.receiver.capacity


def free(reserved: Iterable[Peer]) -> None:
    """Free the room of jobs whose call has ended."""
    for peer in reserved:
        peer.reserved -= 1
