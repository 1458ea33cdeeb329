"""Claims by ids start nothing that another claim would not start."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import POPPED, Claim, Claimed
from stanchion.stores.records.flows import FlowNode, OpenFlow
from stanchion.stores.records.jobs import SECOND, JobState
from stanchion.stores.records.outcomes import Commit, Rollback
from stanchion.stores.rules.capacity.limits import Rate
from stanchion.stores.rules.capacity.slots import node_slot, waits_at
from stanchion_conformance.harness import QUEUE, StoreClock, claim, counts_of, new_job, row_of, sizes_of, slot_of
from stanchion_conformance.limits.semaphores import SMTP, limited
from stanchion_conformance.manager.by_id import claim_ids, named, pushed, rows_of

SLOW = Rate("welcome/acme", 0.01)
"""One start in 100 seconds."""


def finish(store: Store, *ids: str) -> None:
    """Commit running jobs."""
    rows = [row_of(store, job_id) for job_id in ids]
    assert store.settle([Commit(row.lease) for row in rows]) == [JobState.DONE] * len(rows)


class TestLimitsOfClaimsById:
    def test_a_pause(self, store: Store) -> None:
        (job,) = pushed(store, 1)
        store.configure(QUEUE, {"paused": True})
        assert store.claim(named(job)) == Claimed([])
        store.configure(QUEUE, {"paused": False})
        assert claim_ids(store, job) == [job.id]

    def test_max_running(self, store: Store) -> None:
        store.configure(QUEUE, {"max_running": 3})
        jobs = pushed(store, 5)
        (plain,) = claim(store)
        ids = [job.id for job in reversed(jobs[1:])]
        assert claim_ids(store, *ids) == ids[:2]
        assert claim_ids(store, *ids) == []
        finish(store, plain.id)
        assert claim_ids(store, *ids) == ids[2:3]

    def test_those_that_are_not_due_take_no_place(self, store: Store) -> None:
        store.configure(QUEUE, {"max_running": 1})
        future = new_job(delay=60.0)
        store.push([future])
        (job,) = pushed(store, 1)
        assert claim_ids(store, future, new_id(), job) == [job.id]

    def test_max_rate(self, store: Store, clock: StoreClock) -> None:
        store.configure(QUEUE, {"max_rate": 0.01})
        jobs = pushed(store, 3)
        first = store.claim(named(*jobs))
        assert [row.id for row in first.rows] == [jobs[0].id]
        assert first.retry_in is not None
        assert 90 < first.retry_in <= 100
        again = store.claim(named(*jobs[1:]))
        assert again.rows == []
        assert again.retry_in is not None
        clock.advance(101)
        assert claim_ids(store, jobs[2], jobs[1]) == [jobs[2].id]

    def test_what_does_not_come_spends_no_start(self, store: Store) -> None:
        store.configure(QUEUE, {"max_rate": 0.01})
        (job,) = pushed(store, 1)
        assert claim_ids(store, new_id(), new_id()) == []
        assert claim_ids(store, job) == [job.id]

    def test_an_ordered_queue(self, store: Store) -> None:
        store.configure(QUEUE, {"ordered": True, "max_running": 1})
        first, second, third = pushed(store, 3)
        assert claim_ids(store, second, third) == []
        assert claim_ids(store, third, first, second) == [first.id]
        assert claim_ids(store, second) == []
        assert store.settle([Rollback(row_of(store, first.id).lease, 0.0, "no")]) == [JobState.READY]
        assert claim_ids(store, second, third) == []
        assert claim_ids(store, second, first) == [first.id]
        assert store.settle([Rollback(row_of(store, first.id).lease, 60.0, "no")]) == [JobState.SCHEDULED]
        assert claim_ids(store, second, third) == []
        store.cancel([first.id])
        assert claim_ids(store, third) == []
        assert claim_ids(store, second, third) == [second.id]

    def test_the_head_is_not_chosen_by_a_look(self, store: Store) -> None:
        store.configure(QUEUE, {"ordered": True, "max_running": 1})
        _, second = pushed(store, 2)
        assert claim_ids(store, second) == []
        (urgent,) = pushed(store, 1, priority=5)
        assert [row.id for row in claim(store)] == [urgent.id]

    def test_lanes_and_ranks_do_not_count(self, store: Store) -> None:
        store.configure(QUEUE, {"lanes": 4})
        jobs = [new_job(lane=lane, priority=priority) for lane, priority in ((3, -5), (0, 9), (2, 0), (0, 1))]
        store.push(jobs)
        wish = named(*jobs[:3], lanes=(1, 1), min_rank=100)
        assert [row.id for row in store.claim(wish).rows] == [job.id for job in jobs[:3]]
        assert [row.id for row in claim(store)] == [jobs[3].id]

    def test_they_leave_the_round_of_the_lanes_alone(self, store: Store) -> None:
        store.configure(QUEUE, {"lanes": 3})
        jobs = [new_job(lane=lane) for lane in (0, 1, 2, 0, 1, 2)]
        store.push(jobs)
        assert [row.lane for row in claim(store)] == [0]
        assert claim_ids(store, jobs[5], jobs[4]) == [jobs[5].id, jobs[4].id]
        assert [row.lane for row in claim(store)] == [1]


class TestSlotsOfClaimsById:
    def test_semaphores(self, store: Store) -> None:
        store.set_semaphore(SMTP, 2)
        jobs = [limited(SMTP) for _ in range(4)]
        store.push(jobs)
        assert claim_ids(store, jobs[2], jobs[0], jobs[1]) == [jobs[2].id, jobs[0].id]
        assert slot_of(store, SMTP) == (sorted([jobs[0].id, jobs[2].id]), [jobs[1].id])
        finish(store, jobs[2].id)
        assert claim_ids(store, jobs[3], jobs[1]) == [jobs[1].id]
        assert slot_of(store, SMTP) == (sorted([jobs[0].id, jobs[1].id]), [jobs[3].id])
        counts = counts_of(store, QUEUE)
        assert counts.reserved == 3

    def test_jobs_with_and_without(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        first, second = limited(SMTP), limited(SMTP)
        plain = new_job()
        store.push([first, plain, second])
        ids = ((second.id, "a"), (plain.id, "b"), (first.id, "b"))
        rows = store.claim(Claim(QUEUE, 3, new_id(), ids=ids)).rows
        assert [(row.id, row.worker) for row in rows] == [(second.id, "a"), (plain.id, "b")]
        assert rows == [row_of(store, row.id) for row in rows]
        assert row_of(store, first.id).state == "waiting"

    def test_each_holds_its_slots_for_its_worker(self, store: Store) -> None:
        store.set_semaphore(SMTP, 2)
        jobs = [limited(SMTP), limited(SMTP)]
        store.push(jobs)
        ids = ((jobs[0].id, "a"), (jobs[1].id, ""))
        rows = store.claim(Claim(QUEUE, 2, new_id(), lease=60.0, holder="h", ids=ids)).rows
        assert [(row.worker, row.lease_until is None, row.slots_held) for row in rows] == [
            ("a", True, 1),
            ("h", False, 1),
        ]
        assert rows == [row_of(store, row.id) for row in rows]
        finish(store, *(row.id for row in rows))
        assert slot_of(store, SMTP) == ([], [])

    def test_order_keys(self, store: Store) -> None:
        jobs = pushed(store, 3, order_key="k")
        assert claim_ids(store, jobs[1]) == []
        assert claim_ids(store, jobs[2], jobs[0]) == [jobs[0].id]
        assert claim_ids(store, jobs[1], jobs[2]) == []
        finish(store, jobs[0].id)
        assert claim_ids(store, jobs[2], jobs[1]) == [jobs[1].id]
        finish(store, jobs[1].id)
        assert claim_ids(store, jobs[2]) == [jobs[2].id]

    def test_a_key_is_held_between_attempts(self, store: Store) -> None:
        first, second = pushed(store, 2, order_key="k")
        (row,) = rows_of(store, first)
        assert store.settle([Rollback(row.lease, 60.0, "no")]) == [JobState.SCHEDULED]
        assert claim_ids(store, second) == []
        store.cancel([first.id])
        assert claim_ids(store, second) == [second.id]

    def test_keyed_rates(self, store: Store, clock: StoreClock) -> None:
        jobs = [limited(rate=SLOW) for _ in range(2)]
        store.push(jobs)
        assert claim_ids(store, *jobs) == [jobs[0].id]
        assert row_of(store, jobs[1].id).run_at > store.now() + 50 * SECOND
        assert claim_ids(store, jobs[1]) == []
        clock.advance(101)
        assert claim_ids(store, jobs[1]) == [jobs[1].id]

    def test_a_waiting_job_does_not_come(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        first, second = limited(SMTP), limited(SMTP)
        store.push([first, second])
        assert [row.id for row in claim(store, 2)] == [first.id]
        before = row_of(store, second.id)
        assert before.state == "waiting"
        assert claim_ids(store, second) == []
        assert row_of(store, second.id) == before

    def test_a_job_behind_a_node_of_its_flow(self, store: Store) -> None:
        node = FlowNode(new_id(), new_id(), size=1)
        member = new_job(flow_root=node.root, flow_node=node.id, flow_index=0)
        after = new_job(flow_root=node.root, flow_after=node.id, **waits_at(node_slot(node.id)))
        store.change_flows([OpenFlow((node,), (member, after))])
        assert claim_ids(store, after, member) == [member.id]
        finish(store, member.id)
        assert claim_ids(store, after) == [after.id]

    def test_a_pop_of_jobs_with_slots(self, store: Store) -> None:
        store.set_semaphore(SMTP, 1)
        jobs = [limited(SMTP), limited(SMTP)]
        store.push(jobs)
        assert claim_ids(store, *jobs, delivery=POPPED) == [jobs[0].id]
        assert counts_of(store, QUEUE).reserved == 0
        finish(store, jobs[0].id)
        assert counts_of(store, QUEUE).popped == 1

    @pytest.mark.parametrize("fields", [{}, {"order_key": "k"}], ids=str)
    def test_a_repeat_with_slots(self, store: Store, fields: dict[str, Any]) -> None:
        store.set_semaphore(SMTP, 1)
        job = limited(SMTP, **fields)
        store.push([job])
        wish = named(job)
        before = store.claim(wish).rows
        assert store.claim(wish._replace(repeat=True)).rows == before
        assert slot_of(store, SMTP) == ([job.id], [])
        assert sizes_of(store, QUEUE).running == 1
