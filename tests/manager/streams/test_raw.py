"""Whatever comes in by a stream, a manager stays up and says by a status what was wrong."""

import random
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from stanchion.stores.wire.messages import METHODS, pb
from stanchion.stores.wire.transport import REQUEST_BYTES
from stanchion_conformance.harness import claim, new_job
from tests.manager.conftest import ask
from tests.manager.test_fuzz import NO_FAULTS, Filler
from tests.servers.manager import ManagerThread

STREAMS = {"Queues.PushStream": pb.PushRequest, "Queues.Receive": pb.Up}


def status_of(channel: grpc.Channel, method: str, requests: Iterator[bytes]) -> grpc.StatusCode:
    call: Any = channel.stream_stream(METHODS[method].path)
    try:
        for _ in call(requests, timeout=60):
            pass
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize("method", STREAMS)
class TestStreams:
    def test_bytes_that_are_no_message(self, raw: grpc.Channel, method: str) -> None:
        choose = random.Random(method)
        for _ in range(30):
            data = [choose.randbytes(choose.choice((1, 3, 17, 400))) for _ in range(3)]
            assert status_of(raw, method, iter(data)) not in NO_FAULTS, data
        assert ask(raw, "Query.Now")

    def test_messages_full_of_nonsense(self, manager: ManagerThread, raw: grpc.Channel, method: str) -> None:
        job = new_job()
        manager.store.push([job])
        filler = Filler(random.Random(method), [job.id])
        for _ in range(20):
            messages = [filler.filled(STREAMS[method]) for _ in range(10)]
            code = status_of(raw, method, (one.SerializeToString() for one in messages))
            assert code not in NO_FAULTS, messages
        fresh = new_job(queue="a fresh one")
        manager.store.push([fresh])
        assert [one.id for one in claim(manager.store, 10, queue="a fresh one")] == [fresh.id]

    def test_one_over_the_largest(self, raw: grpc.Channel, method: str) -> None:
        huge = iter([bytes(REQUEST_BYTES + 1000)])
        assert status_of(raw, method, huge) is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert ask(raw, "Query.Now")

    def test_one_that_says_nothing_keeps_no_one_from_working(
        self, manager: ManagerThread, raw: grpc.Channel, method: str
    ) -> None:
        ending = threading.Event()

        def silent() -> Iterator[bytes]:
            ending.wait(60)
            yield from ()

        call: Any = raw.stream_stream(METHODS[method].path)
        streams = [call(silent(), timeout=20) for _ in range(20)]
        assert ask(raw, "Query.Now")
        manager.stop(60)  # the end of a manager waits for none of them, nor for their deadline
        codes = {one.code() for one in streams}
        ending.set()
        assert codes == {grpc.StatusCode.UNAVAILABLE}
