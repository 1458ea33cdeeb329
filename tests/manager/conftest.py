"""A manager over the memory store, and clients of it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any, Protocol

import grpc
import pytest

from stanchion.manager.server.settings import ServerSettings
from stanchion.manager.server.tokens import Caller, Role, Token, Tokens, token_of
from stanchion.stores.memory import MemoryStore
from stanchion.stores.protocol import Store
from stanchion.stores.registry import open_store
from stanchion.stores.wire.messages import METHODS
from tests.servers.manager import LOOPBACK, ManagerThread


class Start(Protocol):
    """Starts a manager, of a store of its own unless one is given."""

    def __call__(self, settings: ServerSettings | None = None, store: Store | None = None) -> ManagerThread: ...


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as stack:

        def begin(settings: ServerSettings | None = None, store: Store | None = None) -> ManagerThread:
            return stack.enter_context(ManagerThread(store or MemoryStore(), settings))

        yield begin


@pytest.fixture
def manager(start: Start) -> ManagerThread:
    return start()


@pytest.fixture
def client() -> Iterator[Callable[[str], Store]]:
    """Opens a store of a URL, closed with the test."""
    with ExitStack() as stack:
        yield lambda url: stack.enter_context(closing(open_store(url)))


@pytest.fixture
def raw(manager: ManagerThread) -> Iterator[grpc.Channel]:
    """A channel to the manager, for requests of any bytes."""
    with grpc.insecure_channel(manager.address) as channel:
        yield channel


def secret(name: str) -> str:
    """Return the token of a caller in these tests."""
    return f"the-secret-of-{name}"


def limited(*tokens: Token) -> ServerSettings:
    """Return settings with these tokens."""
    return ServerSettings(LOOPBACK, Tokens(tokens))


def token(name: str, roles: str = "push receive admin", queues: tuple[str, ...] | None = None) -> Token:
    """Return a token by the names of its roles."""
    return token_of(secret(name), Caller(name, frozenset(map(Role, roles.split())), queues))


def ask(channel: grpc.Channel, method: str, data: bytes = b"", **options: Any) -> Any:
    """Call a unary method with bytes; return the bytes of the reply."""
    call: Any = channel.unary_unary(METHODS[method].path)
    return call(data, **{"timeout": 30, **options})
