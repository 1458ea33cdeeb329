"""How long jobs waited and ran comes with the heartbeats of workers, and is that of the live ones together."""

from __future__ import annotations

from dataclasses import replace

from stanchion import Stanchion
from stanchion.stores.protocol import Store
from stanchion.stores.records.workers import QueueTimes
from stanchion.stores.rules.times import ENTRIES_MAX
from stanchion.telemetry.times import by_band, by_queue
from stanchion_conformance.harness import QUEUE, StoreClock, new_job, worker
from stanchion_conformance.operate.claim_order import until, working

TIMES = QueueTimes(QUEUE, "eventual", (1, 0, 2), (0, 3))
OTHER = QueueTimes("päd; 'x' 😀", "interactive", (), (4,))


def seen(store: Store) -> dict[str, tuple[QueueTimes, ...]]:
    """Return the times of each worker."""
    return {row.id: row.times for row in store.workers()}


class TestTimes:
    def test_are_those_of_the_last_heartbeat(self, store: Store, other_store: Store) -> None:
        store.beat([replace(worker("a"), times=(TIMES, OTHER)), worker("b")])
        assert seen(other_store) == {"a": (TIMES, OTHER), "b": ()}
        store.beat([worker("a"), replace(worker("b"), times=(OTHER,))])
        assert seen(other_store) == {"a": (), "b": (OTHER,)}
        store.leave("b")
        store.beat([worker("b")])
        assert seen(other_store) == {"a": (), "b": ()}

    def test_do_not_part_workers_that_share_the_polling(self, store: Store) -> None:
        store.beat([replace(worker("a"), times=(TIMES,))])
        assert store.beat([replace(worker("b"), times=(OTHER,))]).sharing == 2

    def test_those_of_live_workers_add_up(self, store: Store, clock: StoreClock) -> None:
        store.beat([replace(worker("a", heartbeat=100.0), times=(TIMES, OTHER))])
        store.beat([replace(worker("b"), times=(TIMES._replace(band="reporting"),))])
        (found, other), bands = by_queue(store.workers(), store.now()).values(), by_band(store.workers(), store.now())
        assert (found.delays, found.runs, other.runs) == ((2, 0, 4), (0, 6), (4,))
        assert {band: times.attempts for band, times in bands.items()} == {
            "eventual": 3,
            "interactive": 4,
            "reporting": 3,
        }
        clock.advance(60)
        assert by_queue(store.workers(), store.now())[QUEUE].jobs == 3
        clock.advance(600)
        assert by_queue(store.workers(), store.now()) == {}

    def test_as_many_as_a_worker_tells_are_kept(self, store: Store) -> None:
        most = tuple(
            QueueTimes(f"{number:x<200}", "eventual", (0,) * 120 + (1,), (7,)) for number in range(ENTRIES_MAX)
        )
        store.beat([replace(worker("a"), times=most)])
        assert seen(store) == {"a": most}

    def test_a_worker_tells_them(self, app: Stanchion, store: Store) -> None:
        app.task(name="note", queue=QUEUE)(lambda: None)
        store.push([new_job('{"args":[],"kwargs":{}}', task="note", priority=priority) for priority in (80, 0, 0)])

        def told() -> bool:
            found = by_queue(store.workers(), store.now()).get(QUEUE)
            return found is not None and (found.jobs, found.attempts) == (3, 3)

        with working(app, heartbeat=0.2):
            until(told)
            assert {band: one.jobs for band, one in by_band(store.workers(), store.now()).items()} == {
                "interactive": 1,
                "eventual": 2,
            }
