"""The counts of queues, in items."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import JobState
from stanchion.core.ids import new_id
from stanchion.core.values.framing import chunk_with
from stanchion.queues.operating import purge
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import POPPED, Claim
from stanchion.stores.records.outcomes import Abandon, Bury, Commit, Move, Rollback, Tally
from stanchion.stores.records.queues import QueueStats, Sizes
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from stanchion_conformance.harness import QUEUE, StoreClock, claim, new_job, worker
from stanchion_conformance.jobs.chunk_contents import chunk, counted, reserved, settle


def chunks_in(store: Store, *queues: str) -> list[int]:
    """Return how many live chunks these queues have."""
    found = store.stats(queues, ["chunks"])
    return [found[queue].chunks for queue in queues]


class TestItemsAreCounted:
    """The counts of queues count items."""

    def test_live_chunks(self, store: Store) -> None:
        store.push([chunk(3), new_job(), chunk(5), chunk(2, queue="other"), chunk(4, lane=2)])
        assert chunks_in(store, QUEUE, "other", "none") == [3, 1, 0]
        (row,) = claim(store)
        assert chunks_in(store, QUEUE) == [3]
        settle(store, Commit(row.lease))
        assert chunks_in(store, QUEUE) == [2]
        assert store.stats([QUEUE], ["chunks"])[QUEUE] == QueueStats(chunks=2)

    def test_pushed_and_reserved(self, store: Store) -> None:
        store.push([chunk(3), new_job(), chunk(5)])
        claim(store, 10)
        assert counted(store) == {"pushed": 9, "reserved": 9}

    def test_of_a_worker(self, store: Store) -> None:
        store.beat([worker("w")])
        store.push([chunk(3), new_job()])
        claim(store, 10, worker="w")
        assert counted(store) == {"pushed": 4, "reserved": 4}

    @pytest.mark.parametrize("range_of_lanes", [{"lanes": (0, 5)}, {}])
    def test_of_jobs_in_lanes(self, store: Store, range_of_lanes: dict[str, Any]) -> None:
        store.push([chunk(3, lane=1), new_job(lane=2), chunk(4, lane=2)])
        assert len(claim(store, 10, **range_of_lanes)) == 3
        assert counted(store) == {"pushed": 8, "reserved": 8}

    def test_of_jobs_with_slots(self, store: Store) -> None:
        store.set_semaphore("s", 5, declared=False)
        store.push(
            [chunk(3, limits=limits_text(Limits(semaphores=("s",)))), chunk(4, order_key="k"), new_job(order_key="l")]
        )
        rows = claim(store, 10)
        assert counted(store) == {"pushed": 8, "reserved": 8}
        assert store.settle([Commit(row.lease) for row in rows]) == [JobState.DONE] * 3
        assert counted(store)["committed"] == 8

    def test_not_of_jobs_that_wait(self, store: Store) -> None:
        store.push([chunk(3, order_key="k"), chunk(4, order_key="k")])
        (row,) = claim(store, 10)
        assert counted(store) == {"pushed": 7, "reserved": 3}
        settle(store, Commit(row.lease))
        assert len(claim(store, 10)) == 1
        assert counted(store) == {"pushed": 7, "reserved": 7, "committed": 3}

    def test_after_upkeep(self, store: Store, clock: StoreClock) -> None:
        store.configure(QUEUE, {"history_ttl": 60.0})
        row = reserved(store, chunk(10))
        settle(store, Commit(row.lease, jobs=(chunk(10, queue="next"),), tallies=(Tally(QUEUE, "moved", 10),)))
        store.push([chunk(4)])
        (row,) = claim(store)
        settle(store, Commit(row.lease))
        counts = {"pushed": 14, "reserved": 14, "moved": 10, "committed": 4}
        assert counted(store) == counts
        store.maintain()
        assert counted(store) == counts
        clock.advance(61)
        store.maintain()
        assert (store.fetch([row.id]), counted(store)) == ({}, counts)

    def test_of_jobs_that_upkeep_deletes_before_it_counts(self, store: Store) -> None:
        row = reserved(store, chunk(4))
        settle(store, Commit(row.lease))
        assert purge(store, QUEUE, 0.0) == 1
        assert counted(store) == {"pushed": 4, "reserved": 4, "committed": 4}

    def test_of_claims_by_ids(self, store: Store) -> None:
        store.push(jobs := [chunk(3), chunk(4)])
        ids = tuple((job.id, "") for job in jobs)
        assert len(store.claim(Claim(QUEUE, 2, new_id(), lease=60.0, ids=ids)).rows) == 2
        assert counted(store) == {"pushed": 7, "reserved": 7}

    def test_pushed_as_running(self, store: Store) -> None:
        job = chunk(3)
        (pushed,) = store.push([job], claim=Claim(QUEUE, 1, new_id(), lease=60.0, ids=((job.id, ""),)))
        assert pushed.token is not None
        assert counted(store) == {"pushed": 3, "reserved": 3}

    def test_reserved_unseen(self, store: Store) -> None:
        store.push([chunk(3), chunk(4)])
        assert store.claim(Claim(QUEUE, 2, new_id(), lease=60.0, rows=False)).reserved == 2
        assert counted(store) == {"pushed": 7, "reserved": 7}

    @pytest.mark.parametrize(
        ("end", "event"),
        [
            (lambda row: Commit(row.lease), "committed"),
            (lambda row: Rollback(row.lease, 0.0, "E"), "rolled_back"),
            (lambda row: Rollback(row.lease, 0.0, refund=True), "rolled_back"),
            (lambda row: Move(row.lease, "next"), "moved"),
            (lambda row: Bury(row.lease, "E"), "buried"),
            (lambda row: Abandon(row.lease), "cancelled"),
        ],
    )
    def test_each_end(self, store: Store, end: Any, event: str) -> None:
        row = reserved(store, chunk(7))
        settle(store, end(row))
        assert counted(store) == {"pushed": 7, "reserved": 7, event: 7}

    def test_of_a_move_as_they_were(self, store: Store) -> None:
        row = reserved(store, chunk(7))
        settle(store, Move(row.lease, "next", chunk_with(2, b"x")))
        assert counted(store)["moved"] == 7
        (row,) = claim(store, queue="next")
        settle(store, Move(row.lease, "last", "1"))
        assert counted(store, "next") == {"reserved": 2, "moved": 2}

    def test_popped(self, store: Store) -> None:
        row = reserved(store, chunk(7), delivery=POPPED)
        settle(store, Commit(row.lease))
        assert counted(store) == {"pushed": 7, "popped": 7}

    def test_cancelled_and_lost_and_lapsed(self, store: Store, clock: StoreClock) -> None:
        store.push([gone := chunk(3)])
        store.cancel([gone.id])
        store.push([chunk(4)])
        claim(store, lease=10.0)
        clock.advance(11)
        store.recover()
        claim(store)
        store.push([chunk(5, expires=10.0)])
        clock.advance(11)
        assert claim(store) == []
        assert counted(store) == {"pushed": 12, "reserved": 13, "cancelled": 3, "expired": 4, "lapsed": 5}

    def test_a_rate_counts_them(self, store: Store, clock: StoreClock) -> None:
        store.configure(QUEUE, {"max_rate": 1.0})
        store.push([chunk(10), new_job(), new_job()])
        assert len(claim(store, 3)) == 1
        clock.advance(8)
        assert claim(store, 3) == []
        clock.advance(2.5)
        assert len(claim(store, 3)) == 1

    def test_one_push_of_a_known_id(self, store: Store) -> None:
        store.push([job := chunk(3)])
        store.push([job])
        assert counted(store) == {"pushed": 3}


def sizes(store: Store, queue: str = QUEUE) -> tuple[dict[str, int], dict[str, int]]:
    """Return the live jobs of a queue by state, and their items; states without any are left out."""
    figures = store.stats([queue], ["states", "items"])[queue]
    jobs, items = (
        {state: number for state, number in one._asdict().items() if number} for one in (figures.states, figures.items)
    )
    return jobs, items


class TestItemsByState:
    """Sizes in items, beside the numbers of jobs."""

    def test_ready_and_scheduled(self, store: Store, clock: StoreClock) -> None:
        store.push([chunk(3), new_job(), chunk(5, delay=10.0), new_job(delay=10.0)])
        assert sizes(store) == (
            {"total": 4, "ready": 2, "scheduled": 2},
            {"total": 10, "ready": 4, "scheduled": 6},
        )
        clock.advance(11)
        assert sizes(store)[1] == {"total": 10, "ready": 10}

    def test_waiting_and_running(self, store: Store) -> None:
        store.push([chunk(3, order_key="k"), chunk(4, order_key="k"), new_job(order_key="k"), chunk(1)])
        assert len(claim(store, 10)) == 2
        jobs, items = sizes(store)
        assert (items["total"], items["running"]) == (9, 4)
        assert jobs == {"total": 4, "running": 2, **_parked(jobs, 2)}
        assert items == {"total": 9, "running": 4, **_parked(jobs, 5)}

    def test_of_jobs_that_wait_for_a_semaphore(self, store: Store) -> None:
        store.set_semaphore("s", 1, declared=False)
        limits = limits_text(Limits(semaphores=("s",)))
        store.push([chunk(3, limits=limits), chunk(4, limits=limits)])
        (row,) = claim(store, 10)
        assert claim(store, 10) == []
        assert sizes(store)[1] == {"total": 7, "running": row.items, "waiting": 7 - (row.items or 0)}

    def test_only_if_asked_for(self, store: Store) -> None:
        store.push([chunk(3)])
        assert store.stats([QUEUE], ["states"])[QUEUE] == QueueStats(states=Sizes(total=1, ready=1))
        assert store.stats([QUEUE], ["items"])[QUEUE] == QueueStats(items=Sizes(total=3, ready=3))

    def test_of_single_items_and_of_several_queues(self, store: Store) -> None:
        store.push([new_job(), chunk(7, queue="other")])
        found = store.stats([QUEUE, "other", "nowhere"], ["items"])
        assert {name: one.items for name, one in found.items()} == {
            QUEUE: Sizes(total=1, ready=1),
            "other": Sizes(total=7, ready=7),
            "nowhere": Sizes(),
        }

    def test_after_moves(self, store: Store) -> None:
        row = reserved(store, chunk(7))
        settle(store, Move(row.lease, "next", chunk_with(2, b"x")))
        assert (sizes(store), sizes(store, "next")) == (({}, {}), ({"total": 1, "ready": 1}, {"total": 2, "ready": 2}))
        (row,) = claim(store, queue="next")
        settle(store, Move(row.lease, "last", "1"))
        assert (sizes(store, "next")[1], sizes(store, "last")[1]) == ({}, {"total": 1, "ready": 1})
        (row,) = claim(store, queue="last")
        settle(store, Move(row.lease, QUEUE, chunk_with(4, b"x")))
        assert sizes(store)[1] == {"total": 4, "ready": 4}

    @pytest.mark.parametrize("end", [lambda row: Commit(row.lease), lambda row: Abandon(row.lease)])
    def test_after_the_end(self, store: Store, end: Any) -> None:
        store.push([chunk(5), chunk(7)])
        (row, _) = claim(store, 2)
        settle(store, end(row))
        assert sizes(store)[1] == {"total": 12 - (row.items or 0), "running": 12 - (row.items or 0)}

    def test_after_a_rollback(self, store: Store) -> None:
        row = reserved(store, chunk(5))
        settle(store, Rollback(row.lease, 60.0, "E"))
        assert sizes(store)[1] == {"total": 5, "scheduled": 5}

    def test_of_a_divided_chunk(self, store: Store) -> None:
        row = reserved(store, chunk(10))
        parts = chunk(6, queue="next"), chunk(3, attempts=1, delay=60.0), new_job(queue="next")
        settle(store, Commit(row.lease, jobs=parts, tallies=(Tally(QUEUE, "moved", 10),)))
        assert sizes(store)[1] == {"total": 3, "scheduled": 3}
        assert sizes(store, "next")[1] == {"total": 7, "ready": 7}

    def test_of_cancelled_and_replaced_jobs(self, store: Store) -> None:
        store.push([gone := chunk(3), chunk(4, key="k")])
        store.cancel([gone.id])
        store.push([chunk(9, key="k", on_duplicate="replace")])
        assert sizes(store)[1] == {"total": 9, "ready": 9}
        store.push([new_job(key="k", on_duplicate="replace")])
        assert sizes(store)[1] == {"total": 1, "ready": 1}


def _parked(jobs: dict[str, int], number: int) -> dict[str, int]:
    """Return the state of the jobs behind the head of an order key: they wait, or are parked by a later claim."""
    return {"waiting" if "waiting" in jobs else "ready": number}
