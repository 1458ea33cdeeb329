"""Outcomes that a caller waits for."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

from stanchion.stores.records.jobs import Lease

Answer = Literal["settled", "lost"]


class Settling:
    """The outcomes of one call that have gone up by streams. Used under the lock of the receiver."""

    def __init__(self, leases: Collection[Lease]) -> None:
        self.waiting = set(leases)
        self.answers: dict[Lease, Answer] = {}

    def answer(self, leases: Iterable[Lease], answer: Answer) -> None:
        """Process a manager's answers; ignore leases of other calls."""
        for lease in leases:
            if lease in self.waiting:
                self.waiting.discard(lease)
                self.answers[lease] = answer

    def give_up(self, leases: Iterable[Lease]) -> None:
        """Wait no more for outcomes whose stream has ended."""
        self.waiting.difference_update(leases)
