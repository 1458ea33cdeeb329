"""A store whose process is killed at a chosen call."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any, cast

from stanchion.stores.protocol import Store


class Doomed:
    """Passes every call on; kills its own process around the n-th call of one verb that has work to do.

    `fate` is such as "before settle 3" or "after claim 1": after, the store has done what the caller never
    hears of.
    """

    def __init__(self, store: Store, fate: str) -> None:
        self._store = store
        self._moment, self._verb, number = fate.split()
        self._left = int(number)

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        return self._fatal(verb) if name == self._verb else verb

    def _fatal(self, verb: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if self._moment == "before":
                self._strike()
            answer = verb(*args, **options)
            if self._moment == "after" and getattr(answer, "rows", True):
                self._strike()
            return answer

        return call

    def _strike(self) -> None:
        self._left -= 1
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


def doomed(store: Store, fate: str | None) -> Store:
    """Return the store under this fate; the store itself where there is none."""
    return cast(Store, Doomed(store, fate)) if fate else store
