"""The address that a manager listens at."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple
from urllib.parse import urlsplit

from stanchion.errors import InvalidInput

PORT = 7117
"""The port where an address names none."""


class Listen(NamedTuple):
    """A host and a port; port 0 lets the system choose one."""

    host: str
    port: int

    @property
    def text(self) -> str:
        """The address as gRPC and people write it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

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
    """Read `127.0.0.1:7117`, `[::1]:7117` or a host alone. Raises InvalidInput."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.path or parts.query or parts.username is not None:
        raise InvalidInput(f"the address to listen at must be host:port, such as 127.0.0.1:{PORT}, not {text!r}")
    return Listen(host, PORT if port is None else port)
