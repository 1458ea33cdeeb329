"""The default time-outs of a worker's attempts.

    the job's (given at the enqueue) ► the task's ► the queue's setting ► the app's ► the worker's

The first two belong to the work, and the job keeps them. The others are looked up when an attempt starts, so that an
operator's change applies to jobs that are queued already. The settings of queues are read before the first job of each,
and then with the heartbeats, all by one call: later jobs don't wait for them, and a queue with rare jobs costs
nothing more.
"""

from __future__ import annotations

import logging
import time

from stanchion.context.context import Context
from stanchion.core.names.partition_names import logical_name

log = logging.getLogger("stanchion.worker")


class DefaultTimeouts:
    """How long an attempt may run that neither its job nor its task limits.

    `own`: the worker's, in seconds. `heartbeat`: its interval in seconds, within which a changed setting counts.
    """

    def __init__(self, context: Context, own: float | None, heartbeat: float) -> None:
        self._context, self._every = context, 0.9 * heartbeat
        self._last = own if context.timeout is None else context.timeout
        self._of: dict[str, float | None] = {}
        self._read_at = time.monotonic()

    def of(self, queue: str) -> float | None:
        """Return the seconds for jobs of this queue or partition, as last read; None: no limit."""
        seconds = self._of.get(queue)
        return self._last if seconds is None else seconds

    def meet(self, queue: str) -> None:
        """Read the setting of a queue or partition, before its first job."""
        if queue not in self._of:
            self._read({queue})

    def refresh(self) -> None:
        """Read the settings of all queues met so far. Called with each heartbeat, also those sent early."""
        if self._of and time.monotonic() - self._read_at >= self._every:
            self._read_at = time.monotonic()
            self._read(set(self._of))

    def _read(self, queues: set[str]) -> None:
        """Read settings; keep the last ones if the store does not answer."""
        try:
            found = self._context.settings.of(self._context.store, set(map(logical_name, queues)))
        except Exception as error:
            log.debug("the time-outs of queues can't be read: %s", error)
            return
        for queue in queues:
            settings = found.get(logical_name(queue))
            self._of[queue] = None if settings is None else settings.timeout
