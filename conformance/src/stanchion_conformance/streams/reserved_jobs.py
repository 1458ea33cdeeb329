"""Jobs reserved under a token, for readers in other processes."""

from __future__ import annotations

from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import JobState, Lease
from stanchion.stores.records.outcomes import Abandon, Commit, Rollback
from stanchion.stores.rules.capacity.limits import Limits, Rate, limits_text
from stanchion_conformance.harness import (
    QUEUE,
    NewStore,
    StoreClock,
    about,
    all_at_once,
    counts_of,
    ids_reserved,
    new_job,
    row_of,
    rows_reserved,
    seconds_until,
    sizes_of,
    worker,
)

TOKEN = "batch"
OUT = "out"
LONG = 20.0


def reserve(store: Store, limit: int = 100, token: str = TOKEN, **fields: object) -> int:
    """Reserve jobs under a token."""
    wish = {"queue": QUEUE, "limit": limit, "token": token, "worker": "w", "rows": False, **fields}
    return store.claim(Claim(**wish)).reserved  # type: ignore[arg-type]


def filled(store: Store, jobs: int, **fields: object) -> list[str]:
    """Push so many jobs; return their ids."""
    pushed = [new_job(str(number), **fields) for number in range(jobs)]
    store.push(pushed)
    return [job.id for job in pushed]


class TestReserve:
    def test_tells_how_many_are_reserved(self, store: Store) -> None:
        ids = filled(store, 5)
        assert reserve(store, 3) == 3
        assert ids_reserved(store, QUEUE, TOKEN) == ids[:3]
        assert reserve(store, 9, token="other") == 2
        assert ids_reserved(store, QUEUE, "other") == ids[3:]
        assert reserve(store, 9, token="third") == 0
        assert counts_of(store, QUEUE).reserved == 5

    def test_gives_their_number_and_no_rows(self, store: Store) -> None:
        filled(store, 3)
        wish = Claim(QUEUE, 2, TOKEN, "w")
        assert store.claim(wish._replace(rows=False)) == Claimed([], reserved=2)
        assert len(store.claim(wish._replace(repeat=True)).rows) == 2

    def test_makes_them_run_like_a_claim(self, store: Store) -> None:
        (job_id,) = filled(store, 1)
        assert reserve(store) == 1
        row = row_of(store, job_id)
        assert (row.state, row.token, row.worker, row.attempts, row.lease_until) == ("running", TOKEN, "w", 1, None)
        assert row.started_at is not None
        assert store.settle([Commit(Lease(QUEUE, job_id, TOKEN))]) == [JobState.DONE]

    def test_under_a_lease_where_there_is_no_worker(self, store: Store, clock: StoreClock) -> None:
        ids = filled(store, 2)
        assert reserve(store, worker=None, lease=30.0) == 2
        assert seconds_until(store, row_of(store, ids[0]).lease_until or 0) == about(30)
        clock.advance(31)
        assert ids_reserved(store, QUEUE, TOKEN) == []
        assert reserve(store, worker=None, token="next") == 2

    def test_a_repeat_gives_the_same_and_takes_no_more(self, store: Store, other_store: Store) -> None:
        ids = filled(store, 5)
        assert reserve(store, 2) == 2
        assert reserve(other_store, 2, repeat=True) == 2
        assert reserve(other_store, 4, repeat=True) == 2
        assert ids_reserved(store, QUEUE, TOKEN) == ids[:2]
        assert reserve(store, 2, token="new", repeat=True) == 2
        assert counts_of(store, QUEUE).reserved == 4

    def test_a_repeat_after_some_were_settled_takes_no_more(self, store: Store) -> None:
        ids = filled(store, 5)
        assert reserve(store, 3) == 3
        store.settle([Commit(Lease(QUEUE, ids[0], TOKEN))])
        assert reserve(store, 3, repeat=True) == 2

    def test_takes_the_most_important_and_only_what_is_due(self, store: Store) -> None:
        low, high = new_job(priority=-1), new_job(priority=5)
        store.push([low, high, new_job(delay=60), new_job(queue=OUT)])
        assert reserve(store, 1) == 1
        assert ids_reserved(store, QUEUE, TOKEN) == [high.id]
        assert reserve(store, 9, token="rest") == 1
        assert ids_reserved(store, QUEUE, "rest") == [low.id]

    def test_of_a_large_batch(self, store: Store) -> None:
        ids = [job_id for _ in range(3) for job_id in filled(store, 1000)]
        assert reserve(store, 2500) == 2500
        assert ids_reserved(store, QUEUE, TOKEN) == sorted(ids[:2500])
        assert sizes_of(store, QUEUE)._asdict() == {
            **{"total": 3000, "ready": 500, "scheduled": 0, "waiting": 0},
            "running": 2500,
        }

    def test_keeps_to_a_pause(self, store: Store) -> None:
        filled(store, 3)
        store.configure(QUEUE, {"paused": True})
        assert reserve(store) == 0
        store.configure(QUEUE, {"paused": False})
        assert reserve(store) == 3

    def test_keeps_to_max_running(self, store: Store) -> None:
        filled(store, 5)
        store.configure(QUEUE, {"max_running": 2})
        assert reserve(store) == 2
        assert reserve(store, token="other") == 0

    def test_keeps_to_max_rate(self, store: Store) -> None:
        filled(store, 9)
        store.configure(QUEUE, {"max_rate": 2.0})
        assert 1 <= reserve(store) < 9

    def test_keeps_to_semaphores_order_keys_and_rates(self, store: Store) -> None:
        store.set_semaphore("slot", 2)
        slot, rate = limits_text(Limits(("slot",))), limits_text(Limits((), Rate("r", 0.001)))
        filled(store, 3, limits=slot)
        filled(store, 3, order_key="k")
        filled(store, 3, limits=rate)
        filled(store, 2)
        while (found := reserve(store, repeat=False)) < 6:
            assert found
        assert found == 2 + 1 + 1 + 2
        held = [(row.limits, row.order_key) for row in rows_reserved(store, QUEUE, TOKEN)]
        assert sorted(held, key=str) == sorted(
            [(slot, None)] * 2 + [(None, "k")] + [(rate, None)] + [(None, None)] * 2, key=str
        )

    def test_goes_round_the_lanes(self, store: Store) -> None:
        store.configure(QUEUE, {"lanes": 2, "uses_lanes": True})
        for lane in (1, 2):
            filled(store, 4, lane=lane)
        assert reserve(store, 4) == 4
        assert sorted(row.lane for row in rows_reserved(store, QUEUE, TOKEN)) == [1, 1, 2, 2]
        assert reserve(store, 9, token="range", lanes=(2, 2)) == 2
        assert {row.lane for row in rows_reserved(store, QUEUE, "range")} == {2}

    def test_by_several_at_once_gives_each_job_to_one(self, store: Store, new_store: NewStore) -> None:
        ids = filled(store, 400)
        stores = [store, new_store(), new_store()]
        counted: dict[str, int] = {}

        def take(mine: Store, name: str) -> None:
            for batch in range(8):
                counted[f"{name}{batch}"] = reserve(mine, 20, token=f"{name}{batch}")

        all_at_once([lambda mine=one, name=f"s{n}.": take(mine, name) for n, one in enumerate(stores)])  # type: ignore[misc]
        held = {token: ids_reserved(store, QUEUE, token) for token in counted}
        assert {token: len(found) for token, found in held.items()} == counted
        assert sorted(one for found in held.values() for one in found) == sorted(ids)


class TestReservedJobs:
    def test_whole_jobs_by_their_ids(self, store: Store) -> None:
        first, second = new_job("1", priority=-5, headers='{"a":1}'), new_job("2", priority=5, tenant="acme")
        store.push([first, second])
        reserve(store)
        rows = rows_reserved(store, QUEUE, TOKEN)
        assert rows == [row_of(store, first.id), row_of(store, second.id)]
        assert [row.payload for row in rows] == ["1", "2"]

    def test_in_ranges_that_include_their_ends(self, store: Store) -> None:
        ids = filled(store, 6)
        reserve(store)

        def found(first: str | None, last: str | None) -> list[str]:
            return [row.id for row in rows_reserved(store, QUEUE, TOKEN, first, last)]

        assert found(None, None) == ids
        assert found(ids[1], ids[3]) == ids[1:4]
        assert found(ids[4], None) == ids[4:]
        assert found(None, ids[1]) == ids[:2]
        assert found(ids[2], ids[2]) == [ids[2]]
        assert found(ids[3], ids[2]) == []

    def test_others_are_not_seen(self, store: Store) -> None:
        filled(store, 3)
        reserve(store, 1)
        reserve(store, 1, token="other")
        store.push([new_job(queue=OUT)])
        reserve(store, queue=OUT)
        assert len(rows_reserved(store, QUEUE, TOKEN)) == 1
        assert rows_reserved(store, QUEUE, "unknown") == []
        assert ids_reserved(store, "no queue", TOKEN) == []
        assert len(ids_reserved(store, OUT, TOKEN)) == 1

    def test_shrinks_by_whatever_ends_a_reservation(self, store: Store, clock: StoreClock) -> None:
        ids = filled(store, 5)
        store.beat([worker("w")])
        reserve(store)
        store.settle([Commit(Lease(QUEUE, ids[0], TOKEN)), Rollback(Lease(QUEUE, ids[1], TOKEN), 0.0)])
        assert ids_reserved(store, QUEUE, TOKEN) == ids[2:]
        store.cancel([ids[2]])
        assert ids_reserved(store, QUEUE, TOKEN) == ids[2:], "it is only asked to stop"
        store.settle([Abandon(Lease(QUEUE, ids[2], TOKEN))])
        assert ids_reserved(store, QUEUE, TOKEN) == ids[3:]
        clock.advance(60)
        store.beat([worker("other")])
        assert len(store.recover()) == 2
        assert ids_reserved(store, QUEUE, TOKEN) == []
        assert rows_reserved(store, QUEUE, TOKEN) == []

    def test_what_is_reserved_again_is_another_s(self, store: Store) -> None:
        (job_id,) = filled(store, 1)
        reserve(store)
        store.settle([Rollback(Lease(QUEUE, job_id, TOKEN), 0.0)])
        assert reserve(store, token="next") == 1
        assert ids_reserved(store, QUEUE, TOKEN) == []
