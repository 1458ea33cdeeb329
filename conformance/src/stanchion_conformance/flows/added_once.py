"""Additions to event groups that are made once, however often their caller tries."""

from __future__ import annotations

import pytest

from stanchion import FlowState, Push, Stanchion, chain, group
from stanchion.core.ids import new_id
from stanchion.errors import CannotJoin, DuplicateKey, FlowClosed, InvalidInput
from stanchion.flows import insert
from stanchion.stores.protocol import Store
from stanchion.stores.records.flows import ExtendFlow, OpenFlow
from stanchion_conformance.flows.flow_nodes import members, new_node, node_of, waiter
from stanchion_conformance.flows.flows import Work
from stanchion_conformance.harness import (
    NO_TRANSACTION,
    QUEUE,
    StoreClock,
    all_at_once,
    counts_of,
    sizes_of,
    transaction,
)

STRANGE = ["order 17", "🧱", "Order 17", "order 17 ", "o'rder%", "x" * 200]


class TestAddedOnce:
    def test_a_retried_adder_adds_once(self, work: Work, app: Stanchion, other_app: Stanchion) -> None:
        others = Work(other_app)
        events = app.event_group("order-17", then=work.note())
        for _ in range(3):
            events.add(work.add(1), once="first")
            other_app.event_group("order-17").add(others.add(2), others.add(3), once="second")
        events.close()
        assert app.drain() == 4
        assert work.seen == [[1, 2, 3]]

    def test_names_are_told_apart(self, work: Work, app: Stanchion) -> None:
        events = app.event_group("strange", then=work.note())
        for number, name in enumerate(STRANGE * 2):
            events.add(work.add(number), once=name)
        events.close()
        app.drain()
        assert work.seen == [list(range(len(STRANGE)))]

    def test_each_group_has_names_of_its_own(self, work: Work, app: Stanchion) -> None:
        for name in ("one", "two"):
            app.event_group(name).add(work.add(1), once="k")
        assert sizes_of(app.store, QUEUE).total == 2

    def test_after_the_member_has_ended_and_was_purged(self, work: Work, app: Stanchion, clock: StoreClock) -> None:
        app.queue(QUEUE).configure(history_ttl=0)
        events = app.event_group("purged", then=work.note())
        for _ in range(3):
            events.add(work.add(1), chain(work.add(2), work.add(3)), once="k")
            app.drain()
            clock.advance(2 * 3600)
            app.maintain()
        assert counts_of(app.store, QUEUE).pushed == 4  # with the callback, which waits
        events.close()
        app.drain()
        assert work.seen == [[1, 5]]

    def test_by_many_at_once(self, work: Work, app: Stanchion, other_app: Stanchion) -> None:
        Work(other_app)

        def take_part(mine: Stanchion) -> None:
            events = mine.event_group("rush", then=work.note())
            for number in range(5):
                events.add(work.add(number), chain(work.add(number), work.add(100)), once=str(number))

        all_at_once([lambda one=one: take_part(one) for one in [app, other_app] * 3])  # type: ignore[misc]
        app.event_group("rush").close()
        app.drain()
        (seen,) = work.seen
        assert sorted(seen) == [*range(5), *range(100, 105)]

    def test_nested_parts_are_added_whole(self, work: Work, app: Stanchion) -> None:
        events = app.event_group("nested", then=work.note())
        for _ in range(2):
            nested = group(chain(work.add(1), work.add(1)), work.add(3))
            events.add(nested, work.fail().on_failure(work.note("no")), once="k")
        app.drain()
        assert work.seen == ["no"]
        assert events.state is FlowState.FAILED

    def test_a_closed_group_takes_what_it_has(self, work: Work, app: Stanchion) -> None:
        events = app.event_group("closed")
        events.add(work.add(1), once="early")
        events.close()
        events.add(work.add(1), once="early")
        with pytest.raises(FlowClosed):
            events.add(work.add(1), once="late")
        with pytest.raises(FlowClosed):
            events.add(work.add(1), once="late")
        app.drain()
        events.add(work.add(1), once="early")
        assert events.result(timeout=60) == [1]

    def test_a_refused_addition_may_be_tried_again(self, work: Work, app: Stanchion) -> None:
        app.queue(QUEUE).push(0, key="taken")
        events = app.event_group("refused", then=work.note())
        keyed = app.tasks["add"].using(key="taken").s(1)
        with pytest.raises(DuplicateKey):
            events.add(work.add(7), keyed, once="k")
        assert sizes_of(app.store, QUEUE).ready == 1
        popped = app.queue(QUEUE).pop()
        assert popped is not None
        events.add(work.add(7), keyed, once="k")
        events.close()
        app.drain()
        assert work.seen == [[7, 1]]

    def test_payloads_too(self, app: Stanchion) -> None:
        events = app.event_group("payloads", then=Push("end", queue=QUEUE))
        for _ in range(2):
            events.add(Push(1, queue=QUEUE), once="k")
        assert sizes_of(app.store, QUEUE).ready == 1

    def test_is_one_small_step(self, work: Work, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(insert, "LARGE", 20)
        events = app.event_group("large")
        with pytest.raises(InvalidInput, match="several calls"):
            events.add(*[work.add(n) for n in range(21)], once="k")
        events.add(*[work.add(n) for n in range(20)], once="k")
        with pytest.raises(InvalidInput, match="once must be"):
            events.add(work.add(1), once="")

    def test_listeners_hear_of_it_once(self, work: Work, app: Stanchion) -> None:
        heard: list[str] = []
        app.on("pushed")(lambda job: heard.append(job.id))
        events = app.event_group("heard")
        for _ in range(3):
            events.add(work.add(1), once="k")
        assert len(heard) == 1


class TestExtendedOnce:
    def test_knows_it_by_the_name_alone(self, store: Store, other_store: Store) -> None:
        node = new_node(0, closed=False)
        store.change_flows([OpenFlow([node])])
        once = new_id()
        inner = new_node(1, root=node.id)
        last = waiter(inner)._replace(flow_node=node.id)
        opens = OpenFlow([inner], members(inner))
        for mine in (store, other_store, store):
            assert mine.change_flows([ExtendFlow(node.id, [last], opens, once)]) == [True]
            assert mine.change_flows([ExtendFlow(node.id, members(node, 2), once=once)]) == [True]
        assert node_of(store, node).size == 1
        assert sizes_of(store, QUEUE).total == 2


class TestAddedOnceInTransactions:
    """For stores that join transactions, and for stores that refuse to."""

    def test_belongs_to_the_transaction(self, work: Work, app: Stanchion) -> None:
        events = app.event_group("in a transaction", then=work.note())
        part = chain(work.add(1), work.add(1))
        if not app.store.capabilities.joins_transactions:
            with pytest.raises(CannotJoin):
                events.add(part, once="k", tx=NO_TRANSACTION)
            return
        with pytest.raises(RuntimeError), transaction(app.store) as tx:  # noqa: PT012
            events.add(part, once="k", tx=tx)
            raise RuntimeError
        assert sizes_of(app.store, QUEUE).ready == 0
        for _ in range(2):
            with transaction(app.store) as tx:
                events.add(part, once="k", tx=tx)
        with transaction(app.store) as tx:
            events.add(part, once="k", tx=tx)
            events.add(part, once="k", tx=tx)
        events.add(part, once="k")
        events.close()
        app.drain()
        assert work.seen == [[2]]
