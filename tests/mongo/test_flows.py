"""A process that dies, loses an answer or meets another one at any command: a flow adds up all the same."""

import json
from typing import Any

from pymongo import MongoClient

from stanchion.core.ids import new_id
from stanchion.stores.mongo.store import MongoStore
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.flows import CloseFlow, ExtendFlow, FlowNode, NodeState, OpenFlow, StopFlow
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Bury, Commit, Continue
from stanchion.stores.rules.capacity.limits import Limits, limits_text
from stanchion.stores.rules.capacity.slots import node_slot, waits_at
from stanchion.stores.rules.flows import FlowPosition
from stanchion.waits.pop import pop as popped
from stanchion_conformance.harness import NewStore, StoreClock, find_jobs, slot_of, transaction
from tests.mongo import inside
from tests.mongo.acts import Act, World, settled
from tests.mongo.aftermath import finish, take_back
from tests.mongo.cutting import Begin, cut_at_any_command


class Flow:
    """A node of a world, with its jobs."""

    def __init__(self, world: World, size: int, **fields: Any) -> None:
        self.world = world
        node = new_id()
        self.node = FlowNode(**{"id": node, "root": node, "kind": "list", "size": size, **fields})

    def members(self, count: int | None = None, **fields: Any) -> list[NewJob]:
        """Return the jobs in its indexes."""
        node = self.node
        indexes = range(node.size if count is None else count)
        return [self.world.new(**FlowPosition(node.root, node.id, index)._asdict(), **fields) for index in indexes]

    def waiter(self, member_of: str | None = None) -> NewJob:
        """Return a job that waits for the node."""
        flow_position = FlowPosition(self.node.root, member_of, None if member_of is None else 0, self.node.id)
        return self.world.new(**flow_position._asdict(), **waits_at(node_slot(self.node.id)))

    def handled(self) -> "Flow":
        """Return this, with a handler for a failure."""
        job = self.world.new(**FlowPosition(self.node.root)._asdict(), task="handler")
        self.node = self.node._replace(on_failure=json.dumps(job._asdict()))
        return self


def opened(world: World, flow: Flow, *jobs: NewJob) -> None:
    world.store.change_flows([OpenFlow([flow.node], list(jobs))])
    world.ids.append(flow.node.id)


def done(rows: list[JobRow]) -> Act:
    outcomes = [Commit(row.lease, '"done"') for row in rows]
    return settled(outcomes)


def open_flow(world: World) -> Act:
    world.may_vanish = True
    flow = Flow(world, 3)
    outer = flow.node
    inner = Flow(world, 2, root=outer.id, parent=f"{outer.id}:0")
    empty = Flow(world, 0, root=outer.id, parent=f"{outer.id}:1")
    jobs = [flow.waiter(), *flow.members()[2:], *inner.members(), empty.waiter()]
    world.ids.append(outer.id)
    return lambda store: store.change_flows([OpenFlow([outer, inner.node, empty.node], jobs)])


def end_the_last(world: World) -> Act:
    outer = Flow(world, 1).handled()
    inner = Flow(world, 3, root=outer.node.id, parent=f"{outer.node.id}:0")
    jobs = [outer.waiter(), *inner.members(), inner.waiter()]
    world.store.change_flows([OpenFlow([outer.node, inner.node], jobs)])
    world.ids.append(outer.node.id)
    return done(world.claim(3))


def end_without_history(world: World) -> Act:
    world.store.configure(world.queue, {"history_ttl": 0.0})
    flow = Flow(world, 2)
    opened(world, flow, *flow.members(), flow.waiter())
    rows = world.claim(2)
    return lambda store: len(store.settle([Commit(row.lease) for row in rows]))


def fail(world: World) -> Act:
    flow = Flow(world, 2).handled()
    opened(world, flow, *flow.members(), flow.waiter())
    row, _ = world.claim(2)
    return lambda store: store.settle([Bury(row.lease, "no")], repeat=True)


def fail_within(world: World) -> Act:
    world.store.configure(world.queue, {"dead_letter": world.other})
    outer = Flow(world, 2).handled()
    inner = Flow(world, 2, root=outer.node.id, parent=f"{outer.node.id}:0")
    jobs = [outer.waiter(), *inner.members(), inner.waiter(), *outer.members()[1:]]
    world.store.change_flows([OpenFlow([outer.node, inner.node], jobs)])
    world.ids.append(outer.node.id)
    row, *_ = world.claim(2)
    return lambda store: store.settle([Bury(row.lease, "no")], repeat=True)


def continues(world: World) -> Act:
    flow = Flow(world, 1)
    opened(world, flow, *flow.members(), flow.waiter())
    (row,) = world.claim(1)
    rest = Flow(world, 2, root=flow.node.id)
    job = world.new(
        **FlowPosition(flow.node.id, flow.node.id, 0, rest.node.id)._asdict(), **waits_at(node_slot(rest.node.id))
    )
    outcome = Continue(row.lease, job, (rest.node,), tuple(rest.members()))
    return lambda store: store.settle([outcome], repeat=True)


def extend(world: World) -> Act:
    flow = Flow(world, 1, closed=False)
    opened(world, flow, *flow.members(), flow.waiter())
    added = flow.members(3)
    return lambda store: store.change_flows([ExtendFlow(flow.node.id, added)])


def extend_once(world: World) -> Act:
    flow = Flow(world, 1, closed=False)
    opened(world, flow, *flow.members(), flow.waiter())
    inner = Flow(world, 1, root=flow.node.id)
    last = inner.waiter()._replace(flow_node=flow.node.id)
    once = new_id()
    change = ExtendFlow(flow.node.id, [last], OpenFlow([inner.node], inner.members()), once)
    return lambda store: store.change_flows([change])


def close(world: World) -> Act:
    flow = Flow(world, 2, closed=False)
    opened(world, flow, *flow.members(), flow.waiter())
    done(world.claim(2))(world.store)
    return lambda store: store.change_flows([CloseFlow(flow.node.id)])


def stop(world: World) -> Act:
    flow = Flow(world, 3)
    opened(world, flow, *flow.members(), flow.waiter())
    done(world.claim(1))(world.store)
    return lambda store: store.change_flows([StopFlow(flow.node.id)])


def pop(world: World) -> Act:
    flow = Flow(world, 2)
    opened(world, flow, *flow.members(), flow.waiter())
    token = new_id()
    return lambda store: len(popped(store, Claim(world.queue, 2, token)).rows) >= 0


def cancel(world: World) -> Act:
    flow = Flow(world, 2).handled()
    jobs = [*flow.members(), flow.waiter()]
    opened(world, flow, *jobs)
    return lambda store: store.cancel([jobs[0].id])


def limited_members(world: World) -> Act:
    world.store.set_semaphore(world.queue, 1)
    flow = Flow(world, 3)
    opened(world, flow, *flow.members(limits=limits_text(Limits((world.queue,)))), flow.waiter())
    return done(world.claim(3))


def drop_queue(world: World) -> Act:
    flow = Flow(world, 2)
    first, second = flow.members()
    opened(world, flow, first, second._replace(queue=world.other), flow.waiter()._replace(queue=world.other))
    return lambda store: store.drop_queue(world.queue) >= 0


ACTS: list[Begin] = [
    open_flow,
    end_the_last,
    end_without_history,
    fail,
    fail_within,
    continues,
    extend,
    extend_once,
    close,
    stop,
    pop,
    cancel,
    limited_members,
    drop_queue,
]


def check(store: MongoStore, world: World) -> None:
    """Clear up as other processes would, finish what is live, and see that the flow has ended, with all its members."""
    (root,) = world.ids
    take_back(store, world)
    store.recover(limit=0)
    for node in store.flow_nodes(root):
        store.change_flows([CloseFlow(node.id)])
        if node.state == NodeState.CANCELLED:  # as whoever stops a flow does
            store.cancel([row.id for row in find_jobs(store, flow_root=root, limit=1000)])
    finish(store, world)
    store.maintain()
    added_up(store, root)
    jobs = find_jobs(store, flow_root=root, limit=1000)
    assert all(row.finished_at is not None for row in jobs)
    assert sum(row.task == "handler" for row in jobs) <= 1
    for row in jobs:
        assert row.attempts <= 2 or row.state != JobState.DONE
    for queue in (world.queue, world.other):
        store.drop_queue(queue)


def added_up(store: MongoStore, root: str) -> None:
    """Check that each node has ended, and has counted each of its members once."""
    nodes = store.flow_nodes(root)
    for node in nodes:
        assert node.state != NodeState.RUNNING, node
        ends = store.flow_ends(node.id)
        assert len(ends) == node.ended, (node, ends)
        assert [end.index for end in ends] == sorted({end.index for end in ends})
        if node.state == NodeState.DONE:
            assert node.ended == node.size, node
            assert all(end.state == JobState.DONE for end in ends), node
    handled = [node for node in nodes if node.state == NodeState.FAILED and node.on_failure is not None]
    handlers = [row for row in find_jobs(store, flow_root=root, limit=1000) if row.task == "handler"]
    assert len(handlers) == len(handled)
    assert not inside.entries(store)
    assert not [node for node in inside.unfollowed(store) if node.root == root]
    left = {"root": root, "$or": [{"counting": {"$exists": True}}, {"adding.mark": {"$exists": True}}]}
    assert store.server.call(lambda on, _again: on.nodes.find_one(left)) is None
    uncounted = {"uncounted": {"$in": [node.id for node in nodes]}}
    assert store.server.call(lambda on, _again: on.ends.find_one(uncounted)) is None


test_cut_at_any_command = cut_at_any_command(ACTS, check)


def test_what_follows_a_step_in_a_session_of_the_caller_is_done_by_recovery(
    new_store: NewStore, clock: StoreClock, database: str
) -> None:
    store = new_store()
    world = World(store, clock)
    flow = Flow(world, 1)
    waiter = flow.waiter()
    opened(world, flow, *flow.members(), waiter)
    (row,) = world.claim(1)
    client: MongoClient[dict[str, Any]]
    with MongoClient(database) as client, client.start_session() as session:
        for ends in (session.abort_transaction, session.commit_transaction):
            session.start_transaction()
            assert store.settle([Commit(row.lease)], tx=session) == [JobState.DONE]
            assert [node.state for node in store.flow_nodes(flow.node.id)] == [NodeState.RUNNING]
            clock.advance(5)
            store.recover(limit=0)
            assert store.fetch([waiter.id])[waiter.id].state == JobState.WAITING
            ends()
    clock.advance(5)
    store.recover(limit=0)
    assert [node.state for node in store.flow_nodes(flow.node.id)] == [NodeState.DONE]
    assert store.fetch([waiter.id])[waiter.id].waits_for is None


def test_a_step_that_was_rolled_back_frees_nothing_after_the_next_commit(
    new_store: NewStore, clock: StoreClock
) -> None:
    store = new_store()
    world = World(store, clock)
    world.store.set_semaphore(world.queue, 1)
    first, second = world.push(2, limits=limits_text(Limits((world.queue,))))
    (row,) = world.claim(2)
    with transaction(store) as session:
        store.settle([Commit(row.lease)], tx=session)
        session.abort_transaction()
        session.start_transaction()
        store.push([world.new()], tx=session)
    assert slot_of(store, world.queue) == ([first], [second])
    with transaction(store) as session:
        assert store.settle([Commit(row.lease)], tx=session) == [JobState.DONE]
        assert slot_of(store, world.queue) == ([first], [second])
    assert slot_of(store, world.queue) == ([second], [])
