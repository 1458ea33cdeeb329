"""Claiming the next batch of a stream while the current one ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from time import monotonic

from stanchion.errors import StanchionError

log = logging.getLogger("stanchion.streams")

QUICK = 0.05
"""Seconds: a claim that takes less is made when its batch is needed."""

EARLY = 2.0
"""How early a claim begins before its batch is needed, in multiples of a claim's duration."""


class Ahead:
    """Makes a claim in a thread, so that it has ended when the batch before it has.

    It begins as late as it can, judged by the batch before: until then jobs of higher priority go first, and the jobs
    are free for others. `claim` must be repeatable: its jobs are found when the batch is numbered, which
    claims again if this claim did not begin, or failed.
    """

    def __init__(self, claim: Callable[[int], None]) -> None:
        self._claim = claim
        self._claim_seconds = 0.0
        self._made = False
        self._begun_at: float | None = None
        self._batch_seconds: float | None = None
        self._waiting: _Waiting | None = None

    def numbering(self, claim: Callable[[], int]) -> int:
        """Make the claim of the batch that is numbered now, and measure it, unless it only repeats one made before."""
        began = monotonic()
        count = claim()
        if not self._made:
            self._claim_seconds = monotonic() - began
        self._made = False
        return count

    def batch_begins(self, limit: int) -> None:
        """Plan a claim of up to `limit` jobs for the end of the batch that begins now; the first one is measured."""
        if self._begun_at is not None:
            return
        self._begun_at = monotonic()
        if limit and self._batch_seconds is not None and self._claim_seconds > QUICK:
            delay = max(0.0, self._batch_seconds - EARLY * self._claim_seconds)
            self._waiting = _Waiting(lambda: self._make(limit), delay)

    def batch_ends(self) -> None:
        """Wait until the claim has ended, if it has begun; else drop it."""
        if self._begun_at is not None:
            self._batch_seconds, self._begun_at = monotonic() - self._begun_at, None
        if self._waiting is not None:
            self._waiting.end()
            self._waiting = None

    def _make(self, limit: int) -> None:
        began = monotonic()
        try:
            self._claim(limit)
        except StanchionError as error:  # the claim that numbers the batch reports it, if it fails too
            log.debug("the next batch was not claimed ahead: %s", error)
        self._claim_seconds, self._made = monotonic() - began, True


class _Waiting:
    """A call that a thread makes after a delay, unless it is ended before."""

    def __init__(self, call: Callable[[], None], delay: float) -> None:
        self._call, self._delay = call, delay
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stanchion-claim-ahead", daemon=True)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        if not self._ended.wait(self._delay):
            self._call()
