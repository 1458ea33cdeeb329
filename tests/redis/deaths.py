"""A process that dies, or gets no answer, at any of its calls to the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Literal, NamedTuple

import pytest
from redis.exceptions import ConnectionError

from stanchion.stores.redis.store import RedisStore
from tests.redis.conftest import Open

Way = Literal["before", "lost"]
"""Dead before a call, which is also to be dead after the one before it, or alive with its answer lost."""

_prefixes = (f"deaths{number}" for number in count())


class Died(BaseException):
    """Stands for the death of the process."""


class Scene(NamedTuple):
    """What was done on keys of its own: by a process that `died` or came to the end, and who looks after it."""

    made: Any
    died: bool
    witness: RedisStore


def at_every_call(
    opened: Open,
    url: str,
    way: Way,
    prepare: Callable[[RedisStore], Any],
    act: Callable[[RedisStore, Any], object],
) -> Iterator[Scene]:
    """Do it again and again, each time with a fault one call later, until there is no call left for it."""
    for calls in count():
        own_url = f"{url.partition('?')[0]}?prefix={next(_prefixes)}"
        witness, actor = opened(own_url), opened(own_url)
        made = prepare(witness)
        faulty = _Faulty(actor, way, calls)
        try:
            act(actor, made)
        except Died:
            yield Scene(made, True, witness)
        else:
            yield Scene(made, False, witness)
            if not faulty.struck:
                assert calls > 0
                return


class _Faulty:
    """Has one call of a store go wrong."""

    def __init__(self, store: RedisStore, way: Way, calls: int) -> None:
        self._way, self._left, self._call = way, calls, store.server.call
        self.struck = False
        store.server.call = self.call  # type: ignore[method-assign]

    def call(self, work: Callable[[bool], Any]) -> Any:
        self._left -= 1
        if self._left != -1:
            return self._call(work)
        self.struck = True
        if self._way == "lost":
            return self._call(self._unanswered(work))
        raise Died

    def _unanswered(self, work: Callable[[bool], Any]) -> Callable[[bool], Any]:
        def once(again: bool) -> Any:
            answer = work(again)
            if not again:
                raise ConnectionError("the answer was lost")
            return answer

        return once


ways = pytest.mark.parametrize("way", ["before", "lost"])
before_by_day = pytest.mark.parametrize("way", ["before", pytest.param("lost", marks=pytest.mark.nightly)])
