"""The claims of a round that are left once the worker has enough jobs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from stanchion.worker.order import Turn

MANY = 100
"""Claims in a round beyond which the rest is kept: polling so many queues takes longer than some claims."""


class Rest:
    """Claims that a worker may still make without another look, for as long again as the last look took.

    So polls take half of a worker's time at most, however many queues have jobs, and a job of higher priority that
    arrives meanwhile waits as long as it would have during the poll.
    """

    def __init__(self) -> None:
        self.clear()

    def begin(self, turns: Sequence[Turn], looked_at: float) -> None:
        """Take in the claims of a round whose look began then, on the monotonic clock."""
        self.clear()
        if len(turns) > MANY:
            now = time.monotonic()
            self._turns.extend(turns)
            self._until = now + (now - looked_at)

    def clear(self) -> None:
        """Forget them, as something has changed."""
        self._turns: deque[Turn] = deque()
        self._until = 0.0

    def claimed(self, turn: Turn, *, found: bool) -> None:
        """Take in that a claim was made, and whether it found a job: the next one may find more there."""
        if turn in self._turns:
            while self._turns[0] != turn:
                self._turns.popleft()
            if not found:
                self._turns.popleft()

    def turns(self) -> list[Turn]:
        """Return the claims that may still be made."""
        return list(self._turns) if time.monotonic() < self._until else []
