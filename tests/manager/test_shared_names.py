"""A token limited to queues does not reach the jobs of other queues by names that all queues share."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stanchion import Stanchion, chain
from stanchion.context.declarations.rates import delete_rate, set_rate, stored_rates
from stanchion.core.ids import new_id
from stanchion.core.spark_errors import StagedJobsLost
from stanchion.errors import InvalidInput, NotPermitted
from stanchion.manager.server.own_workers import OwnWorkers
from stanchion.manager.server.shared import uses_rate
from stanchion.manager.server.tokens import Caller, Role, token_of, tokens_in
from stanchion.stores.memory import MemoryStore
from stanchion.stores.protocol import Store
from stanchion.stores.records.flows import CloseFlow, ExtendFlow, FlowNode, OpenFlow, StopFlow
from stanchion.stores.records.jobs import SECOND, NewJob
from stanchion.stores.records.outcomes import Commit, Continue
from stanchion.stores.records.query import Page, Query
from stanchion.stores.records.staging import Publication
from stanchion.stores.records.workers import CONSUMER, LaneRange, QueueTimes
from stanchion.stores.rules.capacity.declared_rates import KIND, StoredRate
from stanchion.stores.rules.capacity.limits import Rate
from stanchion.stores.rules.flows import failure_text
from stanchion.stores.rules.lifecycle.jobs import created
from stanchion_conformance.harness import claim, find_jobs, new_job, slot_of, worker
from stanchion_conformance.limits.semaphores import limited as needing
from tests.manager.conftest import Start, limited, secret, token

Client = Callable[[str], Store]

SLOWEST = 1 / (366 * 86_400)


READER = token_of(secret("reader"), Caller("reader", frozenset({Role.READ})))


@pytest.fixture
def as_(start: Start, client: Client) -> Callable[[str], Store]:
    """Returns a client with a token of this name, of one manager."""
    own = Caller("own", queues=("mail", "mail.*"), semaphores=("smtp", "mail *"), rates=("task:mail.*", "key:provider"))
    mail = token("mail", queues=("mail", "mail.*"))
    manager = start(limited(token("root"), mail, token_of(secret("own"), own), READER))
    return lambda name: client(f"{manager.url}?token={secret(name)}")


@pytest.fixture
def root(as_: Callable[[str], Store]) -> Store:
    """A client that may do all."""
    store = as_("root")
    store.set_semaphore("smtp", 1)
    store.set_semaphore("press", 1)
    return store


def ways(job: NewJob, root: Store, store: Store) -> list[Callable[[], Any]]:
    """Return all calls that bring a job."""
    root.push([new_job(queue="mail") for _ in range(3)])
    one, two, three = claim(store, 3, queue="mail")
    node = FlowNode(new_id(), new_id(), on_failure=failure_text(job))
    return [
        lambda: store.push([job]),
        lambda: store.stage("write", "attempt", [job]),
        lambda: store.settle([Commit(one.lease, jobs=(job,))]),
        lambda: store.settle([Continue(two.lease, job)]),
        lambda: store.settle([Continue(three.lease, new_job(queue="mail"), jobs=(job,))]),
        lambda: store.change_flows([OpenFlow([], [job])]),
        lambda: store.change_flows([OpenFlow([node], [])]),
        lambda: store.adopt([created(job, root.now())]),
    ]


@pytest.mark.parametrize("name", ["task:orders.send", "queue:orders", "key:provider", "12:queue:orders/acme"])
def test_a_rate_of_others(root: Store, as_: Callable[[str], Store], name: str) -> None:
    job = needing(rate=Rate(name, SLOWEST), queue="mail")
    for call in ways(job, root, as_("mail")):
        with pytest.raises(NotPermitted, match="may not use the rate"):
            call()
    root.push([needing(rate=Rate(name, 100.0), queue="orders") for _ in range(2)])
    assert len(claim(root, 2, queue="orders")) == 2, "they are not slowed down"


def test_a_semaphore_of_others(root: Store, as_: Callable[[str], Store]) -> None:
    job = needing("press", queue="mail")
    for name in ("mail", "own"):
        for call in ways(job, root, as_(name)):
            with pytest.raises(NotPermitted, match="may not use the semaphore"):
                call()
    assert slot_of(root, "press") == ([], [])


def test_what_the_token_names(root: Store, as_: Callable[[str], Store]) -> None:
    own = as_("own")
    jobs = [
        needing("smtp", queue="mail"),
        *(
            needing(rate=Rate(name, 5.0), queue="mail.fast")
            for name in ("task:mail.send", "key:provider", "queue:mail")
        ),
        needing(rate=Rate("14:task:mail.send/acme", 5.0), queue="mail"),
        needing(rate=Rate("10:queue:mail/acme", 5.0), queue="mail"),
    ]
    own.push(jobs)
    assert len(root.fetch([job.id for job in jobs])) == len(jobs)
    assert len(claim(own, 1, queue="mail")) == 1


@pytest.mark.parametrize(
    "name", ["queue:orders", "5:queue:mail/", "10:queue:orders/x", "0:/queue:mail", "99:queue:mail"]
)
def test_a_name_that_only_looks_like_that_of_an_own_queue(name: str) -> None:
    assert not uses_rate(Caller("mail", queues=("mail",)), name)
    assert uses_rate(Caller("all"), name)


def test_options_of_python(root: Store, as_: Callable[[str], Store]) -> None:
    q = Stanchion(store=as_("mail")).queue("mail")
    q.push({}, rate="5/s")
    q.push({}, rate="5/s", rate_by="tenant", tenant="acme")
    for options in ({"rate": "5/s", "rate_key": "provider"}, {"limits": ["smtp"]}):
        with pytest.raises(NotPermitted):
            q.push({}, **options)
    assert root.stats(["mail"], ["states"])["mail"].states.total == 2


class TestDeclaredRates:
    def test_only_an_unlimited_admin_declares(self, root: Store, as_: Callable[[str], Store]) -> None:
        for name in ("own", "mail", "reader"):
            for rate in ("key:provider", "queue:mail"):
                with pytest.raises(NotPermitted):
                    as_(name).compare_and_set(KIND, rate, "1000.0", 0)
        assert root.values(KIND) == []
        assert root.compare_and_set(KIND, "key:provider", "0.001", 0)

    def test_an_app_with_a_limited_token_works_without_declaring(
        self, root: Store, as_: Callable[[str], Store]
    ) -> None:
        app = Stanchion(store=as_("own"))
        app.rate("provider", SLOWEST)
        task = app.task(name="mail.send", queue="mail", rate=SLOWEST)(lambda: None)
        task.enqueue()
        app.queue("mail").push(1, rate_key="provider")
        assert len(app.queue("mail").reserve(5)) == 2
        assert root.values(KIND) == []

    def test_operators_change_rates_and_others_read_them(self, root: Store, as_: Callable[[str], Store]) -> None:
        app = Stanchion(store=root)
        app.rate("provider", SLOWEST)
        assert [rate.name for rate in app.rates()] == ["key:provider"]
        own = as_("own")
        for act in (partial(set_rate, own, "key:provider", 5.0), partial(delete_rate, own, "key:provider")):
            with pytest.raises(NotPermitted, match="may not"):
                act()
        set_rate(root, "key:provider", 5.0)
        assert stored_rates(own) == [StoredRate("key:provider", 5.0, SLOWEST)]
        delete_rate(root, "key:provider")
        assert stored_rates(own) == []

    def test_a_limited_token_reads_the_rates_that_it_may_use(self, root: Store, as_: Callable[[str], Store]) -> None:
        operator = Stanchion(store=root)
        for key in ("provider", "orders"):
            operator.rate(key, SLOWEST)
        operator.queue("orders").push(1)
        assert [value.name for value in root.values(KIND)] == ["key:orders", "key:provider"]
        assert [value.name for value in as_("own").values(KIND)] == ["key:provider"]
        assert as_("mail").values(KIND) == []
        q = Stanchion(store=as_("own")).queue("mail")
        q.push(1, rate_key="provider")
        with pytest.raises(InvalidInput, match="no rate is declared"):
            q.push(1, rate_key="orders")

    def test_a_job_of_a_limited_token_starts_at_the_declared_rate(
        self, root: Store, as_: Callable[[str], Store]
    ) -> None:
        operator = Stanchion(store=root)
        operator.rate("provider", 1000)
        operator.queue("orders").push(1)
        claim(root, queue="orders")
        as_("own").push([needing(rate=Rate("key:provider", SLOWEST), queue="mail")])
        assert len(claim(root, queue="mail")) == 1
        root.push([needing(rate=Rate("key:provider", 1000.0), queue="orders") for _ in range(2)])
        assert len(claim(root, 2, queue="orders")) == 2, "they are not slowed down"


class TestFlows:
    @pytest.fixture
    def node(self, root: Store) -> FlowNode:
        """A node of a flow in a queue of others, which takes members."""
        node = new_id()
        of_others = FlowNode(node, node, closed=False)
        root.change_flows([OpenFlow([of_others], [])])
        root.change_flows([ExtendFlow(node, [new_job(queue="orders", flow_root=node, flow_node=node)])])
        return of_others

    def test_of_others(self, root: Store, as_: Callable[[str], Store], node: FlowNode) -> None:
        mail = as_("mail")
        root.push([new_job(queue="mail")])
        (row,) = claim(mail, queue="mail")
        member = new_job(queue="mail", flow_root=node.id, flow_node=node.id, flow_index=0)
        for call in (
            lambda: mail.push([member]),
            lambda: mail.stage("write", "attempt", [member]),
            lambda: mail.settle([Commit(row.lease, jobs=(member,))]),
            lambda: mail.settle([Continue(row.lease, member)]),
            lambda: mail.change_flows([OpenFlow([], [member])]),
            lambda: mail.change_flows([ExtendFlow(node.id, [member])]),
            lambda: mail.change_flows([CloseFlow(node.id)]),
            lambda: mail.change_flows([StopFlow(node.root)]),
        ):
            with pytest.raises(NotPermitted, match="may not change the flow"):
                call()
        (found,) = root.flow_nodes(node.root)
        assert (found.state, found.closed, found.size) == ("running", False, 2)

    def test_its_own(self, root: Store, as_: Callable[[str], Store]) -> None:
        app = Stanchion(store=as_("mail"))

        @app.task(name="mail.add", queue="mail")
        def add(first: int, second: int) -> int:
            return first + second

        flow = chain(add.s(1, 2), add.s(3)).enqueue()
        assert root.flow_nodes(flow.id)

    def test_a_job_goes_on_in_a_flow_that_it_is_part_of(
        self, root: Store, as_: Callable[[str], Store], node: FlowNode
    ) -> None:
        member = new_job(queue="mail", flow_root=node.id, flow_node=node.id)
        root.change_flows([ExtendFlow(node.id, [member])])
        mail = as_("mail")
        (row,) = claim(mail, queue="mail")
        again = new_job(queue="mail", flow_root=node.id, flow_node=node.id, flow_index=row.flow_index)
        assert mail.settle([Continue(row.lease, again._replace(id=row.id))]) == ["ready"]


class TestRoles:
    def test_who_may_only_read(self, root: Store, as_: Callable[[str], Store]) -> None:
        root.push([job := new_job()])
        reader = as_("reader")
        assert reader.fetch([job.id])[job.id].payload == "{}"
        assert reader.stats(["orders"], ["states"])["orders"].states.total == 1
        for refused in (
            lambda: reader.push([new_job()]),
            lambda: claim(reader),
            lambda: reader.cancel([job.id]),
            lambda: reader.configure("orders", {"paused": True}),
            lambda: reader.compare_and_set("topic-push", "x", "{}", 0),
        ):
            with pytest.raises(NotPermitted, match="it has read"):
                refused()

    def test_in_a_file(self, tmp_path: Path) -> None:
        file = tmp_path / "tokens.toml"
        file.write_text(
            '[[token]]\nname = "shop"\ntoken = "a-secret-of-32-random-characters"\nroles = ["push"]\n'
            'queues = ["mail"]\nsemaphores = ["smtp"]\nrates = ["task:shop.*"]\n'
            '[[token]]\nname = "eye"\ntoken = "another-secret-of-32-characters"\nroles = ["read"]\n'
        )
        shop, eye = (one.caller for one in tokens_in(file))
        assert shop == Caller("shop", frozenset({Role.PUSH}), ("mail",), ("smtp",), ("task:shop.*",))
        assert eye.roles == {Role.READ}
        file.write_text(file.read_text().replace('["smtp"]', '["a\\nb"]'))
        with pytest.raises(InvalidInput, match="semaphores"):
            tokens_in(file)


class TestWrites:
    """Staged jobs, which a write gathers until it is published."""

    def test_of_others_are_neither_published_nor_deleted(self, as_: Callable[[str], Store], root: Store) -> None:
        theirs, mail, own = new_job(queue="orders"), as_("mail"), as_("own")
        root.stage("w", "a", [theirs])
        own.stage("w", "a", [new_job(queue="mail")])
        mail.unstage("w")
        with pytest.raises(StagedJobsLost):
            mail.publish(Publication("w", (("a", 1),)))
        for forged in ("3:own/w", "4:root/w", "own/w", "w" * 200):
            mail.unstage(forged)
            with pytest.raises(StagedJobsLost):
                mail.publish(Publication(forged, (("a", 1),)))
        assert mail.publish(Publication("w"))
        assert root.publish(Publication("w", (("a", 1),)))
        assert own.publish(Publication("w", (("a", 1),)))
        assert sorted(row.queue for row in find_jobs(root)) == ["mail", "orders"]

    @pytest.mark.parametrize("write", ["w", "w" * 200])
    def test_its_own_are_published_once(self, as_: Callable[[str], Store], root: Store, write: str) -> None:
        mail = as_("mail")
        mail.stage(write, "a", [new_job(queue="mail"), new_job(queue="mail.fast")])
        mail.stage(write, "b", [new_job(queue="mail")])
        assert mail.publish(Publication(write, (("a", 2),)))
        mail.stage(write, "c", [new_job(queue="mail")])
        assert not mail.publish(Publication(write, (("c", 1),)))
        assert len(find_jobs(root)) == 2
        mail.stage("another", "a", [new_job(queue="mail")])
        mail.unstage("another")
        with pytest.raises(StagedJobsLost):
            mail.publish(Publication("another", (("a", 1),)))


class TestWorkersOfOthers:
    def test_are_seen_as_far_as_they_serve_its_queues(self, as_: Callable[[str], Store], root: Store) -> None:
        lanes = (LaneRange("mail", 0, 3), LaneRange("orders", 0, 3))
        times = (QueueTimes("mail", "eventual", (1,), (1,)), QueueTimes("orders", "eventual", (2,), (2,)))
        mine = replace(worker("mine"), queues=("mail", "mail.fast"), began=(f"{new_id()}:t",), times=times[:1])
        both = replace(worker("both"), queues=("mail", "orders"), began=(f"{new_id()}:t",), lanes=lanes, times=times)
        early = replace(worker("early"), queues=(), state=CONSUMER)
        root.beat([mine, both, early, replace(worker("theirs"), queues=("orders",))])
        root.push([new_job(queue="orders"), new_job(queue="mail")])
        claim(root, queue="orders", holder="billing:4711")
        seen = {row.id: row for row in as_("mail").workers(holders=True)}
        assert set(seen) == {"mine", "both", "early"}
        assert (seen["mine"].began, seen["mine"].times) == (mine.began, mine.times)
        part = seen["both"]
        assert (part.queues, part.lanes, part.times, part.began) == (("mail",), lanes[:1], times[:1], None)
        assert {row.id for row in root.workers()} == {"mine", "both", "early", "theirs"}

    def test_are_neither_kept_alive_nor_ended(self, as_: Callable[[str], Store], root: Store) -> None:
        mail, mine = as_("mail"), replace(worker("mine"), queues=("mail", "mail.fast"))
        theirs = [replace(worker("theirs"), queues=("orders",)), replace(worker("both"), queues=("mail", "orders"))]
        root.beat(theirs)
        for row in theirs:
            for queues in (row.queues, ("mail",), ()):
                with pytest.raises(NotPermitted):
                    mail.beat([mine, replace(row, queues=queues)])
            with pytest.raises(NotPermitted, match="may not call leave"):
                mail.leave(row.id)
        assert {row.id: row.queues for row in root.workers()} == {row.id: row.queues for row in theirs}

    def test_are_not_named_by_its_own(self, as_: Callable[[str], Store], root: Store) -> None:
        mail, mine = as_("mail"), replace(worker("mine"), queues=("mail",))
        for row in (
            replace(mine, queues=("mail", "orders")),
            replace(mine, lanes=(LaneRange("orders", 0, 3),)),
            replace(mine, times=(QueueTimes("orders", "eventual", (1,), (1,)),)),
        ):
            with pytest.raises(NotPermitted, match="may not use queue 'orders'"):
                mail.beat([row])
        assert root.workers() == []

    def test_its_own_beat_and_leave(self, as_: Callable[[str], Store], root: Store) -> None:
        mail = as_("mail")
        mine, early = replace(worker("mine"), queues=("mail", "mail.fast")), replace(worker("early"), queues=())
        for _ in range(2):
            mail.beat([mine, early])
        assert {row.id for row in root.workers()} == {"mine", "early"}
        for one in ("mine", "early", "mine"):
            mail.leave(one)
        assert root.workers() == []

    def test_jobs_that_run_without_a_row_are_not_kept_from_recovery(
        self, as_: Callable[[str], Store], root: Store
    ) -> None:
        """A first heartbeat makes the row of its worker; jobs without one come back, unless somebody makes theirs."""
        mail = as_("mail")
        root.push([new_job(queue=queue) for queue in ("orders", "mail")])
        claim(root, queue="orders", worker="theirs")
        claim(root, queue="mail", worker="mine")
        with pytest.raises(NotPermitted, match="serves queues outside"):
            mail.beat([replace(worker("theirs"), queues=("mail",))])
        assert root.workers() == []
        mail.beat([replace(worker(one), queues=("mail",)) for one in ("mine", "new")])
        assert {row.id for row in root.workers()} == {"mine", "new"}

    def test_first_heartbeats_of_a_fleet_read_the_running_jobs_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        store, reads = MemoryStore(), list[Query]()
        select = store.select

        def counted(query: Query) -> Page:
            reads.append(query)
            return select(query)

        monkeypatch.setattr(store, "select", counted)
        own = OwnWorkers(store)
        for number in range(50):
            own.check(Caller("own", queues=("mail",)), "beat", {"workers": [worker(f"w{number}")]})
        assert len(reads) == 1

    def test_a_row_that_is_new_is_seen(self, as_: Callable[[str], Store], root: Store) -> None:
        mail = as_("mail")
        mail.beat([replace(worker("mine"), queues=("mail",))])
        root.beat([replace(worker("theirs"), queues=("orders",))])
        with pytest.raises(NotPermitted):
            mail.leave("theirs")

    def test_do_not_lose_their_jobs_to_a_time_to_come(self, as_: Callable[[str], Store], root: Store) -> None:
        root.beat([replace(worker("theirs"), queues=("orders",))])
        root.push([new_job(queue="orders")])
        (row,) = claim(root, queue="orders", worker="theirs")
        assert as_("mail").recover(as_of=root.now() + 3600 * SECOND) == []
        assert root.settle([Commit(row.lease)]) == ["done"]

    def test_a_consumer_goes_on_after_a_queue_of_others(self, as_: Callable[[str], Store], root: Store) -> None:
        app = Stanchion(store=as_("mail"))
        root.push([new_job(queue="mail")])
        with app.consumer("billing") as consumer:
            with pytest.raises(NotPermitted):
                app.queue("orders").reserve(holder=consumer)
            (job,) = app.queue("mail").reserve(holder=consumer)
            consumer.beat()
            assert [row.queues for row in root.workers()] == [("mail",)]
            job.commit()
