"""The figures of queues by the minute are kept for two days, each minute by one of many processes."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from stanchion import Queue
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion.stores.records.outcomes import Commit
from stanchion.telemetry import rollups
from stanchion.telemetry.rollups import ALL, HOURS_KEPT, KIND, MINUTE, past, take, take_minute
from stanchion_conformance.harness import QUEUE, StoreClock, claim, new_job


class TestRollups:
    def test_a_minute_is_kept_once(self, q: Queue, store: Store, clock: StoreClock) -> None:
        q.push_many([{}, {}, {}])
        assert take(store)
        at = past(store, [QUEUE], 1, store.now())[QUEUE][0].at
        assert take(store) is (store.now() // MINUTE > at // MINUTE)  # unless the minute has passed meanwhile
        q.reserve()[0].commit()
        clock.advance(61)
        assert take(store)
        found = past(store, [QUEUE, ALL, "other"], 1, store.now())
        first, *_, last = found[QUEUE]
        assert (first.ready, first.pushed, first.done) == (3, 3, 0)
        assert (last.ready, last.pushed, last.done) == (2, 3, 1)
        assert last.lag >= 60
        assert [point.pushed for point in found[ALL]] == [point.pushed for point in found[QUEUE]]
        assert found["other"] == []

    def test_an_idle_queue_costs_no_write_and_has_no_gap(self, q: Queue, store: Store, clock: StoreClock) -> None:
        q.push({}, delay=7200)
        clock.advance(3600 - store.now() / SECOND % 3600 + 30)  # within an hour
        taken = list[int]()
        for ready in (0, 0, 0, 1, 1):
            if ready and len(taken) == 3:
                q.push({}, delay=7200)
            assert take(store)
            taken.append(store.now())
            clock.advance(60)
        (value,) = [one for one in store.values(KIND) if one.name.startswith(QUEUE)]
        assert value.version == 2
        points = past(store, [QUEUE], 1, store.now())[QUEUE]
        assert [point.pushed for point in points] == [1, 1, 1, 2, 2]
        assert [point.at // MINUTE for point in points] == [at // MINUTE for at in taken]

    def test_of_many_queues_idle_ones_are_read_in_turn(
        self, store: Store, clock: StoreClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(rollups, "MANY", 4)
        # A minute begins, so that none is left out while the steps take time; the queues have their turns in one order.
        turns = 60 * rollups.REREAD
        clock.advance(turns + 1 - store.now() // SECOND % turns)
        for number in range(8):
            store.configure(f"idle {number}", {})
        read = list[str]()
        stats, one = store.stats, rollups.Rollups()

        def reading(queues: Any, fields: Any) -> Any:
            read.extend(queues if "totals" in fields else ())
            return stats(queues, fields)

        monkeypatch.setattr(store, "stats", reading)
        one.take(store)
        assert len(read) == 8
        store.push([new_job(queue="idle 3")])
        (row,) = claim(store, queue="idle 3")
        store.settle([Commit(row.lease)])
        read.clear()
        for _ in range(rollups.REREAD):
            clock.advance(60)
            assert one.take(store)
        assert {name: read.count(name) for name in {*read}} == {f"idle {n}": 1 + (n == 3) for n in range(8)}
        assert past(store, [ALL], 1, store.now())[ALL][-1].done == 1

    def test_one_of_many_processes_takes_it(self, store: Store) -> None:
        now, taken = store.now(), list[bool]()
        threads = [threading.Thread(target=lambda: taken.append(take_minute(store, now))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(taken) == [False, False, False, True]

    def test_the_past_is_two_days_long(self, q: Queue, store: Store, clock: StoreClock) -> None:
        q.push({})
        assert take(store)
        clock.advance((HOURS_KEPT - 2) * 3600)
        assert take(store)
        assert len(past(store, [QUEUE], HOURS_KEPT, store.now())[QUEUE]) == 2
        assert len(past(store, [QUEUE], 1, store.now())[QUEUE]) == 1
        clock.advance(4 * 3600)
        assert take(store)
        hours = {value.name.rpartition("@")[2] for value in store.values(KIND)}
        assert len(hours) == 3  # the last minute, and two hours
        assert len(past(store, [QUEUE], HOURS_KEPT, store.now())[QUEUE]) == 2
        assert store.now() - past(store, [QUEUE], HOURS_KEPT, store.now())[QUEUE][0].at < HOURS_KEPT * 3600 * SECOND
