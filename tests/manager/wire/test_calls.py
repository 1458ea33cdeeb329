"""Verbs become calls: each argument and each result arrives, and what is no message is refused."""

from __future__ import annotations

import inspect
import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stanchion.core.values.framing import chunk_with
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.capabilities import Capabilities
from stanchion.stores.records.claims import Claim, Claimed
from stanchion.stores.records.flows import CloseFlow, ExtendFlow, FlowNode, MemberEnd, OpenFlow, StopFlow
from stanchion.stores.records.jobs import JobRef, JobRow, JobState, Lease, NewJob, Pushed, Redriven
from stanchion.stores.records.outcomes import Commit, Continue, Extend, Pass, Passage, Rollback, Tally, Ties
from stanchion.stores.records.query import Condition, Horizon, Page, Query
from stanchion.stores.records.queues import Head, QueueSettings, QueueStats, SemaphoreRow, Sizes
from stanchion.stores.records.slots import Slot
from stanchion.stores.records.staging import Finish, Publication
from stanchion.stores.records.values import ValueChange, VersionedValue
from stanchion.stores.records.workers import Beat, LaneRange, QueueTimes, WorkerRow
from stanchion.stores.wire import outcomes
from stanchion.stores.wire.calls import CALLS
from stanchion.stores.wire.messages import METHODS, SERVICES, build, pb, read, written
from tests.manager.wire.examples import plain

LEASE = Lease("q", "1", "t")
JOB = NewJob("1", "q", "{}", "t", -5, delay=1.5, key="k")
CHUNK = chunk_with(3, b"\xff\0{}")
PART = NewJob("3", "q", CHUNK, attempts=2, errors="[]", dead_from="p")
DIVIDED = Commit(LEASE, jobs=(PART,), tallies=(Tally("q", "pushed", -3), Tally("r", "buried", 2**40)))
ROW = JobRow("1", "q 😀", -1, "running", 3, 1003, 5, 4, "{}", timeout=2.25, token="t", progress=0.5)
NAMED = Claim("q", 2, "t", ids=(("2", "w"), ("1", "")), not_after=0)
CAPABILITIES = Capabilities(
    "memory", joins_transactions=False, push_wakeup=True, wakeup="w", atomic_batches=True, durable="d", processes=False
)
NODE = FlowNode("n", "r", size=0, closed=False)
TIMES = QueueTimes("a", "eventual", (0, 300), ())
WORKER = WorkerRow("w", "h", 1, ("a", "b"), 4, 10.0, began=(), lanes=(LaneRange("a", -1, 3),), times=(TIMES,))

EXAMPLES: dict[str, list[tuple[dict[str, Any], Any]]] = {
    "push": [
        ({"jobs": [JOB, JOB], "repeat": False}, [Pushed("1", 2, 3, True)]),
        ({"jobs": [JOB], "claim": NAMED, "repeat": True}, [Pushed("1", 2, 3, token="t")]),
        ({"jobs": []}, []),
    ],
    "claim": [
        (
            {"claim": Claim("q", 5, "t", lanes=(-1, 7), full=(Slot("order", "q", "k"),), rows=False)},
            Claimed([ROW], 0.0),
        ),
        ({"claim": Claim("q", 0, "t", lease=0.5)}, Claimed([], None, 3)),
        ({"claim": NAMED}, Claimed([ROW])),
    ],
    "settle": [
        (
            {
                "outcomes": [
                    Commit(LEASE, "1", jobs=(JOB,), ties=Ties.SLOTS),
                    Rollback(LEASE, 0.0),
                    Extend(LEASE, 3.0),
                    Continue(LEASE, JOB, (NODE,)),
                    DIVIDED,
                    Pass(LEASE, (Passage("p"), Passage("q", True)), Commit(LEASE, CHUNK), CHUNK, "{}", True),
                    Pass(LEASE, (Passage("p"),), DIVIDED),
                ],
                "repeat": True,
            },
            [JobState.DONE, None, *JobState],
        )
    ],
    "fetch": [
        ({"ids": ["2", "1"]}, {"1": ROW}),
        ({"ids": ["1"]}, {"1": ROW._replace(payload=CHUNK, items=3, entry_payload=CHUNK, arrival_payload=CHUNK)}),
        ({"ids": ["1"]}, {"1": ROW._replace(payload=CHUNK, items=0, result=CHUNK)}),
    ],
    "select": [
        (
            {
                "query": Query(
                    "live",
                    (
                        Condition("queue", "=", "q"),
                        Condition("id", "in", ("1", "2")),
                        Condition("holds", "=", Slot("semaphore", "", "s")),
                    ),
                    columns=("id", "lane"),
                    horizon=True,
                )
            },
            Page([("1", None, -1, 0.5, True)], "c", Horizon(7, frozenset({"a"}))),
        ),
        ({"query": Query()}, Page([ROW, ROW])),
        ({"query": Query(text="", limit=0)}, Page([], None, Horizon(1))),
    ],
    "partition": [({"query": Query(), "parts": 3}, [Query(), Query("all", (Condition("lane", "<=", 4),))])],
    "stats": [
        (
            {"queues": ["q"], "fields": frozenset({"heads", "states"})},
            {"q": QueueStats(Sizes(3), heads=(Head(-1, 2, 3, -4),), next_due=0), "other": QueueStats()},
        )
    ],
    "lane_depths": [
        ({"queue": "q", "lanes": (-1, 5), "at_most": 0}, {-1: 3, 5: 1}),
        ({"queue": "q", "lanes": ()}, {}),
        ({"queue": "q"}, {0: 1000}),
    ],
    "queues": [({"names": ("q",)}, [QueueSettings("q", True, declared={"lanes": 2})]), ({"names": ()}, []), ({}, [])],
    "semaphores": [({"names": ("s",)}, [SemaphoreRow("s", 3, 2, 1)]), ({}, [])],
    "flow_nodes": [({"root": "r"}, [NODE])],
    "flow_ends": [({"node": "n", "after": 0, "limit": 5}, [MemberEnd("n", 0, "done", "1")]), ({"node": "n"}, [])],
    "workers": [({"holders": True}, [WORKER])],
    "now": [({}, 17)],
    "check": [({}, CAPABILITIES)],
    "values": [({"kind": "k", "names": ("n",)}, [VersionedValue("n", "", 1)]), ({"kind": "k"}, [])],
    "configure": [
        (
            {"queue": "q", "changes": {"max_rate": None, "paused": False, "lease": 2.5, "declared": {"a": None}}},
            QueueSettings("q", max_rate=0.5),
        ),
        ({"queue": "q", "changes": {}}, QueueSettings("q", history_ttl=0.0)),
    ],
    "drop_queue": [({"queue": "q"}, 0)],
    "cancel": [({"ids": ["1"]}, [None, JobState.CANCELLED])],
    "retry": [({"ids": ["1"]}, list(Redriven))],
    "delete": [({"refs": [JobRef("1"), JobRef("2", 0)]}, [True, False])],
    "adopt": [({"rows": [ROW]}, [False])],
    "maintain": [({"seconds": 0.25}, ["q"]), ({}, [])],
    "recover": [({"limit": 0, "as_of": 5}, [ROW]), ({}, [])],
    "set_semaphore": [
        ({"name": "s", "capacity": 0, "declared": True}, True),
        ({"name": "s", "capacity": None, "declared": False}, False),
    ],
    "setup": [({"dry_run": True}, ["CREATE"])],
    "change_flows": [
        (
            {
                "changes": (
                    OpenFlow((NODE,), (JOB,)),
                    ExtendFlow("n", (JOB,), OpenFlow((NODE,)), "o"),
                    ExtendFlow("n", ()),
                    CloseFlow("n"),
                    StopFlow("r"),
                )
            },
            [True, False],
        )
    ],
    "stage": [({"write": "w", "attempt": "a", "jobs": [JOB]}, None)],
    "publish": [
        (
            {"publication": Publication("w", (("a", 2),), ValueChange("k", "n", "t", 0), Finish("q", "t", 3))},
            True,
        ),
        ({"publication": Publication("w")}, False),
        ({"publication": Publication("w", finish=Finish("q", "t", 3, (DIVIDED, Rollback(LEASE, 1.5, "e"))))}, True),
    ],
    "unstage": [({"write": "w"}, None)],
    "compare_and_set": [
        ({"kind": "k", "name": "n", "text": None, "version": 3}, True),
        ({"kind": "k", "name": "n", "text": "", "version": 0}, False),
    ],
    "beat": [({"workers": [WORKER]}, Beat(0, ["1"], 0))],
    "leave": [({"worker": "w"}, None)],
}

NO_CALL = {"listen", "close"}


@pytest.mark.parametrize("verb", EXAMPLES)
def test_call(verb: str) -> None:
    call = CALLS[verb]
    for arguments, returned in EXAMPLES[verb]:
        found = call.arguments(read(call.method.request, written(call.request(arguments))))
        assert plain(as_called(verb, found)) == plain(as_called(verb, arguments))
        assert plain(call.result(read(call.method.reply, written(call.reply(returned))))) == plain(returned)


def as_called(verb: str, arguments: dict[str, Any]) -> list[Any]:
    """Return what the verb gets, with its defaults."""
    bound = inspect.signature(getattr(Store, verb)).bind(None, **arguments)
    bound.apply_defaults()
    return list(bound.arguments.items())


def test_each_verb_has_a_call() -> None:
    """A new verb, or a new argument of one, has to be added to the protocol."""
    verbs = {name for name, verb in vars(Store).items() if not name.startswith("_") and callable(verb)} - {"extension"}
    assert verbs == CALLS.keys() | NO_CALL
    assert EXAMPLES.keys() == CALLS.keys()
    for verb, call in CALLS.items():
        arguments = [*inspect.signature(getattr(Store, verb)).parameters][1:]
        assert list(call.names) == [one for one in arguments if one != "tx"], verb


def test_methods() -> None:
    assert len({call.method.path for call in CALLS.values()}) == len(CALLS)
    assert METHODS["Queues.Receive"].path == "/stanchion.v1.Queues/Receive"
    streams = {name: (one.requests, one.replies) for name, one in METHODS.items() if one.requests or one.replies}
    assert streams == {
        "Queues.PushStream": (True, True),
        "Queues.Receive": (True, True),
        "Queues.Listen": (False, True),
        "Queues.Topology": (False, True),
    }
    assert "stanchion.v1.Queues" in SERVICES
    assert {one.service for one in METHODS.values()} == set(SERVICES)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@given(data=st.binary(max_size=200))
@settings(max_examples=30, deadline=None)
def test_garbage(method: Any, data: bytes) -> None:
    for kind in (method.request, method.reply):
        with suppress(InvalidInput):
            read(kind, data)


@pytest.mark.parametrize("verb", CALLS)
def test_damaged_messages(verb: str) -> None:
    """What is damaged on its way is refused, or has other values: it never fails in another way."""
    call, chance = CALLS[verb], random.Random(verb)
    for arguments, returned in EXAMPLES[verb]:
        messages = [
            (call.method.request, written(call.request(arguments)), call.arguments),
            (call.method.reply, written(call.reply(returned)), call.result),
        ]
        for kind, whole, take in messages:
            for _ in range(100):
                data = bytearray(whole)
                for _ in range(chance.randint(1, 3)):
                    if data:
                        data[chance.randrange(len(data))] = chance.randrange(256)
                end = chance.choice([len(data), chance.randint(0, len(data))])
                with suppress(InvalidInput):
                    take(read(kind, bytes(data[:end])))


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        ("claim", pb.ReserveRequest()),
        ("select", pb.SelectRequest()),
        ("select", pb.SelectRequest(query=pb.JobQuery(of="none"))),
        ("stats", pb.StatsRequest(fields=["states", "secrets"])),
        ("publish", pb.PublishRequest()),
        ("settle", pb.FinishRequest(outcomes=[pb.Outcome(id="1")])),
        ("settle", pb.FinishRequest(outcomes=[pb.Outcome(id="1", go_on=pb.Continue())])),
        ("settle", pb.FinishRequest(outcomes=[pb.Outcome(id="1", refused=pb.Refused())])),
        ("change_flows", pb.ChangeFlowsRequest(changes=[pb.FlowChange()])),
        ("configure", pb.ConfigureRequest(queue="q", fields=["colour"])),
        ("configure", pb.ConfigureRequest(queue="q", fields=["declared"], changes={"declared": "["})),
        ("configure", pb.ConfigureRequest(queue="q", fields=["declared"], changes={"declared": "[]"})),
        ("configure", pb.ConfigureRequest(queue="q", fields=["declared"], changes={"declared": "[" * 100_000})),
    ],
)
def test_impossible_requests(verb: str, message: Any) -> None:
    with pytest.raises(InvalidInput):
        CALLS[verb].arguments(read(type(message), written(message)))


def test_newer_results_are_refused() -> None:
    with pytest.raises(InvalidInput, match="JobState 99"):
        CALLS["cancel"].result(read(pb.CancelReply, b"\x0a\x01\x63"))


def test_unknown_changes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="colour"):
        CALLS["configure"].request({"queue": "q", "changes": {"colour": 1}})


def test_deep_values_are_refused() -> None:
    deep: Any = "x"
    for _ in range(80):
        deep = (deep,)
    request = {"query": Query(where=(Condition("id", "=", deep),))}
    with pytest.raises(InvalidInput):
        read(pb.SelectRequest, written(CALLS["select"].request(request)))


def test_what_only_a_receiver_reports() -> None:
    for outcome in (outcomes.Refused(LEASE), outcomes.Elsewhere(LEASE)):
        message = read(pb.Up, written(build(pb.Up, {"outcomes": outcomes.REPORTED.carry([outcome])})))
        assert outcomes.REPORTED.take(message.outcomes) == [outcome]
