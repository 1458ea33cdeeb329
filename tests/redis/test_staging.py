"""Jobs that go on as others, and staged jobs that are published, by processes that die at any step on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from unittest.mock import patch

import pytest

from stanchion.core.ids import new_id
from stanchion.core.spark_errors import LeasesLost
from stanchion.stores.cas import staging as publishing
from stanchion.stores.cas.entries import STALE
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import SECOND, JobRow, JobState, Lease, NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.records.staging import Finish, Publication
from stanchion.stores.records.values import ValueChange, VersionedValue
from stanchion.stores.redis.store import RedisStore
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from stanchion.streams import SinkBatch, StreamSource
from stanchion_conformance.harness import counts_of, ids_reserved, rows_reserved, sizes_of
from tests.redis.conftest import Open
from tests.redis.deaths import Way, at_every_call, before_by_day, ways
from tests.redis.keys import broken_rules

FROM, INTO, ALSO = "from", "into", "also"
QUEUES = (FROM, INTO, ALSO)
LEASE, HOUR = 30.0, 3600.0
WRITE, TOKEN = "write {1}", "batch 1"
VALUE = ValueChange("stream", "s", "acked 1", 0)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a few jobs be several pieces."""
    monkeypatch.setattr(publishing, "_PIECE_JOBS", 2)


def new_jobs(number: int, queue: str = INTO, **fields: Any) -> list[NewJob]:
    return [NewJob(new_id(), queue, "{}", **fields) for _ in range(number)]


def forgetful(store: RedisStore) -> None:
    """Have the queues that jobs go into keep no history: what has run there was never there."""
    for queue in (INTO, ALSO):
        store.configure(queue, {"history_ttl": 0.0})


def run_out(store: RedisStore, *queues: str) -> Counter[str]:
    """Run all that is due in these queues, and tell how often each job was run."""
    ran: Counter[str] = Counter()
    for queue in queues or (INTO, ALSO):
        while rows := store.claim(Claim(queue, 100, new_id(), lease=LEASE)).rows:
            assert set(store.settle([Commit(row.lease) for row in rows])) == {JobState.DONE}
            ran.update(row.id for row in rows)
    return ran


def look_after(store: RedisStore, seconds: float = LEASE + STALE / SECOND + 1) -> None:
    """Do what workers do now and then, once what a dead process held is given up."""
    store.clock_offset += seconds
    store.recover(limit=0)
    store.recover()
    store.recover(limit=0)


def run_to_the_end(store: RedisStore) -> Counter[str]:
    """Run what there is now, after the recovery of a death, and after clean-ups of later hours; count by id."""
    ran = run_out(store)
    look_after(store)
    ran += run_out(store)
    look_after(store, HOUR)
    store.maintain()
    look_after(store, 2 * HOUR)
    return ran + run_out(store)


def at_rest(store: RedisStore) -> None:
    """Check that nothing is left half done."""
    assert [rule for queue in QUEUES for rule in broken_rules(store, queue)] == []
    assert list(store._jobs.entries(store.now() + SECOND)) == []
    assert list(store._slot_rows.holds()) == []
    assert list(store._stage.begun(store.now() + SECOND)) == []


class TestFanOut:
    @staticmethod
    def parents(store: RedisStore) -> list[JobRow]:
        forgetful(store)
        store.set_semaphore("slot", 5)
        slot = limits_text(Limits(("slot",)))
        store.push([*new_jobs(2, FROM), *new_jobs(1, FROM, limits=slot, order_key="k")])
        return store.claim(Claim(FROM, 9, new_id(), lease=LEASE)).rows

    @staticmethod
    def outcomes(rows: list[JobRow]) -> list[Commit]:
        """Return the same outcomes whenever it is asked."""
        return [
            Commit(row.lease, jobs=(NewJob(f"{row.id}1", INTO, "1"), NewJob(f"{row.id}2", ALSO, "2"))) for row in rows
        ]

    @ways
    def test_each_job_is_stored_once(self, opened: Open, url: str, way: Way) -> None:
        scenes, fanned_out = 0, set[int]()

        def act(store: RedisStore, rows: list[JobRow]) -> None:
            states = store.settle(self.outcomes(rows))
            assert states == [JobState.DONE] * 3

        for scene in at_every_call(opened, url, way, self.parents, act):
            store, rows = scene.witness, scene.made
            ran = run_out(store)
            if not scene.died and way != "lost":  # what follows from a step whose answer was lost is for the sweep
                assert len(ran) == 6
            look_after(store)
            ran += run_out(store)
            look_after(store, HOUR)
            store.maintain()
            look_after(store, 2 * HOUR)
            ran += run_out(store)
            found = store.fetch([row.id for row in rows])
            done = [row.id for row in rows if found[row.id].state == JobState.DONE]
            assert ran == Counter(f"{job}{number}" for job in done for number in (1, 2))
            run_out(store, FROM)
            at_rest(store)
            fanned_out.add(len(done))
            scenes += 1
        assert scenes > 5
        assert 3 in fanned_out

    @before_by_day
    def test_a_repeat_stores_none_twice(self, opened: Open, url: str, way: Way) -> None:
        for scene in at_every_call(
            opened, url, way, self.parents, lambda store, rows: store.settle(self.outcomes(rows))
        ):
            store, outcomes = scene.witness, self.outcomes(scene.made)
            ran = run_out(store)
            assert store.settle(outcomes, repeat=True) == [JobState.DONE] * 3
            ran += run_out(store)
            look_after(store)
            ran += run_out(store)
            assert ran == Counter(job.id for outcome in outcomes for job in outcome.jobs)
            at_rest(store)


class TestPublishing:
    @staticmethod
    def staged(store: RedisStore, value: ValueChange | None = VALUE) -> Publication:
        forgetful(store)
        jobs = [*new_jobs(3), *new_jobs(2, ALSO), *new_jobs(2, order_key="k")]
        store.stage(WRITE, "lost", new_jobs(3))
        store.stage(WRITE, "a", jobs[:5])
        store.stage(WRITE, "b", jobs[5:])
        return Publication(WRITE, (("a", 5), ("b", 2)), value)

    @staticmethod
    def cleared(store: RedisStore) -> None:
        """Check that nothing is left of a stage."""
        at_rest(store)
        assert store._stage.staged(WRITE) == {}
        assert store.server.command("ZCARD", store.server.keys.own("stages")) == 0
        kept = [
            store.server.keys.stage(WRITE) + name for name in ("attempts", "used_at", "ids:a", "pieces:a", "ids:lost")
        ]
        assert [key for key in kept if store.server.command("EXISTS", key)] == []

    @ways
    @pytest.mark.parametrize("value", [None, VALUE])
    @pytest.mark.one_in_each("way", "value")
    def test_each_job_is_stored_once_or_none(self, opened: Open, url: str, way: Way, value: ValueChange | None) -> None:
        stored = set[int]()
        for scene in at_every_call(
            opened, url, way, lambda store: self.staged(store, value), lambda store, made: store.publish(made)
        ):
            store = scene.witness
            begun = bool(store.values("write") or store.values("stream"))
            assert begun or scene.died
            if value is not None:  # a successor goes on with the value
                assert store.compare_and_set("stream", "s", "theirs", int(begun))
            ran = run_to_the_end(store)
            assert len(ran) == (7 if begun else 0)
            assert set(ran.values()) <= {1}
            if begun:
                self.cleared(store)
            stored.add(len(ran))
        assert stored == ({0, 7} if way != "lost" else {7})

    @before_by_day
    def test_a_repeat_completes_it(self, opened: Open, url: str, way: Way) -> None:
        told = set[bool]()
        for scene in at_every_call(opened, url, way, self.staged, lambda store, made: store.publish(made)):
            store, begun = scene.witness, bool(scene.witness.values("stream"))
            ran = run_out(store)
            told.add(store.publish(scene.made))
            assert begun not in told or len(told) == 2
            ran += run_out(store)
            assert len(ran) == 7
            assert set(ran.values()) == {1}
            self.cleared(store)
            assert store.values("stream") == [VersionedValue("s", "acked 1", 1)]
        assert told == ({True, False} if way != "lost" else {False})

    @ways
    @pytest.mark.nightly
    def test_who_sweeps_may_die_too(self, opened: Open, url: str, way: Way) -> None:
        def begun(store: RedisStore) -> None:
            with patch.object(store._staging, "go_on"):
                assert store.publish(self.staged(store))

        def recover_outbox(store: RedisStore, _made: object) -> None:
            store.clock_offset = 5.0
            store.recover(limit=0)

        for scene in at_every_call(opened, url, way, begun, recover_outbox):
            ran = run_out(scene.witness)
            look_after(scene.witness)
            ran += run_out(scene.witness)
            assert len(ran) == 7
            assert set(ran.values()) == {1}
            self.cleared(scene.witness)

    def test_one_that_goes_on_is_left_alone(self, one: RedisStore) -> None:
        with patch.object(one._staging, "go_on"):
            assert one.publish(self.staged(one))

        def sweep_early() -> None:
            one.clock_offset -= 5  # so that it is young on a slow machine too
            one.recover(limit=0)
            one.clock_offset += 5

        sweep_early()
        assert run_out(one) == Counter()
        one.clock_offset += STALE / SECOND + 1
        (begun,) = one._stage.begun(one.now())
        one._stage.drop_piece(begun, "a", publishing.Piece("none", []))
        sweep_early()
        assert run_out(one) == Counter()
        one.clock_offset += STALE / SECOND + 1
        one.recover(limit=0)
        assert len(run_out(one)) == 7

    def test_what_has_begun_is_not_given_up(self, one: RedisStore) -> None:
        with patch.object(one._staging, "go_on"):
            assert one.publish(self.staged(one))
        one.unstage(WRITE)
        look_after(one)
        assert len(run_out(one)) == 7
        one.stage(WRITE, "late", new_jobs(2))
        one.unstage(WRITE)
        self.cleared(one)

    def test_a_driver_completes_what_the_one_before_had_begun_ahead(self, one: RedisStore) -> None:
        one.push(new_jobs(1, FROM))
        source = StreamSource(one, "s", FROM)
        source.latest(source.initial(), 1)
        for attempt in ("a", "b"):
            StreamSource(one, "s", FROM).initial()
            pending = SinkBatch.pending(one, "s")
            assert pending is not None
            one.stage(pending[0].write, attempt, new_jobs(5))
            with patch.object(one._staging, "go_on") if attempt == "a" else nullcontext():
                batch = pending[0].publish_ahead([(attempt, 5)])
        assert len(run_out(one, INTO)) == 5
        batch.drop_rest()
        assert sizes_of(one, FROM).total == 0

    def test_what_has_begun_is_kept_longer_than_a_day(self, one: RedisStore) -> None:
        with patch.object(one._staging, "go_on"):
            assert one.publish(self.staged(one))
        one.clock_offset += 3 * 86_400
        one.maintain()
        assert len(run_out(one)) == 7

    def test_is_due_from_its_beginning_in_the_order_of_ids(self, one: RedisStore) -> None:
        late, *jobs = new_jobs(6)
        one.stage(WRITE, "a", [*jobs, late._replace(delay=1000.0)])
        with patch.object(one._staging, "go_on"):
            assert one.publish(Publication(WRITE, (("a", 6),)))
        one.clock_offset += 900
        one.recover(limit=0)
        assert [row.id for row in one.claim(Claim(INTO, 9, "t", lease=1e6)).rows] == [job.id for job in jobs]
        one.clock_offset += 101
        assert [row.id for row in one.claim(Claim(INTO, 9, "t2")).rows] == [late.id]


class TestStaging:
    @before_by_day
    def test_a_repeat_adds_nothing(self, opened: Open, url: str, way: Way) -> None:
        jobs = new_jobs(5)
        for scene in at_every_call(
            opened, url, way, lambda _store: None, lambda store, _made: store.stage(WRITE, "a", jobs)
        ):
            store = scene.witness
            store.stage(WRITE, "a", jobs[1:])
            store.stage(WRITE, "a", jobs)
            assert store.publish(Publication(WRITE, (("a", 5),)))
            assert sorted(run_out(store)) == [job.id for job in jobs]

    @before_by_day
    def test_what_nobody_publishes_goes(self, opened: Open, url: str, way: Way) -> None:
        for scene in at_every_call(
            opened, url, way, lambda _store: None, lambda store, _made: store.stage(WRITE, "a", new_jobs(5))
        ):
            scene.witness.clock_offset += 86_401
            scene.witness.maintain()
            TestPublishing.cleared(scene.witness)


class TestFinishing:
    @staticmethod
    def reserved(store: RedisStore) -> Publication:
        store.push([*new_jobs(3, FROM), *new_jobs(1, FROM, order_key="k")])
        assert store.claim(Claim(FROM, 9, TOKEN, worker="w", rows=False)).reserved == 4
        return Publication(WRITE, (), VALUE, Finish(FROM, TOKEN, 4))

    @before_by_day
    def test_with_the_jobs_left_it_comes_to_its_end(self, opened: Open, url: str, way: Way) -> None:
        for scene in at_every_call(opened, url, way, self.reserved, lambda store, made: store.publish(made)):
            store = scene.witness
            left = len(ids_reserved(store, FROM, TOKEN))
            assert scene.died or left == 0
            if 0 < left < 4:
                with pytest.raises(LeasesLost):
                    store.publish(scene.made)
            written = store.values("stream") == [VersionedValue("s", "acked 1", 1)]
            assert not written or left == 0
            assert store.publish(scene.made._replace(finish=Finish(FROM, TOKEN, left))) is not written
            assert counts_of(store, FROM).committed == 4
            look_after(store)
            at_rest(store)


class TestReserving:
    @before_by_day
    def test_a_repeat_finds_them(self, opened: Open, url: str, way: Way) -> None:
        def filled(store: RedisStore) -> None:
            store.push([*new_jobs(4, FROM), *new_jobs(2, FROM, order_key="k")])

        for scene in at_every_call(
            opened,
            url,
            way,
            filled,
            lambda store, _made: store.claim(Claim(FROM, 5, TOKEN, worker="w", rows=False)).reserved,
        ):
            store = scene.witness
            before = len(ids_reserved(store, FROM, TOKEN))
            assert scene.died or before == 5
            assert store.claim(Claim(FROM, 5, TOKEN, worker="w", repeat=True, rows=False)).reserved == (before or 5)
            ids = ids_reserved(store, FROM, TOKEN)
            assert [row.id for row in rows_reserved(store, FROM, TOKEN)] == ids
            assert sizes_of(store, FROM).running == len(ids)


class TestKeys:
    """Those of jobs reserved under a token."""

    @staticmethod
    def batches(store: RedisStore) -> list[bytes]:
        return sorted(store.server.client.scan_iter(f"{store.server.keys.own('')}*batch*"))

    def test_are_made_for_reserve_alone(self, one: RedisStore) -> None:
        one.push(new_jobs(3, FROM))
        rows = one.claim(Claim(FROM, 1, "plain", lease=LEASE)).rows
        assert self.batches(one) == []
        assert ids_reserved(one, FROM, "plain") == [rows[0].id]
        assert one.claim(Claim(FROM, 9, TOKEN, worker="w", rows=False)).reserved == 2
        assert len(self.batches(one)) == 2

    @pytest.mark.parametrize("how", ["settled", "dropped"])
    def test_go_when_nothing_is_reserved(self, one: RedisStore, how: str) -> None:
        one.push(new_jobs(3, FROM))
        one.claim(Claim(FROM, 2, TOKEN, worker="w", rows=False))
        ids = ids_reserved(one, FROM, TOKEN)
        one.settle([Commit(Lease(FROM, ids[0], TOKEN))])
        one.clock_offset += HOUR + 1
        one.maintain()
        assert ids_reserved(one, FROM, TOKEN) == ids[1:]
        assert len(self.batches(one)) == 2
        ends: dict[str, Callable[[], object]] = {
            "settled": lambda: one.settle([Commit(Lease(FROM, ids[1], TOKEN))]),
            "dropped": lambda: one.drop_queue(FROM),
        }
        ends[how]()
        one.clock_offset += HOUR + 1
        one.maintain()
        assert self.batches(one) == []
