"""Whatever comes in, a manager stays up, in bounded memory, and says by a status what was wrong."""

import json
import os
import random
import resource
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor

from stanchion.core.ids import new_id
from stanchion.errors import InvalidInput
from stanchion.manager.server.settings import Limits, ServerSettings
from stanchion.manager.server.verbs import SERVED
from stanchion.stores.protocol import Store
from stanchion.stores.records.flows import FlowNode, OpenFlow
from stanchion.stores.records.workers import QueueTimes
from stanchion.stores.registry import open_store
from stanchion.stores.rules.times import BUCKETS, ENTRIES_MAX
from stanchion.stores.wire.messages import METHODS, pb
from stanchion_conformance.harness import claim, in_threads, new_job, worker
from tests.manager.conftest import Start, ask, secret
from tests.servers.manager import LOOPBACK, ManagerThread
from tests.worker.conftest import until

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"

NO_FAULTS = frozenset({grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN})
"""The statuses of faults of the manager."""

TEXTS = (
    *("", "orders", "x" * 300, "é\U0001f980 ", "a\nb", "nul\0", "'; DROP TABLE stanchion_jobs; --", "%", "#3", "a#3"),
    *("{}", "[1,", '"text"', "return", "queued", "=", "in", "id", "live", "newest", "states", "queue", "max_rate"),
)
NUMBERS = (0, 1, -1, 2, 7, 1000, 2**31 - 1, -(2**31), 2**40, 2**63 - 1, -(2**63))
REALS = (0.0, 1.0, -1.0, 0.5, 1e300, float("inf"), float("nan"))


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return a frame of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


GARBAGE = [
    b"",
    b"\x00" * 100,
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(300),
    PREFACE[:10],
    PREFACE + b"\xff" * 1000,
    PREFACE + SETTINGS + frame(0, 0, 1, b"data of no stream"),
    PREFACE + SETTINGS + frame(1, 4, 1, b"\xff\xff\xff no headers"),
    PREFACE + SETTINGS + frame(1, 0, 1, b"\x82") + frame(0, 0, 3, b"x"),
    PREFACE + SETTINGS + frame(8, 0, 0, b"\x00\x00\x00\x00"),
    PREFACE + SETTINGS + frame(6, 0, 0, b"short"),
    PREFACE + SETTINGS + frame(99, 255, 2**31 - 1, b"unknown"),
    PREFACE + SETTINGS + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",
    PREFACE + SETTINGS + frame(6, 0, 0, b"12345678") * 5000,
]


def status_of(channel: grpc.Channel, method: str, data: bytes) -> grpc.StatusCode:
    try:
        ask(channel, method, data)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def unknown(channel: Any, path: str) -> None:
    channel.unary_unary(path)(b"", timeout=30)


def send(address: str, data: bytes) -> socket.socket:
    host, _, port = address.rpartition(":")
    one = socket.create_connection((host, int(port)), timeout=60)
    one.sendall(data)
    return one


class Filler:
    """Fills messages with values of the right types, most of them nonsense."""

    def __init__(self, random_: random.Random, known: list[str]) -> None:
        self._random, self._texts = random_, (*TEXTS, *known)

    def filled(self, kind: Any, depth: int = 0) -> Any:
        message = kind()
        for field in kind.DESCRIPTOR.fields:
            if self._random.random() < 0.6:
                self._fill(message, field, depth)
        return message

    def _fill(self, message: Any, field: FieldDescriptor, depth: int) -> None:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return
        if field.message_type is not None:
            if depth > 4:
                return
            part = getattr(pb, field.message_type.name)
            for _ in range(self._random.randrange(3) if field.is_repeated else 1):
                value = self.filled(part, depth + 1)
                if field.is_repeated:
                    getattr(message, field.name).append(value)
                else:
                    getattr(message, field.name).CopyFrom(value)
        elif field.is_repeated:
            getattr(message, field.name).extend(self._value(field) for _ in range(self._random.randrange(3)))
        else:
            setattr(message, field.name, self._value(field))

    def _value(self, field: FieldDescriptor) -> Any:
        pick = self._random.choice
        if field.type == FieldDescriptor.TYPE_STRING:
            return new_id() if field.name == "id" and pick((True, False)) else pick(self._texts)
        if field.type == FieldDescriptor.TYPE_BYTES:
            return b"\xff\x00"
        if field.type == FieldDescriptor.TYPE_BOOL:
            return pick((True, False))
        if field.type == FieldDescriptor.TYPE_DOUBLE:
            return pick(REALS)
        if field.type == FieldDescriptor.TYPE_ENUM:
            return pick([one.number for one in field.enum_type.values])  # type: ignore[union-attr]
        bits = 31 if field.type in (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_SINT32) else 63
        lowest = 0 if field.type == FieldDescriptor.TYPE_UINT64 else -(2**bits)
        return pick([one for one in NUMBERS if lowest <= one < 2**bits])


@pytest.mark.parametrize("method", SERVED)
def test_bytes_that_are_no_message(raw: grpc.Channel, method: str) -> None:
    choose = random.Random(method)
    for _ in range(30):
        data = choose.randbytes(choose.choice((1, 3, 17, 400)))
        assert status_of(raw, method, data) not in NO_FAULTS, data
    deep = b""
    for _ in range(200):
        deep = b"\x0a" + bytes((len(deep) & 0x7F,)) + deep
    assert status_of(raw, method, deep) not in NO_FAULTS
    assert ask(raw, "Query.Now")


def nonsense(store: Store, manager: ManagerThread, rounds: int) -> None:
    """Send each method messages full of nonsense; then the store must still do its work."""
    jobs = [new_job() for _ in range(3)]
    store.push(jobs)
    (row,) = claim(store)
    known = [*(job.id for job in jobs), row.token or ""]
    with grpc.insecure_channel(manager.address) as channel:
        for method, served in SERVED.items():
            if method == "Control.Maintain":
                continue  # each takes its time
            filler = Filler(random.Random(method), known)
            for number in range(rounds):
                message = filler.filled(served.method.request)
                code = status_of(channel, method, message.SerializeToString())
                assert code not in NO_FAULTS, (method, number, message)
    fresh = new_job(queue="a fresh one")
    store.push([fresh])
    assert [one.id for one in claim(store, 10, queue="a fresh one")] == [fresh.id]


def test_messages_full_of_nonsense(manager: ManagerThread, client: Callable[[str], Store]) -> None:
    nonsense(client(manager.url), manager, 25)


@pytest.mark.nightly
@pytest.mark.parametrize("database", ["sqlite", "pg_url", "mariadb_url", "mongo_url", "redis_url"])
def test_messages_full_of_nonsense_on_each_database(
    database: str, request: pytest.FixtureRequest, tmp_path: Any, start: Start, client: Callable[[str], Store]
) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db" if database == "sqlite" else request.getfixturevalue(database)
    behind = open_store(url)
    try:
        behind.setup()
        manager = start(store=behind)
        nonsense(client(manager.url), manager, 60)
    finally:
        behind.close()


@pytest.mark.parametrize(
    "on_failure",
    [
        *("[]", '"x"', "{}", '{"queue": 5}', '{"id": "x", "queue": "q", "payload": "{}"}'),
        '{"id": "01a20e39-8298-718a-bd90-b66ee0c391ca", "queue": "q", "payload": "{}", "new": 1}',
        '{"id": "01a20e39-8298-718a-bd90-b66ee0c391ca", "queue": "q", "payload": {}}',
        '{"id": "01a20e39-8298-718a-bd90-b66ee0c391ca", "queue": "q", "payload": "{}", "priority": 1e9}',
        "[" * 100_000,
    ],
)
def test_a_job_of_a_failure_that_no_store_could_keep(
    manager: ManagerThread, client: Callable[[str], Store], on_failure: str
) -> None:
    """Once its node fails, no job that ends in the same step could end."""
    store, node = client(manager.url), new_id()
    member = new_job(flow_root=node, flow_node=node, flow_index=0)
    with pytest.raises(InvalidInput):
        store.change_flows([OpenFlow([FlowNode(node, node, on_failure=on_failure)], [member])])
    assert store.flow_nodes(node) == []


TIMES = QueueTimes("q", "eventual", (1,), (2,))


@pytest.mark.parametrize(
    "times",
    [
        (TIMES,) * (ENTRIES_MAX + 1),
        (TIMES._replace(queue="x" * 500),),
        (TIMES._replace(delays=(0,) * (BUCKETS + 1)),),
        (TIMES._replace(runs=(0, -1)),),
    ],
    ids=("many", "long", "wide", "negative"),
)
def test_times_that_no_reader_could_use(
    manager: ManagerThread, client: Callable[[str], Store], times: tuple[QueueTimes, ...]
) -> None:
    store = client(manager.url)
    with pytest.raises(InvalidInput):
        store.beat([replace(worker("w"), times=times)])
    assert store.workers() == []


@pytest.mark.parametrize("data", GARBAGE)
def test_garbage_instead_of_http(manager: ManagerThread, raw: grpc.Channel, data: bytes) -> None:
    connections = [send(manager.address, data) for _ in range(5)]
    assert ask(raw, "Query.Now")
    for one in connections:
        one.close()
    assert ask(raw, "Query.Now")


def test_unknown_methods(raw: grpc.Channel) -> None:
    for path in ("/stanchion.v1.Queues/Nothing", "/stanchion.v2.Queues/Push", "/x", "/stanchion.v1.Queues/push"):
        with pytest.raises(grpc.RpcError) as caught:
            unknown(raw, path)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_large_metadata(raw: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        ask(raw, "Query.Now", metadata=(("x-large", "x" * 100_000),))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert ask(raw, "Query.Now")


def test_a_call_without_a_request(raw: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        raw.stream_unary(METHODS["Queues.Push"].path)(iter(()), timeout=30)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_requests_that_never_come(start: Start) -> None:
    """They hold no thread, and end; other calls go on meanwhile."""
    manager = start(ServerSettings(LOOPBACK, limits=Limits(reads=2, read_seconds=0.3)))
    ending = threading.Event()

    def never() -> Iterator[bytes]:
        ending.wait(60)
        yield from ()

    with grpc.insecure_channel(manager.address) as channel:
        push: Any = channel.stream_unary(METHODS["Queues.Push"].path)
        calls = [push.future(never(), timeout=60) for _ in range(6)]
        assert ask(channel, "Query.Now")
        codes = {call.code() for call in calls if isinstance(call.exception(timeout=60), grpc.RpcError)}
        ending.set()
    assert codes == {grpc.StatusCode.DEADLINE_EXCEEDED}


@pytest.fixture
def alone() -> Iterator[tuple[int, str]]:
    """A manager in a process of its own: its number and its address."""
    command = [sys.executable, "-c", "from stanchion.ops.cli import main; main()", "manager", "--url", "memory://"]
    environment = {**os.environ, "STANCHION_MANAGER_TOKEN": secret("shop")}
    options = ["--listen", "127.0.0.1:0", "--json"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        yield process.pid, json.loads(process.stdout.readline())["listening"]
        process.terminate()


KNOWN = (("authorization", f"Bearer {secret('shop')}"),)


def test_the_unknown_fill_no_memory(alone: tuple[int, str]) -> None:
    """The request of an unknown caller is not received."""
    pid, address = alone
    large = bytes(15 * 1024 * 1024)

    def push() -> None:
        with grpc.insecure_channel(address) as channel:
            for _ in range(3):
                with pytest.raises(grpc.RpcError) as caught:
                    ask(channel, "Queues.Push", large, metadata=(("authorization", "Bearer wrong"),))
                assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED

    with grpc.insecure_channel(address) as channel:
        assert ask(channel, "Query.Now", metadata=KNOWN)
        before = resident(pid)
        with in_threads([push] * 8):
            pass
        assert resident(pid) - before < 60 * 2**20
        assert ask(channel, "Query.Now", metadata=KNOWN)


@pytest.mark.nightly
def test_a_thousand_idle_connections(alone: tuple[int, str]) -> None:
    pid, address = alone
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    connections = list[socket.socket]()
    with grpc.insecure_channel(address) as channel:
        assert ask(channel, "Query.Now", metadata=KNOWN)
        before = resident(pid)
        try:
            connections += [send(address, PREFACE + SETTINGS) for _ in range(1000)]
            assert ask(channel, "Query.Now", metadata=KNOWN)
            time.sleep(1)
            assert resident(pid) - before < 60 * 2**20
        finally:
            for one in connections:
                one.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert ask(channel, "Query.Now", metadata=KNOWN)


def test_more_connections_than_it_takes(start: Start) -> None:
    manager = start(ServerSettings(LOOPBACK, limits=Limits(connections=10)))
    connections = [send(manager.address, PREFACE + SETTINGS) for _ in range(30)]

    def closed(one: socket.socket) -> bool:
        one.settimeout(0.05)
        try:
            return one.recv(1000) == b""
        except TimeoutError:
            return False
        except OSError:
            return True

    until(lambda: sum(map(closed, connections)) >= 20)
    for one in connections:
        one.close()
    with grpc.insecure_channel(manager.address) as channel:
        assert ask(channel, "Query.Now", wait_for_ready=True)


def resident(pid: int) -> int:
    """Return the memory of a process, in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
