"""Declared rates, and what tasks hide, come back where a failover or a restored backup has lost them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stanchion import Queue, Stanchion
from stanchion.context import declared_texts
from stanchion.context.hiding import KIND as HIDDEN
from stanchion.pipelines.record import KIND as PIPELINE
from stanchion.stores.protocol import Store
from stanchion.stores.rules.declared_rates import KIND
from stanchion.stores.rules.task_rates import KIND as OF_TASKS
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


class TestKeptDeclarations:
    @pytest.fixture(autouse=True)
    def checks_always(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let each use check whether what is declared is still stored."""
        monkeypatch.setattr(declared_texts, "LOOK_SECONDS", 0.0)

    @pytest.fixture
    def code(self, app: Stanchion) -> Stanchion:
        """An app whose code declares something of each kind."""
        app.rate("stripe", 5)
        app.task(name="pay", queue=QUEUE, rate="36/h", hide=["iban"])(lambda *_: None)
        app.pipeline("etl").station("raw")(lambda item: item)
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
        code.context.keep_declared()
        before = texts(store)
        assert all(before.values())
        lose(store, *KINDS)
        code.context.keep_declared()  # as its reaper calls it
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

    def test_a_rate_that_is_declared_later_is_stored(self, q: Queue, app: Stanchion) -> None:
        app.rate("stripe", 5)
        q.push(1)
        app.rate("crm", 3)
        q.push(1)
        assert declared(app.store) == {"key:crm": 3.0, STRIPE: 5.0}
