"""Limits of another form than ours: refused where jobs come in, or else their job is dead, and others run."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Stanchion
from stanchion.core.ids import new_id
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobState, NewJob
from stanchion.stores.rules.capacity.limits import Rate
from stanchion.stores.rules.lifecycle.error_entries import entries_of
from stanchion.stores.rules.lifecycle.jobs import created
from stanchion.streams.state import reserved_ids
from stanchion.waits.pop import pop
from stanchion_conformance.harness import LONG_LEASE, QUEUE, claim, new_job, row_of, state
from stanchion_conformance.limits.semaphores import limited, took

ODD = (
    *("smtp", "5", "null", "true", '"smtp"', '["smtp"]', "[", "{", '{"hold":', "NaN", "[" * 5000),
    *('{"hold": "smtp"}', '{"hold": {"smtp": 1}}', '{"hold": 5}', '{"hold": null}', '{"hold": [5]}'),
    *('{"hold": [null]}', '{"hold": ["a b", "a"]}', '{"hold": ["smtp"], "hold": 5}'),
    *('{"hold": [["smtp"]]}', '{"hold": [{"name": "smtp"}]}', '{"hold": [""]}', '{"hold": ["a\\nb"]}'),
    *('{"hold": ["smtp", "crm"]}', '{"hold": ["smtp", "smtp"]}', '{"hold": ["\\ud800"]}', '{"hold": ["\\u0000"]}'),
    f'{{"hold": [{", ".join(f"{chr(34)}s{number:02}{chr(34)}" for number in range(17))}]}}',
    *('{"rate": 5}', '{"rate": null}', '{"rate": "5/s"}', '{"rate": []}', '{"rate": ["r"]}', '{"rate": ["r", "5"]}'),
    *('{"rate": ["r", 0]}', '{"rate": ["r", -1]}', '{"rate": ["r", 1e-300]}', '{"rate": ["r", 1e300]}'),
    *('{"rate": ["r", NaN]}', '{"rate": ["r", Infinity]}', '{"rate": ["r", true]}', '{"rate": ["r", 5, 6]}'),
    *('{"rate": [5, 5]}', '{"rate": [null, 5]}', '{"rate": ["", 5]}', '{"rate": {"name": "r", "per_second": 5}}'),
    *('{"rates": ["r", 5]}', '{"hold": ["smtp"], "rate": 5}', '{"hold": "smtp", "rate": ["r", 5]}'),
)


def stored(store: Store, odd: NewJob) -> bool:
    """Push a job; return whether the store, or what is before it, has taken it."""
    try:
        store.push([odd])
    except InvalidInput:
        assert store.fetch([odd.id]) == {}
        return False
    return True


def is_dead(store: Store, job: str) -> bool:
    """Return whether a job is dead, by its own limits."""
    row = row_of(store, job)
    *_, entry = entries_of(row)
    return row.state == JobState.DEAD and entry["error"].startswith("the job has limits that can't be read")


class TestUnreadableLimits:
    """Neither the claim nor another job suffers from them. No case expects an order, so partitions may run them."""

    @pytest.mark.parametrize("limits", ODD)
    def test_the_job_is_dead_and_others_run(self, store: Store, limits: str) -> None:
        first, odd, last = new_job(), new_job(limits=limits), limited("smtp")
        store.push([first])
        taken = stored(store, odd)
        store.push([last])
        found = [job for _ in range(5) for job in took(store, 10)]
        assert sorted(found) == sorted([first.id, last.id])
        assert not taken or is_dead(store, odd.id)

    def test_all_of_them_at_once(self, store: Store) -> None:
        odd = [job.id for job in (new_job(limits=limits) for limits in ODD) if stored(store, job)]
        fine = [new_job(), limited("smtp"), limited(rate=Rate("r", 100.0)), new_job(order_key="k")]
        store.push(fine)
        found: list[str] = []
        for _ in range(2 * len(ODD)):
            claimed = store.claim(Claim(QUEUE, 100, new_id(), lease=LONG_LEASE))
            found += [row.id for row in claimed.rows]
            if claimed.retry_in != 0:
                break
        assert sorted(found) == sorted(job.id for job in fine)
        assert all(is_dead(store, job) for job in odd)

    @pytest.mark.parametrize("limits", ['{"rate": 5}', '{"hold": "smtp"}', '["smtp"]', "smtp"])
    def test_whatever_the_queue_is(self, store: Store, limits: str) -> None:
        settings: dict[str, dict[str, Any]] = {
            "lanes": {"lanes": 4},
            "bounded": {"max_running": 5},
            "slow": {"max_rate": 100.0},
            "ordered": {"ordered": True},
        }
        for queue, changes in settings.items():
            store.configure(queue, changes)
            odd = new_job(queue=queue, limits=limits, lane=2 if queue == "lanes" else -1, order_key="k", priority=5)
            taken = stored(store, odd)
            store.push([fine := new_job(queue=queue, order_key="k")])
            found = [job for _ in range(3) for job in took(store, 1, queue=queue)]
            assert found == [fine.id], queue
            assert not taken or is_dead(store, odd.id)

    @pytest.mark.parametrize("limits", ['{"rate": 5}', '{"hold": "smtp"}', '["smtp"]', "smtp"])
    def test_however_it_is_claimed(self, store: Store, limits: str) -> None:
        for queue in ("popped", "a batch", "by its id", "again"):
            odd, fine = new_job(queue=queue, limits=limits), new_job(queue=queue)
            if not stored(store, odd):
                return
            store.push([fine])
            wish = Claim(queue, 10, new_id(), lease=LONG_LEASE)
            if queue == "popped":
                assert [row.id for row in pop(store, wish._replace(token=f"{new_id()}-")).rows] == [fine.id]
            elif queue == "a batch":
                assert store.claim(wish._replace(rows=False)).reserved == 1
                assert reserved_ids(store, queue, wish.token) == [fine.id]
            elif queue == "by its id":
                named = wish._replace(ids=((odd.id, ""), (fine.id, "")))
                assert [row.id for row in store.claim(named).rows] == [fine.id]
            else:
                for repeat in (False, True):
                    assert [row.id for row in store.claim(wish._replace(repeat=repeat)).rows] == [fine.id]
            assert is_dead(store, odd.id)

    def test_a_batch_has_the_jobs_behind_them(self, store: Store) -> None:
        odd = [new_job(limits=limits) for limits in ("smtp", '{"rate": 5}', '{"hold": "smtp"}')]
        dead = [job.id for job in odd if stored(store, job)]
        store.push([fine := new_job()])
        wish = Claim(QUEUE, 1, new_id(), lease=LONG_LEASE, repeat=True, rows=False)
        assert store.claim(wish).reserved == 1
        assert reserved_ids(store, QUEUE, wish.token) == [fine.id]
        assert store.claim(wish._replace(token=new_id())).reserved == 0
        assert all(is_dead(store, job) for job in dead)

    @pytest.mark.parametrize("limits", ['{"rate": 5}', '{"hold": "smtp"}', '["smtp"]', "smtp"])
    def test_the_dead_job_can_be_operated(self, app: Stanchion, store: Store, limits: str) -> None:
        odd = new_job(limits=limits, order_key="k")
        if not stored(store, odd):
            return
        assert took(store, 1) == []
        found = app.get(odd.id)
        assert found is not None
        assert (found.state, found.limits, found.attempts) == (JobState.DEAD, [], 1)
        store.retry([odd.id])
        assert took(store, 1) == []
        assert is_dead(store, odd.id)
        store.retry([odd.id])
        assert store.cancel([odd.id]) == [JobState.CANCELLED]

    @pytest.mark.parametrize("limits", ['{"rate": 5}', '{"hold": "smtp"}', '["smtp"]', "smtp"])
    def test_jobs_of_another_store(self, store: Store, limits: str) -> None:
        row = created(new_job(limits=limits), store.now())
        try:
            store.adopt([row])
        except InvalidInput:
            assert store.fetch([row.id]) == {}
        else:
            assert claim(store) == []
            assert state(store, row.id) is JobState.DEAD
