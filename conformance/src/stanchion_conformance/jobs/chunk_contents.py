"""Chunks in the store: jobs that carry many items as bytes, and the parts that they are divided into."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any, Literal

import pytest

from stanchion import JobState
from stanchion.core.ids import new_id
from stanchion.core.names.partition_names import logical_name
from stanchion.core.values.framing import as_text, chunk_with
from stanchion.errors import CannotJoin
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow, NewJob, Redriven
from stanchion.stores.records.outcomes import Bury, Commit, Move, Outcome, Rollback, Tally
from stanchion.stores.records.query import Condition, Query
from stanchion.stores.records.staging import Finish, Publication
from stanchion.stores.rules.lifecycle.trail import payload_at
from stanchion_conformance.harness import QUEUE, StoreClock, claim, counts_of, new_job, row_of, state

STRANGE = bytes(range(256)) + b"\x00\xff~enc:{}"
"""Bytes that are no text."""


def chunk(items: int = 3, body: bytes = STRANGE, **fields: Any) -> NewJob:
    """Return a job that carries a chunk."""
    return NewJob(**{"id": new_id(), "queue": QUEUE, "payload": chunk_with(items, body), **fields})


def reserved(store: Store, job: NewJob, **fields: Any) -> JobRow:
    """Push a job and reserve it."""
    store.push([job])
    (row,) = claim(store, **{"queue": job.queue, **fields})
    return row


def settle(store: Store, outcome: Outcome) -> JobState | None:
    """Settle an outcome."""
    (ended,) = store.settle([outcome])
    return ended


def publish(store: Store, publication: Publication) -> bool:
    """Publish staged jobs and finish reserved ones; in two steps, in a store that refuses one step for both."""
    if store.capabilities.atomic_batches:
        return store.publish(publication)
    with pytest.raises(CannotJoin):
        store.publish(publication)
    finished = store.publish(Publication(new_id(), finish=publication.finish))
    return store.publish(publication._replace(finish=None)) and finished


def counted(store: Store, queue: str = QUEUE) -> dict[str, int]:
    """Return the counts of a queue that are not zero."""
    return {name: number for name, number in counts_of(store, queue)._asdict().items() if number}


class TestChunkContents:
    def test_come_out_as_they_went_in(self, store: Store, other_store: Store) -> None:
        jobs = [chunk(), new_job('{"a":1}'), chunk(1, b""), chunk(2**31 - 1, b"x")]
        store.push(jobs)
        rows = other_store.fetch([job.id for job in jobs])
        assert [(rows[job.id].payload, rows[job.id].items) for job in jobs] == [
            (jobs[0].payload, 3),
            ('{"a":1}', None),
            (jobs[2].payload, 1),
            (jobs[3].payload, 2**31 - 1),
        ]
        assert {row.id: row.payload for row in claim(other_store, 10)} == {job.id: job.payload for job in jobs}

    def test_in_one_push_of_one(self, store: Store) -> None:
        row = reserved(store, job := chunk())
        assert (row.payload, row.items, row.attempts) == (job.payload, 3, 1)

    @pytest.mark.parametrize("size", [70_000, 900_000])
    def test_large_ones(self, store: Store, size: int) -> None:
        row = reserved(store, job := chunk(10_000, STRANGE * (size // len(STRANGE))))
        assert row.payload == job.payload
        assert settle(store, Commit(row.lease, result=job.payload)) is JobState.DONE
        done = row_of(store, job.id)
        assert (done.payload, done.result, done.items) == (job.payload, job.payload, 10_000)

    def test_a_duplicate_that_replaces(self, store: Store) -> None:
        store.push([first := chunk(3, key="k")])
        (again,) = store.push([second := chunk(5, b"other", key="k", on_duplicate="replace")])
        assert again.id == first.id
        found = row_of(store, first.id)
        assert (found.payload, found.items) == (second.payload, 5)
        store.push([new_job('"one"', key="k", on_duplicate="replace")])
        found = row_of(store, first.id)
        assert (found.payload, found.items) == ('"one"', None)

    def test_a_result(self, store: Store) -> None:
        row = reserved(store, job := chunk())
        result = chunk_with(3, STRANGE[::-1])
        assert settle(store, Commit(row.lease, result)) is JobState.DONE
        done = row_of(store, job.id)
        assert (done.payload, done.items, done.result) == (job.payload, 3, result)

    def test_the_payload_of_a_commit(self, store: Store) -> None:
        row = reserved(store, job := chunk())
        assert settle(store, Commit(row.lease, payload=chunk_with(2, b"\xfe"))) is JobState.DONE
        done = row_of(store, job.id)
        assert (done.payload, done.items, done.arrival_payload) == (chunk_with(2, b"\xfe"), 2, job.payload)

    def test_a_single_item_as_the_payload_of_a_commit(self, store: Store) -> None:
        row = reserved(store, job := chunk())
        assert settle(store, Commit(row.lease, payload='"one"')) is JobState.DONE
        done = row_of(store, job.id)
        assert (done.payload, done.items, done.arrival_payload) == ('"one"', None, job.payload)
        assert counted(store)["committed"] == 3

    def test_the_result_of_a_single_item(self, store: Store) -> None:
        row = reserved(store, job := new_job('"~AAAA"'))
        result = chunk_with(2, b"\xfe")
        assert settle(store, Commit(row.lease, result)) is JobState.DONE
        done = row_of(store, job.id)
        assert (done.payload, done.items, done.result) == ('"~AAAA"', None, result)

    def test_in_columns(self, store: Store) -> None:
        jobs = [chunk(), new_job('{"a":1}')]
        store.push(jobs)
        page = store.select(Query(of="live", order="id", columns=("id", "payload")))
        assert dict(page.rows) == {job.id: job.payload for job in jobs}

    def test_the_payload_of_a_rollback(self, store: Store) -> None:
        row = reserved(store, job := chunk())
        assert settle(store, Rollback(row.lease, 0.0, "E", payload=chunk_with(2, b"\xfe"))) is JobState.READY
        (row,) = claim(store)
        assert (row.payload, row.items, row.arrival_payload) == (chunk_with(2, b"\xfe"), 2, job.payload)

    def test_a_move(self, store: Store) -> None:
        row = reserved(store, job := chunk())
        assert settle(store, Move(row.lease, "next")) is JobState.READY
        (row,) = claim(store, queue="next")
        assert (row.id, row.payload, row.items, row.entry_payload) == (job.id, job.payload, 3, None)
        assert settle(store, Move(row.lease, "last", chunk_with(2, b"\x80"), keep_entry=True)) is JobState.READY
        (row,) = claim(store, queue="last")
        assert (row.payload, row.items, row.entry_payload) == (chunk_with(2, b"\x80"), 2, job.payload)
        assert payload_at(row, QUEUE) == job.payload

    def test_a_move_between_chunk_and_item(self, store: Store) -> None:
        row = reserved(store, job := chunk())
        settle(store, Move(row.lease, "next", '"one"', keep_entry=True))
        (row,) = claim(store, queue="next")
        assert (row.payload, row.items, row.entry_payload) == ('"one"', None, job.payload)
        settle(store, Move(row.lease, "last", chunk_with(4, b"\x80")))
        (row,) = claim(store, queue="last")
        assert (row.payload, row.items) == (chunk_with(4, b"\x80"), 4)

    def test_many_moves_at_once(self, store: Store) -> None:
        jobs = [chunk(n + 1, bytes([n])) if n % 2 else new_job(str(n)) for n in range(6)]
        store.push(jobs)
        rows = claim(store, 6)
        assert store.settle([Move(row.lease, "next") for row in rows]) == [JobState.READY] * 6
        assert {row.id: row.payload for row in claim(store, 6, queue="next")} == {job.id: job.payload for job in jobs}

    def test_many_commits_at_once(self, store: Store) -> None:
        jobs = [chunk(n + 1, bytes([n])) if n % 2 else new_job(str(n)) for n in range(6)]
        store.push(jobs)
        rows = claim(store, 6)
        result = chunk_with(9, b"\xff")
        ends = [Commit(row.lease, result if row.items == 2 else None) for row in rows]
        assert store.settle(ends) == [JobState.DONE] * 6
        found = store.fetch([job.id for job in jobs])
        assert {job.id: found[job.id].payload for job in jobs} == {job.id: job.payload for job in jobs}
        assert [row.result for row in found.values() if row.items == 2] == [result]
        assert counted(store)["committed"] == 3 + 2 + 4 + 6

    @pytest.mark.parametrize("letters", [None, "dead"])
    def test_a_death_and_a_retry(self, store: Store, letters: str | None) -> None:
        if letters is not None:
            store.configure(QUEUE, {"dead_letter": letters})
        row = reserved(store, job := chunk())
        settle(store, Bury(row.lease, "E: no"))
        assert state(store, job.id) is JobState.DEAD
        dead = row_of(store, job.id)
        assert (logical_name(dead.queue), dead.payload, dead.items) == (letters or QUEUE, job.payload, 3)
        assert store.retry([job.id]) == [Redriven.READY]
        (row,) = claim(store)
        assert (row.payload, row.items) == (job.payload, 3)

    def test_a_lost_lease(self, store: Store, clock: StoreClock) -> None:
        store.push([job := chunk()])
        claim(store, lease=10.0)
        clock.advance(11)
        assert [(row.payload, row.items) for row in store.recover()] == [(job.payload, 3)]
        assert [row.payload for row in claim(store)] == [job.payload]

    def test_some_columns(self, store: Store) -> None:
        store.push(jobs := [chunk(3), new_job('"~AAAA"')])
        row = reserved(store, moved := chunk(2, queue="other"), queue="other")
        settle(store, Commit(row.lease, chunk_with(2, b"\xff")))
        columns = ("id", "payload", "items", "result", "arrival_payload")
        where = (Condition("queue", "in", (QUEUE, "other")),)
        found = {row[0]: row[1:] for row in store.select(Query("all", where, order="id", columns=columns)).rows}
        assert found == {
            jobs[0].id: (jobs[0].payload, 3, None, None),
            jobs[1].id: ('"~AAAA"', None, None, None),
            moved.id: (moved.payload, 2, chunk_with(2, b"\xff"), None),
        }

    @pytest.mark.parametrize("of", ["live", "history"])
    def test_a_search_for_text_passes_them_over(self, store: Store, of: Literal["live", "history"]) -> None:
        inside, failed, text = chunk(3, b"needle"), chunk(3, b"b"), new_job('"a needle"')
        packed = chunk(3, b"\0\0" + b64decode("needleneedle"))  # as some stores keep it, the text is in it
        assert "needle" in as_text(packed.payload)
        store.push([inside, failed, text, packed])
        rows = {row.id: row for row in claim(store, 4)}
        for row in rows.values():
            error = "E: a needle" if row.id == failed.id else "E"
            settle(store, Rollback(row.lease, 0.0, error) if of == "live" else Bury(row.lease, error))
        query = Query(of, (Condition("queue", "=", QUEUE),), text="needle")
        assert {row.id for row in store.select(query).rows} == {failed.id, text.id}

    def test_staged_and_published(self, store: Store) -> None:
        jobs = [chunk(3), chunk(4, key="k"), new_job("1"), new_job("2", key="l")]
        write, attempt = new_id(), new_id()
        store.stage(write, attempt, jobs)
        assert store.publish(Publication(write, ((attempt, 4),)))
        found = store.fetch([job.id for job in jobs])
        assert [(found[job.id].payload, found[job.id].items) for job in jobs] == [
            (jobs[0].payload, 3),
            (jobs[1].payload, 4),
            ("1", None),
            ("2", None),
        ]
        assert counted(store) == {"pushed": 9}

    def test_finished_by_a_publication(self, store: Store) -> None:
        jobs = [chunk(3), new_job("1"), chunk(4)]
        store.push(jobs)
        rows = claim(store, 3)
        write, attempt = new_id(), new_id()
        store.stage(write, attempt, [merged := chunk(8, queue="next")])
        finish = Finish(QUEUE, rows[0].token or "", 3)
        assert publish(store, Publication(write, ((attempt, 1),), finish=finish))
        assert [state(store, job.id) for job in jobs] == [JobState.DONE] * 3
        assert (counted(store)["committed"], counted(store, "next")) == (8, {"pushed": 8})
        assert [row.payload for row in claim(store, queue="next")] == [merged.payload]

    def test_adopted_by_another_store(self, store: Store) -> None:
        row = reserved(store, chunk())
        settle(store, Move(row.lease, "next", chunk_with(2, b"\xfe"), keep_entry=True))
        there = row_of(store, row.id)
        for finished in (False, True):
            copy = there._replace(id=new_id(), finished_at=there.run_at if finished else None)
            copy = copy._replace(state="done", result=chunk_with(1, b"\x81")) if finished else copy
            assert store.adopt([copy]) == [True]
            assert row_of(store, copy.id) == copy

    def test_a_text_like_a_packed_one_is_a_text(self, store: Store) -> None:
        """Only the content of a chunk is unpacked, whatever other programs write."""
        row = reserved(store, new_job('"~AAAA"'))
        assert (row.payload, row.items) == ('"~AAAA"', None)


class TestPartsOfChunks:
    """A chunk is divided: its jobs are stored with its commit, and each item is in one of them."""

    def test_each_part_is_a_job(self, store: Store) -> None:
        row = reserved(store, whole := chunk(10))
        good, failed = chunk(8, b"g", queue="next", origin=row.id), chunk(2, b"f", origin=row.id, delay=0.0, attempts=1)
        failed = failed._replace(errors='[{"error":"E"}]')
        tallies = Tally(QUEUE, "moved", 8), Tally(QUEUE, "rolled_back", 2), Tally(QUEUE, "pushed", -2)
        assert settle(store, Commit(row.lease, jobs=(good, failed), tallies=tallies)) is JobState.DONE
        done = row_of(store, whole.id)
        assert (done.state, done.items, done.payload) == ("done", 0, whole.payload)
        assert counted(store) == {"pushed": 10, "reserved": 10, "moved": 8, "rolled_back": 2}
        assert counted(store, "next") == {"pushed": 8}
        (again,) = claim(store)
        assert (again.id, again.payload, again.items, again.origin) == (failed.id, failed.payload, 2, row.id)
        assert (again.attempts, again.failures, json.loads(again.errors or "")) == (2, 1, [{"error": "E"}])

    def test_an_item_keeps_its_attempts(self, store: Store) -> None:
        store.push([job := new_job("1", attempts=3, errors='[{"error":"E"}]', max_attempts=4)])
        (row,) = claim(store)
        assert (row.attempts, row.failures, row.items) == (4, 3, None)
        settle(store, Rollback(row.lease, 0.0, "last"))
        assert state(store, job.id) is JobState.DEAD

    def test_not_of_a_job_that_was_asked_to_stop(self, store: Store) -> None:
        row = reserved(store, whole := chunk(10))
        store.cancel([row.id])
        part = chunk(10, queue="next")
        outcome = Commit(row.lease, jobs=(part,), tallies=(Tally(QUEUE, "moved", 10),))
        assert settle(store, outcome) is JobState.CANCELLED
        assert (row_of(store, whole.id).items, store.fetch([part.id])) == (10, {})
        assert (counted(store)["cancelled"], counted(store).get("moved")) == (10, None)

    def test_not_under_a_lost_lease(self, store: Store, clock: StoreClock) -> None:
        store.push([chunk(10)])
        (row,) = claim(store, lease=10.0)
        clock.advance(11)
        store.recover()
        part = chunk(10, queue="next")
        assert settle(store, Commit(row.lease, jobs=(part,), tallies=(Tally(QUEUE, "moved", 10),))) is None
        assert store.fetch([part.id]) == {}
        assert "moved" not in counted(store)

    @pytest.mark.parametrize("items", [1, 5])
    def test_a_dead_letter(self, store: Store, items: int) -> None:
        store.configure(QUEUE, {"dead_letter": "dead"})
        row = reserved(store, chunk(10))
        payload = chunk_with(5, b"\xff") if items > 1 else "1"
        letter = NewJob(new_id(), "dead", payload, dead_from=QUEUE, attempts=3, errors='[{"error":"E"}]', origin=row.id)
        rest = chunk(10 - items, queue="next")
        settle(store, Commit(row.lease, jobs=(letter, rest), tallies=(Tally(QUEUE, "buried", items),)))
        dead = row_of(store, letter.id)
        assert state(store, letter.id) is JobState.DEAD
        assert logical_name(dead.dead_from or "") == QUEUE
        assert (dead.dead_attempts, dead.attempts, dead.payload) == (3, 0, payload)
        assert (dead.dead_at or 0) >= dead.enqueued_at
        store.configure(QUEUE, {"dead_letter": None})  # the letter remains one, and searches find it
        assert [row.id for row in store.select(Query(where=(Condition("state", "=", "dead"),))).rows] == [letter.id]
        assert store.retry([letter.id]) == [Redriven.READY]
        (again,) = claim(store)
        assert (again.id, again.payload, again.attempts, again.dead_from) == (letter.id, payload, 1, None)

    @pytest.mark.parametrize("kept", [True, False])
    def test_the_dead_of_a_queue_without_dead_letters(self, store: Store, kept: bool) -> None:
        if not kept:
            store.configure(QUEUE, {"history_ttl": 0.0})
        row = reserved(store, chunk(10))
        dead = chunk(5, dead_from=QUEUE, attempts=3, errors='[{"error":"E"}]')
        rest = chunk(5, queue="next")
        settle(store, Commit(row.lease, jobs=(dead, rest), tallies=(Tally(QUEUE, "buried", 5),)))
        assert claim(store) == []
        if kept:
            found = row_of(store, dead.id)
            assert (found.state, found.attempts, found.dead_from, found.payload) == ("dead", 3, None, dead.payload)
            assert store.retry([dead.id]) == [Redriven.READY]
            assert [row.payload for row in claim(store)] == [dead.payload]
        else:
            assert store.fetch([dead.id]) == {}

    def test_through_a_publication(self, store: Store) -> None:
        row = reserved(store, chunk(10))
        part = chunk(2, attempts=2, errors='[{"error":"E"}]')
        write, attempt = new_id(), new_id()
        store.stage(write, attempt, [part, other := chunk(8, queue="next")])
        assert publish(store, Publication(write, ((attempt, 2),), finish=Finish(QUEUE, row.token or "", 1)))
        (again,) = claim(store)
        assert (again.id, again.attempts, again.failures, again.errors) == (part.id, 3, 2, part.errors)
        assert [row.payload for row in claim(store, queue="next")] == [other.payload]

    def test_a_repeat_stores_nothing_twice(self, store: Store) -> None:
        row = reserved(store, chunk(10))
        outcome = Commit(row.lease, jobs=(chunk(10, queue="next"),), tallies=(Tally(QUEUE, "moved", 10),))
        assert settle(store, outcome) is JobState.DONE
        assert store.settle([outcome], repeat=True) == [JobState.DONE]
        assert (counted(store)["moved"], counted(store, "next")) == (10, {"pushed": 10})
