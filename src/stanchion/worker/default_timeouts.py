"""The default time-outs of a worker's attempts.

    the job's (given at the enqueue) ► the task's ► the queue's setting ► the app's ► the worker's

The first two belong to the work, and the job keeps them. The others are looked up when an attempt starts, so that an
operator's change applies to jobs that are queued already.
"""

from __future__ import annotations

import logging

from stanchion.context.context import Context

log = logging.getLogger("stanchion.worker")


class DefaultTimeouts:
    """How long an attempt may run that neither its job nor its task limits. `own`: the worker's, in seconds."""

    def __init__(self, context: Context, own: float | None) -> None:
        self._context = context
        self._last = own if context.timeout is None else context.timeout
        self._of: dict[str, float] = {}

    def of(self, queue: str) -> float | None:
        """Return the seconds for jobs of this queue, as last read; None: no limit."""
        return self._of.get(queue, self._last)

    def read(self, queue: str) -> None:
        """Read the setting of a queue, at most once a second; keep the last one if the store does not answer."""
        try:
            settings = self._context.settings.of(self._context.store, {queue}).get(queue)
        except Exception as error:
            log.debug("the time-out of queue %r can't be read: %s", queue, error)
            return
        if settings is not None and settings.timeout is not None:
            self._of[queue] = settings.timeout
        else:
            self._of.pop(queue, None)
