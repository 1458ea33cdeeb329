"""An event loop with virtual time: when there is nothing to do, it is at once the time of the next timer."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

BEGIN = 1000.0


class _Jump(selectors.SelectSelector):
    """Waits in no time."""

    now = BEGIN

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("all tasks wait, and nothing will ever happen")
        self.now += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time passes only in timers, and at once."""

    def __init__(self) -> None:
        self.jump = _Jump()
        super().__init__(self.jump)

    def time(self) -> float:
        return self.jump.now


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def now() -> float:
    """Return the time of the event loop."""
    return asyncio.get_running_loop().time()


def stand_still(seconds: float) -> None:
    """Let time pass in which this process does nothing."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.jump.now += seconds


async def until(condition: Any, seconds: float = 60.0) -> None:
    """Wait until a condition is met; AssertionError if it is not, within this virtual time."""
    end = now() + seconds
    while not condition():
        assert now() < end, "it did not happen"
        await asyncio.sleep(0.001)
