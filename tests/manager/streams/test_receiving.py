"""Workers behind managers, fed by streams."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from types import SimpleNamespace
from typing import Any

import pytest

from stanchion import Job, Stanchion
from stanchion.context import context_of
from stanchion.stores.grpc.receiving import receiver, receivers
from stanchion.stores.grpc.receiving.receiver import Feeding, Link, Receiver, _Waiting
from stanchion.stores.grpc.receiving.receivers import Receivers, _Worker
from stanchion.stores.grpc.receiving.stream import ReceiveStream
from stanchion.stores.memory import MemoryStore
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.jobs import JobRow, JobState
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.rules.lifecycle.jobs import created
from stanchion.stores.wire.outcomes import Refused
from stanchion.worker import heartbeat
from stanchion.worker.claiming.due_queues import DueQueues
from stanchion.worker.claiming.order import Order
from stanchion.worker.claiming.served_queues import ServedQueues
from stanchion.worker.worker import Worker
from stanchion_conformance.harness import in_threads, new_job
from tests.servers.manager import ManagerThread
from tests.worker.conftest import until

LEASE = 1.0


class ClaimedStore(MemoryStore):
    """A store that knows the claims made of it."""

    def __init__(self) -> None:
        super().__init__()
        self.claims: list[Claim] = []
        made = self.claim

        def claimed(claim: Claim) -> Claimed:
            self.claims.append(claim)
            return made(claim)

        self.claim = claimed


class Shop:
    """An app behind managers, with a task, and workers of it."""

    def __init__(self, stack: ExitStack, managers: list[ManagerThread]) -> None:
        self._stack = stack
        url = "grpc://" + ",".join(one.address for one in managers)
        self.app = stack.enter_context(closing(Stanchion(url)))
        self.ran: Counter[int] = Counter()
        self.go_on = threading.Event()
        self.go_on.set()

        @self.app.task(queue="orders", name="t", max_attempts=2)
        def task(number: int) -> None:
            self.ran[number] += 1
            assert self.go_on.wait(60)
            if number < 0:
                raise ValueError(number)

        self.task = task

    @property
    def receivers(self) -> Any:
        return self.app.store._receivers  # type: ignore[attr-defined]

    @property
    def link(self) -> Any:
        """The link of the only worker to the only manager."""
        (one,) = self.receivers._workers.values()
        (stream,) = one.streams.values()
        return stream.link

    def started(self, **options: Any) -> Worker:
        """Return a worker that is fed."""
        worker = Worker(self.app, **{"queues": ["orders"], "threads": 4, **options})
        worker.start()
        self._stack.callback(worker.stop, 0)
        self.task.enqueue(0)
        until(lambda: self.receivers.fed(worker.queues))
        until(lambda: self.ended() >= 1)
        return worker

    def ended(self) -> int:
        counts = self.app.queue("orders").counts()
        return counts.committed + counts.buried


@pytest.fixture
def open_shop() -> Iterator[Callable[..., tuple[Shop, list[ManagerThread]]]]:
    """Opens an app behind some managers of one store."""
    with ExitStack() as stack:

        def begin(store: MemoryStore | None = None, managers: int = 1) -> tuple[Shop, list[ManagerThread]]:
            store = store or MemoryStore()
            started = [stack.enter_context(ManagerThread(store, lease=LEASE)) for _ in range(managers)]
            return Shop(stack, started), started

        yield begin


class TestOneManager:
    def test_jobs_come_without_being_asked_for(self, open_shop: Any) -> None:
        store = ClaimedStore()
        shop, _ = open_shop(store)
        shop.started()
        store.claims.clear()
        shop.task.enqueue_many([(number,) for number in range(1, 200)])
        until(lambda: shop.ended() == 200)
        assert set(shop.ran.values()) == {1}
        assert [claim for claim in store.claims if not claim.ids] == []

    def test_commits_go_up_by_the_stream(self, open_shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        shop, _ = open_shop()
        shop.started()
        called: list[Any] = []

        def call(outcomes: Sequence[Any], **_: Any) -> list[Any]:
            called.extend(outcomes)
            return [None] * len(outcomes)

        monkeypatch.setattr(shop.receivers, "_called", call)
        monkeypatch.setattr(receiver, "ANSWER_SECONDS", 60.0)
        shop.task.enqueue_many([(number,) for number in range(1, 50)])
        until(lambda: shop.ended() == 50)
        assert called == []

    def test_other_outcomes_free_their_room(self, open_shop: Any) -> None:
        """Else the manager would count the failed jobs as held, and send no more."""
        shop, (manager,) = open_shop()
        shop.started()
        shop.task.using(max_attempts=1).enqueue_many([(-number,) for number in range(1, 100)])
        until(lambda: shop.ended() == 100)
        until(lambda: manager.manager.engine.status().receivers[0].in_flight == 0)

    def test_a_graceful_stop_gives_back_what_is_not_begun(self, open_shop: Any) -> None:
        shop, _ = open_shop()
        worker = shop.started(threads=1)
        shop.go_on.clear()
        shop.task.enqueue_many([(number,) for number in range(1, 50)])
        until(lambda: len(shop.ran) == 2)
        ending = threading.Thread(target=worker.stop)
        ending.start()
        until(lambda: worker._state == "stopping")
        shop.go_on.set()
        ending.join(60)
        rows = shop.app.queue("orders").find(limit=100)
        assert {row.state for row in rows if not row.attempts} == {"ready"}
        assert sum(row.attempts for row in rows) == len(shop.ran) == shop.ended()
        assert shop.receivers._workers == {}

    def test_until_empty(self, open_shop: Any) -> None:
        shop, _ = open_shop()
        shop.task.enqueue_many([(number,) for number in range(100)])
        Worker(shop.app, ["orders"], threads=4, until_empty=True).run()
        assert shop.ended() == 100

    def test_an_outcome_without_an_answer_is_stored_by_a_call(
        self, open_shop: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(receiver, "ANSWER_SECONDS", 0.05)
        shop, (manager,) = open_shop()
        shop.started()
        engine = manager.manager.engine
        monkeypatch.setattr(engine, "outcomes", lambda *_: None)
        shop.task.enqueue_many([(number,) for number in range(1, 5)])
        until(lambda: shop.ended() == 5)
        assert set(shop.ran.values()) == {1}
        until(lambda: engine.status().queues[0].acknowledged == 5)
        assert engine.status().queues[0].in_flight == 0

    def test_a_cancel_reaches_a_running_job_at_once(self, open_shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(heartbeat, "QUICK", 600.0)
        shop, _ = open_shop()
        begun, told = threading.Event(), threading.Event()

        @shop.app.task(queue="orders", name="long")
        def long(job: Job) -> None:
            begun.set()
            until(lambda: job.cancelled)
            told.set()

        shop.started(heartbeat=600)
        handle = shop.app.enqueue("long")
        assert begun.wait(60)
        assert shop.app.cancel(handle.id) is JobState.RUNNING
        assert told.wait(60)

    def test_a_stream_that_is_cut_is_opened_again(self, open_shop: Any) -> None:
        shop, _ = open_shop()
        shop.started()
        (one,) = shop.receivers._workers.values()
        for round_ in range(3):
            (stream,) = one.streams.values()
            shop.task.enqueue_many([(number,) for number in range(100 * round_ + 1, 100 * round_ + 101)])
            stream.begin_again()
            until(lambda: shop.receivers.fed(["orders"]))
            done = 100 * round_ + 101
            until(lambda: shop.ended() == done)  # noqa: B023 - waited for here
        assert set(shop.ran.values()) == {1}


class TestSeveralManagers:
    def test_each_sends_its_share(self, open_shop: Any) -> None:
        shop, managers = open_shop(managers=2)
        shop.app.queue("orders", lanes=16)
        shop.started()
        until(lambda: all(one.manager.leadership.owned for one in managers))
        until(lambda: shop.receivers.fed(["orders"]))
        for number in range(1, 200):
            shop.task.enqueue(number)
        until(lambda: shop.ended() == 200)
        assert set(shop.ran.values()) == {1}

    def test_one_that_stops(self, open_shop: Any) -> None:
        shop, (first, second) = open_shop(managers=2)
        shop.app.queue("orders", lanes=16)
        shop.started()
        until(lambda: first.manager.leadership.owned and second.manager.leadership.owned)
        shop.task.enqueue_many([(number,) for number in range(1, 300)])
        first.stop(10)
        shop.task.enqueue_many([(number,) for number in range(300, 400)])
        until(lambda: shop.ended() == 400)
        assert set(shop.ran.values()) == {1}

    def test_one_that_comes_is_followed(self, open_shop: Any) -> None:
        shop, (first,) = open_shop()
        shop.app.queue("orders", lanes=16)
        shop.started()
        with ManagerThread(first.store, lease=LEASE) as second:
            until(lambda: bool(second.manager.leadership.owned))
            (one,) = shop.receivers._workers.values()
            until(lambda: set(one.streams) == {first.address, second.address} and shop.receivers.fed(["orders"]))
            shop.task.enqueue_many([(number,) for number in range(1, 100)])
            until(lambda: shop.ended() == 100)
        until(lambda: set(one.streams) == {first.address})
        assert set(shop.ran.values()) == {1}

    def test_streams_to_those_that_are_gone_end_without_a_lock(
        self, open_shop: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The end of a stream waits for forks, and a fork for the thread that follows the managers."""
        shop, _ = open_shop()
        shop.started()
        free: list[bool] = []
        lock, end = shop.receivers._lock, ReceiveStream.end

        def look() -> None:
            free.append(lock.acquire(timeout=10))
            if free[-1]:
                lock.release()

        def ended(stream: ReceiveStream) -> None:
            with in_threads([look]):
                pass
            end(stream)

        monkeypatch.setattr(ReceiveStream, "end", ended)
        shop.receivers._topology.managers = {}
        shop.receivers._follow()
        assert free == [True]

    def test_calls_make_up_for_one_that_has_no_stream_to_the_worker(self, open_shop: Any) -> None:
        shop, (manager,) = open_shop()
        shop.started()
        shop.receivers._topology.managers = {
            manager.address: frozenset({"orders"}),
            "127.0.0.1:1": frozenset({"orders"}),
        }
        shop.receivers._follow()
        assert not shop.receivers.fed(["orders"])
        shop.task.enqueue_many([(number,) for number in range(1, 50)])
        until(lambda: shop.ended() == 50)
        assert set(shop.ran.values()) == {1}


class TestSeveralQueues:
    @pytest.mark.parametrize("order", ["priority", "strict", "fair"])
    def test_jobs_come_without_being_asked_for(self, open_shop: Any, order: str) -> None:
        store = ClaimedStore()
        shop, _ = open_shop(store)

        @shop.app.task(queue="mail", name="mail")
        def mail(number: int) -> None:
            shop.ran[number] += 1

        shop.app.queue("mail").configure(max_rate=None)
        shop.started(queues=["orders", "mail"], order=order)
        store.claims.clear()
        for number in range(1, 50):
            (shop.task, mail)[number % 2].enqueue(number)
        until(lambda: sum(shop.ran.values()) == 50)
        assert set(shop.ran.values()) == {1}
        assert [claim for claim in store.claims if not claim.ids] == []

    def test_looks_decide_until_all_queues_have_streams(self, open_shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """What a look has found is claimed by a call: with an empty answer, a queue that comes later would be next."""
        shop, _ = open_shop()
        shop.app.queue("mail").configure(max_rate=None)
        shop.started(queues=["orders", "mail"])
        (one,) = shop.receivers._workers.values()
        claim = Claim("orders", 1, "t", worker=one.receiver.row.id)
        assert shop.receivers.claim(claim) == Claimed([])
        monkeypatch.setattr(shop.receivers._topology, "owned", frozenset(["orders"]))
        assert shop.receivers.claim(claim) is None

    def test_no_stream_brings_a_job_until_all_queues_have_streams(
        self, open_shop: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Some jobs would come by calls, later ones of the same queue before them by streams."""
        monkeypatch.setattr(receivers, "OPENING_SECONDS", 600.0)
        shop, _ = open_shop()
        opens, brings = [False], Receivers._brings
        monkeypatch.setattr(Receivers, "_brings", lambda *args: opens[0] and brings(*args))
        worker = Worker(shop.app, queues=["orders"], threads=1)
        worker.start()
        try:
            shop.task.enqueue_many([(number,) for number in range(10)])
            until(lambda: shop.ended() == 10)
            (one,) = shop.receivers._workers.values()
            until(lambda: all(stream.link.up for stream in one.streams.values()) and one.streams)
            assert (list(shop.ran), one.receiver.capacity.jobs > 0, one.receiver.room()) == ([*range(10)], True, 0)
            opens[0] = True
            shop.go_on.clear()
            shop.task.enqueue_many([(number,) for number in range(10, 20)])
            until(lambda: shop.link.jobs)
            shop.go_on.set()
            until(lambda: shop.ended() == 20)
        finally:
            worker.stop(grace=0)

    def test_a_worker_until_empty_claims_by_calls(self, open_shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """A look does not find a job that is on its way by a stream: the worker would end beside it."""
        shop, _ = open_shop()
        opened: list[Any] = []

        def made(*args: Any) -> Receiver:
            opened.append(args)
            return Receiver(*args)

        monkeypatch.setattr(receivers, "Receiver", made)
        shop.task.enqueue_many([(number,) for number in range(20)])
        Worker(shop.app, queues=["orders"], threads=2, until_empty=True).run()
        assert (shop.ended(), opened) == (20, [])

    def test_a_queue_without_an_owner_does_not_keep_the_streams_of_others_shut(
        self, open_shop: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(receivers, "OPENING_SECONDS", 0.0)
        monkeypatch.setattr(Receivers, "_brings", lambda *_: False)
        shop, _ = open_shop()
        worker = Worker(shop.app, queues=["orders"], threads=4)
        worker.start()
        try:
            shop.go_on.clear()
            shop.task.enqueue_many([(number,) for number in range(20)])
            until(lambda: any(one.receiver.came() for one in shop.receivers._workers.values()))
        finally:
            shop.go_on.set()
            worker.stop(grace=0)

    @pytest.mark.parametrize("order", ["priority", "strict"])
    def test_the_best_of_those_that_have_come_is_next(self, open_shop: Any, order: Order) -> None:
        """Two managers have sent jobs of one queue each."""
        shop, _ = open_shop()
        row = WorkerRow("w", "host", 1, ("orders", "mail"), 1, 10.0, order=order)
        one = Receiver(row, Feeding(row.queues), lambda _: None)
        for queue, rank in (("mail", 2), ("orders", 1), ("mail", 0)):
            one._buffer.setdefault(queue, []).append(_Waiting(created_row(queue, rank), Link(), time.monotonic()))
        shop.receivers._workers["w"] = _Worker(one)
        served = ServedQueues(context_of(shop.app), ["orders", "mail"], {})
        due = DueQueues(context_of(shop.app), served, poll=300, order=order)
        due.fed, due.came = True, lambda: shop.receivers.came(["orders", "mail"])
        got = []
        while turns := due.next() if one.came() else []:
            for turn in turns:
                rows = one.claim(Claim(turn.queue, 1, "t", worker="w", min_rank=turn.min_rank))
                due.claimed(turn, Claimed(rows))
                got += [(row.queue, row.rank) for row in rows]
                if rows:
                    break
        first, second = [("mail", 2), ("orders", 1)][:: 1 if order == "priority" else -1]
        assert got == [first, second, ("mail", 0)]

    def test_a_job_before_which_others_go_for_long_is_given_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(receiver, "PASSED_OVER_SECONDS", 0.0)
        row = WorkerRow("w", "host", 1, ("orders", "mail"), 1, 10.0, order="strict")
        one = Receiver(row, Feeding(row.queues), lambda _: None)
        link = Link()
        link.up = True
        one.take_in(link, [created_row("mail", 0), created_row("orders", 0)], [False, False])
        (mail,) = [waiting.row for waiting in one._buffer["mail"]]
        assert len(one.claim(Claim("orders", 1, "t", worker="w"))) == 1
        assert list(link.outgoing) == [Refused(mail.lease)]
        assert one.came() == {}

    def test_a_slow_worker_keeps_jobs_of_queues_that_go_in_turn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock: Any = SimpleNamespace(now=100.0)
        clock.monotonic = lambda: clock.now
        monkeypatch.setattr(receiver, "time", clock)
        row = WorkerRow("w", "host", 1, ("orders", "mail"), 1, 10.0, order="priority")
        one = Receiver(row, Feeding(row.queues), lambda _: None)
        link = Link()
        link.up = True
        one.take_in(link, [created_row(queue, 0) for queue in ("orders", "mail") * 3], [False] * 6)
        for queue in ("orders", "mail") * 3:
            clock.now += 0.6
            assert len(one.claim(Claim(queue, 1, "t", worker="w"))) == 1
        assert list(link.outgoing) == []


def created_row(queue: str, rank: int) -> JobRow:
    """Return a row of a running job."""
    row = created(new_job(queue=queue), 1)
    return row._replace(rank=rank, token="m:1:t", state=JobState.RUNNING.value)
