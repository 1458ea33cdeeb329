"""What code declares comes back where a failover or a restored backup has lost it, and copies take it along."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stanchion import Push, Queue, Stanchion
from stanchion.context import context_of
from stanchion.context.declarations import declared_texts
from stanchion.context.declarations.hiding import KIND as HIDDEN
from stanchion.context.declarations.rates import set_rate, stored_rates
from stanchion.copying.transfer import Transfer
from stanchion.pipelines.record import KIND as PIPELINE
from stanchion.stores.memory import MemoryStore
from stanchion.stores.protocol import Store
from stanchion.stores.rules.capacity.declared_rates import KIND
from stanchion.stores.rules.capacity.task_rates import KIND as OF_TASKS
from stanchion_conformance.harness import QUEUE
from stanchion_conformance.limits.declared_rates import STRIPE, declare, declared

KINDS = (KIND, OF_TASKS, HIDDEN, PIPELINE)


def lose(store: Store, *kinds: str) -> None:
    """Delete the values of these kinds, as if another server that lagged behind had taken over."""
    for kind in kinds:
        for value in store.values(kind):
            assert store.compare_and_set(kind, value.name, None, value.version)


def texts(store: Store) -> dict[str, dict[str, str]]:
    """Return all that is declared."""
    return {kind: {value.name: value.text for value in store.values(kind)} for kind in KINDS}


def declare_all(app: Stanchion) -> None:
    """Declare something of each kind."""
    app.rate("stripe", 5)
    app.task(name="pay", queue=QUEUE, rate="36/h", hide=["iban"])(lambda *_: None)
    app.pipeline("etl").station("raw")(lambda item: item)


class TestKeptDeclarations:
    @pytest.fixture(autouse=True)
    def checks_always(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let each use check whether what is declared is still stored."""
        monkeypatch.setattr(declared_texts, "LOOK_SECONDS", 0.0)

    @pytest.fixture
    def code(self, app: Stanchion) -> Stanchion:
        """An app whose code declares something of each kind."""
        declare_all(app)
        return app

    @pytest.mark.parametrize(
        "use",
        [
            lambda app: app.queue(QUEUE).push(1),
            lambda app: app.tasks["pay"].using(delay=60).enqueue("DE00"),
            lambda app: app.queue(QUEUE).reserve(),
        ],
        ids=["push", "enqueue", "reserve"],
    )
    def test_the_next_use_puts_back_what_was_lost(
        self, code: Stanchion, store: Store, use: Callable[[Stanchion], object]
    ) -> None:
        code.queue(QUEUE).reserve()
        before = texts(store)
        assert all(before.values())
        lose(store, *KINDS)
        use(code)
        assert {kind: texts(store)[kind] for kind in (KIND, OF_TASKS, HIDDEN)} == {
            kind: before[kind] for kind in (KIND, OF_TASKS, HIDDEN)
        }

    def test_an_idle_worker_puts_them_back(self, code: Stanchion, store: Store) -> None:
        context_of(code).keep_declared()
        before = texts(store)
        assert all(before.values())
        lose(store, *KINDS)
        context_of(code).keep_declared()  # as its reaper calls it
        assert texts(store) == before

    def test_an_older_declaration_that_comes_back_is_replaced(self, q: Queue, app: Stanchion) -> None:
        declare(app.store, 2.0)
        app.rate("stripe", 5)
        q.push(1)
        lose(app.store, KIND)
        declare(app.store, 2.0)  # a backup of before was restored
        q.push(1)
        assert declared(app.store) == {STRIPE: 5.0}

    def test_the_process_that_began_last_stays_right(self, q: Queue, app: Stanchion, other_app: Stanchion) -> None:
        app.rate("stripe", 5)
        q.push(1)
        other_app.rate("stripe", 7)
        other_app.queue(QUEUE).push(1)
        for _ in range(2):
            q.push(1)
            lose(app.store, KIND)
            q.push(1)
            assert declared(app.store) == {}, "the process that began before does not put its own back"
            other_app.queue(QUEUE).push(1)
            assert declared(app.store) == {STRIPE: 7.0}

    def test_what_an_operator_sets_after_a_loss_stays(self, q: Queue, app: Stanchion) -> None:
        declare(app.store, 2.0)
        app.rate("stripe", 5)
        q.push(1)
        lose(app.store, KIND)
        set_rate(app.store, STRIPE, 1.0)
        for _ in range(2):
            q.push(1)
        assert [one.per_second for one in stored_rates(app.store)] == [1.0]

    def test_a_rate_that_is_declared_later_is_stored(self, q: Queue, app: Stanchion) -> None:
        app.rate("stripe", 5)
        q.push(1)
        app.rate("crm", 3)
        q.push(1)
        assert declared(app.store) == {"key:crm": 3.0, STRIPE: 5.0}


class TestCopiedDeclarations:
    def test_a_copy_takes_them_along(self, app: Stanchion, store: Store) -> None:
        declare_all(app)
        app.queue(QUEUE).push(1)
        there = MemoryStore()
        Transfer(store, there, [QUEUE], settle=0).run()
        assert all(texts(store).values())
        assert texts(there) == texts(store)

    def test_one_to_this_store_keeps_what_it_has(self, store: Store) -> None:
        source = Stanchion(store=MemoryStore())
        declare_all(source)
        source.queue(QUEUE).push(1)
        declare(store, 7.0)
        Transfer(context_of(source).store, store, [QUEUE], settle=0).run()
        assert declared(store) == {STRIPE: 7.0, "task:pay": 0.01}
        assert texts(store)[HIDDEN] == texts(context_of(source).store)[HIDDEN]

    def test_jobs_run_at_the_rate_there(self, app: Stanchion, store: Store) -> None:
        declare(store, 1e-6)
        app.queue(QUEUE).push_many([Push(number, rate_key="stripe", rate=1000) for number in range(3)])
        there = MemoryStore()
        Transfer(store, there, [QUEUE], settle=0).run()
        assert len(Stanchion(store=there).queue(QUEUE).reserve(3)) == 1
