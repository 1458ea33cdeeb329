"""Flows, and processes that die at any step of what holds them together."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.cas.entries import STALE
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.flows import CloseFlow, ExtendFlow, FlowNode, MemberEnd, NodeState, OpenFlow
from stanchion.stores.records.jobs import SECOND, JobRow, JobState, NewJob
from stanchion.stores.records.outcomes import Bury, Commit, Continue
from stanchion.stores.redis.store import RedisStore
from stanchion.stores.rules.capacity.slots import node_slot, waits_at
from stanchion.stores.rules.flows import FlowPosition
from stanchion_conformance.harness import counts_of, find_jobs, sizes_of
from tests.redis.conftest import Open
from tests.redis.deaths import Way, at_every_call, before_by_day, ways
from tests.redis.keys import broken_rules

QUEUES = ("orders", "shipping", "handlers")
LEASE = 30.0


def job(node: FlowNode, place: int, queue: str = QUEUES[0], **fields: Any) -> NewJob:
    return NewJob(new_id(), queue, str(place), **FlowPosition(node.root, node.id, place)._asdict(), **fields)


class Flow:
    """Members in two queues, of a part of a flow and of the whole; a job that waits for it; a handler."""

    def __init__(self, *, closed: bool = True) -> None:
        root = new_id()
        self.handler = NewJob(new_id(), "handlers", "{}", **FlowPosition(root)._asdict())
        self.root = FlowNode(
            root, root, "list", size=2 + closed, closed=closed, on_failure=json.dumps(self.handler._asdict())
        )
        self.part = FlowNode(new_id(), root, "list", parent=f"{root}:0", size=1)
        after = FlowPosition(root, flow_after=root)._asdict()
        self.after = NewJob(new_id(), "shipping", "{}", **after, **waits_at(node_slot(root)))
        self.members = [job(self.part, 0, "shipping"), job(self.root, 1)]
        self.members += [job(self.root, 2)] if closed else []
        self.nodes, self.jobs = [self.root, self.part], [*self.members, self.after]

    def stored(self, store: RedisStore) -> Flow:
        store.change_flows([OpenFlow(self.nodes, self.jobs)])
        return self


def claimed(store: RedisStore, limit: int = 9) -> list[JobRow]:
    return [row for queue in QUEUES for row in store.claim(Claim(queue, limit, new_id(), lease=LEASE)).rows]


def look_after(store: RedisStore, seconds: float = LEASE + STALE / SECOND + 1) -> None:
    store.clock_offset += seconds
    store.recover(limit=0)
    store.recover()
    store.recover(limit=0)
    assert list(store._jobs.entries(store.now() + SECOND)) == []
    assert [rule for queue in QUEUES for rule in broken_rules(store, queue)] == []


def run_out(store: RedisStore) -> None:
    """Run all jobs to their ends."""
    while rows := claimed(store):
        assert set(store.settle([Commit(row.lease, row.payload) for row in rows])) == {JobState.DONE}
    look_after(store)


def states(store: RedisStore, flow: Flow) -> set[str]:
    return {node.state for node in store.flow_nodes(flow.root.id)}


def stored_state(store: RedisStore, job_id: str) -> str | None:
    row = store.fetch([job_id]).get(job_id)
    return None if row is None else row.state


def finish(flow: Flow, store: RedisStore) -> None:
    """Run the flow to its end, and see that it is whole."""
    run_out(store)
    assert states(store, flow) == {NodeState.DONE}
    for node in store.flow_nodes(flow.root.id):
        assert [end.index for end in store.flow_ends(node.id)] == list(range(node.size))
        assert node.ended == node.size
    assert stored_state(store, flow.after.id) == JobState.DONE
    assert stored_state(store, flow.handler.id) is None
    assert [sizes_of(store, queue).total for queue in QUEUES] == [0, 0, 0]
    for register in ("assembling", "adding", "ending"):
        assert store.server.command("ZCARD", store.server.keys.own(register)) == 0


class TestDeath:
    @before_by_day
    def test_while_a_flow_is_opened(self, opened: Open, url: str, way: Way) -> None:
        ends = set()
        for scene in at_every_call(opened, url, way, lambda _store: Flow(), lambda store, flow: flow.stored(store)):
            store, flow = scene.witness, scene.made
            look_after(store, 601)
            if states(store, flow) <= {NodeState.CANCELLED}:
                assert scene.died
                assert [sizes_of(store, queue).total for queue in QUEUES] == [0, 0, 0]
                ends.add("cancelled")
            else:
                finish(flow, store)
                ends.add("done")
        assert ends == ({"done"} if way == "lost" else {"cancelled", "done"})

    @ways
    def test_at_the_last_commits(self, opened: Open, url: str, way: Way) -> None:
        def prepare(store: RedisStore) -> tuple[Flow, list[JobRow]]:
            return Flow().stored(store), claimed(store)

        def act(store: RedisStore, made: tuple[Flow, list[JobRow]]) -> object:
            return store.settle([Commit(row.lease, row.payload) for row in made[1]])

        for scene in at_every_call(opened, url, way, prepare, act):
            look_after(scene.witness)
            finish(scene.made[0], scene.witness)

    @ways
    @pytest.mark.parametrize("how", ["bury", "cancel", "drop"])
    @pytest.mark.one_in_each("way", "how")
    def test_at_a_failure(self, opened: Open, url: str, way: Way, how: str) -> None:
        def prepare(store: RedisStore) -> tuple[Flow, JobRow]:
            flow = Flow().stored(store)
            return flow, store.claim(Claim("shipping", 1, new_id(), lease=1e6)).rows[0]

        def act(store: RedisStore, made: tuple[Flow, JobRow]) -> object:
            flow, row = made
            if how == "bury":
                return store.settle([Bury(row.lease, "it broke")])
            return store.drop_queue("orders") if how == "drop" else store.cancel([flow.members[2].id])

        failed = 0
        for scene in at_every_call(opened, url, way, prepare, act):
            store, (flow, row) = scene.witness, scene.made
            look_after(store)
            root = next(node for node in store.flow_nodes(flow.root.id) if node.id == flow.root.id)
            if root.state != NodeState.FAILED:
                assert scene.died
                assert stored_state(store, flow.after.id) == JobState.WAITING
                continue
            failed += 1
            assert stored_state(store, flow.after.id) == JobState.CANCELLED
            assert stored_state(store, flow.handler.id) == "queued"
            if how != "bury":
                store.settle([Commit(row.lease, "1")])
            run_out(store)
            assert stored_state(store, flow.handler.id) == JobState.DONE
            assert counts_of(store, "handlers").pushed == 1
            assert [end.index for end in store.flow_ends(flow.root.id)] == [0, 1, 2]
        assert failed > 1

    @before_by_day
    def test_while_members_are_added(self, opened: Open, url: str, way: Way) -> None:
        def act(store: RedisStore, flow: Flow) -> object:
            more = [job(flow.root, 0, queue) for queue in QUEUES[:2]]
            one_more = [job(flow.root, 0)]
            return store.change_flows([ExtendFlow(flow.root.id, more), ExtendFlow(flow.root.id, one_more)])

        sizes = set()
        for scene in at_every_call(opened, url, way, lambda store: Flow(closed=False).stored(store), act):
            store, flow = scene.witness, scene.made
            look_after(store)
            assert store.change_flows([CloseFlow(flow.root.id)]) == [True]
            finish(flow, store)
            sizes.add(len(store.flow_ends(flow.root.id)))
        assert sizes == ({5} if way == "lost" else {2, 4, 5})

    @ways
    @pytest.mark.nightly
    def test_while_members_are_added_once(self, opened: Open, url: str, way: Way) -> None:
        def prepare(store: RedisStore) -> tuple[Flow, ExtendFlow]:
            flow = Flow(closed=False).stored(store)
            inner = FlowNode(new_id(), flow.root.id)
            last = job(flow.root, 0, QUEUES[1])._replace(flow_after=inner.id, **waits_at(node_slot(inner.id)))
            return flow, ExtendFlow(flow.root.id, [last], OpenFlow([inner], [job(inner, 0)]), new_id())

        def act(store: RedisStore, made: tuple[Flow, ExtendFlow]) -> object:
            return store.change_flows([made[1]])

        sizes = set()
        for number, scene in enumerate(at_every_call(opened, url, way, prepare, act)):
            store, (flow, change) = scene.witness, scene.made
            if number % 2:
                look_after(store)
                run_out(store)
            if number % 3:  # the caller tries again, with jobs of its own
                other = change._replace(jobs=[job(flow.root, 0)], opens=OpenFlow())
                assert store.change_flows([other]) == [True]
            look_after(store)
            assert store.change_flows([CloseFlow(flow.root.id)]) == [True]
            finish(flow, store)
            sizes.add(len(store.flow_ends(flow.root.id)))
        assert sizes == ({3} if way == "lost" else {2, 3})

    @before_by_day
    def test_while_a_part_is_closed(self, opened: Open, url: str, way: Way) -> None:
        def prepare(store: RedisStore) -> Flow:
            flow = Flow(closed=False).stored(store)
            store.settle([Commit(row.lease) for row in claimed(store)])
            return flow

        def act(store: RedisStore, flow: Flow) -> object:
            return store.change_flows([CloseFlow(flow.root.id)])

        for scene in at_every_call(opened, url, way, prepare, act):
            look_after(scene.witness)
            if scene.died:
                scene.witness.change_flows([CloseFlow(scene.made.root.id)])
            finish(scene.made, scene.witness)

    @ways
    @pytest.mark.nightly
    def test_while_a_job_goes_on_as_a_flow(self, opened: Open, url: str, way: Way) -> None:
        def prepare(store: RedisStore) -> tuple[Flow, JobRow]:
            store.push([NewJob(new_id(), "orders", "{}")])
            return Flow(), claimed(store)[0]

        def act(store: RedisStore, made: tuple[Flow, JobRow]) -> object:
            flow, row = made
            return store.settle([Continue(row.lease, flow.after, tuple(flow.nodes), tuple(flow.members))])

        gone_on = 0
        for scene in at_every_call(opened, url, way, prepare, act):
            store, (flow, row) = scene.witness, scene.made
            look_after(store)
            if store.flow_nodes(flow.root.id):
                gone_on += 1
                assert store.fetch([row.id])[row.id].queue == "shipping"
                flow.after = flow.after._replace(id=row.id)
                finish(flow, store)
            else:
                assert scene.died
                assert store.fetch([row.id])[row.id].state == "queued"
        assert gone_on > 1


class TestForgetting:
    def test_leaves_no_keys(self, one: RedisStore) -> None:
        flow = Flow().stored(one)
        finish(flow, one)
        assert find_jobs(one, flow_root=flow.root.id) != []
        one.clock_offset += 8 * 86_400
        one.maintain()
        left = {
            key.decode().removeprefix(one.server.keys.own(""))
            for key in one.server.client.scan_iter(one.server.keys.own("*"))
        }
        assert [key for key in left if key.startswith(("flow", "slot"))] == []

    def test_a_root_that_nobody_knows(self, one: RedisStore) -> None:
        one.push([NewJob(new_id(), "orders", "{}", **FlowPosition("lost")._asdict())])
        one.clock_offset += 8 * 86_400
        one.maintain()
        assert len(find_jobs(one, flow_root="lost")) == 1
        one.drop_queue("orders")
        one.clock_offset += 8 * 86_400
        one.maintain()
        assert one.server.command("ZCARD", one.server.keys.own("flows")) == 0


def test_many_members_end_in_few_steps(one: RedisStore) -> None:
    size = 20_000
    node = FlowNode(new_id(), new_id(), "list", size=size)
    one._assembly.open_nodes([node], [])
    asked = count_calls(one)
    for first in range(0, size, 1000):
        ends = [MemberEnd(node.id, place, "done", new_id(), None, str(place)) for place in range(first, first + 1000)]
        ended = one._nodes.end_members(node.id, ends)
        assert (ended is not None) == (first + 1000 == size)
    assert asked() < 100
    assert [end.index for end in one.flow_ends(node.id, size - 3)] == [size - 2, size - 1]


def count_calls(store: RedisStore) -> Callable[[], int]:
    """Count round trips from now on."""
    call, made = store.server.call, [0]

    def counted(work: Callable[[bool], Any]) -> Any:
        made[0] += 1
        return call(work)

    store.server.call = counted  # type: ignore[method-assign]
    return lambda: made[0]
