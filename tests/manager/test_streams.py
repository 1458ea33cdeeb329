"""Streams of clients, as each of their threads keeps one."""

from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from stanchion.stores.grpc.client.address import address_of
from stanchion.stores.grpc.client.channels import Channels
from stanchion.stores.grpc.client.streams import Stream
from stanchion.stores.wire.messages import METHODS, pb, written
from tests.servers.manager import ManagerThread

HELLO = written(pb.TopologyRequest())


@pytest.fixture
def channels(manager: ManagerThread) -> Iterator[Channels]:
    found = Channels(address_of(manager.url))
    yield found
    found.close()


@pytest.fixture
def stream(channels: Channels) -> Stream:
    """A stream that a manager keeps open."""
    return Stream(channels, METHODS["Queues.Topology"])


def test_is_read_until_it_is_ended(stream: Stream, manager: ManagerThread) -> None:
    got: list[bytes] = []
    ends: list[str] = []

    def take(data: bytes) -> None:
        got.append(data)
        stream.cancel()

    for _ in range(2):  # another one may follow
        with pytest.raises(grpc.RpcError) as caught:
            stream.read(manager.address, HELLO, take, after=lambda: ends.append("after"))
        assert caught.value.code() is grpc.StatusCode.CANCELLED
    assert (len(got), ends) == (2, ["after"] * 2)


def test_ends_at_once_if_it_was_closed_while_it_is_opened(stream: Stream, manager: ManagerThread) -> None:
    """The thread that closes it may come before the call is made: it would be open for ever."""
    stream.close()
    got: list[bytes] = []
    with pytest.raises(grpc.RpcError) as caught:
        stream.read(manager.address, HELLO, got.append, seconds=60)
    assert (caught.value.code(), got) == (grpc.StatusCode.CANCELLED, [])


def test_returns_if_the_channels_are_closed_before_it_is_opened(
    stream: Stream, channels: Channels, manager: ManagerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: Any = channels.call(manager.address, METHODS["Queues.Topology"])

    def closing(*_: object) -> Any:
        channels.close()
        return made

    monkeypatch.setattr(channels, "call", closing)
    stream.read(manager.address, HELLO, lambda _: None)
    assert not stream.opened
