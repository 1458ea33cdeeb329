"""A window's knowledge of the jobs of one rank in one lane."""

from __future__ import annotations

from stanchion.manager.window.key import Key

LOW = 5
"""A group is read again once it has less than a fifth of one read's keys."""


class Group:
    """The jobs of one rank in one lane, as far as they were read.

    `until`: the due time up to which the window has read. `edge`: beyond this key there may be unread jobs that are due
    by then; None: there are none. `count`: keys in the window. `full`: how many keys one read returns.

    `changed`, `seen`: numbers of signs; jobs may be missing if the last change came after the last look.
    """

    __slots__ = ("changed", "count", "edge", "full", "seen", "until")

    def __init__(self, full: int) -> None:
        self.count, self.full = 0, full
        self.until, self.edge = 0, None
        self.changed = self.seen = 0

    until: int
    edge: Key | None

    def covers(self, key: Key) -> bool:
        """Return True if no unread job can come before this one, as far as is known."""
        return key.run_at <= self.until if self.edge is None else key < self.edge

    @property
    def runs_low(self) -> bool:
        """Return True if it is time to read on, if there is more."""
        return self.count <= self.full // LOW
