"""The figures of queues by the minute are kept for two days, each minute by one of many processes."""

from __future__ import annotations

import threading

from stanchion import Queue
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion.telemetry.rollups import ALL, HOURS_KEPT, KIND, MINUTE, past, take, take_minute
from stanchion_conformance.harness import QUEUE, StoreClock


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
