"""A feed that is stopped and continued from its positions misses nothing: under producers, with open transactions."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from stanchion import Queue, Reservation, Stanchion
from stanchion.core.times import moment
from stanchion.errors import StoreUnavailable
from stanchion.feed import FeedEvent
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion_conformance.feed.events import PATIENCE, kinds, rest, taken
from stanchion_conformance.harness import QUEUE, NewStore, StoreClock, in_threads, transaction
from stanchion_conformance.jobs.transactions import Failed, rolled_back
from stanchion_conformance.operate.waits import until

STOPS = 50
"""Times that the reader is stopped at any event, and continued from its position."""


class TestFeedResumed:
    """Positions."""

    def test_each_position_continues_after_its_event(self, app: Stanchion, q: Queue, clock: StoreClock) -> None:
        before = moment(app.store.now() - SECOND)
        for _ in range(3):
            q.push_many(range(3))
            clock.advance(0.01)
            for job in q.reserve(2):
                job.commit()
            clock.advance(0.01)
        clock.advance(100)  # all of it is settled
        events = taken(app.watch([QUEUE], since=before), 9 + 6 + 6)
        for number, event in enumerate(events):
            feed = app.watch([QUEUE], since=event.position)
            again = taken(feed, len(events) - number - 1) + rest(feed)
            assert set(kinds(again)) >= set(kinds(events[number + 1 :]))

    def test_the_position_moves_on_without_events(self, app: Stanchion, q: Queue, clock: StoreClock) -> None:
        feed = app.watch([QUEUE])
        q.push(1)
        taken(feed, 1)
        clock.advance(100)
        until(lambda: rest(feed) == [] and rest(app.watch([QUEUE], since=feed.position)) == [])

    def test_what_happened_meanwhile_is_told(self, app: Stanchion, q: Queue, other_q: Queue) -> None:
        with app.watch([QUEUE]) as feed:
            job = q.push(1)
            (pushed,) = taken(feed, 1)
        other_q.reserve()[0].commit()
        later = other_q.push(2)
        found = taken(app.watch([QUEUE], since=pushed.position), 4)
        assert set(kinds(found)) >= {("started", job.id), ("finished", job.id), ("pushed", later.id)}

    def test_stopped_fifty_times_among_producers(self, app: Stanchion, new_store: NewStore) -> None:
        load = Load(app, new_store)
        with in_threads([load.produce] * 4 + [load.consume] * 2, timeout=200):
            events = watched(load)
        assert {event.id for event in events if event.kind == "pushed"} == load.pushed
        assert {event.id for event in events if event.kind == "finished"} == load.finished
        assert {event.id for event in events if event.kind == "started"} >= load.finished


class TestFeedInTransactions:
    """For stores with transactions: events appear when their transaction commits, after others of a later time."""

    @pytest.fixture(autouse=True)
    def joins(self, store: Store) -> None:
        """Say so where this class is not for the store."""
        assert store.capabilities.joins_transactions, "it joins no transactions: del TestFeedInTransactions"

    @pytest.mark.parametrize("seconds", [0.5, 4.0])
    def test_an_open_transaction_is_waited_for(self, app: Stanchion, q: Queue, other_q: Queue, seconds: float) -> None:
        # A store that names its transactions needs no overlap.
        overlap = 0.0 if app.store.capabilities.feed == "exact" else 30.0
        others_write = not is_single_writer(app.store)
        feed = app.watch([QUEUE], overlap=overlap)
        feed.next(0)
        with transaction(app.store) as tx:
            late = q.push(1, tx=tx)
            if others_write:
                early = other_q.push(2)
                (event,) = taken(feed, 1)
                assert event.id == early.id
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                assert feed.next(0.2) is None
            position = feed.position
        assert kinds(taken(feed, 1)) == [("pushed", late.id)]
        found = taken(app.watch([QUEUE], since=position), 1 + others_write)
        assert ("pushed", late.id) in kinds(found)

    def test_what_is_rolled_back_never_happened(self, app: Stanchion, q: Queue, other_q: Queue) -> None:
        feed = app.watch([QUEUE])
        with rolled_back(app) as tx:
            q.push(1, tx=tx)
        job = other_q.push(2)
        assert kinds(taken(feed, 1)) == [("pushed", job.id)]
        (held,) = q.reserve()
        taken(feed, 1)
        with rolled_back(app) as tx:
            held.commit(tx=tx)
        assert rest(feed) == []


def is_single_writer(store: Store) -> bool:
    """Return whether an open transaction keeps all others from writing."""
    return store.capabilities.name == "sqlite"


class Load:
    """Producers, half of them in transactions that stay open for a while, and consumers."""

    def __init__(self, app: Stanchion, new_store: NewStore) -> None:
        self.app, self._new_store = app, new_store
        self.pushed: set[str] = set()
        self.finished: set[str] = set()
        self._lock = threading.Lock()
        self._left = 4
        self._joins = app.store.capabilities.joins_transactions
        self._longest = 0.02 if is_single_writer(app.store) else 1.0

    @property
    def over(self) -> bool:
        """True once all that was pushed is done."""
        return self._left == 0 and len(self.finished) == len(self.pushed)

    def produce(self) -> None:
        """Push some jobs."""
        chance, app = random.Random(threading.get_ident()), Stanchion(store=self._new_store())
        q = app.queue(QUEUE)
        for number in range(12):
            numbers = range(chance.randint(1, 5))
            if not self._joins or chance.random() < 0.5:
                jobs = q.push_many(numbers)
                self._count(self.pushed, {job.id for job in jobs})
                time.sleep(chance.random() / 10)
                continue
            with suppress(Failed), app.transaction() as tx:
                jobs = q.push_many(numbers, tx=tx)
                time.sleep(chance.random() * self._longest)
                if number % 4 == 0:
                    raise Failed
                # Counted before the commit, so that consumers don't take the load for over.
                self._count(self.pushed, {job.id for job in jobs})
        with self._lock:
            self._left -= 1

    def consume(self) -> None:
        """Finish jobs, until all are done."""
        chance, app = random.Random(threading.get_ident()), Stanchion(store=self._new_store())
        q = app.queue(QUEUE)
        deadline = time.monotonic() + 3 * PATIENCE
        while not self.over:
            assert time.monotonic() < deadline
            for job in q.reserve(3):
                if not (self._joins and chance.random() < 0.5 and self._finished_in_transaction(app, job, chance)):
                    job.commit()
                self._count(self.finished, {job.id})
            time.sleep(0.02)

    def _finished_in_transaction(self, app: Stanchion, job: Reservation, chance: random.Random) -> bool:
        """Finish a job in a transaction; return False if other transactions were in its way all the time."""
        try:
            with app.transaction() as tx:
                job.commit(tx=tx)
                time.sleep(chance.random() * self._longest)
        except StoreUnavailable:
            return False
        return True

    def _count(self, kept: set[str], ids: set[str]) -> None:
        with self._lock:
            kept |= ids


def watched(load: Load) -> list[FeedEvent]:
    """Read until the load is over, stopping at any event, and continuing from its position."""
    events: list[FeedEvent] = []
    chance, position = random.Random(7), str(app_position(load.app))
    options = {"overlap": 0.0 if load.app.store.capabilities.feed == "exact" else 10.0}
    for _ in range(STOPS):
        with load.app.watch([QUEUE], since=position, overlap=options["overlap"]) as feed:
            for event in some(feed, chance.randint(1, 40)):
                events.append(event)
                position = event.position
    deadline = time.monotonic() + 3 * PATIENCE
    with load.app.watch([QUEUE], since=position, overlap=options["overlap"]) as feed:
        while not load.over:
            assert time.monotonic() < deadline, "the load does not end"
            if (found := feed.next(0.5)) is not None:
                events.append(found)
        events += rest(feed)
    return events


def app_position(app: Stanchion) -> str:
    """Return the position of now."""
    now = app.store.now() - SECOND
    return f"1.{now}.{now}"


def some(feed: Iterator[FeedEvent], number: int) -> Iterator[FeedEvent]:
    """Yield up to so many events, as far as they come soon."""
    for _ in range(number):
        event = feed.next(0.3)  # type: ignore[attr-defined]
        if event is None:
            return
        yield event
