"""Content of the receivers' streams, as messages."""

from __future__ import annotations

from typing import Final

from stanchion.stores.wire.codec import Part
from stanchion.stores.wire.jobs import LEASE
from stanchion.stores.wire.workers import LANE_RANGE, WORKER

HELD: Final = LEASE.many(list)
"""Reserved jobs."""

LANES: Final = LANE_RANGE.many(list)
"""The lanes of queues that are served in part."""

WORKER_ROW: Final[Part] = WORKER.one
"""How a receiver is listed among the workers."""

LARGEST: Final = 1024 * 1024
"""Bytes of jobs or outcomes in one message, unless a single one takes more."""
