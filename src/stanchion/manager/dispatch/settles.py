"""Outcomes on their way into the store: from receivers, and jobs that the manager returns.

Each is fenced by its token, so it does not matter which manager owns the slice of the job. A receiver keeps an outcome
until it is confirmed, and sends it again on each new stream, maybe to several managers. So an outcome that the store
does not accept is asked for once more as a repeat: it may have been stored before.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar

from stanchion.core.backoff import Backoff
from stanchion.manager.dispatch.calls import MOST, Calls, Rounds
from stanchion.manager.dispatch.delays import Delays
from stanchion.manager.dispatch.figures import Counts
from stanchion.manager.dispatch.receivers.receiver import Receiver, tell
from stanchion.stores.one_by_one import Left, OneByOne, takes
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import Lease
from stanchion.stores.records.outcomes import Abandon, Bury, Commit, Extend, Move, Outcome, Progress, Rollback
from stanchion.stores.rules.lifecycle.outcomes import ends_in, last_of

log = logging.getLogger("stanchion.manager")

K = TypeVar("K")

HELD_BACK = 10_000
"""Number of waiting outcomes from which no more jobs are sent."""

KEPT = 100_000
"""Outcomes that wait at most; of more, receivers send theirs again."""

SOON = 1.0
"""Seconds within which a returned job is due so soon that its queue is read again."""

GONE = "LeaseLost: the receiver that ran the job has ended, or was silent for too long"


class Waiting(NamedTuple):
    """A waiting outcome. `receiver`: whom to notify; None: the manager returns the job."""

    outcome: Outcome
    receiver: Receiver | None = None
    first: bool = False
    """It can't have been stored before: the job was in flight here."""

    @property
    def key(self) -> tuple[Lease, bool]:
        """A job's single unconfirmed report: its end, or that it still runs."""
        return self.outcome.lease, isinstance(self.outcome, Extend | Progress)


class Stored(NamedTuple):
    """The jobs whose outcomes are stored, and the jobs among them whose outcomes were not stored before."""

    known: set[Lease]
    newly: set[Lease]


class Settles:
    """Stores outcomes, batch by batch. `changed` is called with the queues of each batch, and those that have jobs."""

    def __init__(
        self, store: Store, calls: Calls, counts: Counts, delays: Delays, current: Callable[[Receiver], Receiver]
    ) -> None:
        self._store, self._calls, self._counts, self._delays, self._current = store, calls, counts, delays, current
        self._endings: dict[Lease, Waiting] = {}
        self._renewals: dict[tuple[Lease, type], Waiting] = {}
        self._under_way: dict[Lease, Waiting] = {}
        """Outcomes in the call under way."""
        self._late: dict[tuple[Lease, bool], Waiting] = {}
        """Outcomes that the store does not take, though it takes others."""
        self._late_backoff = Backoff()
        self._aborted = threading.Event()
        self.rounds, self.late = Rounds("outcomes", self._round), Rounds("late outcomes", self._late_round)
        self.changed: Callable[[set[str], set[str]], None] = lambda _settled, _queued: None

    def __len__(self) -> int:
        return len(self._endings) + len(self._renewals) + len(self._under_way) + len(self._late)

    @property
    def piled_up(self) -> bool:
        """True if so many outcomes wait that no more jobs should be sent."""
        return len(self) >= HELD_BACK

    # -- in

    def add(self, outcome: Outcome, receiver: Receiver, *, first: bool) -> None:
        """Store an outcome of a receiver; `first`: its job was in flight here."""
        if isinstance(outcome, Extend | Progress):
            self._renewals[outcome.lease, type(outcome)] = Waiting(outcome, receiver)
        elif (known := self._tried_now(outcome.lease)) is not None and known.receiver is not None:
            return  # it was sent twice
        elif len(self) >= KEPT and outcome.lease not in self._endings:
            return  # the receiver sends it again
        else:
            before = self._endings.get(outcome.lease)
            first = first or (before is not None and before.first)
            self._endings[outcome.lease] = Waiting(outcome, receiver, first)
        self.rounds.kick()

    def unsent(self, leases: Sequence[Lease]) -> None:
        """Return jobs that no receiver has begun, as if they had never been claimed."""
        for lease in leases:
            self._counts.unsent[lease.queue] += 1
            self._give_back(Rollback(lease, 0.0, refund=True))

    def expired(self, lease: Lease, attempts: int) -> None:
        """Return a job whose receiver is gone: the attempt counts, and the job waits by its back-off."""
        self._counts.expired[lease.queue] += 1
        self._give_back(Rollback(lease, self._delays.before_retry(attempts), error=GONE))

    def _give_back(self, outcome: Rollback) -> None:
        # An outcome of the receiver says more.
        if self._tried_now(outcome.lease) is None:
            self._endings.setdefault(outcome.lease, Waiting(outcome))
            self.rounds.kick()

    def pending(self, lease: Lease) -> bool:
        """Return True if the end of this reservation is on its way into the store."""
        return lease in self._endings or self._tried_now(lease) is not None

    def _tried_now(self, lease: Lease) -> Waiting | None:
        """Return the outcome of this reservation that is under way, or late."""
        return self._under_way.get(lease) or self._late.get((lease, False))

    def close(self) -> None:
        """Try nothing more."""
        self._aborted.set()

    # -- out

    async def _round(self) -> bool:
        batch = self._taken()
        if not batch:
            return False
        self._under_way = {one.outcome.lease: one for one in batch}
        try:
            late = await self._stored(batch)
        finally:
            self._under_way = {}
        if late:
            self._late.update((one.key, one) for one in late)
            self.late.kick()
        return True

    async def _late_round(self) -> bool:
        batch = list(islice(self._late.values(), MOST))
        if not batch:
            return False
        left = (await self._tried(batch, repeat=True)).group
        for one in batch:
            del self._late[one.key]
        self._late.update((one.key, one) for one in left)  # after the ones that were not tried
        if len(left) < len(batch):
            self._late_backoff.succeeded()
        if left:
            await asyncio.sleep(self._late_backoff.failed())
        return True

    async def _stored(self, batch: list[Waiting]) -> list[Waiting]:
        """Store a batch as soon as the store answers; return outcomes that it does not take, though it takes others."""
        backoff, repeat = Backoff(), False
        while True:
            left = await self._tried(batch, repeat=repeat)
            if left.at_fault or not left.group:
                return left.group
            batch, repeat = left.group, True
            await asyncio.sleep(backoff.failed())

    def _taken(self) -> list[Waiting]:
        """Return the next batch, with one outcome of each job at most; renewals come before the end."""
        batch: dict[Lease, Waiting] = {}
        _fill(batch, self._renewals)
        _fill(batch, self._endings)
        return list(batch.values())

    async def _tried(self, batch: Sequence[Waiting], *, repeat: bool) -> Left[Waiting]:
        """Try to store a batch, all together and then one by one; return the rest."""
        loop, failures = asyncio.get_running_loop(), list[Exception]()

        def settle(some: Sequence[Waiting]) -> None:
            loop.call_soon_threadsafe(self._calls.count, _queues(some))
            loop.call_soon_threadsafe(self._confirm, some, self._settled(some, repeat=True))

        def call() -> Stored | Left[Waiting]:
            try:
                return self._settled(batch, repeat)
            except Exception as error:
                failures.append(error)
                return one_by_one.store(batch, error)

        one_by_one: OneByOne[Waiting] = OneByOne(
            *(settle, lambda one: one.outcome, partial(takes, lambda: self._store), self._refused, self._aborted)
        )
        self._calls.count(_queues(batch))
        found = await self._calls.tried(call)
        if isinstance(found, Stored):
            self._confirm(batch, found)
            found = Left([], at_fault=False)
        if not found.group or found.at_fault:
            self._calls.answers()
        for error in failures if found.group else ():
            self._calls.waits(error, f"{len(found.group)} outcomes wait", away=not found.at_fault)
        return found

    def _settled(self, batch: Sequence[Waiting], repeat: bool) -> Stored:
        """Store outcomes; `repeat`: the reply to an earlier try may be lost."""
        states = self._store.settle([one.outcome for one in batch])
        newly = {one.outcome.lease for one, state in zip(batch, states, strict=True) if state is not None}
        known = newly | self._stored_before(batch, newly)
        if repeat:
            newly |= {one.outcome.lease for one in batch if one.first and one.outcome.lease in known}
        return Stored(known, newly)

    def _stored_before(self, batch: Sequence[Waiting], newly: set[Lease]) -> set[Lease]:
        """Return the outcomes that an earlier try has stored, here or through another manager."""
        unclear = [
            one.outcome
            for one in batch
            if one.outcome.lease not in newly
            and one.receiver is not None
            and not isinstance(one.outcome, Extend | Progress)
        ]
        if not unclear:
            return set()
        states = self._store.settle(unclear, repeat=True)
        return {
            outcome.lease
            for outcome, state in zip(unclear, states, strict=True)
            if state is not None and (state.final or not isinstance(last_of(outcome), _FINAL))
        }

    def _refused(self, one: Waiting, error: Exception) -> bool:
        """Leave an outcome that the store can't hold to its receiver."""
        lease, why = one.outcome.lease, type(error).__name__
        log.error("the store can't hold the outcome of job %s of queue %s: %s: %s", lease.id, lease.queue, why, error)
        return one.receiver is not None

    def _confirm(self, batch: Sequence[Waiting], stored: Stored) -> None:
        known, newly = stored
        of: dict[str, tuple[Receiver, list[Lease], list[Lease], list[Lease]]] = {}
        for one in batch:
            lease = one.outcome.lease
            if one.receiver is None:
                continue
            if lease in newly:
                self._counts.ended(one.outcome)
            _, settled, lost, stop = of.setdefault(one.receiver.id, (one.receiver, [], [], []))
            if isinstance(one.outcome, Extend | Progress):
                stop.extend([] if lease in known else [lease])
            else:
                (settled if lease in known else lost).append(lease)
        for receiver, settled, lost, stop in of.values():
            stream = self._current(receiver)
            if settled or lost:
                tell(stream, partial(stream.confirm, settled, lost, len(newly.intersection(settled))))
            if stop:
                tell(stream, partial(stream.cancel, stop))
        self.changed(_queues(batch), _queued(batch, newly))


_FINAL = (Commit, Bury, Abandon)
"""Outcomes that end a job. A job queued after one of these was returned: the store can't distinguish them."""


def _fill(batch: dict[Lease, Waiting], waiting: dict[K, Waiting]) -> None:
    """Move what waits into a batch, as far as there is room, and nothing else of the same job in it."""
    keys = []
    for key, one in waiting.items():
        if len(batch) >= MOST:
            break
        if batch.setdefault(one.outcome.lease, one) is one:
            keys.append(key)
    for key in keys:
        del waiting[key]


def _queues(batch: Sequence[Waiting]) -> set[str]:
    return {one.outcome.lease.queue for one in batch}


def _queued(batch: Sequence[Waiting], newly: set[Lease]) -> set[str]:
    """Return the queues that have jobs again which are due soon."""
    found = set()
    for outcome in (one.outcome for one in batch if one.outcome.lease in newly):
        last = last_of(outcome)
        if isinstance(last, Rollback | Move) and last.delay < SOON:
            found.add(last.queue if isinstance(last, Move) else ends_in(outcome))
    return found
