"""What both ends of a connection must agree on: ports, sizes of messages, pings."""

from __future__ import annotations

from typing import Final

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
