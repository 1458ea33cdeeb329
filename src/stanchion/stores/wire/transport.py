"""What both ends of a connection must agree on: addresses, sizes of messages, pings."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from stanchion.core import environment

PORT: Final = 7117
"""The port of a manager whose address names none."""

TOKEN_VARIABLE: Final = environment.MANAGER_TOKEN
"""The environment variable with a token for all callers."""

REQUEST_BYTES: Final = 16 * 1024 * 1024
"""The largest request."""

REPLY_BYTES: Final = 2 * REQUEST_BYTES
"""The largest reply: the rows of jobs that came in one request take more."""

REPLY_TOO_LARGE: Final = "stanchion-reply-bytes"
"""Trailing metadata of a call whose reply would be over the largest: the client asks for less."""

PINGS: Final = (
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),  # without it a stopped peer is not noticed
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.keepalive_permit_without_calls", 1),
)
"""Options that let either end notice within 15 s that the other one is gone."""


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


def listening(text: str, port: int) -> tuple[str, int] | None:
    """Read an address to listen at: as `host_and_port` does, or a port alone, on loopback; None if it is neither."""
    if text.isascii() and text.isdecimal():
        text = f"127.0.0.1:{text}"
    found = host_and_port(text)
    return found and (found[0], port if found[1] is None else found[1])


def joined(host: str, port: int) -> str:
    """Return an address as gRPC and people write it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
