"""A process died amid several steps, then the clock was set back by an hour: recovery completes them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from stanchion.core.ids import new_id, new_token
from stanchion.stores.cas.flows import Flows as Ends
from stanchion.stores.cas.staging import Staging
from stanchion.stores.mongo.claims.lanes import ClaimLocks
from stanchion.stores.mongo.flows.flows import FlowNodes
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.flows import ExtendFlow, FlowNode, NodeState, OpenFlow
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.outcomes import Commit
from stanchion.stores.records.staging import Publication
from stanchion.stores.records.values import ValueChange
from stanchion.stores.redis.flows.flows import Flows
from stanchion.stores.redis.push import Pushes
from stanchion.stores.registry import open_store
from stanchion.stores.rules.capacity.slots import node_slot, waits_at
from stanchion_conformance.harness import QUEUE, claim, new_job, row_of

HOUR = 3600.0
ABANDONED = 600.0


class Died(Exception):
    """The process died here."""


@pytest.fixture(params=["redis", "mongo"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """An empty store without transactions over several jobs."""
    with closing(open_store(request.getfixturevalue(f"{request.param}_url"))) as opened:
        opened.setup()
        yield opened


Dies = Callable[..., None]


@pytest.fixture
def dies(monkeypatch: pytest.MonkeyPatch) -> Dies:
    """Let the process die in one of these methods, and another one live on after an hour that the clock is set back."""

    def died(store: Store, act: Callable[[], object], *methods: tuple[type, str]) -> None:
        def die(*_args: Any, **_options: Any) -> Any:
            raise Died

        with monkeypatch.context() as patch:
            for owner, name in methods:
                patch.setattr(owner, name, die)
            with pytest.raises(Died):
                act()
        store.clock_offset -= HOUR

    return died


def member(node: str, index: int = -1) -> NewJob:
    return new_job(flow_root=node, flow_node=node, flow_index=index)


def live(store: Store) -> int:
    return store.stats([QUEUE], ["states"])[QUEUE].states.total


def opened(store: Store, **fields: Any) -> FlowNode:
    node = FlowNode(root := new_id(), root, "list", **{"size": 0, "closed": False, **fields})
    store.change_flows([OpenFlow([node])])
    return node


def test_members_are_added(store: Store, dies: Dies) -> None:
    node = opened(store)
    act = ExtendFlow(node.id, [member(node.id), member(node.id)])
    dies(store, lambda: store.change_flows([act]), (Flows, "_add"), (FlowNodes, "_store"))
    assert live(store) == 0
    store.recover()
    assert live(store) == 2


def test_a_flow_that_has_ended_lets_jobs_run_that_wait_for_it(store: Store, dies: Dies) -> None:
    node = FlowNode(root := new_id(), root, "list", size=1)
    waiting = new_job(flow_root=root, flow_after=root, **waits_at(node_slot(root)))
    store.change_flows([OpenFlow([node], [member(root, 0), waiting])])
    (row,) = claim(store, 9)
    dies(store, lambda: store.settle([Commit(row.lease)]), (Ends, "follow"))
    assert row_of(store, waiting.id).state == "waiting"
    store.recover()
    assert row_of(store, waiting.id).state == "queued"


def test_staged_jobs_are_published(store: Store, dies: Dies) -> None:
    store.stage("write", "attempt", [new_job(), new_job()])
    publication = Publication("write", (("attempt", 2),), ValueChange("stream", "s", "{}", 0))
    dies(store, lambda: store.publish(publication), (Staging, "go_on"))
    store.recover()
    assert live(store) == 2


@pytest.mark.parametrize("set_back", [2.0, 6.0, HOUR])
def test_a_begun_publication_keeps_its_stage(store: Store, dies: Dies, set_back: float) -> None:
    store.stage("write", "attempt", [new_job(), new_job()])
    publication = Publication("write", (("attempt", 2),), ValueChange("stream", "s", "{}", 0))
    dies(store, lambda: store.publish(publication), (Staging, "go_on"))
    store.clock_offset += HOUR - set_back
    store.unstage("write")
    store.clock_offset += 20
    store.recover()
    assert live(store) == 2


def test_a_flow_that_was_stored_in_part_is_cancelled_ten_minutes_later(store: Store, dies: Dies) -> None:
    node = FlowNode(root := new_id(), root, "list", size=1)
    stored = (OpenFlow([node], [member(root, 0)]),)
    # Another process may still be storing it.
    dies(store, lambda: store.change_flows(stored), (Pushes, "push"), (FlowNodes, "_assemble"))
    for seconds, state in ((0, NodeState.RUNNING), (ABANDONED - 5, NodeState.RUNNING), (10, NodeState.CANCELLED)):
        store.clock_offset += seconds
        store.recover()
        assert [one.state for one in store.flow_nodes(root)] == [state]


def test_the_lock_of_a_dead_claimer_ends(mongo_url: str, dies: Dies) -> None:
    with closing(open_store(mongo_url)) as store:
        store.setup()
        store.configure(QUEUE, {"max_running": 5})
        store.push([new_job()])
        wanted = Claim(QUEUE, 1, new_token(), lease=30.0)
        dies(store, lambda: store.claim(wanted), (ClaimLocks, "allowed"))
        new = new_job()
        store.push([new])
        assert [row.id for row in claim(store)] == [new.id]
