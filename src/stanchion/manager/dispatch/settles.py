"""Outcomes on their way into the store: those of receivers, and jobs that the manager gives back.

Each is fenced by its token, so it does not matter which manager owns the slice of the job. A receiver keeps an outcome
until it is confirmed, and sends it again on each new stream, maybe to several managers. So an outcome that the store
does not accept is asked for once more as a repeat: it may have been stored before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from stanchion.errors import StanchionError
from stanchion.manager.dispatch.calls import Calls, apart
from stanchion.manager.dispatch.delays import Delays
from stanchion.manager.dispatch.figures import Counts
from stanchion.manager.dispatch.receiver import Receiver, tell
from stanchion.manager.dispatch.rounds import MOST, Rounds
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.leases import Lease
from stanchion.stores.records.outcomes import Abandon, Bury, Commit, Extend, Move, Outcome, Progress, Rollback

log = logging.getLogger("stanchion.manager")

K = TypeVar("K")

HELD_BACK = 10_000
"""Outcomes that wait, from which on no more jobs are handed out."""

KEPT = 100_000
"""Outcomes that wait at most; of more, receivers send theirs again."""

SOON = 1.0
"""Seconds in which a job given back is due so soon that its queue is looked at again."""

REFUSED_SECONDS = 10.0
"""Time after which a job is given back again, if the store refuses that."""

GONE = "LeaseLost: the receiver that ran the job has ended, or was silent for too long"


class Waiting(NamedTuple):
    """An outcome that waits. `receiver`: whom to tell; None: the manager gives the job back."""

    outcome: Outcome
    receiver: Receiver | None = None
    first: bool = False
    """It can't have been stored before: the job was in flight here."""
    refused: bool = False
    """It takes the place of an outcome that the store refuses."""


class Settles:
    """Stores outcomes, batch by batch. `changed` is called with the queues of each batch, and those that have jobs."""

    def __init__(
        self, store: Store, calls: Calls, counts: Counts, delays: Delays, current: Callable[[Receiver], Receiver]
    ) -> None:
        self._store, self._calls, self._counts, self._delays, self._current = store, calls, counts, delays, current
        self._endings: dict[Lease, Waiting] = {}
        self._renewals: dict[tuple[Lease, type], Waiting] = {}
        self._under_way: dict[Lease, Waiting] = {}
        """Those in the call under way."""
        self.rounds = Rounds("outcomes", self._round)
        self.changed: Callable[[set[str], set[str]], None] = lambda _settled, _queued: None

    def __len__(self) -> int:
        return len(self._endings) + len(self._renewals) + len(self._under_way)

    @property
    def piled_up(self) -> bool:
        """True if so many outcomes wait that no more jobs should be handed out."""
        return len(self) >= HELD_BACK

    # -- in

    def add(self, outcome: Outcome, receiver: Receiver, *, first: bool) -> None:
        """Store an outcome of a receiver; `first`: its job was in flight here."""
        if isinstance(outcome, Extend | Progress):
            self._renewals[outcome.lease, type(outcome)] = Waiting(outcome, receiver)
        elif (under_way := self._under_way.get(outcome.lease)) is not None and under_way.receiver is not None:
            return  # it was sent twice
        elif len(self) >= KEPT and outcome.lease not in self._endings:
            return  # the receiver sends it again
        else:
            before = self._endings.get(outcome.lease)
            first = first or (before is not None and before.first)
            self._endings[outcome.lease] = Waiting(outcome, receiver, first)
        self.rounds.kick()

    def unsent(self, leases: Sequence[Lease]) -> None:
        """Give back jobs that no receiver has begun, as if they had never been claimed."""
        for lease in leases:
            self._counts.unsent[lease.queue] += 1
            self._give_back(Rollback(lease, 0.0, refund=True))

    def expired(self, lease: Lease, attempts: int) -> None:
        """Give back a job whose receiver is gone: the attempt counts, and the job waits by its back-off."""
        self._counts.expired[lease.queue] += 1
        self._give_back(Rollback(lease, self._delays.before_retry(attempts), error=GONE))

    def _give_back(self, outcome: Rollback) -> None:
        # An outcome of the receiver says more.
        if outcome.lease not in self._under_way:
            self._endings.setdefault(outcome.lease, Waiting(outcome))
            self.rounds.kick()

    def pending(self, lease: Lease) -> bool:
        """Return True if the end of this reservation is on its way into the store."""
        return lease in self._endings or lease in self._under_way

    # -- out

    async def _round(self) -> bool:
        batch = self._taken()
        if not batch:
            return False
        self._under_way = {one.outcome.lease: one for one in batch}
        try:
            _, refused = await apart(batch, self._settle)
        finally:
            self._under_way = {}
        for one, error in refused:
            self._set_aside(one, error)
        return True

    def _taken(self) -> list[Waiting]:
        """Return the next batch, with one outcome of each job at most; renewals come before the end."""
        batch: dict[Lease, Waiting] = {}
        _fill(batch, self._renewals)
        _fill(batch, self._endings)
        return list(batch.values())

    async def _settle(self, batch: Sequence[Waiting]) -> None:
        queues = {one.outcome.lease.queue for one in batch}
        lost_reply = False

        def settle(repeat: bool) -> list[JobState | None]:
            nonlocal lost_reply
            lost_reply = repeat
            return self._store.settle([one.outcome for one in batch])

        states = await self._calls.answered(queues, settle)
        newly = {one.outcome.lease for one, state in zip(batch, states, strict=True) if state is not None}
        known = newly | await self._stored_before(batch, newly)
        if lost_reply:
            newly |= {one.outcome.lease for one in batch if one.first and one.outcome.lease in known}
        self._confirm(batch, known, newly)
        self.changed(queues, _queued(batch, newly))

    async def _stored_before(self, batch: Sequence[Waiting], newly: set[Lease]) -> set[Lease]:
        """Return those that an earlier try has stored, here or through another manager."""
        unclear = [
            one
            for one in batch
            if one.outcome.lease not in newly
            and one.receiver is not None
            and not (one.refused or isinstance(one.outcome, Extend | Progress))
        ]
        if not unclear:
            return set()
        queues = {one.outcome.lease.queue for one in unclear}
        outcomes = [one.outcome for one in unclear]
        states = await self._calls.answered(queues, lambda _: self._store.settle(outcomes, repeat=True))
        return {
            one.outcome.lease
            for one, state in zip(unclear, states, strict=True)
            if state is not None and (state.final or not isinstance(one.outcome, _FINAL))
        }

    def _confirm(self, batch: Sequence[Waiting], known: set[Lease], newly: set[Lease]) -> None:
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
                (settled if lease in known and not one.refused else lost).append(lease)
        for receiver, settled, lost, stop in of.values():
            stream = self._current(receiver)
            if settled or lost:
                tell(stream, partial(stream.confirm, settled, lost, len(newly.intersection(settled))))
            if stop:
                tell(stream, partial(stream.cancel, stop))

    def _set_aside(self, one: Waiting, error: Exception) -> None:
        """Give a job back whose outcome the store refuses, as it would run for ever; try again if it refuses that."""
        lease, why = one.outcome.lease, type(error).__name__
        log.error("the store refuses the outcome of job %s of queue %s: %s: %s", lease.id, lease.queue, why, error)
        if isinstance(one.outcome, Extend | Progress):
            return
        if one.receiver is None or one.refused:
            asyncio.get_running_loop().call_later(REFUSED_SECONDS, self._again, one)
        else:
            known = f": {error}" if isinstance(error, StanchionError) else ""  # others may quote what they refuse
            back = Rollback(lease, self._delays.first, error=f"OutcomeRefused: {why}{known}")
            self._again(Waiting(back, one.receiver, refused=True))

    def _again(self, one: Waiting) -> None:
        self._endings.setdefault(one.outcome.lease, one)
        self.rounds.kick()


_FINAL = (Commit, Bury, Abandon)
"""Outcomes that end a job. If it is queued after one of these, it was given back: the store can't tell them apart."""


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


def _queued(batch: Sequence[Waiting], newly: set[Lease]) -> set[str]:
    """Return the queues that have jobs again which are due soon."""
    outcomes = [one.outcome for one in batch if one.outcome.lease in newly]
    back = {one.lease.queue for one in outcomes if isinstance(one, Rollback) and one.delay < SOON}
    return back | {one.queue for one in outcomes if isinstance(one, Move) and one.delay < SOON}
