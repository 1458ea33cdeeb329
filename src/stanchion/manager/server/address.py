"""The address that a manager listens at."""

from __future__ import annotations

from stanchion.core.urls import Listen, host_and_port, listening
from stanchion.errors import InvalidInput
from stanchion.stores.wire.transport import PORT


def listen_address(text: str) -> Listen:
    """Read `127.0.0.1:7117`, `[::1]:7117`, a host or a port alone. Raises InvalidInput."""
    found = listening(text, PORT)
    if found is None:
        raise InvalidInput(f"the address to listen at must be host:port, such as 127.0.0.1:{PORT}, not {text!r}")
    return found


def advertised_address(text: str) -> Listen:
    """Read the address by which clients reach a manager; without a port it is 0, the one that it listens at."""
    found = host_and_port(text)
    if found is None:
        raise InvalidInput(f"the address to advertise must be host or host:port, such as manager1:{PORT}, not {text!r}")
    host, port = found
    return Listen(host, port or 0)
