"""Readers that are slow, several, interrupted, or that continue amid thousands of events of one microsecond."""

from __future__ import annotations

import time
from collections import Counter
from datetime import datetime
from typing import Any

import pytest

from stanchion import Queue, Stanchion
from stanchion.core.times import moment
from stanchion.errors import StoreUnavailable
from stanchion.feed import FeedEvent
from stanchion.feed.sources import first_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion_conformance.feed.events import PATIENCE, kinds, rest, taken
from stanchion_conformance.harness import QUEUE, StoreClock, new_job

HOUR = 3600.0


class Watch:
    """Stands for the module `time`; its monotonic clock can be moved."""

    def __init__(self) -> None:
        self.moved = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.moved


class Unsteady:
    """A store of which two of seven reads fail."""

    def __init__(self, store: Store) -> None:
        self._store, self._selected = store, 0

    def __getattr__(self, name: str) -> Any:
        if name == "select":
            self._selected += 1
            if self._selected % 7 < 2:
                raise StoreUnavailable("the server restarts")
        return getattr(self._store, name)


class Stepped:
    """A store whose clock has steps of a millisecond, and has just made one."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def now(self) -> int:
        return self._store.now() + 999


class TestReadersOfAFeed:
    """What a reader does concerns itself only."""

    def test_time_spent_on_an_event_delays_no_look(
        self, app: Stanchion, q: Queue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        watch = Watch()
        for module in ("feed", "reader"):
            monkeypatch.setattr(f"stanchion.feed.{module}.time", watch)
        feed: Any = app.watch([QUEUE])
        q.push(1)
        taken(feed, 1)
        watch.moved += HOUR  # which its reader needs for the event
        rest(feed)
        assert max(feed._next_at, feed._not_before) - watch.monotonic() < HOUR / 2
        assert feed._reader._whole_took < HOUR / 2, "it reads all of the overlap again soon"

    def test_two_watchers_hear_all_and_one_may_leave(self, app: Stanchion, other_q: Queue) -> None:
        one, two = app.watch([QUEUE]), app.watch([QUEUE], events={"pushed"})
        first = other_q.push(1)
        assert kinds(taken(one, 1)) == kinds(taken(two, 1)) == [("pushed", first.id)]
        one.close()
        second = other_q.push(2)
        assert kinds(taken(two, 1)) == [("pushed", second.id)]
        assert {"pushed", "started", "finished"} == set(one_life(app.watch([QUEUE], since=first.enqueued_at), other_q))

    def test_a_store_that_fails_now_and_then(self, store: Store, q: Queue) -> None:
        unsteady: Any = Unsteady(store)
        feed = Stanchion(store=unsteady).watch([QUEUE], since=moment(store.now() - SECOND))
        jobs = q.push_many(range(3))
        (held,) = q.reserve()
        held.commit()
        events = Counter(kinds(taken(feed, 5)))
        wanted = [("started", held.id), ("finished", held.id), *(("pushed", job.id) for job in jobs)]
        assert events == Counter(wanted)

    def test_a_push_right_after_the_call_is_told(self, store: Store, q: Queue) -> None:
        q.size()
        stepped: Any = Stepped(store)
        feed = Stanchion(store=stepped).watch([QUEUE])
        job = q.push(1)
        assert kinds(taken(feed, 1)) == [("pushed", job.id)]

    def test_what_is_read_again_is_told_once(self, app: Stanchion, store: Store, q: Queue, clock: StoreClock) -> None:
        strange = first_id(store.now() - 3600 * SECOND)[:-1] + "7"
        feed = app.watch([QUEUE], overlap=20)
        job = q.push(1, priority=1)
        store.push([new_job(id=strange)])
        held = q.reserve(2, lease=HOUR)
        assert sorted(kinds(taken(feed, 3))) == sorted([("pushed", job.id), ("started", job.id), ("started", strange)])
        clock.advance(100)
        assert rest(feed) == []
        for one in held:
            one.commit()
        ended = Counter(kinds(taken(feed, 3)))
        assert ended == Counter([("finished", job.id), ("finished", strange), ("pushed", strange)])
        clock.advance(5)
        assert rest(feed) + rest(feed) == []

    def test_a_computer_that_slept_misses_nothing(self, app: Stanchion, q: Queue, clock: StoreClock) -> None:
        feed: Any = app.watch([QUEUE])
        feed.next(0)
        job = q.push(1)
        clock.advance(200)
        feed._reader._clock_at += HOUR  # as if the monotonic clock had stood still, as it does in a suspended computer
        assert kinds(taken(feed, 1)) == [("pushed", job.id)]

    def test_after_a_long_stop_what_is_left_of_history(self, app: Stanchion, q: Queue, clock: StoreClock) -> None:
        q.configure(history_ttl=HOUR)
        before = moment(app.store.now() - SECOND)
        q.push_many(range(3))
        clock.advance(100)
        (last,) = taken(app.watch([QUEUE], since=before), 3)[-1:]
        q.reserve()[0].commit()
        clock.advance(2 * HOUR)
        app.store.maintain()
        kept = q.reserve()[0]
        kept.commit()
        feed = app.watch([QUEUE], since=last.position)
        events = taken(feed, 3) + rest(feed)
        assert [event.kind for event in events] == ["gap", "started", "finished"]
        assert {event.id for event in events} == {None, kept.id}
        assert last.at < events[0].at < events[1].at


class TestFeedWithinATick:
    """Many events of one time: a reader that takes a few and starts again comes through all the same."""

    @pytest.mark.parametrize("batch", [1, 7])
    def test_pushes_of_one_batch(self, app: Stanchion, store: Store, clock: StoreClock, batch: int) -> None:
        before = moment(store.now() - SECOND)
        jobs = [new_job() for _ in range(20)]
        store.push(jobs)
        clock.advance(100)
        told = in_batches(app, [QUEUE], before, batch, 20)
        assert Counter(kinds(told)) == Counter(("pushed", job.id) for job in jobs)

    def test_more_than_come_together(
        self, app: Stanchion, store: Store, q: Queue, clock: StoreClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("stanchion.feed.reader.CHUNK", 10)
        monkeypatch.setattr("stanchion.feed.sources.PAGE", 4)
        before = moment(store.now() - SECOND)
        q.configure(dead_letter="letters")
        queues = [QUEUE, "letters"]
        jobs = [new_job() for _ in range(60)]
        store.push(jobs[:50])
        store.push(jobs[50:])
        held = q.reserve(50)
        app.settle([*(job.committed() for job in held[:25]), *(job.buried("why") for job in held[25:])])
        clock.advance(100)
        wanted = {("pushed", job.id) for job in jobs} | {("finished", job.id) for job in held}
        wanted |= {("started", job.id) for job in held[:25]}
        whole = app.watch(queues, since=before)
        events = taken(whole, len(wanted)) + rest(whole)
        assert Counter(kinds(events)) == dict.fromkeys(wanted, 1)
        assert [event.position for event in events] == sorted((event.position for event in events), key=order)
        told = in_batches(app, queues, before, 30, len(wanted))
        assert set(kinds(told)) == wanted
        assert all(n == 1 for (kind, _), n in Counter(kinds(told)).items() if kind != "started")


def one_life(feed: Any, q: Queue) -> list[str]:
    """Take and finish a job; return the kinds of events until then."""
    job = q.pop()
    assert job is not None
    found: list[FeedEvent] = []
    while (("finished", job.id)) not in kinds(found):
        found += taken(feed, 1)
    return [event.kind for event in found if event.id == job.id]


def in_batches(app: Stanchion, queues: list[str], before: datetime, batch: int, number: int) -> list[FeedEvent]:
    """Read so many events at a time, each time by a new feed from the last position, until all have come."""
    told: list[FeedEvent] = []
    since: Any = before
    for _ in range(4 * number):
        with app.watch(queues, since=since) as feed:
            for _ in range(batch):
                event = feed.next(0)
                if event is None:
                    return told
                told.append(event)
                since = event.position
    raise AssertionError(f"it does not get on: {len(told)} events, at {since} after {PATIENCE}")


def order(position: str) -> tuple[int, int, str]:
    """Return what positions are ordered by."""
    after, _, rank, job_id = [*position.split(".")[1:], "0", ""][:4]
    return int(after), int(rank), job_id
