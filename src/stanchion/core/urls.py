"""URLs that name several hosts, and addresses of servers."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit


def split_with_hosts(url: str) -> SplitResult:
    """Return the parts of a URL with any number of hosts, separated by commas, which the caller checks.

    `urlsplit` of current releases of Python refuses the brackets of an IPv6 address after the first host.
    """
    scheme, mark, rest = url.partition("://")
    end = min((rest.index(one) for one in "/?#" if one in rest), default=len(rest))
    return urlsplit(f"{scheme}{mark}{rest[end:]}")._replace(netloc=rest[:end])


class Listen(NamedTuple):
    """The address of a server; port 0 lets the system choose one."""

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
        import ipaddress

        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def host_and_port(text: str) -> tuple[str, int | None] | None:
    """Read `host`, `host:port` or `[::1]:port`; None for any other form."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not host or parts.path or parts.query or parts.username is not None:
        return None
    return host, port


def listening(text: str, port: int) -> Listen | None:
    """Read an address to listen at: as `host_and_port` does, or a port alone, on loopback; None if it is neither."""
    if text.isascii() and text.isdecimal():
        text = f"127.0.0.1:{text}"
    found = host_and_port(text)
    return found and Listen(found[0], port if found[1] is None else found[1])


def joined(host: str, port: int) -> str:
    """Return an address as gRPC and people write it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
