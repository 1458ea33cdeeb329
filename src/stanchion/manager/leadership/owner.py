"""Notices of leadership to the part of a manager that serves the slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Owned(NamedTuple):
    """A slice of a queue that this manager owns."""

    queue: str
    slice: int
    epoch: int
    """Grows with each change of the owner."""
    lanes: tuple[int, int]
    """First and last lane; the first may be -1, jobs without a lane."""


class Owner(Protocol):
    """Serves slices. All calls come from the event loop; `take` and `release` one after another."""

    async def take(self, owned: Sequence[Owned]) -> None:
        """Begin to serve slices. Cancelled if they are lost meanwhile; released if it raises."""

    async def release(self, owned: Sequence[Owned]) -> None:
        """Stop serving slices; return once no statement for them is under way."""

    def lose(self) -> None:
        """Stop serving all slices immediately: the session is lost, or its deadline has passed."""
