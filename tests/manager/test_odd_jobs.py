"""Jobs that no store should keep: what Python refuses, a manager refuses too, whatever call brings them."""

from collections.abc import Callable
from typing import Any, cast

import grpc
import pytest

from stanchion import Stanchion
from stanchion.core.ids import new_id
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.flows import FlowNode, OpenFlow
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.outcomes import Commit, Continue, Move, Outcome, Pass, Passage, Rollback, Tally
from stanchion.stores.records.slots import NODE, SEMAPHORE
from stanchion.stores.records.staging import Finish, Publication
from stanchion.stores.rules.flows import failure_text
from stanchion.stores.rules.lifecycle.jobs import created
from stanchion.stores.wire.messages import pb
from stanchion_conformance.harness import claim, new_job
from stanchion_conformance.limits.unreadable import ODD
from tests.manager.conftest import Start, ask
from tests.servers.manager import ManagerThread

Client = Callable[[str], Store]

NAMES = ("", "x" * 201, "line\nbreak", "tab\t", "a\x1fb", "\u200b", "a\u00a0b", "\u2028", "\ufeff")
TEXTS = ("", "no json", "{", "NaN", '{"a": Infinity}', "[" * 9000, "enc:", "enc:line\nbreak", "'x'")
NO_OBJECTS = (*TEXTS, "5", "null", "[]", '"x"', f'{{"x": "{"y" * 65_536}"}}')

ODD_FIELDS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("queue", "task", "tenant", "key", "order_key"), NAMES),
    "id": ("", "x", "01A20E39-8298-718A-BD90-B66EE0C391CA", "01a20e39"),
    "payload": TEXTS,
    "headers": NO_OBJECTS,
    "limits": ("", *ODD, '{"hold": ["nobody declared it"]}'),
    "trail": (*TEXTS, "5", "null", '"x"', "{}", "[5]", '[["q"]]', '[["q", "now"]]', "[[5, 5]]", '[["q", 5, 5]]'),
    "priority": (101, -101, 2**31 - 1),
    "max_attempts": (0, -1, 2**31 - 1),
    "lane": (-2, 2**31 - 1),
    "timeout": (0.0, -1.0, 1e12),
    "delay": (-1.0, 1e12),
    "run_at": (-1, 2**63 - 1),
    "on_duplicate": ("", "keep"),
    "flow_root": ("", "x"),
    "flow_node": ("x",),
    "flow_index": (-1,),
    "flow_after": ("", "x", "01a20e39-8298-718a-bd90-b66ee0c391ca**"),
    "origin": ("x",),
    "waits_kind": ("", "anything", SEMAPHORE, NODE, "order", "rate"),
    "key_ttl": (-1.0, 60.0),
    "attempts": (-1, 2**31 - 1),
    "errors": ("", "no json", "5", "{}", "[5]"),
    "dead_from": NAMES,
}
"""Values that no field may have; a `key_ttl` needs a key."""


@pytest.fixture
def store(manager: ManagerThread, client: Client) -> Store:
    return client(manager.url)


def ways(job: NewJob, store: Store) -> dict[str, Callable[[], Any]]:
    """Return the calls that store a job."""
    store.push([new_job(queue="held") for _ in range(3)])
    (one, two, three) = claim(store, 3, queue="held")
    node = FlowNode(new_id(), new_id())
    return {
        "push": lambda: store.push([new_job(), job]),
        "stage": lambda: store.stage("write", "attempt", [job]),
        "commit": lambda: store.settle([Commit(one.lease, jobs=(job,))]),
        "continue": lambda: store.settle([Continue(two.lease, job)]),
        "continue after": lambda: store.settle([Continue(three.lease, new_job(), jobs=(job,))]),
        "flow": lambda: store.change_flows([OpenFlow([], [job])]),
        "failure": lambda: store.change_flows([OpenFlow([node._replace(on_failure=failure_text(job))], [])]),
    }


@pytest.mark.parametrize("field", ODD_FIELDS)
def test_a_manager_refuses_a_field(store: Store, field: str) -> None:
    for value in ODD_FIELDS[field]:
        job = new_job(**{field: value})
        for way, call in ways(job, store).items():
            if (field, value) == ("waits_kind", NODE) and way in ("continue", "continue after", "flow", "failure"):
                continue  # there a name is what is missing
            refused(call, (way, value))
            assert store.fetch([job.id]) == {}, (way, value)
    assert len(store.queues()) <= 2, "no queue is made for a refused job"


def refused(call: Callable[[], Any], case: object) -> str:
    """Return the words of the refusal of a call."""
    try:
        call()
    except InvalidInput as error:
        return str(error)
    pytest.fail(f"not refused: {case!r:.100}")


ROW_FIELDS: dict[str, tuple[Any, ...]] = {
    **{name: ODD_FIELDS[name] for name in ("queue", "task", "tenant", "payload", "headers", "trail", "timeout")},
    "limits": ("", *ODD),
    "state": ("", "ready", "running", "waiting", "done", "anything"),
    "errors": (*TEXTS, "5", "null", "{}", "[5]", "[{}]", '[{"error": 5}]', '[{"error": "x", "attempt": "y"}]'),
    "past_waits": ("x", "{}", '["semaphore", "", "s", 5]', '["semaphore", "", "s", "then", "now"]'),
    "kept_payloads": ("x", "[]", "5", '{"q":"1"}', '{"q":[5]}', '{"q":["5","1"]}', '{"q":[5,{}]}'),
    "result": TEXTS,
    "arrival_payload": TEXTS,
    "progress": (-0.5, 2.0),
    "slots_held": (-1, 1000),
    "lost_leases": (-1,),
    "lost_in_all": (-1,),
    "dead_from": ("letters",),
    "dead_at": (5,),
    "dead_attempts": (1, -1),
    "waits_kind": (SEMAPHORE, "anything"),
    "finished_at": (5,),
    "items": (0, 1, -1),
}


@pytest.mark.parametrize("field", ROW_FIELDS)
def test_a_manager_adopts_no_such_job(store: Store, field: str) -> None:
    for value in ROW_FIELDS[field]:
        row: JobRow = created(new_job(), store.now())._replace(**{field: value})
        rows = [created(new_job(), store.now()), row]
        assert f"job '{row.id}' can't be adopted" in refused(lambda: store.adopt(rows), value)  # noqa: B023 - called here
        assert store.fetch([row.id]) == {}, value


@pytest.mark.parametrize("option", ["task", "tenant", "key", "order_key", "priority", "max_attempts", "timeout"])
def test_python_refuses_the_same(option: str) -> None:
    app = Stanchion("memory://")
    q = app.queue("orders")
    for value in ODD_FIELDS[option]:
        with pytest.raises(InvalidInput):
            app.enqueue(value) if option == "task" else q.push({}, **{option: value})


def test_outcomes_with_odd_texts(store: Store) -> None:
    store.push([new_job()])
    (row,) = claim(store)
    for text in TEXTS:
        for outcome in (
            Commit(row.lease, result=text),
            Commit(row.lease, payload=text),
            Rollback(row.lease, 0.0, payload=text),
            Move(row.lease, "next", payload=text),
            Move(row.lease, "next", headers=text),
        ):
            with pytest.raises(InvalidInput):
                store.settle([outcome])
    for queue in NAMES:
        with pytest.raises(InvalidInput):
            store.settle([Move(row.lease, queue)])
    assert [one.name for one in store.queues()] == ["orders"]


NO_CHUNKS = (b"", b"\0\0\0", b"\0\0\0\0x", b"\x80\0\0\0x")
"""Bytes that do not begin with the number of a chunk's items."""


@pytest.mark.parametrize("data", NO_CHUNKS)
def test_bytes_that_are_no_chunk(store: Store, data: bytes) -> None:
    store.push([new_job()])
    (row,) = claim(store)
    odd = new_job()._replace(payload=data)
    for call in (
        lambda: store.push([odd]),
        lambda: store.stage("write", "attempt", [odd]),
        lambda: store.settle([Commit(row.lease, result=data)]),
        lambda: store.settle([Commit(row.lease, payload=data)]),
        lambda: store.settle([Commit(row.lease, jobs=(odd,))]),
        lambda: store.settle([Rollback(row.lease, 0.0, payload=data)]),
        lambda: store.settle([Move(row.lease, "next", data)]),
        lambda: store.settle([Pass(row.lease, (Passage("next"),), Commit(row.lease), data)]),
        lambda: store.settle([Pass(row.lease, (Passage("next"),), Commit(row.lease, data))]),
        lambda: store.adopt([created(odd, store.now())._replace(items=None)]),
    ):
        assert "begins with the number of its items" in refused(call, data)


def test_outcomes_of_chunks_that_say_what_can_not_be(store: Store) -> None:
    store.push([new_job()])
    (row,) = claim(store)
    part = new_job(queue="next")
    outcomes: tuple[Outcome, ...] = (
        *(Commit(row.lease, jobs=(part,), tallies=(Tally(queue, "moved", 1),)) for queue in NAMES),
        *(Commit(row.lease, jobs=(part,), tallies=(Tally("q", event, 1),)) for event in ("", "done", "id")),
        *(Commit(row.lease, jobs=(part,), tallies=(Tally("q", "moved", n),)) for n in (2**53 + 1, -(2**53) - 1)),
        Commit(row.lease, tallies=(Tally("q", "moved", 1),)),
        *(Pass(row.lease, (Passage(queue),), Commit(row.lease)) for queue in NAMES),
        *(Pass(row.lease, (Passage("next"),), Commit(row.lease, text)) for text in TEXTS),
        *(Pass(row.lease, (Passage("next"),), Commit(row.lease), text) for text in TEXTS),
        *(Pass(row.lease, (Passage("next"),), Commit(row.lease), headers=text) for text in TEXTS),
        *(Pass(row.lease, (Passage("next", kept=text),), Commit(row.lease)) for text in (*TEXTS, *NO_CHUNKS)),
        Pass(row.lease, (), Commit(row.lease)),
        Pass(row.lease, (Passage("next"),) * 101, Commit(row.lease)),
        Pass(row.lease, (Passage("next"),), Move(row.lease, "")),
    )
    for outcome in outcomes:
        refused(lambda: store.settle([outcome]), outcome)  # noqa: B023 - called here
        refused(lambda: store.publish(ending(row, outcome)), outcome)  # noqa: B023
    elsewhere = Commit(row.lease._replace(token="another"))
    assert "not reserved under the token of the batch" in refused(
        lambda: store.publish(ending(row, elsewhere)), elsewhere
    )
    assert [one.name for one in store.queues()] == ["orders"]


def ending(row: JobRow, *ends: Outcome) -> Publication:
    """Return a publication that ends a batch of one job."""
    return Publication("write", finish=Finish(row.queue, row.token or "", 1, cast("Any", ends)))


@pytest.mark.parametrize(
    "changes",
    [
        *({"lanes": value} for value in (0, -1, 10_000)),
        *({"max_rate": value} for value in (0.0, -1.0, float("inf"), float("nan"))),
        *({"lease": value} for value in (0.0, -5.0)),
        *({"dead_letter": value} for value in ("", "a\nb", "x" * 300, "mail#3")),
        {"max_running": 0},
        {"history_ttl": -1.0},
        {"ordered_by": "lane"},
    ],
    ids=repr,
)
def test_settings_that_no_queue_can_have(store: Store, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        store.configure("orders", changes)
    assert store.queues() == []


def test_waits_kind_of_a_node_that_does_not_come_along(store: Store) -> None:
    """Nothing would end the wait."""
    job = new_job(waits_kind=NODE, waits_name=new_id())
    for call in (lambda: store.push([job]), lambda: store.stage("write", "attempt", [job])):
        with pytest.raises(InvalidInput, match="comes without it"):
            call()
    assert store.fetch([job.id]) == {}


class TestGhosts:
    """A queue named like a partition, though the queue has none."""

    def test_can_not_be_made(self, store: Store) -> None:
        store.push([new_job(queue="mail")])
        (row,) = claim(store, queue="mail")
        ghost = new_job(queue="mail#3")
        for call in (
            lambda: store.push([ghost]),
            lambda: store.stage("w", "a", [ghost]),
            lambda: store.settle([Move(row.lease, "mail#3")]),
            lambda: store.settle([Commit(row.lease, jobs=(ghost,))]),
            lambda: store.change_flows([OpenFlow([], [ghost])]),
            lambda: store.adopt([created(ghost, store.now())]),
            lambda: store.configure("mail#3", {"paused": True}),
        ):
            with pytest.raises(InvalidInput, match="named like a partition"):
                call()
        assert [one.name for one in store.queues()] == ["mail"]

    def test_partitions_can(self, store: Store) -> None:
        app = Stanchion(store=store)
        q = app.queue("mail", partitions=4)
        pushed = [q.push(n).id for n in range(20)]
        assert len({row.queue for row in store.fetch(pushed).values()}) > 1
        assert len(q.reserve(20)) > 0

    def test_one_of_before_can_be_deleted(self, start: Start, client: Client) -> None:
        manager = start()
        manager.store.push([new_job(queue="mail#3"), new_job(queue="a\nb")])
        store = client(manager.url)
        assert store.drop_queue("mail#3") == 1
        assert store.drop_queue("a\nb") == 1
        assert store.queues() == []


def test_the_status_is_of_the_caller(raw: grpc.Channel) -> None:
    """Not INTERNAL, with a traceback in the manager's log."""
    condition = pb.Condition(field="lane", op="=", value=pb.Value(text="x"))
    for query in (
        pb.JobQuery(of="all", order="newest", limit=5, after="no cursor"),
        pb.JobQuery(of="all", order="newest", limit=5, where=[condition]),
    ):
        with pytest.raises(grpc.RpcError) as caught:
            ask(raw, "Query.Select", pb.SelectRequest(query=query).SerializeToString())
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
