"""Flows as they are checked at the enqueue, and as they are displayed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stanchion import Stanchion, chain, group
from stanchion.errors import (
    CannotJoin,
    DuplicateKey,
    InvalidInput,
)
from stanchion.stores.protocol import Store
from stanchion_conformance.flows.flows import Work, drain_in_batches
from stanchion_conformance.harness import NO_TRANSACTION, QUEUE, sizes_of


class TestFlowsAtTheDoor:
    def test_what_is_no_call_is_refused(self, work: Work) -> None:
        wrongs: tuple[Callable[[], Any], ...] = (
            lambda: chain(),
            lambda: chain(work.add(1), work.tasks["add"]),  # type: ignore[call-overload]
            lambda: group([work.add(1), 2]).enqueue(),  # type: ignore[arg-type]
            lambda: group().enqueue(),
            lambda: work.add(1).on_failure(chain(work.add(1))),  # type: ignore[arg-type]
            lambda: work.add(1).on_failure(work.note()).on_failure(work.note()),
            lambda: work.tasks["add"].using(tx=NO_TRANSACTION).s(1),
        )
        for wrong in wrongs:
            with pytest.raises(InvalidInput):
                wrong()

    def test_bad_arguments_store_nothing(self, work: Work, app: Stanchion) -> None:
        with pytest.raises(InvalidInput):
            chain(work.add(1), work.add(object())).enqueue()
        assert app.queue(QUEUE).size().total == 0

    def test_a_key_that_is_taken_stores_nothing(self, work: Work, app: Stanchion) -> None:
        keyed = work.tasks["add"].using(key="k")
        flow = chain(work.add(1), keyed.s(1)).enqueue()
        with pytest.raises(DuplicateKey):
            chain(work.add(1), keyed.s(1)).enqueue()
        assert app.queue(QUEUE).size().total == 2
        app.drain()
        assert flow.result(timeout=60) == 2

    def test_an_iterator_of_members_is_read_once(self, work: Work) -> None:
        members = group(work.add(n) for n in range(2))
        assert work.run(members) == [0, 1]
        with pytest.raises(InvalidInput, match="list"):
            members.enqueue()


class TestFlowsOfACallersTransaction:
    @pytest.mark.usefixtures("small_steps")
    @pytest.mark.parametrize("size", [3, 50])
    def test_in_the_transaction_of_the_caller(self, work: Work, app: Stanchion, store: Store, size: int) -> None:
        flow = group(work.add(n) if n else chain(work.add(0), work.add(0)) for n in range(size))
        if not store.capabilities.joins_transactions:
            with pytest.raises(CannotJoin):
                flow.enqueue(tx=NO_TRANSACTION)
            assert sizes_of(store, QUEUE).total == 0
            return
        with pytest.raises(ZeroDivisionError), app.transaction() as tx:  # noqa: PT012
            chain(group([work.add(n) for n in range(size)]), work.note()).enqueue(tx=tx)
            raise ZeroDivisionError
        assert sizes_of(store, QUEUE).total == 0
        with app.transaction() as tx:
            handle = flow.then(work.note()).enqueue(tx=tx)
        drain_in_batches(app)
        assert handle.result(timeout=60) == list(range(size))


class TestGraph:
    def test_shows_the_parts_as_they_are(self, work: Work, app: Stanchion) -> None:
        middle = group(work.add(1), chain(work.fail().on_failure(work.note("handled")), work.add(2)))
        flow = chain(work.add(1), middle, work.note()).enqueue()
        app.drain()
        tree = flow.graph()
        assert (tree.kind, tree.state, [part.kind for part in tree.members]) == (
            "chain",
            "failed",
            ["job", "group", "job"],
        )
        first, beside, last = tree.members
        assert (first.label, first.state, last.label, last.state) == ("add", "done", "note", "cancelled")
        assert [(part.kind, part.state) for part in beside.members] == [("job", "done"), ("chain", "failed")]
        failing = beside.members[1].members[0]
        assert failing.on_failure is not None
        assert (failing.label, failing.state, failing.on_failure.state) == ("fail", "dead", "done")

    def test_of_a_large_one_is_cut(self, work: Work) -> None:
        flow = group([work.add(n) for n in range(30)]).enqueue()
        tree = flow.graph(limit=10)
        assert (tree.size, tree.ended, len(tree.members)) == (30, 0, 10)

    def test_shows_members_that_history_has_not_kept(self, work: Work, app: Stanchion) -> None:
        app.queue(QUEUE).configure(history_ttl=0)
        flow = group(work.add(1), work.fail()).enqueue()
        app.drain()
        assert [part.state for part in flow.graph().members] == ["done", "dead"]

    def test_shows_what_a_job_has_added(self, work: Work, app: Stanchion) -> None:
        flow = group(work.go_on("chain", 1)).enqueue()
        app.drain()
        (added,) = flow.graph().members
        assert [part.label for part in added.members] == ["add", "add"]
