"""The verbs of flows: nodes, their member ends, and the jobs that wait for them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.errors import CannotJoin, DuplicateKey
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.flows import CloseFlow, ExtendFlow, FlowNode, NodeState, OpenFlow, StopFlow
from stanchion.stores.records.jobs import SECOND, JobState, NewJob
from stanchion.stores.records.outcomes import Bury, Commit, Rollback
from stanchion.stores.rules.capacity.slots import node_slot, waits_at
from stanchion.stores.rules.flows import FlowPosition
from stanchion.waits.pop import pop
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
    transaction,
)


def new_node(size: int = 1, kind: str = "list", **fields: Any) -> FlowNode:
    """Return a node, the root of its flow unless fields say otherwise."""
    node_id = new_id()
    return FlowNode(**{"id": node_id, "root": node_id, "kind": kind, "size": size, **fields})


def members(node: FlowNode, count: int | None = None, **fields: Any) -> list[NewJob]:
    """Return jobs as the members of a node, one for each index."""
    indexes = range(node.size if count is None else count)
    return [new_job(str(index), **FlowPosition(node.root, node.id, index)._asdict(), **fields) for index in indexes]


def waiter(node: FlowNode, member_of: FlowNode | None = None, **fields: Any) -> NewJob:
    """Return a job that waits for a node, and is itself the only member of `member_of`."""
    position = FlowPosition(node.root, flow_after=node.id)
    if member_of is not None:
        position = position._replace(flow_node=member_of.id, flow_index=0)
    return new_job('"waiter"', **position._asdict(), **waits_at(node_slot(node.id)), **fields)


def handler_in(node: FlowNode, **fields: Any) -> tuple[FlowNode, str]:
    """Return the node with an on_failure job, and the id of that job."""
    job = new_job('"handler"', **FlowPosition(node.root)._asdict(), **fields)
    return node._replace(on_failure=json.dumps(job._asdict())), job.id


def commit(store: Store, count: int = 1, result: str | None = None) -> None:
    """Claim and commit jobs; the payload is the result unless one is given."""
    rows = claim(store, count)
    assert len(rows) == count
    done = [Commit(row.lease, row.payload if result is None else result) for row in rows]
    assert store.settle(done) == [JobState.DONE] * count


def bury(store: Store) -> str:
    """Claim a job and bury it; return its id."""
    (row,) = claim(store)
    assert store.settle([Bury(row.lease, "it broke")]) == [JobState.DEAD]
    return row.id


def node_of(store: Store, node: FlowNode) -> FlowNode:
    """Return a node as it is now."""
    return next(one for one in store.flow_nodes(node.root) if one.id == node.id)


class TestMembersOfANode:
    def test_let_in_who_waits_once_all_are_done(self, store: Store, other_store: Store) -> None:
        node = new_node(3)
        after = waiter(node)
        store.change_flows([OpenFlow([node], [*members(node), after])])
        assert (sizes_of(store, QUEUE).ready, sizes_of(store, QUEUE).waiting) == (3, 1)
        commit(store, 2)
        assert state(store, after.id) is JobState.WAITING
        assert (node_of(store, node).state, node_of(store, node).ended) == (NodeState.RUNNING, 2)
        commit(other_store)
        assert state(store, after.id) is JobState.READY
        done = node_of(store, node)
        assert (done.state, done.ended, done.size) == (NodeState.DONE, 3, 3)
        assert done.finished_at is not None
        assert done.created_at <= done.finished_at
        assert [row.id for row in claim(store, 5)] == [after.id]

    def test_end_in_their_places(self, store: Store) -> None:
        node = new_node(5)
        jobs = members(node)
        store.change_flows([OpenFlow([node], jobs)])
        rows = claim(store, 5)
        for row in reversed(rows):
            store.settle([Commit(row.lease, f'"{row.payload!s}"')])
        ends = store.flow_ends(node.id)
        assert [(end.index, end.result, end.job, end.state) for end in ends] == [
            (place, f'"{place}"', job.id, JobState.DONE) for place, job in enumerate(jobs)
        ]
        assert store.flow_ends(node.id, after=1, limit=2) == ends[2:4]
        assert store.flow_ends(node.id, after=4) == []
        assert store.flow_ends(new_id()) == []

    def test_may_be_popped(self, store: Store) -> None:
        node = new_node(2)
        store.change_flows([OpenFlow([node], members(node))])
        assert len(pop(store, Claim(QUEUE, 2, new_id())).rows) == 2
        assert node_of(store, node).state == NodeState.DONE

    def test_may_be_retried_first(self, store: Store) -> None:
        node = new_node()
        after = waiter(node)
        store.change_flows([OpenFlow([node], [*members(node), after])])
        (row,) = claim(store)
        store.settle([Rollback(row.lease, 0.0, "not yet")])
        assert store.flow_ends(node.id) == []
        commit(store)
        assert state(store, after.id) is JobState.READY

    def test_are_not_counted_twice_when_an_outcome_is_repeated(self, store: Store) -> None:
        node = new_node(2)
        store.change_flows([OpenFlow([node], members(node))])
        rows = claim(store, 2)
        done = Commit(rows[0].lease, "1")
        assert store.settle([done]) == [JobState.DONE]
        assert store.settle([done], repeat=True) == [JobState.DONE]
        assert store.settle([done]) == [None]
        assert (node_of(store, node).ended, node_of(store, node).state) == (1, NodeState.RUNNING)

    def test_need_no_history(self, store: Store) -> None:
        store.configure(QUEUE, {"history_ttl": 0.0})
        node = new_node(2)
        after = waiter(node)
        store.change_flows([OpenFlow([node], [*members(node), after])])
        commit(store, 2)
        assert [end.result for end in store.flow_ends(node.id)] == ["0", "1"]
        assert [row.id for row in claim(store, 5)] == [after.id]

    def test_that_wait_for_later_are_due_then(self, store: Store) -> None:
        node = new_node()
        later = waiter(node, run_at=store.now() + 3600 * SECOND)
        store.change_flows([OpenFlow([node], [*members(node), later])])
        commit(store)
        assert state(store, later.id) is JobState.SCHEDULED

    def test_complete_it_once_however_many_end_at_once(self, store: Store, other_store: Store) -> None:
        outer = new_node(2)
        nodes = [new_node(40, root=outer.id, parent=f"{outer.id}:{place}") for place in range(2)]
        after = waiter(outer)
        store.change_flows([OpenFlow([outer, *nodes], [*members(nodes[0]), *members(nodes[1]), after])])

        def work(mine: Store) -> None:
            while rows := [row for row in claim(mine, 3) if row.id != after.id]:
                mine.settle([Commit(row.lease, row.payload) for row in rows])

        all_at_once([lambda one=one: work(one) for one in [store, other_store] * 3])  # type: ignore[misc]
        assert [(one.state, one.ended) for one in store.flow_nodes(outer.id)] == [
            (NodeState.DONE, 2),
            (NodeState.DONE, 40),
            (NodeState.DONE, 40),
        ]
        row = row_of(store, after.id)
        assert row.waits_for is None
        assert row.attempts <= 1


class TestOpeningAFlow:
    def test_again_changes_nothing(self, store: Store, other_store: Store) -> None:
        node = new_node(2)
        jobs = [*members(node), waiter(node)]
        for mine in (store, other_store):
            mine.change_flows([OpenFlow([node], jobs)])
        assert counts_of(store, QUEUE).pushed == 3
        commit(store, 2)
        store.change_flows([OpenFlow([node], jobs)])
        assert node_of(store, node).state == NodeState.DONE
        assert (counts_of(store, QUEUE).pushed, sizes_of(store, QUEUE).total) == (3, 1)

    def test_with_nothing_in_it_is_done_at_once(self, store: Store) -> None:
        outer = new_node(1)
        inner = new_node(0, root=outer.id, parent=f"{outer.id}:0")
        after = waiter(outer)
        store.change_flows([OpenFlow([outer, inner], [after])])
        assert [node.state for node in store.flow_nodes(outer.id)] == [NodeState.DONE] * 2
        assert [end.child for end in store.flow_ends(outer.id)] == [inner.id]
        assert [row.id for row in claim(store, 5)] == [after.id]

    def test_in_parts(self, store: Store) -> None:
        node = new_node(3)
        after = waiter(node)
        store.change_flows([OpenFlow([node], [after])])
        for job in members(node):
            store.change_flows([OpenFlow([], [job])])
        commit(store, 3)
        assert [row.id for row in claim(store, 5)] == [after.id]

    def test_with_a_key_that_is_taken_stores_nothing(self, store: Store) -> None:
        store.push([new_job(key="k")])
        node = new_node(2)
        jobs = members(node)
        jobs[1] = jobs[1]._replace(key="k", on_duplicate="raise")
        with pytest.raises(DuplicateKey):
            store.change_flows([OpenFlow([node], jobs)])
        assert store.flow_nodes(node.root) == []
        assert sizes_of(store, QUEUE).total == 1

    def test_its_jobs_are_found_by_it(self, store: Store) -> None:
        one, other = new_node(3), new_node(1)
        for node in (one, other):
            store.change_flows([OpenFlow([node], members(node))])
        store.push([new_job()])
        commit(store, 2)
        found = find_jobs(store, flow_root=one.id)
        assert [row.payload for row in found] == ["2", "1", "0"]
        assert [row.payload for row in find_jobs(store, flow_root=one.id, limit=2, after=found[0].id)] == ["1", "0"]
        assert [row.payload for row in find_jobs(store, flow_root=one.id, states=(JobState.DONE,))] == ["1", "0"]
        assert [row.payload for row in find_jobs(store, flow_root=one.id, queue=QUEUE, states=(JobState.READY,))] == [
            "2"
        ]
        assert find_jobs(store, flow_root=new_id()) == []

    def test_forgets_it_a_week_after_its_end(self, store: Store, clock: StoreClock) -> None:
        ended, going_on = new_node(1), new_node(2)
        for node in (ended, going_on):
            store.change_flows([OpenFlow([node], members(node))])
        commit(store, 2)
        clock.advance(6 * 86_400)
        store.maintain()
        assert len(store.flow_nodes(ended.id)) == 1
        clock.advance(86_401)
        store.maintain()
        assert (store.flow_nodes(ended.id), store.flow_ends(ended.id)) == ([], [])
        assert len(store.flow_nodes(going_on.id)) == 1
        assert len(store.flow_ends(going_on.id)) == 1


class TestAnOpenNode:
    def test_takes_members_until_it_is_closed(self, store: Store, other_store: Store) -> None:
        node = new_node(0, closed=False)
        after = waiter(node)
        store.change_flows([OpenFlow([node], [after])])
        assert store.change_flows([ExtendFlow(node.id, members(node, 2))]) == [True]
        assert other_store.change_flows([ExtendFlow(node.id, members(node, 2))]) == [True]
        commit(store, 4)
        assert node_of(store, node)._replace(created_at=0) == node._replace(size=4, ended=4)
        assert store.change_flows([CloseFlow(node.id)]) == [True]
        assert other_store.change_flows([CloseFlow(node.id)]) == [True]
        assert store.change_flows([ExtendFlow(node.id, members(node, 1))]) == [False]
        assert [end.index for end in store.flow_ends(node.id)] == [0, 1, 2, 3]
        assert node_of(store, node).state == NodeState.DONE
        assert [row.id for row in claim(store, 5)] == [after.id]

    def test_takes_members_once_however_often_they_come(self, store: Store, other_store: Store) -> None:
        node = new_node(0, closed=False)
        store.change_flows([OpenFlow([node])])
        coming = members(node, 3)
        assert store.change_flows([ExtendFlow(node.id, coming)]) == [True]
        assert other_store.change_flows([ExtendFlow(node.id, coming)]) == [True]
        commit(store)
        assert store.change_flows([ExtendFlow(node.id, coming)]) == [True]
        assert node_of(store, node).size == 3
        store.change_flows([CloseFlow(node.id)])
        assert store.change_flows([ExtendFlow(node.id, coming)]) == [True]
        commit(store, 2)
        assert node_of(store, node).state == NodeState.DONE

    def test_is_done_by_the_last_member_after_it_is_closed(self, store: Store) -> None:
        node = new_node(0, closed=False)
        store.change_flows([OpenFlow([node])])
        store.change_flows([ExtendFlow(node.id, members(node, 2))])
        commit(store)
        store.change_flows([CloseFlow(node.id)])
        assert node_of(store, node).state == NodeState.RUNNING
        commit(store)
        assert node_of(store, node).state == NodeState.DONE

    def test_may_stay_empty(self, store: Store) -> None:
        node = new_node(0, closed=False)
        store.change_flows([OpenFlow([node])])
        assert node_of(store, node).state == NodeState.RUNNING
        store.change_flows([CloseFlow(node.id)])
        assert node_of(store, node).state == NodeState.DONE

    def test_that_is_not_there(self, store: Store) -> None:
        assert store.change_flows([ExtendFlow(new_id(), [new_job()])]) == [False]
        assert store.change_flows([CloseFlow(new_id())]) == [False]
        assert store.change_flows([StopFlow(new_id())]) == [False]
        assert store.flow_nodes(new_id()) == []
        assert sizes_of(store, QUEUE).total == 0

    def test_gives_each_member_a_place_of_its_own(self, store: Store, other_store: Store) -> None:
        node = new_node(0, closed=False)
        store.change_flows([OpenFlow([node])])
        all_at_once(
            [
                lambda one=one: [one.change_flows([ExtendFlow(node.id, members(node, 3))]) for _ in range(5)]  # type: ignore[misc]
                for one in [store, other_store] * 2
            ]
        )
        store.change_flows([CloseFlow(node.id)])
        commit(store, 60)
        assert [end.index for end in store.flow_ends(node.id)] == list(range(60))
        assert node_of(store, node).state == NodeState.DONE


class TestSeveralChanges:
    def test_are_made_in_order(self, store: Store) -> None:
        node, other = new_node(0, closed=False), new_node(1)
        after = waiter(node)
        coming = members(node, 2)
        done = store.change_flows(
            [
                OpenFlow([node], [after]),
                ExtendFlow(node.id, coming),
                CloseFlow(node.id),
                ExtendFlow(node.id, members(node, 1)),
                ExtendFlow(node.id, coming),
                StopFlow(new_id()),
                OpenFlow([other], members(other)),
                StopFlow(other.id),
            ]
        )
        assert done == [True, True, True, False, True, False, True, True]
        assert node_of(store, other).state == NodeState.CANCELLED
        commit(store, 3)
        assert [end.job for end in store.flow_ends(node.id)] == [job.id for job in coming]
        assert (node_of(store, node).state, state(store, after.id)) == (NodeState.DONE, JobState.READY)

    def test_that_are_none(self, store: Store) -> None:
        assert store.change_flows([]) == []

    def test_of_which_one_is_refused(self, store: Store) -> None:
        store.push([new_job(key="k")])
        node, other = new_node(0, closed=False), new_node(1)
        store.change_flows([OpenFlow([node])])
        refused = members(node, 1, key="k", on_duplicate="raise")
        with pytest.raises(DuplicateKey):
            store.change_flows([OpenFlow([other], members(other)), ExtendFlow(node.id, refused)])
        assert node_of(store, node).size == 0
        if store.capabilities.atomic_batches:
            assert store.flow_nodes(other.id) == []
            assert sizes_of(store, QUEUE).total == 1


class TestFlowsInTransactions:
    """For stores that join transactions, and for stores that refuse to."""

    def test_in_a_transaction(self, store: Store) -> None:
        node = new_node(2, closed=False)
        jobs = members(node)
        if not store.capabilities.joins_transactions:
            with pytest.raises(CannotJoin):
                store.change_flows([OpenFlow([node], jobs)], tx=object())
            with pytest.raises(CannotJoin):
                store.change_flows([ExtendFlow(node.id, jobs)], tx=object())
            assert sizes_of(store, QUEUE).total == 0
            return
        with pytest.raises(ZeroDivisionError), transaction(store) as tx:  # noqa: PT012
            store.change_flows([OpenFlow([node], jobs)], tx)
            assert store.change_flows([ExtendFlow(node.id, members(node, 1))], tx) == [True]
            raise ZeroDivisionError
        assert store.flow_nodes(node.id) == []
        assert sizes_of(store, QUEUE).total == 0
        with transaction(store) as tx:
            store.change_flows([OpenFlow([node], jobs)], tx)
            assert store.change_flows([ExtendFlow(node.id, members(node, 1))], tx) == [True]
        assert node_of(store, node).size == 3
        commit(store, 3)
        assert [end.index for end in store.flow_ends(node.id)] == [0, 1, 2]

    def test_a_member_that_is_committed_in_a_transaction(self, store: Store) -> None:
        node = new_node(1)
        after = waiter(node)
        store.change_flows([OpenFlow([node], [*members(node), after])])
        (row,) = claim(store)
        if not store.capabilities.joins_transactions:
            with pytest.raises(CannotJoin):
                store.settle([Commit(row.lease, "1")], tx=object())
            assert (node_of(store, node).ended, state(store, after.id)) == (0, JobState.WAITING)
            return
        with pytest.raises(ZeroDivisionError), transaction(store) as tx:  # noqa: PT012
            store.settle([Commit(row.lease, "1")], tx)
            raise ZeroDivisionError
        assert node_of(store, node).state == NodeState.RUNNING
        assert state(store, after.id) is JobState.WAITING
        with transaction(store) as tx:
            assert store.settle([Commit(row.lease, "1")], tx) == [JobState.DONE]
        assert node_of(store, node).state == NodeState.DONE
        assert state(store, after.id) is JobState.READY
