"""The window of one queue: keys of jobs that are due now or soon, in the order of delivery.

    ready    one heap for each lane; the lanes that have the highest rank take turns
    future   one heap by due time; its first entry says when the next one is ready
    known    all keys by id; an entry of a heap whose key is not the known one of its job is skipped

There is no search: a job that can't be claimed any more is dropped when its claim does not return it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple, TypeVar

from stanchion.manager.window.key import Key
from stanchion.stores.records.claims import LOWEST_RANK
from stanchion.stores.records.jobs import SECOND, UNLANED
from stanchion.stores.records.queues import Head

LOW = 5
"""A group is read again once it has less than a fifth of one read's keys."""


class Group:
    """The jobs of one rank in one lane, as far as they were read.

    `until`: the due time up to which the window has read. `edge`: beyond this key there may be unread jobs that are due
    by then; None: there are none. `count`: keys in the window. `full`: how many keys one read returns.

    `changed`, `seen`: numbers of signs; jobs may be missing if the last change came after the last look.
    """

    __slots__ = ("changed", "count", "edge", "full", "seen", "until")

    def __init__(self, full: int) -> None:
        self.count, self.full = 0, full
        self.until, self.edge = 0, None
        self.changed = self.seen = 0

    until: int
    edge: Key | None

    def covers(self, key: Key) -> bool:
        """Return True if no unread job can come before this one, as far as is known."""
        return key.run_at <= self.until if self.edge is None else key < self.edge

    @property
    def runs_low(self) -> bool:
        """Return True if it is time to read on, if there is more."""
        return self.count <= self.full // LOW


MOST = 10_000
"""Number of keys that one read of a queue adds, in all its lanes and ranks."""

FEWEST = 200
"""Keys that one read gives at least, however many lanes and ranks there are."""

HORIZON = 30 * SECOND
"""How far ahead of its due time a job is read."""

Taker = TypeVar("Taker")


class Ask(NamedTuple):
    """A read: the first jobs of a rank in a lane, due until then."""

    lane: int
    rank: int
    until: int
    limit: int


class Window:
    """The window of one queue, for the lanes that its manager owns."""

    def __init__(self, queue: str, most: int = MOST) -> None:
        self.queue, self._most = queue, most
        self._ranges: list[tuple[int, int]] = []
        self._ready: dict[int, list[Key]] = {}
        self._future: list[tuple[int, Key]] = []
        self._known: dict[str, Key] = {}
        self._groups: dict[tuple[int, int], Group] = {}
        self._offset = UNLANED - 1
        """The lane served last."""
        self._signs = self._last_signal = 0
        """The number of signals of change, and of the last one for all groups."""
        self._look: Look | None = None
        """The read that is under way."""
        self._looked_at: frozenset[tuple[int, int]] = frozenset()
        self.signalled = True
        """True if others may have stored jobs since the last look began."""

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._known

    # -- lanes

    @property
    def ranges(self) -> Sequence[tuple[int, int]]:
        """The lanes that it has, as first and last ones."""
        return self._ranges

    def serves(self, lane: int) -> bool:
        """Return True if a job of this lane belongs here."""
        return any(first <= lane <= last for first, last in self._ranges)

    @property
    def loaded(self) -> bool:
        """True once all its lanes were looked at."""
        return self._looked_at.issuperset(self._ranges)

    def take_over(self, lanes: tuple[int, int]) -> None:
        """Add lanes, whose jobs are to be read."""
        if lanes not in self._ranges:
            self._ranges.append(lanes)
            self._looked_at -= {lanes}
            self.signal()

    def hand_over(self, lanes: tuple[int, int]) -> None:
        """Forget lanes and their jobs."""
        self._ranges = [one for one in self._ranges if one != lanes]
        self._looked_at -= {lanes}
        for lane in {lane for lane, _ in self._groups if not self.serves(lane)}:
            self._ready.pop(lane, None)
            self._groups = {place: group for place, group in self._groups.items() if place[0] != lane}
        self._known = {job: key for job, key in self._known.items() if self.serves(key.lane)}
        self._future = [(run_at, key) for run_at, key in self._future if self.serves(key.lane)]
        heapify(self._future)

    # -- keys in

    def add(self, key: Key, now: int) -> bool:
        """Add a job that this manager has stored, unless unread jobs may precede it; then a later read finds it."""
        if not self.serves(key.lane) or key.id in self._known or key.run_at > now + HORIZON:
            return False
        group = self._groups.get((key.lane, key.rank))
        if group is None:
            # The last look has found no such job, and what others have stored since is signalled.
            group = self._groups[key.lane, key.rank] = Group(self._most)
            group.until = now + HORIZON
        if not group.covers(key):
            return False
        if group.count >= 2 * self._most:
            group.edge = key
            return False
        self._put(key, group)
        return True

    def _put(self, key: Key, group: Group) -> None:
        self._known[key.id] = key
        group.count += 1
        heappush(self._future, (key.run_at, key))

    def put_back(self, keys: Iterable[Key]) -> None:
        """Put back jobs that were taken and not claimed."""
        for key in keys:
            if self.serves(key.lane) and key.id not in self._known:
                self._put(key, self._groups.setdefault((key.lane, key.rank), Group(self._most)))

    # -- keys out

    def due(self, now: int) -> None:
        """Move the jobs that are due by now to the ready ones."""
        while self._future and self._future[0][0] <= now:
            _, key = heappop(self._future)
            if self._known.get(key.id) is key:
                heappush(self._ready.setdefault(key.lane, []), key)

    def next_at(self) -> int | None:
        """Return when the next job that is not ready is due."""
        while self._future:
            run_at, key = self._future[0]
            if self._known.get(key.id) is key:
                return run_at
            heappop(self._future)
        return None

    def oldest(self) -> int | None:
        """Return the due time of the job that has been ready for longest, among the next jobs of each lane."""
        return min((head.run_at for lane in list(self._ready) if (head := self._head(lane)) is not None), default=None)

    def best(self, lanes: tuple[int, int] | None = None) -> int | None:
        """Return the highest rank that is ready; with `lanes`, in those from the first to the last."""
        heads = (self._head(lane) for lane in list(self._ready) if lanes is None or lanes[0] <= lane <= lanes[1])
        return max((head.rank for head in heads if head is not None), default=None)

    def quiet(self, rank: int) -> bool:
        """Return True if no job of this rank or a higher one is known to wait, and no read left one behind."""
        best = self.best()
        if not self.loaded or (best is not None and best >= rank):
            return False
        return not any(group.edge is not None for (_, of), group in self._groups.items() if of >= rank)

    def take(self, limit: int, taker: Callable[[int, int], Taker | None]) -> list[tuple[Key, Taker]]:
        """Take up to `limit` ready jobs in their order, each with what takes it.

        `taker` is asked for each job by its lane and rank; None: nothing takes jobs of this lane, of this rank or a
        lower one, now.
        """
        taken: list[tuple[Key, Taker]] = []
        refused: set[int] = set()
        while len(taken) < limit and (lanes := self._best_lanes(refused)):
            rank = self._rank_of(lanes[0])
            while lanes and len(taken) < limit:
                lane = lanes.pop(0)
                to = taker(lane, rank)
                if to is None:
                    refused.add(lane)
                    continue
                key = heappop(self._ready[lane])
                self._forget(key)
                taken.append((key, to))
                self._offset = lane
                if (head := self._head(lane)) is not None and head.rank == rank:
                    lanes.append(lane)
        if self._look is not None:
            self._look.taken.update(key.id for key, _ in taken)
        return taken

    def _best_lanes(self, refused: Collection[int]) -> list[int]:
        """Return the lanes that have the highest rank, from the one after the lane served last."""
        heads = {lane: head for lane in list(self._ready) if lane not in refused and (head := self._head(lane))}
        best = min((head.order for head in heads.values()), default=None)
        if best is None or -best < self._unread_rank():
            return []
        return sorted((lane for lane, head in heads.items() if head.order == best), key=self._turn)

    def _unread_rank(self) -> int:
        """Return the highest rank with more jobs in the store, all of whose known jobs in a lane are sent.

        Jobs of lower ranks wait for the next read.
        """
        dry = (rank for (_, rank), group in self._groups.items() if group.edge is not None and not group.count)
        return max(dry, default=LOWEST_RANK)

    def _turn(self, lane: int) -> tuple[bool, int]:
        return lane <= self._offset, lane

    def _rank_of(self, lane: int) -> int:
        return self._ready[lane][0].rank

    def _head(self, lane: int) -> Key | None:
        heap = self._ready[lane]
        while heap:
            if self._known.get(heap[0].id) is heap[0]:
                return heap[0]
            heappop(heap)
        del self._ready[lane]
        return None

    def _forget(self, key: Key) -> None:
        del self._known[key.id]
        if (group := self._groups.get((key.lane, key.rank))) is not None:
            group.count -= 1

    def drop(self, job_id: str) -> None:
        """Drop a job, if it is here."""
        if (key := self._known.get(job_id)) is not None:
            self._forget(key)

    # -- reads of the store

    def signal(self) -> None:
        """Record that others may have stored jobs."""
        self.signalled = True
        self._signs += 1
        self._last_signal = self._signs

    def missing(self, key: Key) -> None:
        """Record that a job's claim did not return it: it is gone, or was locked, or had to wait."""
        if (group := self._groups.get((key.lane, key.rank))) is not None:
            self._changed(group)

    def _changed(self, group: Group) -> None:
        self._signs += 1
        group.changed = self._signs

    @property
    def runs_low(self) -> bool:
        """True if the jobs of a rank in a lane run out, and there are more in the store."""
        return any(group.edge is not None and group.runs_low for group in self._groups.values())

    def look(self, claimed: Iterable[str]) -> None:
        """Begin a read of the store; `claimed`: the jobs of claims under way."""
        self._look = Look(self._signs, set(claimed), frozenset(self._ranges))
        self.signalled = False

    def asks(self, heads: Iterable[Head]) -> list[Ask]:
        """Return the queries that the read needs, given the heads of all ranks in all lanes: higher ranks first."""
        soon = {(head.lane, head.rank): head for head in heads if head.due_in <= HORIZON and self.serves(head.lane)}
        limit = max(FEWEST, self._most // max(1, len(soon)))
        asks = []
        for (lane, rank), head in sorted(soon.items(), key=lambda one: (-one[0][1], one[0][0])):
            until = head.run_at - head.due_in + HORIZON
            group = self._groups.get((lane, rank))
            if group is None or self._is_behind(group, until):
                asks.append(Ask(lane, rank, until, limit))
        for place in self._groups.keys() - soon.keys():
            group = self._groups[place]
            group.edge, group.seen = None, self._look_signs
            if not group.count:
                del self._groups[place]
        return asks

    def _is_behind(self, group: Group, until: int) -> bool:
        """Return True if the store may have jobs of the group that go out soon, and that the window does not know."""
        if group.edge is not None or max(self._last_signal, group.changed) > group.seen:
            return group.runs_low
        return group.until < until - HORIZON // 2

    def read(self, ask: Ask, keys: Sequence[Key]) -> None:
        """Add the jobs of a read."""
        if not self.serves(ask.lane):
            return
        group = self._groups.setdefault((ask.lane, ask.rank), Group(ask.limit))
        group.until, group.full, group.seen = ask.until, ask.limit, self._look_signs
        group.edge = keys[-1] if len(keys) >= ask.limit else None
        taken = self._look.taken if self._look is not None else ()
        for key in keys:
            if key.id in taken:
                self._changed(group)  # it may be claimed, or returned already: the read can't show that
            elif key.id not in self._known:
                self._put(key, group)

    def looked(self) -> None:
        """End a look."""
        if self._look is not None:
            self._looked_at |= self._look.ranges & frozenset(self._ranges)
        self._look = None

    def not_looked(self) -> None:
        """End a failed read."""
        self._look = None
        self.signal()

    @property
    def _look_signs(self) -> int:
        return 0 if self._look is None else self._look.signs


class Look(NamedTuple):
    """A read of the store: signals before it, jobs taken since it began, and the lanes that it covers."""

    signs: int
    taken: set[str]
    ranges: frozenset[tuple[int, int]]
