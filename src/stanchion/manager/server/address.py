"""The address that a manager listens at."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from stanchion.errors import InvalidInput
from stanchion.stores.wire.transport import PORT, host_and_port, joined, listening


class Listen(NamedTuple):
    """A host and a port; port 0 lets the system choose one."""

    host: str
    port: int

    @property
    def text(self) -> str:
        """The address as gRPC and people write it."""
        return joined(self.host, self.port)

    @property
    def loopback(self) -> bool:
        """True if only this machine reaches it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def listen_address(text: str) -> Listen:
    """Read `127.0.0.1:7117`, `[::1]:7117`, a host or a port alone. Raises InvalidInput."""
    found = listening(text, PORT)
    if found is None:
        raise InvalidInput(f"the address to listen at must be host:port, such as 127.0.0.1:{PORT}, not {text!r}")
    return Listen(*found)


def advertised_address(text: str) -> Listen:
    """Read the address by which clients reach a manager; without a port it is 0, the one that it listens at."""
    found = host_and_port(text)
    if found is None:
        raise InvalidInput(f"the address to advertise must be host or host:port, such as manager1:{PORT}, not {text!r}")
    host, port = found
    return Listen(host, port or 0)
