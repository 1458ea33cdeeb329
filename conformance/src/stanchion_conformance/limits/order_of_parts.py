"""Order keys: the parts of a divided chunk take its place in line."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from stanchion import Pipeline, Send, Snooze, Stanchion
from stanchion.core.ids import id_within, new_id, new_id_with_room
from stanchion.core.values.framing import chunk_with
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Commit, Move, Tally
from stanchion.stores.records.staging import Publication
from stanchion_conformance.harness import QUEUE, StoreClock, claim, in_threads, row_of, state
from stanchion_conformance.jobs.ordering import back, keyed
from stanchion_conformance.limits.semaphores import commit, push, settle, took


def line(store: Store, count: int = 3) -> list[str]:
    """Push chunks of the one key, together."""
    return push(store, *(keyed(id=new_id_with_room(), payload=chunk_with(9, b"whole")) for _ in range(count)))


def part(row: JobRow, place: int, **fields: Any) -> NewJob:
    """Return a part of a chunk, of which the first item has this place."""
    given = {"payload": chunk_with(2, b"part"), "enqueued_at": row.enqueued_at, "origin": row.id, **fields}
    return keyed(id=id_within(row.id, place), **given)


def divide(store: Store, row: JobRow, *parts: NewJob) -> list[str]:
    """Divide a chunk into parts; return their ids."""
    assert settle(store, Commit(row.lease, jobs=parts, tallies=(Tally(QUEUE, "rolled_back", 1),))) == [JobState.DONE]
    return [one.id for one in parts]


class TestOrderOfParts:
    @pytest.mark.parametrize("claimed", [1, 3])
    @pytest.mark.parametrize("payload", [chunk_with(2, b"rest"), '"rest"'])
    def test_a_part_comes_before_the_jobs_behind_its_chunk(self, store: Store, claimed: int, payload: Any) -> None:
        ids = line(store)
        (row,) = claim(store, claimed)
        assert row.id == ids[0]
        (rest,) = divide(store, row, part(row, 4, payload=payload))
        found = row_of(store, rest)
        assert (found.enqueued_at, found.attempts) == (row.enqueued_at, 0)
        for job in (rest, *ids[1:]):
            (row,) = claim(store, 3)
            assert row.id == job
            assert took(store, 3) == []
            commit(store, row)

    @pytest.mark.parametrize("claimed", [1, 2])
    def test_the_line_waits_for_a_part_that_is_tried_again_later(
        self, store: Store, other_store: Store, clock: StoreClock, claimed: int
    ) -> None:
        _, second = line(store, 2)
        (row,) = claim(store, claimed)
        (rest,) = divide(store, row, part(row, 4, delay=100.0, attempts=1, errors='[{"error":"E"}]'))
        assert took(other_store, 2) == []
        clock.advance(101)
        (row,) = claim(other_store, 2)
        assert (row.id, row.attempts) == (rest, 2)
        back(store, row, 100.0, error="no")
        assert took(store, 2) == []
        clock.advance(101)
        assert took(store, 2) == [rest]
        assert state(store, second) == JobState.WAITING

    def test_parts_are_in_the_order_of_their_places(self, store: Store) -> None:
        _, last = line(store, 2)
        (row,) = claim(store, 2)
        third, first, second = divide(store, row, part(row, 6), part(row, 0), part(row, 3))
        (row,) = claim(store, 5)
        assert row.id == first
        again = divide(store, row, part(row, 0), part(row, 1))
        for job in (*again, second, third, last):
            (row,) = claim(store, 5)
            assert row.id == job
            commit(store, row)

    def test_parts_are_in_order_in_another_queue(self, store: Store) -> None:
        first, last = line(store, 2)
        (row,) = claim(store)
        done, rest = divide(store, row, part(row, 0, queue="next"), part(row, 4))
        for job in (rest, last):
            (row,) = claim(store, 2)
            assert row.id == job
            settle(store, Move(row.lease, "next"))
        for job in (done, rest, last):
            (row,) = claim(store, 3, queue="next")
            assert row.id == job
            commit(store, row)
        assert row_of(store, first).state == JobState.DONE

    def test_a_part_that_is_dead_goes_first_when_it_is_retried(self, store: Store) -> None:
        store.configure(QUEUE, {"dead_letter": "letters"})
        ids = line(store)
        (row,) = claim(store)
        letter, rest = divide(store, row, part(row, 0, queue="letters", attempts=3, dead_from=QUEUE), part(row, 2))
        (row,) = claim(store, 3)
        assert row.id == rest
        store.retry([letter])
        assert took(store, 3) == []
        commit(store, row)
        for job in (letter, *ids[1:]):
            (row,) = claim(store, 3)
            assert row.id == job
            commit(store, row)

    def test_a_published_part_keeps_its_place(self, store: Store) -> None:
        _, second = line(store, 2)
        (row,) = claim(store)
        write = new_id()
        rest, one = part(row, 4), part(row, 6, payload='"one"')
        store.stage(write, "attempt", [rest, one])
        commit(store, row)
        assert store.publish(Publication(write, attempts=(("attempt", 2),)))
        (found,) = claim(store, 3)
        assert (found.id, found.enqueued_at) == (rest.id, row.enqueued_at)
        commit(store, found)
        assert took(store, 3) == [one.id]
        assert state(store, second) in {JobState.READY, JobState.WAITING}

    def test_a_part_expires_as_its_chunk(self, store: Store, clock: StoreClock) -> None:
        (pushed,) = push(store, keyed(id=new_id_with_room(), payload=chunk_with(9, b"whole"), expires=100.0))
        (row,) = claim(store)
        assert row.id == pushed
        clock.advance(60)
        (rest,) = divide(store, row, part(row, 4, expires=100.0))
        clock.advance(60)
        store.maintain()
        assert state(store, rest) == JobState.CANCELLED

    def test_a_part_of_a_lost_worker_keeps_its_place(self, store: Store, clock: StoreClock) -> None:
        _, second = line(store, 2)
        (row,) = claim(store, 2)
        (rest,) = divide(store, row, part(row, 4))
        (row,) = claim(store, 2, lease=10.0)
        assert row.id == rest
        clock.advance(20)
        store.recover()
        assert took(store, 2) == [rest]
        assert state(store, second) == JobState.WAITING


def orders(count: int, customers: int) -> list[dict[str, int]]:
    """Return items of so many customers."""
    return [{"n": n, "customer": n % customers} for n in range(count)]


class Orders:
    """A pipeline at which items fail, are put off, and die; and what it has seen at its ends."""

    def __init__(self, app: Stanchion, chance: random.Random, dies: set[int], seen: list[dict[str, int]]) -> None:
        self.etl: Pipeline = app.pipeline("orders")
        self._chance, self._dies = chance, dies
        self.etl.station("raw", to="mid", max_attempts=9)(self._passed)
        self.etl.station("mid", to=["left", "right"], max_attempts=9)(self._parted)
        for end in ("left", "right"):
            self.etl.station(end)(seen.append)

    def _passed(self, item: dict[str, int]) -> dict[str, int]:
        if item["n"] in self._dies or self._chance.random() < 0.02:
            raise ValueError("bad")
        if self._chance.random() < 0.02:
            raise Snooze(self._chance.choice([1, 100]))
        return item

    def _parted(self, item: dict[str, int]) -> Send:
        if self._chance.random() < 0.04:
            raise ValueError("bad")
        return Send("left" if item["customer"] % 3 else "right", delay=1 if item["n"] % 50 == 0 else 0)


class TestItemsInOrder:
    @pytest.mark.parametrize("seed", range(2))
    def test_whatever_becomes_of_them(self, app: Stanchion, other_app: Stanchion, clock: StoreClock, seed: int) -> None:
        pytest.importorskip("pyarrow")
        chance = random.Random(seed)
        dies, seen = {chance.randrange(150) for _ in range(2)}, list[dict[str, int]]()
        lines = [Orders(one, random.Random(n), dies, seen).etl for n, one in enumerate((app, other_app))]
        jobs = lines[0].push_chunks(orders(150, 7), order_key="customer", buckets=2, size=25)
        assert {job.order_key for job in jobs} == {"customer:0", "customer:1"}
        for _ in range(200):
            with in_threads([one.drain for one in lines]):
                pass
            if lines[0].status().empty:
                break
            clock.advance(86_400)
        dead = {job.payload["n"] for job in lines[0].dead_letters.find()}
        assert dead == dies
        assert sorted(item["n"] for item in seen) == [n for n in range(150) if n not in dies]
        by = defaultdict[int, list[int]](list)
        for item in seen:
            by[item["customer"]].append(item["n"])
        assert all(one < other for some in by.values() for one, other in pairwise(some))
