"""A time that stands still: the store's clock, and ids that are the same in each run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from unittest.mock import patch

from stanchion.core import ids
from stanchion.stores.memory.jobs import FrozenClock
from stanchion.stores.records.jobs import SECOND

NOW = datetime(2026, 3, 12, 3, 12, 40, tzinfo=UTC)
"""When the pictures are taken."""


class Time(FrozenClock):
    """The time of a store and of the ids, which only its owner moves."""

    def __init__(self) -> None:
        super().__init__()
        self.at = int(NOW.timestamp()) * SECOND

    def move(self, seconds: float) -> None:
        """Let seconds go by."""
        self.at += round(seconds * SECOND)


@contextmanager
def standing_still() -> Iterator[Time]:
    """Make ids by a clock of its own, and all random numbers the same in each run, as long as one thread takes them."""
    time = Time()
    random_bytes = random.Random(7).randbytes
    clock = SimpleNamespace(time_ns=lambda: time.now() * 1000)
    system = SimpleNamespace(urandom=random_bytes, getpid=lambda: 4711)
    with (
        patch.multiple(ids, time=clock, os=system, _last=0, _random=b""),
        patch("socket.gethostname", lambda: "etl-2"),
        patch("stanchion.ops.web.live.figures.QUICK", 3600.0),  # a slow reading would be told with its time
        patch("stanchion.telemetry.failures.time", SimpleNamespace(monotonic=lambda: time.now() / SECOND)),
        patch("stanchion.streams.holding.os", SimpleNamespace(getpid=lambda: 4711)),
    ):
        before = random.getstate()
        random.seed(7)  # the first lane of a process is random
        try:
            yield time
        finally:
            random.setstate(before)
