"""Errors of one kind in one task are a group, whose key is stored with each of them."""

from __future__ import annotations

import pytest

from stanchion import Queue, Stanchion
from stanchion.core.text.error_kinds import group_of
from stanchion.stores.protocol import Store
from stanchion.stores.records.outcomes import Bury, Rollback
from stanchion.stores.rules.lifecycle.error_entries import entries_of
from stanchion_conformance.harness import QUEUE, StoreClock, claim, new_job, row_of


class Declined(Exception):
    """A failure that says what it is."""

    fingerprint = "card declined"


class TestErrorGroups:
    def test_a_failure_has_the_key_of_its_group(self, q: Queue) -> None:
        for number in range(3):
            q.push({})
            q.reserve()[0].bury(ValueError(f"no stock for {number}" if number else "no address"))
        groups = [job.error_group for job in q.find(state="dead")]
        assert groups[0] == groups[1] == group_of("ValueError: no stock for 7", None) != groups[2]
        assert [[entry["group"] for entry in job.errors] for job in q.find()] == [[group] for group in groups]

    @pytest.mark.parametrize("attempts", [1, 2])
    def test_an_exception_may_name_its_own(self, app: Stanchion, attempts: int) -> None:
        @app.task(name="capture", queue=QUEUE, max_attempts=attempts)
        def capture(order: int) -> None:
            raise Declined(f"order {order}: {'do not honour' if order % 2 else 'expired'}")

        for order in (1, 2):
            capture.enqueue(order)
        app.drain()
        jobs = app.find(queue=QUEUE)
        assert {job.error_group for job in jobs} == {group_of("", "capture", "card declined")}
        assert {job.error_group for job in jobs} != {group_of("Declined: order 1: expired", "capture")}

    def test_an_outcome_without_a_key_gets_one(self, store: Store) -> None:
        """As those of clients that know of none, and lost leases."""
        rows = [new_job(task="ship"), new_job(task="ship")]
        store.push(rows)
        held = claim(store, 2)
        store.settle([Rollback(held[0].lease, 60.0, "E: 1"), Bury(held[1].lease, "E: 2", group="no key")])
        found = {entry for row in held for entry in _groups(store, row.id)}
        assert found == {group_of("E: 3", "ship")}

    def test_a_lost_lease_is_a_group_of_its_own(self, q: Queue, store: Store, clock: StoreClock) -> None:
        pushed = q.push({})
        q.reserve(lease=10)
        clock.advance(11)
        store.recover()
        found = q.get(pushed.id)
        assert found is not None
        assert found.error_group == group_of(found.errors[-1]["error"], None)


def _groups(store: Store, job_id: str) -> list[str]:
    return [entry["group"] for entry in entries_of(row_of(store, job_id))]
