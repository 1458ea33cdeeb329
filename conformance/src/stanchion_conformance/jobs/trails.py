"""The trail of a job: the queues that it has passed, and the payload with which it entered the first one."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Job, Queue, Stanchion
from stanchion.core.ids import new_ids
from stanchion.stores.protocol import Store, pages
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Commit, Move
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.rules.lifecycle.trail import payload_at, split_trail
from stanchion_conformance.harness import QUEUE, StoreClock, claim, new_job, row_of

NAMES = ("clean", "Clean", "clean ", "a%_b", "it's", 'say "so"', '["clean",', "ünï🦆", "back\\slash")


def move(store: Store, queue: str, to: str, payload: str | None = None, **fields: Any) -> JobRow:
    """Claim a job of a queue and move it on; return it as it is then."""
    (row,) = claim(store, queue=queue)
    assert store.settle([Move(row.lease, to, payload, **fields)]) != [None]
    return row_of(store, row.id)


def way(job: Job | None) -> list[tuple[str, int | None]]:
    """Return the queues on the way of a job, with its attempts there."""
    assert job is not None
    return [(stop.queue, stop.attempts) for stop in job.trail]


def passed(store: Store, queue: str, **fields: Any) -> list[str]:
    """Return the ids of the jobs that are in a queue, or have passed it."""
    query = Query(where=(Condition("passed", "=", queue),), **fields)
    return [row.id for page in pages(store, query) for row in page]


class TestTrail:
    def test_of_a_job_that_has_not_moved_is_its_queue(self, q: Queue, store: Store) -> None:
        pushed = q.push(1)
        assert [(stop.queue, stop.entered_at, stop.attempts) for stop in pushed.trail] == [
            (QUEUE, pushed.enqueued_at, None)
        ]
        q.reserve()[0].rollback(delay=0)
        q.reserve()[0].commit()
        assert row_of(store, pushed.id).trail is None
        assert way(q.get(pushed.id)) == [(QUEUE, None)]

    def test_has_each_queue_and_when_it_came_there(self, app: Stanchion, q: Queue, clock: StoreClock) -> None:
        pushed = q.push(1)
        clock.advance(10)
        q.reserve()[0].rollback(delay=0)
        q.reserve()[0].move("clean")
        clock.advance(20)
        app.queue("clean").reserve()[0].move("long", payload=2)
        app.queue("long").reserve()[0].commit(payload=3)
        done = app.get(pushed.id)
        assert done is not None
        assert way(done) == [(QUEUE, 2), ("clean", 1), ("long", None)]
        first, second, third = (stop.entered_at for stop in done.trail)
        assert first == pushed.enqueued_at
        assert 10 <= (second - first).total_seconds() < 70
        assert 20 <= (third - second).total_seconds() < 80

    def test_goes_on_to_the_dead_letters_and_back(self, app: Stanchion, q: Queue) -> None:
        q.configure(dead_letter="dead")
        pushed = q.push(1, max_attempts=1)
        q.reserve()[0].rollback(0, "boom")
        assert way(app.get(pushed.id)) == [(QUEUE, 1), ("dead", None)]
        app.queue("dead").retry(pushed.id)
        assert way(app.get(pushed.id)) == [(QUEUE, 1), ("dead", 0), (QUEUE, None)]
        q.reserve()[0].bury("again")
        assert way(app.get(pushed.id))[2:] == [(QUEUE, 1), ("dead", None)]

    def test_of_jobs_that_it_is_split_into_goes_on(self, app: Stanchion, store: Store) -> None:
        store.push([new_job("0", queue="raw")])
        move(store, "raw", "clean", "1", keep_entry=True)
        (row,) = claim(store, queue="clean")
        parts = [
            new_job(str(n), id=one, queue="part", origin=row.id, trail=split_trail(row))
            for n, one in enumerate(new_ids(3))
        ]
        assert store.settle([Commit(row.lease, jobs=tuple(parts))]) == ["done"]
        store.recover()
        for part in parts:
            assert way(app.get(part.id)) == [("raw", 1), ("clean", 1), ("part", None)]
        last = move(store, "part", "end", '"x"')
        assert way(app.get(last.id)) == [("raw", 1), ("clean", 1), ("part", 1), ("end", None)]
        assert (payload_at(last, "raw"), payload_at(last, "clean"), payload_at(last, "end")) == (None, None, '"x"')

    def test_is_kept_by_staged_and_adopted_jobs(self, store: Store, other_store: Store) -> None:
        store.push([new_job("0", queue="raw")])
        row = move(store, "raw", "clean", "1", keep_entry=True)
        assert (row.trail is not None, row.entry_payload) == (True, "0")
        (copied,) = new_ids(1)
        assert other_store.adopt([row._replace(id=copied, queue="copied", state="queued")]) == [True]
        there = row_of(store, copied)
        assert (there.trail, there.entry_payload) == (row.trail, row.entry_payload)
        ended = row._replace(id=new_ids(1)[0], state="done", finished_at=store.now())
        assert other_store.adopt([ended]) == [True]
        assert row_of(store, ended.id).entry_payload == "0"

    def test_of_a_move_that_is_repeated_has_it_once(self, app: Stanchion, store: Store) -> None:
        store.push([new_job()])
        (row,) = claim(store)
        wanted = Move(row.lease, "next", "1", keep_entry=True)
        assert store.settle([wanted]) == ["ready"]
        assert store.settle([wanted], repeat=True) == ["ready"]
        assert way(app.get(row.id)) == [(QUEUE, 1), ("next", None)]


class TestPayloadOfTheEntry:
    def test_is_kept_by_the_first_move_that_changes_it(self, app: Stanchion, store: Store) -> None:
        store.push([new_job("0", queue="a")])
        row = move(store, "a", "b", keep_entry=True)
        assert (row.entry_payload, payload_at(row, "a"), payload_at(row, "b")) == (None, "0", "0")
        row = move(store, "b", "c", "1", keep_entry=True)
        assert (row.entry_payload, payload_at(row, "a"), payload_at(row, "c")) == ("0", "0", "1")
        row = move(store, "c", "d", "2", keep_entry=True)
        assert [payload_at(row, one) for one in "abcd"] == ["0", "0", None, "2"]
        job = app.get(row.id)
        assert job is not None
        assert (job.payload, job.entry_payload) == (2, 0)

    def test_is_not_kept_later_if_the_first_did_not(self, store: Store) -> None:
        store.push([new_job("0", queue="a")])
        move(store, "a", "b", "1")
        row = move(store, "b", "c", "2", keep_entry=True)
        assert (row.entry_payload, payload_at(row, "a")) == (None, None)

    def test_is_that_before_any_checkpoint(self, app: Stanchion, q: Queue) -> None:
        pushed = q.push("pushed")
        q.reserve()[0].rollback(0, payload="half")
        q.reserve()[0].move("next", keep_entry=True)
        (job,) = app.queue("next").reserve()
        assert (job.payload, job.checkpoint, job.entry_payload) == ("half", None, "pushed")
        job.commit(payload="all")
        done = app.get(pushed.id)
        assert done is not None
        assert (done.payload, done.entry_payload) == ("all", "pushed")

    def test_of_a_job_that_has_not_moved(self, q: Queue) -> None:
        pushed = q.push({"n": 1})
        assert pushed.entry_payload == {"n": 1}
        q.reserve()[0].commit(payload=2)
        done = q.get(pushed.id)
        assert done is not None
        assert done.entry_payload == {"n": 1}


class TestPassed:
    def test_a_job_is_found_in_every_queue_that_it_passed(self, app: Stanchion, q: Queue) -> None:
        pushed, here = q.push(1), q.push(2)
        q.reserve()[0].move("clean")
        app.queue("clean").reserve()[0].move("long")
        app.queue("long").reserve()[0].commit()
        for name in (QUEUE, "clean", "long"):
            queue = app.queue(name)
            job = queue.get(pushed.id, passed=True)
            assert job is not None
            assert job.queue == "long"
            assert pushed.id in {job.id for job in queue.find(passed=True)}
        assert [job.id for job in q.find(passed=True)] == [here.id, pushed.id]
        assert [job.id for job in q.find()] == [here.id]
        assert (q.get(pushed.id), app.queue("other").get(pushed.id, passed=True)) == (None, None)
        assert [job.id for job in app.find(passed="clean", state="done")] == [pushed.id]
        assert app.queue("short").find(passed=True) == []

    @pytest.mark.parametrize("of", ["live", "history", "all"])
    def test_names_are_told_apart(self, store: Store, of: Any) -> None:
        ids = {}
        for name in NAMES:
            store.push([new_job(queue=name)])
            row = move(store, name, "end of all")
            ids[name] = row.id
        if of == "history":
            ended = claim(store, len(NAMES), queue="end of all")
            store.settle([Commit(row.lease) for row in ended])
        for name in NAMES:
            assert passed(store, name, of=of) == [ids[name]]
        assert passed(store, "CLEAN", of=of) == []
        assert sorted(passed(store, "end of all", of=of)) == sorted(ids.values())

    def test_page_by_page(self, store: Store) -> None:
        jobs = [new_job(queue="a") for _ in range(25)]
        store.push(jobs)
        rows = claim(store, 20, queue="a")
        store.settle([Move(row.lease, "b" if n % 2 else "c") for n, row in enumerate(rows)])
        store.settle([Commit(row.lease) for row in claim(store, 5, queue="b")])
        wanted = sorted((job.id for job in jobs), reverse=True)
        assert passed(store, "a", limit=4) == wanted
        assert sorted(passed(store, "b", limit=3)) == sorted(row.id for row in rows[1::2])
        also = Query(where=(Condition("passed", "=", "a"), Condition("queue", "=", "c")), limit=3)
        assert [row.id for page in pages(store, also) for row in page] == sorted(
            (row.id for row in rows[::2]), reverse=True
        )
