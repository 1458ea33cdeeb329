"""What workers tally of failed attempts comes together in the store, however many workers merge at once."""

from __future__ import annotations

import threading
from typing import Any, cast

from stanchion import Stanchion, Worker
from stanchion.core.ids import new_id
from stanchion.core.text.error_kinds import group_of, kind_of
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion.telemetry.failures import GROUPS_MAX, IDS, KEPT, KIND, MINUTE, OTHER, Batch, FailureTally, tallied
from stanchion_conformance.harness import QUEUE, StoreClock

THREADS, ROUNDS = 4, 5


def failed(tally: FailureTally, error: str = "E: no stock", *, new: bool = True, dead: bool = False) -> str:
    """Add a failed attempt of a job; return its id."""
    job_id = new_id()
    tally.add(QUEUE, "ship", group_of(error, "ship"), error, job_id, new=new, dead=dead)
    return job_id


class Slow:
    """A store through which another one is merged just before the first write."""

    def __init__(self, store: Store, other: FailureTally) -> None:
        self._store, self._other = store, other

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def compare_and_set(self, kind: str, name: str, text: str | None, version: int) -> bool:
        self._other.merge(self._store)
        return self._store.compare_and_set(kind, name, text, version)


class TestFailureTallies:
    def test_a_lost_race_loses_nothing(self, store: Store) -> None:
        tally, other = FailureTally(), FailureTally()
        for _ in range(2):
            failed(tally)
            failed(other)
            tally.merge(cast("Store", Slow(store, other)))
        assert [one.failed for one in tallied(store)[QUEUE].values()] == [4]

    def test_what_several_workers_merge_at_once_adds_up(self, store: Store) -> None:
        def work() -> None:
            tally = FailureTally()
            for number in range(ROUNDS):
                failed(tally, dead=number == 0)
                tally.merge(store)
            while tally.pending:  # as each heartbeat does
                tally.merge(store)

        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (one,) = tallied(store)[QUEUE].values()
        assert (one.failed, one.jobs, one.dead) == (THREADS * ROUNDS, THREADS * ROUNDS, THREADS)
        assert sum(one.in_the_hour(store.now())) == THREADS * ROUNDS
        assert len(one.ids) == IDS

    def test_what_is_of_a_batch_counts_once(self, store: Store, clock: StoreClock) -> None:
        """A process that dies before it has ended the jobs leaves them to another one, which tallies them again."""

        def merged(stream: str, token: str, queue: str = QUEUE) -> int:
            tally = FailureTally()
            tally.add(queue, "ship", "group", "E: no stock", new_id(), new=True, dead=False)
            tally.merge(store, batch=Batch(stream, token))
            assert not tally.pending
            return tallied(store)[queue]["group"].failed

        assert [merged("even", token) for token in ("first", "first", "second", "second")] == [1, 1, 2, 2]
        assert [merged("odd", token) for token in ("first", "first")] == [3, 3]
        assert merged("even", "second") == 3
        assert merged("even", "second", "another") == 1
        failed(tally := FailureTally())
        tally.merge(store)
        assert merged("odd", "first") == 3
        clock.advance(KEPT // SECOND + 1)
        assert merged("odd", "second") == 4
        (value,) = store.values(KIND, [QUEUE])
        assert "even" not in value.text

    def test_times_are_those_of_the_store(self, store: Store, clock: StoreClock) -> None:
        tally, began = FailureTally(), store.now()
        ids = [failed(tally)]
        tally.merge(store)
        clock.advance(180)
        ids.append(failed(tally, "E: no stock", new=False))
        tally.merge(store)
        (one,) = tallied(store, [QUEUE])[QUEUE].values()
        assert began - MINUTE < one.first <= one.last - 170_000_000
        assert (one.failed, one.jobs, one.ids) == (2, 1, ids[::-1])
        assert sorted(one.minutes.values()) == [1, 1]
        assert (one.error, one.task) == ("E: no stock", "ship")

    def test_they_are_bounded(self, store: Store) -> None:
        tally = FailureTally()
        for number in range(GROUPS_MAX + 5):
            failed(tally, "E: " + "".join(chr(97 + int(digit)) for digit in str(number)))
        tally.merge(store)
        groups = tallied(store)[QUEUE]
        assert len(groups) == GROUPS_MAX + 1
        assert (groups[OTHER].failed, groups[OTHER].error) == (5, "other errors")

    def test_what_is_long_past_is_forgotten(self, store: Store, clock: StoreClock) -> None:
        tally = FailureTally()
        tally.add("old", "ship", "00000001", "E", new_id(), new=True, dead=False)
        failed(tally, "E: old")
        tally.merge(store)
        clock.advance(KEPT / 1_000_000 + 60)
        failed(tally, "E: new")
        tally.add("other", "ship", "00000001", "E", new_id(), new=True, dead=False)
        tally.merge(store)
        assert [one.error for one in tallied(store)[QUEUE].values()] == ["E: new"]
        assert sorted(value.name for value in store.values(KIND)) == sorted([QUEUE, "other"])

    def test_a_worker_tells_what_it_tallied(self, app: Stanchion) -> None:
        @app.task(name="ship", queue=QUEUE, max_attempts=1)
        def ship(order: int) -> None:
            if order:
                raise ValueError(f"no stock for {order}")

        ship.enqueue_many([(number,) for number in range(4)])
        worker = Worker(app, [QUEUE], threads=2, until_empty=True)
        worker.run()
        (key,) = {job.error_group for job in app.find(state="dead")}
        (one,) = (groups := tallied(app.store)[QUEUE]).values()
        assert list(groups) == [key]
        assert (one.error, one.failed, one.jobs, one.dead) == (kind_of("ValueError: no stock for 1"), 3, 3, 3)
