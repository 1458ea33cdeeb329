"""The ties between a worker and the process that runs it."""

from __future__ import annotations

from collections.abc import Callable

from stanchion.worker.process.pulse import PulseWriter
from stanchion.worker.process.signals import Calls


class Oversight:
    """What the process around a worker sets before its start, and asks after its end."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self.on_stuck: Callable[[], None] | None = None
        """Called after an attempt was abandoned; its thread can't be stopped while this process lives."""
        self.pulse: PulseWriter | None = None
        """Reports life and jobs of the worker to another process."""

    @property
    def stop_requested(self) -> bool:
        """True once a signal has asked `run` to stop."""
        return self._calls.signals > 0

    def stuck(self) -> None:
        """Report that an attempt was abandoned."""
        if self.on_stuck is not None:
            self.on_stuck()
