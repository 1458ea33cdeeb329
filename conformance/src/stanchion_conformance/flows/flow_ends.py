"""The verbs of flows: failures, stopped flows, and jobs that continue as another call."""

from __future__ import annotations

from itertools import pairwise

import pytest

from stanchion.core.ids import new_ids
from stanchion.stores.protocol import Store
from stanchion.stores.records.flows import FlowNode, NodeState, OpenFlow, StopFlow
from stanchion.stores.records.jobs import JobState, Redriven
from stanchion.stores.records.outcomes import Abandon, Bury, Commit, Continue, Rollback
from stanchion.stores.rules.flows import FlowPosition
from stanchion_conformance.flows.flow_nodes import bury, commit, handler_in, members, new_node, node_of, waiter
from stanchion_conformance.harness import (
    QUEUE,
    StoreClock,
    all_at_once,
    claim,
    counts_of,
    find_jobs,
    new_job,
    row_of,
    sizes_of,
    state,
)


class TestAFailedMember:
    @pytest.mark.parametrize("how", ["bury", "used up", "lost", "abandon", "cancel", "drop", "dead letter"])
    def test_fails_its_node(self, store: Store, clock: StoreClock, how: str) -> None:
        if how == "dead letter":
            store.configure(QUEUE, {"dead_letter": "letters"})
        node = new_node(2)
        node, handler = handler_in(node, queue="handlers")
        after = waiter(node, queue="after")
        store.change_flows([OpenFlow([node], [*members(node, max_attempts=1), after])])
        (row,) = claim(store, lease=10.0)
        if how in ("bury", "dead letter"):
            store.settle([Bury(row.lease, "it broke")])
        elif how == "used up":
            store.settle([Rollback(row.lease, 0.0, "it broke")])
        elif how == "lost":
            clock.advance(11)
            store.recover()
        elif how == "abandon":
            store.settle([Abandon(row.lease)])
        elif how == "cancel":
            store.settle([Rollback(row.lease, 0.0, refund=True)])
            store.cancel([row.id])
        else:
            store.drop_queue(QUEUE)
        assert node_of(store, node).state == NodeState.FAILED
        assert state(store, after.id) is JobState.CANCELLED
        assert state(store, handler) is JobState.READY
        first = store.flow_ends(node.id)[0]
        dead = how in ("bury", "used up", "lost", "dead letter")
        assert (first.job, first.state) == (row.id, JobState.DEAD if dead else JobState.CANCELLED)

    @pytest.mark.parametrize("found_by", ["claim", "maintain"])
    def test_that_has_expired_fails_its_node(self, store: Store, clock: StoreClock, found_by: str) -> None:
        node = new_node(1)
        after = waiter(node, queue="after")
        jobs = members(node, expires=10.0)
        store.change_flows([OpenFlow([node], [*jobs, after])])
        clock.advance(10)
        assert claim(store) == [] if found_by == "claim" else store.maintain() == []
        assert node_of(store, node).state == NodeState.FAILED
        assert state(store, after.id) is JobState.CANCELLED
        assert [(end.job, end.state) for end in store.flow_ends(node.id)] == [(jobs[0].id, JobState.CANCELLED)]

    def test_lets_the_others_go_on(self, store: Store) -> None:
        node = new_node(3)
        store.change_flows([OpenFlow([node], members(node))])
        bury(store)
        commit(store, 2)
        assert [(end.state, end.result) for end in store.flow_ends(node.id)] == [
            ("dead", None),
            ("done", "1"),
            ("done", "2"),
        ]
        failed = node_of(store, node)
        assert (failed.state, failed.ended) == (NodeState.FAILED, 3)

    def test_cancels_all_that_would_follow(self, store: Store) -> None:
        length = 200
        ids = new_ids(length)
        root = ids[0]
        nodes = [FlowNode(node_id, root) for node_id in ids]
        nodes[-1], handler = handler_in(nodes[-1])
        steps = [waiter(before, member_of) for before, member_of in pairwise(nodes)]
        store.change_flows([OpenFlow(nodes, [*members(nodes[0]), *steps])])
        bury(store)
        assert {node.state for node in store.flow_nodes(root)} == {NodeState.FAILED}
        assert len(find_jobs(store, flow_root=root, states=(JobState.CANCELLED,), limit=1000)) == length - 1
        assert sizes_of(store, QUEUE).waiting == 0
        assert [row.id for row in claim(store, 5)] == [handler]

    def test_fails_those_that_its_node_is_a_member_of(self, store: Store) -> None:
        outer = new_node(2)
        middle = new_node(1, root=outer.id, parent=f"{outer.id}:1")
        inner = new_node(1, root=outer.id, parent=f"{middle.id}:0")
        store.change_flows([OpenFlow([outer, middle, inner], [*members(outer, 1), *members(inner)])])
        commit(store)
        bury(store)
        assert {node.state for node in store.flow_nodes(outer.id)} == {NodeState.FAILED}
        assert [(end.index, end.state, end.child) for end in store.flow_ends(outer.id)] == [
            (0, JobState.DONE, None),
            (1, JobState.DEAD, middle.id),
        ]

    def test_brings_the_handler_once_however_many_fail_at_once(self, store: Store, other_store: Store) -> None:
        node, handler = handler_in(new_node(30), queue="handlers")
        store.change_flows([OpenFlow([node], members(node))])
        hands = [(mine, claim(mine, 5)) for mine in [store, other_store] * 3]
        all_at_once(
            [
                lambda mine=mine, rows=rows: mine.settle([Bury(row.lease, "x") for row in rows])  # type: ignore[misc]
                for mine, rows in hands
            ]
        )
        assert (node_of(store, node).state, node_of(store, node).ended) == (NodeState.FAILED, 30)
        assert counts_of(store, "handlers").pushed == 1
        assert [row.id for row in claim(store, 5, queue="handlers")] == [handler]

    def test_that_is_redriven_ends_anew_and_its_node_stays_failed(self, store: Store) -> None:
        node = new_node(1)
        node, _ = handler_in(node, queue="handlers")
        after = waiter(node)
        store.change_flows([OpenFlow([node], [*members(node), after])])
        job_id = bury(store)
        assert store.retry([job_id]) == [Redriven.READY]
        commit(store, result="1")
        assert [(end.state, end.result) for end in store.flow_ends(node.id)] == [(JobState.DONE, "1")]
        failed = node_of(store, node)
        assert (failed.state, failed.ended) == (NodeState.FAILED, 1)
        assert state(store, after.id) is JobState.CANCELLED
        assert counts_of(store, "handlers").pushed == 1


class TestAStoppedFlow:
    def test_ends_as_cancelled(self, store: Store) -> None:
        node = new_node(2)
        node, _ = handler_in(node)
        done = new_node(1, root=node.id)
        after = waiter(node)
        store.change_flows([OpenFlow([node, done], [*members(done), *members(node), after])])
        commit(store)
        assert store.change_flows([StopFlow(node.id)]) == [True]
        assert node_of(store, node).state == NodeState.CANCELLED
        assert node_of(store, done).state == NodeState.DONE
        commit(store)
        bury(store)
        assert node_of(store, node).state == NodeState.CANCELLED
        assert state(store, after.id) is JobState.WAITING
        assert claim(store) == []
        assert store.cancel([after.id]) == [JobState.CANCELLED]


class TestContinuing:
    def test_lets_a_job_go_on_as_another_call(self, store: Store) -> None:
        node = new_node(1)
        after = waiter(node)
        store.change_flows([OpenFlow([node], [*members(node, max_attempts=1), after])])
        (row,) = claim(store)
        kept = {name: getattr(row, name) for name in FlowPosition._fields}
        call = new_job('"again"', **kept, task="other", max_attempts=1)
        assert store.settle([Continue(row.lease, call)]) == [JobState.READY]
        assert store.settle([Commit(row.lease)]) == [None]
        assert store.flow_ends(node.id) == []
        assert (sizes_of(store, QUEUE).total, counts_of(store, QUEUE).pushed) == (2, 2)
        (again,) = claim(store)
        assert (again.id, again.payload, again.task, again.attempts) == (row.id, '"again"', "other", 1)
        assert again.enqueued_at == row.enqueued_at
        store.settle([Commit(again.lease, '"value"')])
        assert [(end.job, end.result) for end in store.flow_ends(node.id)] == [(row.id, '"value"')]
        assert state(store, after.id) is JobState.READY

    def test_behind_other_jobs(self, store: Store) -> None:
        store.push([new_job()])
        (row,) = claim(store)
        node = new_node(2)
        call = waiter(node, queue="other")
        outcome = Continue(row.lease, call, (node,), tuple(members(node)))
        assert store.settle([outcome]) == [JobState.WAITING]
        assert row_of(store, row.id).queue == "other"
        assert store.settle([outcome], repeat=True) == [JobState.WAITING]
        assert store.settle([outcome]) == [None]
        commit(store, 2)
        assert [job.id for job in claim(store, queue="other")] == [row.id]

    def test_is_for_who_holds_the_job(self, store: Store, clock: StoreClock) -> None:
        store.push([new_job()])
        (row,) = claim(store, lease=10.0)
        clock.advance(11)
        (held,) = claim(store)
        node = new_node(1)
        late = Continue(row.lease, waiter(node), (node,), tuple(members(node)))
        assert store.settle([late]) == [None]
        assert (store.flow_nodes(node.id), sizes_of(store, QUEUE).total) == ([], 1)
        assert store.settle([Commit(held.lease)]) == [JobState.DONE]

    def test_behind_nothing_it_goes_on_at_once(self, store: Store) -> None:
        store.push([new_job()])
        (row,) = claim(store)
        node = new_node(0)
        store.settle([Continue(row.lease, waiter(node), (node,))])
        assert [again.payload for again in claim(store)] == ['"waiter"']

    def test_one_that_was_asked_to_stop_is_cancelled(self, store: Store) -> None:
        node = new_node(1)
        store.change_flows([OpenFlow([node], members(node))])
        (row,) = claim(store)
        assert store.cancel([row.id]) == [JobState.RUNNING]
        further = new_node(1, root=node.id)
        outcome = Continue(row.lease, waiter(further), (further,), tuple(members(further)))
        assert store.settle([outcome]) == [JobState.CANCELLED]
        assert [one.state for one in store.flow_nodes(node.id)] == [NodeState.FAILED]
        assert sizes_of(store, QUEUE).total == 0
