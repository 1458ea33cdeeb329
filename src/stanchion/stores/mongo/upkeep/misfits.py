"""Jobs that no claim finds, because another program has stored a wrong type in the fields that claims search by."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from stanchion.stores.mongo.claims.mending import named
from stanchion.stores.mongo.client.documents import Document
from stanchion.stores.mongo.client.place import Place
from stanchion.stores.mongo.client.server import Access
from stanchion.stores.mongo.upkeep.rests import Rests
from stanchion.stores.records.jobs import QUEUED, JobState
from stanchion.stores.records.queues import QueueSettings

_AT_ONCE: Final = 500
_NO_NUMBER: Final[Document] = {"$not": {"$gte": -math.inf}}
"""Written so that an index finds it: as the values before and behind all numbers. An array is compared by its parts."""
_LIVE: Final = (QUEUED, JobState.WAITING.value, JobState.RUNNING.value)


class Misfits:
    """Buries them. The index of queued jobs has them before or after the others of their queue, lane or rank.

    Not every server skips the jobs in between, so a process checks a queue once in `rests.LONGEST` seconds.
    """

    def __init__(self, server: Access, bury: Callable[[Sequence[str]], object]) -> None:
        """`bury`: ends those jobs that have values of wrong types."""
        self._server, self._bury = server, bury
        self._rests = Rests()

    def bury(self, queues: Sequence[QueueSettings], now: int) -> None:
        """Bury such jobs of these queues; very many are continued in the next round."""
        due = self._rests.over(queues, now)
        if due and not self._bury_some([settings.name for settings in due]):
            self._rests.begin(due, now)

    def _bury_some(self, queues: Sequence[str]) -> bool:
        """Bury a number of them; return whether there may be more."""
        live: Document = {"live": True, "queue": {"$in": queues}}
        queued = {**live, "state": QUEUED}
        filters: tuple[Document, ...] = (
            {**live, "state": {"$nin": [*_LIVE]}},
            {**queued, "lane": _NO_NUMBER},
            {**queued, "run_at": _NO_NUMBER},
        )

        def find(on: Place, _again: bool) -> list[str]:
            found: list[object] = [
                one["_id"] for such in filters for one in on.jobs.find(such, {"_id": 1}).limit(_AT_ONCE)
            ]
            return named(on, found)

        if ids := self._server.call(find):
            self._bury(ids)
        return len(ids) >= _AT_ONCE
