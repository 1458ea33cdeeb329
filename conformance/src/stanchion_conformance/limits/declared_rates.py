"""Declared rates: they apply whatever the jobs say that share them."""

from __future__ import annotations

import pickle
import time
from collections import Counter
from functools import partial
from typing import Any

import pytest

from stanchion import Push, Queue, Stanchion, group
from stanchion.context import context_of
from stanchion.context.declarations import rates
from stanchion.context.declarations.hiding import KIND as HIDDEN
from stanchion.context.declarations.rates import DeclaredRates, delete_rate, reset_rate, set_rate
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.values import VersionedValue
from stanchion.stores.rules.capacity.declared_rates import KIND, StoredRate
from stanchion.stores.rules.capacity.limits import Rate, limits_in
from stanchion.stores.rules.capacity.task_rates import KIND as OF_TASKS
from stanchion_conformance.harness import QUEUE, NewStore, StoreClock, all_at_once, claim, row_of, state
from stanchion_conformance.limits.rates import rated
from stanchion_conformance.limits.semaphores import push, took
from stanchion_conformance.operate.wakeup import Counting

STRIPE = "key:stripe"
SLOW, FAST = 0.01, 1000.0
"""Starts per second."""


def declare(store: Store, per_second: float, name: str = STRIPE) -> None:
    """Declare a rate, as a process does that begins."""
    process = DeclaredRates()
    process.declare(Rate(name, per_second))
    process.store(store)


def declared(store: Store) -> dict[str, float]:
    """Return all declared rates."""
    return {value.name: float(value.text) for value in store.values(KIND)}


class TestDeclaredRates:
    def test_a_job_that_names_a_faster_rate_starts_no_sooner(self, store: Store, clock: StoreClock) -> None:
        declare(store, SLOW)
        ids = push(store, *(rated(Rate(STRIPE, FAST)) for _ in range(3)))
        assert took(store, 3) == ids[:1]
        clock.advance(90)
        assert took(store, 3) == []
        clock.advance(10.5)
        assert took(store, 3) == ids[1:2]

    def test_a_job_that_names_a_slower_rate_slows_no_other(self, store: Store, clock: StoreClock) -> None:
        declare(store, FAST)
        ids = push(store, rated(Rate(STRIPE, 1e-6)))
        assert took(store) == ids
        clock.advance(1)
        ids = push(store, rated(Rate(STRIPE, 1e-6), priority=1), *(rated(Rate(STRIPE, FAST)) for _ in range(3)))
        assert took(store, 4) == ids

    def test_a_deferred_job_starts_at_the_declared_time(self, store: Store, clock: StoreClock) -> None:
        declare(store, SLOW)
        ids = push(store, *(rated(Rate(STRIPE, 1e-6)) for _ in range(2)))
        assert took(store, 2) == ids[:1]
        clock.advance(101)
        assert took(store, 2) == ids[1:]

    def test_jobs_of_one_claim_that_name_many_rates(self, store: Store, clock: StoreClock) -> None:
        declare(store, SLOW)
        ids = push(store, *(rated(Rate(STRIPE, per_second)) for per_second in (FAST, 1e-6, 5.0, 0.5)))
        served = took(store, 4)
        for _ in range(3):
            clock.advance(100.5)
            served += took(store, 4)
        assert served == ids

    def test_a_changed_declaration_applies_to_queued_jobs(self, store: Store, clock: StoreClock) -> None:
        declare(store, 1e-6)
        ids = push(store, *(rated(Rate(STRIPE, 1e-6), queue=queue) for queue in (QUEUE, "other", "third")))
        assert took(store) == ids[:1]
        declare(store, SLOW)  # by this process: it applies at once
        clock.advance(101)
        assert took(store, queue="other") == ids[1:2]
        declare(store, 1e-6)
        clock.advance(101)
        assert took(store, queue="third") == []

    def test_a_change_by_another_process(self, store: Store, other_store: Store, clock: StoreClock) -> None:
        declare(other_store, 1e-6)
        push(store, rated(Rate(STRIPE, FAST)))
        claim(store)
        declare(other_store, FAST)
        ends, clock_moved = time.monotonic() + 60, 0
        while time.monotonic() < ends:
            clock.advance(1)
            clock_moved += 1
            (job,) = push(store, rated(Rate(STRIPE, FAST)))
            if took(store) == [job]:
                break
            store.cancel([job])
            time.sleep(0.1)
        assert state(store, job) == "running", f"deferred after {clock_moved} s of the new rate"

    def test_without_a_declaration_jobs_decide(self, store: Store, clock: StoreClock) -> None:
        declare(store, FAST, "key:other")
        declare(store, FAST)
        (value,) = store.values(KIND, [STRIPE])
        assert store.compare_and_set(KIND, STRIPE, None, value.version)
        ids = push(store, *(rated(Rate(STRIPE, SLOW)) for _ in range(2)))
        assert took(store, 2) == ids[:1]
        clock.advance(101)
        assert took(store, 2) == ids[1:]

    @pytest.mark.parametrize("text", ["fast", "", "nan 5", " 5", "nan", "inf", "0", "-5", "1e9", "[5]", "20/s"])
    def test_where_the_declaration_is_unreadable_jobs_decide(self, store: Store, text: str) -> None:
        assert store.compare_and_set(KIND, STRIPE, text, 0)
        ids = push(store, *(rated(Rate(STRIPE, SLOW)) for _ in range(2)))
        assert took(store, 2) == ids[:1]

    def test_beside_other_rates_in_one_claim(self, store: Store) -> None:
        declare(store, SLOW)
        declare(store, FAST, "task:mail")
        names = [STRIPE, "task:mail", "free", STRIPE, "task:mail", "free", "10:task:hooks/acme"]
        ids = push(store, *(rated(Rate(name, 0.001)) for name in names))
        assert took(store, 7) == [ids[place] for place in (0, 1, 2, 4, 6)]


class TestDeclaringRates:
    def test_a_push_takes_the_declared_rate(self, app: Stanchion, q: Queue) -> None:
        app.rate("stripe", "20/s")
        job = q.push(1, rate_key="stripe")
        (other,) = q.push_many([Push(2, rate_key="stripe", rate="5/s")])
        rates = [limits_in(row_of(app.store, one.id).limits).rate for one in (job, other)]
        assert rates == [Rate(STRIPE, 20.0), Rate(STRIPE, 5.0)]
        assert declared(app.store) == {STRIPE: 20.0}

    def test_a_push_of_another_process(
        self, app: Stanchion, q: Queue, other_app: Stanchion, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        app.rate("stripe", "20/s")
        q.push(1)
        read, reads = other_app.store.values, Counter[str]()

        def counted(kind: str, names: Any = None) -> list[VersionedValue]:
            reads[kind] += 1
            return read(kind, names)

        monkeypatch.setattr(other_app.store, "values", counted)
        jobs = other_app.queue(QUEUE).push_many([Push(number, rate_key="stripe") for number in range(1000)])
        assert {limits_in(row_of(app.store, job.id).limits).rate for job in jobs} == {Rate(STRIPE, 20.0)}
        assert 1 <= reads[KIND] < 100, "a read serves many jobs"
        job = other_app.using("shop.pay", queue=QUEUE, rate_key="stripe").enqueue()
        assert limits_in(row_of(app.store, job.id).limits).rate == Rate(STRIPE, 20.0)

    def test_an_undeclared_key(self, app: Stanchion, q: Queue, other_q: Queue) -> None:
        with pytest.raises(InvalidInput, match=r"declare it with app\.rate\('stripe', '20/s'\)"):
            q.push(1, rate_key="stripe")
        with pytest.raises(InvalidInput, match=r"declare it with app\.rate\('stripe', '20/s'\)"):
            app.task(name="pay", rate_key="stripe")(lambda: None)
        declare(context_of(other_q).store, 5.0)
        assert limits_in(row_of(app.store, q.push(1, rate_key="stripe").id).limits).rate == Rate(STRIPE, 5.0)

    def test_the_rates_of_tasks(self, app: Stanchion, store: Store) -> None:
        app.rate("crm", 3)
        app.task(name="pay", queue=QUEUE, rate="36/h")(lambda: None)
        app.task(name="call", queue=QUEUE, rate="5/s", rate_key="stripe")(lambda: None)
        app.task(name="sync", queue=QUEUE, rate_key="crm")(lambda: None)
        app.task(name="hook", queue=QUEUE, rate="7/s", rate_by="tenant")(lambda: None)
        app.task(name="send", queue=QUEUE, rate="8/s", rate_by="queue")(lambda: None)
        assert app.queue(QUEUE).reserve() == []  # as a worker starts
        expected = {"task:pay": SLOW, STRIPE: 5.0, "key:crm": 3.0, f"queue:{QUEUE}": 8.0}
        assert declared(store) == expected
        ids = [app.tasks["pay"].using(rate=FAST).enqueue().id for _ in range(2)]
        assert took(store, 2) == ids[:1]

    def test_setup_stores_them(self, app: Stanchion, store: Store) -> None:
        app.rate("stripe", 5)
        app.task(name="pay", hide=["iban"])(lambda iban: iban)
        app.setup()
        assert declared(store) == {STRIPE: 5.0}
        assert [value.name for value in store.values(HIDDEN)] == ["pay"]

    def test_a_push_in_a_transaction_writes_nothing_outside_it(
        self, app: Stanchion, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if not store.capabilities.joins_transactions:
            return
        app.rate("stripe", 5)
        app.task(name="pay", queue=QUEUE, hide=["iban"], rate="36/h")(lambda iban: iban)
        queue, pay = app.queue(QUEUE), app.tasks["pay"]
        with app.transaction() as tx, monkeypatch.context() as patch:
            # On SQLite such a write waits for the lock that the transaction holds, until the call gives up.
            patch.setattr(app.store, "compare_and_set", lambda *_: pytest.fail("writes outside the transaction"))
            queue.push(1, tx=tx)
            pay.using(tx=tx).enqueue("DE00")
            group([pay.s("DE01"), pay.s("DE02")]).enqueue(tx=tx)
        assert [*declared(store), *store.values(HIDDEN)] == []
        queue.push(2)
        assert declared(store) == {STRIPE: 5.0, "task:pay": SLOW}
        assert [value.name for value in store.values(HIDDEN)] == ["pay"]

    def test_the_process_that_began_last_is_right(self, q: Queue, app: Stanchion, other_app: Stanchion) -> None:
        app.rate("stripe", 5)
        q.push(1)
        other_app.rate("stripe", 7)
        other_app.queue(QUEUE).push(1)
        q.push(1)
        assert declared(app.store) == {STRIPE: 7.0}

    def test_an_operators_rate_stays_until_code_declares_another(
        self, other_app: Stanchion, new_store: NewStore
    ) -> None:
        def start(rate: int) -> list[StoredRate]:
            process = Stanchion(store=new_store())
            process.rate("stripe", rate)
            process.queue(QUEUE).push(1)
            return other_app.rates()

        assert start(20) == [StoredRate(STRIPE, 20, 20)]
        set_rate(other_app.store, STRIPE, 5)
        assert start(20) == [StoredRate(STRIPE, 5, 20)]
        assert start(5) == [StoredRate(STRIPE, 5, 5)]
        assert start(20) == [StoredRate(STRIPE, 20, 20)]
        set_rate(other_app.store, STRIPE, 5)
        set_rate(other_app.store, STRIPE, 6)
        assert reset_rate(other_app.store, STRIPE) == 20
        assert other_app.rates() == [StoredRate(STRIPE, 20, 20)]
        delete_rate(other_app.store, STRIPE)
        assert other_app.rates() == []
        set_rate(other_app.store, STRIPE, 5)
        with pytest.raises(InvalidInput, match="no code has declared"):
            reset_rate(other_app.store, STRIPE)
        assert start(20) == [StoredRate(STRIPE, 20, 20)]

    def test_an_operators_rate_applies(self, app: Stanchion, store: Store) -> None:
        app.rate("stripe", FAST)
        app.queue("other").push(1)
        set_rate(app.store, STRIPE, SLOW)
        ids = push(store, *(rated(Rate(STRIPE, FAST)) for _ in range(2)))
        assert took(app.store, 2) == ids[:1]

    def test_a_running_process_keeps_an_operators_rate(
        self, app: Stanchion, other_app: Stanchion, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("stanchion.context.declarations.declared_texts.LOOK_SECONDS", 0)
        app.rate("stripe", 20)
        queue = app.queue(QUEUE)
        queue.push(1)
        for rate in (5, 6):
            set_rate(other_app.store, STRIPE, rate)
            queue.push(1)
            queue.reserve()
            assert other_app.rates() == [StoredRate(STRIPE, rate, 20)]
        reset_rate(other_app.store, STRIPE)
        queue.push(1)
        assert other_app.rates() == [StoredRate(STRIPE, 20, 20)]
        delete_rate(other_app.store, STRIPE)
        queue.push(1)
        assert other_app.rates() == [StoredRate(STRIPE, 20, 20)]

    def test_operators_and_processes_at_once(self, app: Stanchion, new_store: NewStore) -> None:
        def start() -> None:
            process = Stanchion(store=new_store())
            process.rate("stripe", 20)
            process.queue(QUEUE).push(1)

        all_at_once([start, start, *[partial(set_rate, new_store(), STRIPE, number + 1) for number in range(4)]])
        (found,) = app.rates()
        assert found.per_second in (1, 2, 3, 4, 20)
        start()
        assert app.rates()[0].declared == 20

    def test_two_rates_of_one_name(self, app: Stanchion) -> None:
        app.rate("stripe", "60/m")
        app.rate("stripe", 1)
        with pytest.raises(InvalidInput, match="is declared twice: as 1 and as 2 starts per second"):
            app.rate("stripe", 2)
        with pytest.raises(InvalidInput, match="is declared twice"):
            app.task(name="pay", rate="5/s", rate_key="stripe")(lambda: None)

    @pytest.mark.parametrize("given", [("", 5), ("stripe", None), ("stripe", "fast"), ("stripe", 0), (5, 5)])
    def test_what_is_no_rate(self, app: Stanchion, given: Any) -> None:
        with pytest.raises(InvalidInput, match="rate"):
            app.rate(*given)

    def test_a_rate_that_is_lifted(self, app: Stanchion, q: Queue) -> None:
        assert row_of(app.store, q.push(1, rate=None, rate_key="stripe").id).limits is None

    def test_other_processes_of_the_code_know_them(self, app: Stanchion) -> None:
        app.rate("stripe", 5)
        context_of(app).rates.store(app.store)
        assert pickle.loads(pickle.dumps(context_of(app).rates)).declared == {STRIPE: 5.0}  # noqa: S301 - our own

    def test_jobs_without_a_rate_cost_no_reads(self, store: Store) -> None:
        counting: Any = Counting(store)
        app = Stanchion(store=counting)
        app.rate("stripe", 5)
        app.task(name="pay", rate="36/h", hide=["iban"])(lambda *_: None)
        queue = app.queue(QUEUE)
        queue.push(1)
        before = counting.calls["values"], counting.calls["compare_and_set"]
        for _ in range(10):
            queue.push(1)
            queue.reserve()
            context_of(app).keep_declared()
        assert (counting.calls["values"], counting.calls["compare_and_set"]) == before


class TestRatesOfOtherTasks:
    """Calls of a task by its name, in a process that has not its code."""

    @pytest.fixture
    def shop(self, other_app: Stanchion) -> Stanchion:
        """The process with the code of the tasks."""
        other_app.task(name="pay", queue=QUEUE, rate="36/h")(lambda *_: None)
        other_app.task(name="call", queue=QUEUE, rate="5/s", rate_key="stripe")(lambda *_: None)
        other_app.task(name="hook", queue=QUEUE, rate="7/s", rate_by="tenant")(lambda *_: None)
        other_app.task(name="send", queue=QUEUE, rate="8/s", rate_by="queue")(lambda *_: None)
        other_app.task(name="free", queue=QUEUE)(lambda *_: None)
        other_app.queue(QUEUE).reserve()
        return other_app

    def rate_of(self, app: Stanchion, task: str, **options: Any) -> Rate | None:
        """Return the rate of a new call."""
        job = app.using(task, queue=QUEUE, **options).enqueue()
        return limits_in(row_of(app.store, job.id).limits).rate

    @pytest.mark.usefixtures("shop")
    def test_they_share_the_rate_that_the_task_declares(self, app: Stanchion) -> None:
        assert self.rate_of(app, "pay") == Rate("task:pay", SLOW)
        assert self.rate_of(app, "call") == Rate(STRIPE, 5.0)
        assert self.rate_of(app, "hook", tenant="acme") == Rate("9:task:hook/acme", 7.0)
        assert self.rate_of(app, "send") == Rate(f"queue:{QUEUE}", 8.0)
        assert self.rate_of(app, "free") is None

    @pytest.mark.usefixtures("shop")
    def test_what_the_call_says_of_its_rate_counts(self, app: Stanchion) -> None:
        assert self.rate_of(app, "pay", rate=None) is None
        assert self.rate_of(app, "send", rate=3, rate_key="crm") == Rate("key:crm", 3.0)
        assert self.rate_of(app, "hook", rate=3) == Rate("task:hook", 3.0)

    @pytest.mark.parametrize(
        "text",
        [
            *("", "5", "{", "[" * 20_000, '{"rate":"5/s"}', '{"rate":0.0}', '{"rate":5.0,"rate_by":"x"}'),
            *('{"rate":5.0,"rate_key":""}', '{"rate":5.0,"rate_key":"a","rate_by":"queue"}', '{"rate":5.0,"burst":1}'),
        ],
    )
    def test_what_another_program_stores_harms_no_push(self, app: Stanchion, text: str) -> None:
        assert app.store.compare_and_set(OF_TASKS, "pay", text, 0)
        assert self.rate_of(app, "pay") is None

    @pytest.mark.usefixtures("shop")
    def test_a_read_serves_many_calls(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        read, reads = app.store.values, Counter[str]()

        def counted(kind: str, names: Any = None) -> list[VersionedValue]:
            reads[kind] += 1
            return read(kind, names)

        monkeypatch.setattr(app.store, "values", counted)
        monkeypatch.setattr(rates, "CACHED_SECONDS", 3600.0)
        for _ in range(3):
            app.using("free", queue=QUEUE).enqueue_many([()] * 50)
        assert reads[OF_TASKS] == 1
        app.task(name="own", queue=QUEUE)(lambda *_: None).enqueue()
        assert reads[OF_TASKS] == 1, "this process has the code"
