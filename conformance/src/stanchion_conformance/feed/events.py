"""What a feed tells of jobs: each push, start and end, in order, of the queues, tasks and tenants asked for."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from stanchion import JobState, Push, Queue, Stanchion, chain
from stanchion.core.times import micros, moment
from stanchion.errors import InvalidInput
from stanchion.feed import Feed, FeedEvent
from stanchion.feed.sources import first_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion_conformance.harness import QUEUE, StoreClock, in_threads, new_job
from stanchion_conformance.operate.wakeup import Counting

PATIENCE = 60.0
"""Seconds to wait for an event that must come."""


def taken(feed: Feed, number: int) -> list[FeedEvent]:
    """Return the next events of a feed; fail if they don't come."""
    events: list[FeedEvent] = []
    while len(events) < number:
        event = feed.next(PATIENCE)
        assert event is not None, f"only {len(events)} of {number} events came: {events}"
        events.append(event)
    return events


def kinds(events: list[FeedEvent]) -> list[tuple[str, str | None]]:
    """Return kinds and ids."""
    return [(event.kind, event.id) for event in events]


def rest(feed: Feed) -> list[FeedEvent]:
    """Return the events that are there, without waiting for others."""
    return list(iter(lambda: feed.next(0), None))


class TestFeed:
    """Events of jobs, as they happen."""

    def test_the_life_of_a_job(self, app: Stanchion, other_app: Stanchion, other_q: Queue) -> None:
        with app.watch([QUEUE]) as feed:
            job = other_q.push(1, tenant="acme")
            assert kinds(taken(feed, 1)) == [("pushed", job.id)]
            (held,) = other_q.reserve()
            (started,) = taken(feed, 1)
            held.commit()
            (finished,) = taken(feed, 1)
        assert (started.kind, started.attempt, started.state) == ("started", 1, JobState.RUNNING)
        assert (finished.kind, finished.attempt, finished.state) == ("finished", 1, JobState.DONE)
        done = other_app.get(job.id)
        assert done is not None
        assert (started.at, finished.at) == (done.started_at, done.finished_at)
        assert (finished.queue, finished.id, finished.task, finished.tenant) == (QUEUE, job.id, None, "acme")

    def test_a_job_that_is_over_at_the_first_look_has_all_its_events(self, app: Stanchion, q: Queue) -> None:
        feed = app.watch([QUEUE])
        job = q.push(1)
        q.reserve()[0].commit()
        assert kinds(taken(feed, 3)) == [(kind, job.id) for kind in ("pushed", "started", "finished")]
        assert rest(feed) == []

    def test_each_end_is_told(self, app: Stanchion, q: Queue) -> None:
        jobs = q.push_many([Push(name, priority=-number) for number, name in enumerate("pcbaxr")])
        feed = app.watch([QUEUE], events={"finished"})
        popped = q.pop()
        committed, buried, abandoned = q.reserve(3)
        committed.commit()
        buried.bury("why")
        q.cancel(abandoned.id)
        abandoned.rollback()
        assert popped is not None
        met = {popped.id, committed.id, buried.id, abandoned.id}
        unmet = next(job for job in jobs if job.id not in met)
        q.cancel(unmet.id)
        (given_back,) = q.reserve()
        given_back.rollback()
        ended = Counter((event.id, event.state) for event in taken(feed, 5))
        done, dead, cancelled = JobState.DONE, JobState.DEAD, JobState.CANCELLED
        wanted = (popped, done), (committed, done), (buried, dead), (abandoned, cancelled), (unmet, cancelled)
        assert ended == Counter((job.id, state) for job, state in wanted)
        assert rest(feed) == []

    def test_a_dead_letter_is_dead_in_its_queue(self, app: Stanchion, q: Queue) -> None:
        q.configure(dead_letter="Größe")
        job = q.push(1)
        feed = app.watch([QUEUE], events={"finished"})
        q.reserve()[0].bury("why")
        (event,) = taken(feed, 1)
        assert (event.id, event.queue, event.state, event.attempt) == (job.id, QUEUE, JobState.DEAD, 1)
        assert rest(feed) == []
        app.queue("Größe").retry(job.id)
        q.reserve()[0].bury("again")
        (again,) = taken(feed, 1)
        assert (again.id, again.state) == (job.id, JobState.DEAD)
        assert again.at > event.at

    def test_a_job_that_is_retried_ends_twice(self, app: Stanchion, q: Queue) -> None:
        job = q.push(1)
        feed = app.watch([QUEUE], events={"finished"})
        q.reserve()[0].bury("why")
        assert kinds(taken(feed, 1)) == [("finished", job.id)]
        q.retry(job.id)
        q.reserve()[0].commit()
        assert kinds(taken(feed, 1)) == [("finished", job.id)]
        (copy,) = q.replay([job.id])
        assert app.watch([QUEUE], since=copy.enqueued_at).next(PATIENCE) is not None

    def test_a_look_without_waiting_finds_all_that_came_before_it(self, app: Stanchion, other_q: Queue) -> None:
        feed = app.watch([QUEUE], events={"pushed"})
        first = other_q.push(1)
        assert kinds(taken(feed, 1)) == [("pushed", first.id)]
        # The look that has found the first job is not over: it began before the second one.
        second = other_q.push(2)
        assert kinds(rest(feed)) == [("pushed", second.id)]

    def test_a_move_is_no_event_and_children_are_pushed(self, app: Stanchion, q: Queue) -> None:
        feed = app.watch()
        job = q.push(1)
        assert kinds(taken(feed, 1)) == [("pushed", job.id)]
        q.reserve()[0].move("next")
        moved = app.queue("next").reserve()[0]
        moved.commit()
        events = taken(feed, 2)
        while events[-1].kind != "finished":
            events += taken(feed, 1)
        assert {event.kind for event in events} == {"started", "finished"}
        assert (events[-1].id, events[-1].queue) == (job.id, "next")
        assert rest(feed) == []

    def test_parts_of_a_flow_are_pushed_together(self, app: Stanchion) -> None:
        @app.task(name="work", queue=QUEUE)
        def work(value: int = 0) -> int:
            return value

        feed = app.watch(task="work")
        chain(work.s(1), work.s()).enqueue()
        app.drain([QUEUE])
        events = Counter((event.kind, event.task) for event in taken(feed, 6))
        assert events == {(kind, "work"): 2 for kind in ("pushed", "started", "finished")}

    def test_only_what_was_asked_for(self, app: Stanchion, q: Queue) -> None:
        other = app.queue("other")
        feeds = {
            "queue": app.watch([QUEUE], events=["pushed"]),
            "tenant": app.watch(tenant="b", events=["pushed"]),
            "end": app.watch([QUEUE, "other"], events=["finished"]),
        }
        one, two = q.push(1, tenant="a"), other.push(2, tenant="b")
        q.pop()
        assert kinds(taken(feeds["queue"], 1)) == [("pushed", one.id)]
        assert kinds(taken(feeds["tenant"], 1)) == [("pushed", two.id)]
        assert kinds(taken(feeds["end"], 1)) == [("finished", one.id)]
        assert [rest(feed) for feed in feeds.values()] == [[], [], []]

    def test_new_queues_of_strange_names_are_watched(self, app: Stanchion, other_app: Stanchion) -> None:
        feed = app.watch()
        feed.next(0)
        names = ["Größe", "größe", "🐘 x", "50%", "it's", "a_b", "aXb"]
        for name in names:
            other_app.queue(name).push(1)
            other_app.queue(name).pop()
        events = Counter((event.kind, event.queue) for event in taken(feed, 3 * len(names)))
        assert events == {(kind, name): 1 for kind in ("pushed", "started", "finished") for name in names}

    def test_queues_by_pattern_and_new_ones_too(self, app: Stanchion, other_app: Stanchion) -> None:
        other_app.queue("orders.eu").configure(dead_letter="orders.dead")
        other_app.queue("mail.orders").push(0)
        with app.watch(["orders.*", "exact"]) as feed:
            assert rest(feed) == []
            for name in ("orders.eu", "orders.us", "mail.orders", "exact", "exactly"):
                other_app.queue(name).push(1)
                other_app.queue(name).pop()
            events = Counter((event.kind, event.queue) for event in taken(feed, 9))
            wanted = ("orders.eu", "orders.us", "exact")
            assert events == {(kind, name): 1 for kind in ("pushed", "started", "finished") for name in wanted}
            assert rest(feed) == []
            other_app.queue("orders.eu").push(1)
            other_app.queue("orders.eu").reserve()[0].bury("why")
            died = [(event.queue, event.state) for event in taken(feed, 2) if event.kind == "finished"]
            assert died == [("orders.eu", JobState.DEAD)]

    def test_a_pattern_without_queues_shows_no_others(self, app: Stanchion, q: Queue) -> None:
        feed = app.watch(["nowhere*"], since=moment(1))
        q.push(1)
        q.pop()
        assert rest(feed) == []
        later = app.queue("nowhere yet").push(1)
        assert kinds(rest(feed)) == [("pushed", later.id)], "each look knows the queues of its time"

    def test_a_name_that_the_code_gives_is_no_pattern(self, app: Stanchion, other_app: Stanchion) -> None:
        app.queue("a*", lease=60)
        feed = app.watch(["a*"])
        other_app.queue("ab").push(1)
        assert rest(feed) == []
        job = other_app.queue("a*").push(1)
        assert kinds(taken(feed, 1)) == [("pushed", job.id)]

    def test_a_scheduled_job_is_pushed_once(self, app: Stanchion, q: Queue) -> None:
        feed = app.watch([QUEUE])
        later, known = q.push(1, delay=1000, key="k"), q.push(2, key="k")
        assert known.duplicate
        (event,) = taken(feed, 1)
        assert (event.kind, event.id, event.state) == ("pushed", later.id, JobState.SCHEDULED)
        assert rest(feed) == []

    def test_events_come_in_order(self, app: Stanchion, q: Queue) -> None:
        feed = app.watch([QUEUE])
        q.push_many(range(50))
        for job in q.reserve(50):
            job.commit()
        events = taken(feed, 150)
        assert [event.at for event in events] == sorted(event.at for event in events)
        assert [event.kind for event in events[:50]] == ["pushed"] * 50
        positions = [int(event.position.split(".")[1]) for event in events]
        assert positions == sorted(positions)

    def test_a_client_whose_clock_is_wrong(self, app: Stanchion, store: Store, q: Queue) -> None:
        now = store.now()
        feed = app.watch([QUEUE], skew=60)
        near = [first_id(now + seconds * SECOND)[:-1] + "7" for seconds in (-50, 50)]
        far = [first_id(now + seconds * SECOND)[:-1] + "7" for seconds in (-4000, 4000)]
        store.push([new_job(id=job_id) for job_id in [*near, *far]])
        assert sorted(kinds(taken(feed, 2))) == sorted(("pushed", job_id) for job_id in near)
        assert rest(feed) == []
        for job in q.reserve(4):
            job.commit()
        events = Counter(kinds(taken(feed, 10)))
        assert all(events["pushed", job_id] == 1 for job_id in far), "told at the latest with the end"
        assert all(events["finished", job_id] == 1 for job_id in [*near, *far])

    def test_ids_that_are_no_times(self, app: Stanchion, store: Store, q: Queue) -> None:
        feed = app.watch([QUEUE])
        strange = "ffffffff-ffff-4fff-bfff-ffffffffffff"
        store.push([new_job(id=strange)])
        q.pop()
        assert sorted(kinds(taken(feed, 3))) == [(kind, strange) for kind in ("finished", "pushed", "started")]

    def test_a_queue_without_history_has_a_gap(self, app: Stanchion, q: Queue) -> None:
        q.configure(history_ttl=0)
        q.push(1)
        with app.watch([QUEUE], events={"finished"}) as feed:
            (gap,) = taken(feed, 1)
            assert (gap.kind, gap.queue, gap.id, gap.state) == ("gap", QUEUE, None, None)
            q.pop()
            assert rest(feed) == []

    def test_a_position_older_than_history_has_a_gap(self, app: Stanchion, q: Queue, clock: StoreClock) -> None:
        q.configure(history_ttl=3600)
        feed = app.watch([QUEUE])
        q.push(1)
        (pushed,) = taken(feed, 1)
        clock.advance(7200)
        q.push(2)
        events = taken(app.watch([QUEUE], since=pushed.position), 2)
        assert events[0].kind == "gap"
        assert events[1].kind == "pushed"

    def test_from_a_time_on(self, app: Stanchion, store: Store, q: Queue) -> None:
        before = moment(store.now())
        job = q.push(1)
        q.pop()
        assert kinds(taken(app.watch(since=before), 3))[0] == ("pushed", job.id)
        assert rest(app.watch(since=moment(store.now()) + timedelta(seconds=1))) == []
        events = taken(app.watch(since=moment(1)), 4)
        assert [event.kind for event in events] == ["gap", "pushed", "started", "finished"]

    def test_on_an_event_loop(self, app: Stanchion, other_q: Queue) -> None:
        async def watched() -> list[FeedEvent]:
            found = []
            async with app.watch([QUEUE]) as feed:
                assert await feed.anext(0) is None
                job = await other_q.apush(1)
                async for event in feed:
                    found.append(event)
                    if event.kind == "pushed":
                        await other_q.acancel(job.id)
                    if event.kind == "finished":
                        break
            return found

        assert [event.kind for event in asyncio.run(watched())] == ["pushed", "finished"]

    def test_a_loop_ends_when_the_feed_is_closed(self, app: Stanchion, q: Queue) -> None:
        feed = app.watch([QUEUE])
        q.push_many(range(3))
        seen = 0
        for _event in feed:
            seen += 1
            if seen == 2:
                feed.close()
        assert seen == 2

    @pytest.mark.parametrize(
        "options",
        [
            {"events": ["begun"]},
            {"events": []},
            {"queues": []},
            {"queues": "mail"},
            {"since": "yesterday"},
            {"since": "1.2"},
            {"since": 3},
            {"overlaps": 3},
            {"overlap": -1},
        ],
    )
    def test_nonsense_is_refused(self, app: Stanchion, options: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput):
            app.watch(**options)


class TestCostOfAFeed:
    """A feed is cheap while nothing happens, and holds nothing in the store."""

    def test_an_idle_feed_reads_seldom(self, store: Store, q: Queue) -> None:
        q.push(1)
        counting: Any = Counting(store)
        app = Stanchion(store=counting, poll=0.5)
        with app.watch() as feed:
            feed.next(0)
            counting.calls.clear()
            began = time.monotonic()
            assert feed.next(3.0) is None
            calls = sum(counting.calls.values())
            assert calls <= 3 * (time.monotonic() - began) + 4

    def test_many_queues_are_one_look(self, store: Store) -> None:
        plain = Stanchion(store=store)
        names = [f"q{number}" for number in range(100)]
        plain.queue("q0").push(1)
        store.push([new_job(queue=name) for name in names[1:]])
        counting: Any = Counting(store)
        with Stanchion(store=counting).watch(names, since=moment(store.now() - SECOND)) as feed:
            assert {event.queue for event in taken(feed, 100)} == set(names)
            counting.calls.clear()
            plain.queue("q7").pop()
            events = taken(feed, 2)
        assert {event.queue for event in events} == {"q7"}
        assert sum(counting.calls.values()) <= 30

    def test_a_burst_of_thousands_comes_in_portions(self, app: Stanchion, store: Store, q: Queue) -> None:
        before = moment(store.now() - SECOND)
        ids = {job.id for job in q.push_many(range(7000))}
        feed = app.watch([QUEUE], events={"pushed"}, since=before)
        events = taken(feed, 7000)
        assert {event.id for event in events} == ids
        assert rest(feed) == []

    def test_a_slow_reader_blocks_nobody(self, app: Stanchion, q: Queue, other_q: Queue) -> None:
        feed = app.watch([QUEUE])
        q.push_many(range(2))
        taken(feed, 1)
        with in_threads([lambda: (other_q.push(3), other_q.pop(), other_q.configure(paused=False))]):
            pass
        other_q.delete()
        assert micros(taken(feed, 1)[0].at) > 0
