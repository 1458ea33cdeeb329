"""Which jobs come too late: sent by a manager that was stopped meanwhile, or by a former owner of their slice."""

from __future__ import annotations

import time
from typing import Final

from stanchion.stores.wire.messages import pb

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def stamp() -> int:
    """Return microseconds of a clock that keeps running while the machine sleeps."""
    return time.clock_gettime_ns(_CLOCK) // 1000


class Epochs:
    """The highest epoch known of each slice."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], int] = {}

    def learn(self, down: pb.Down) -> None:
        """Take in the epochs of a message."""
        described: tuple[pb.Slice | pb.Job, ...] = (*down.slices, *down.jobs)
        for one in described:
            key = (one.queue, one.slice)
            if one.epoch > self._known.get(key, 0):
                self._known[key] = one.epoch

    def late(self, down: pb.Down) -> list[bool]:
        """Return for each job of a message whether it must be refused.

        The sender's session is sure to last until `lease_left_us` after the last stamp that it had. From then on
        another manager may own the slice, and may have given the job back.
        """
        self.learn(down)
        if stamp() > down.heard_us + down.lease_left_us:
            return [True] * len(down.jobs)
        return [self.is_old(job) for job in down.jobs]

    def is_old(self, one: pb.Slice | pb.Job) -> bool:
        """Return whether a slice, or the slice of a job, has had another owner since."""
        return bool(one.epoch < self._known[one.queue, one.slice])
