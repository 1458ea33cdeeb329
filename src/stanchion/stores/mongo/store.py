"""The MongoDB store: its parts put together, and the life of its schema."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from stanchion.stores.mongo import CAPABILITIES
from stanchion.stores.mongo.claim import Claiming
from stanchion.stores.mongo.client.joining import transaction
from stanchion.stores.mongo.client.schema import checked, script, set_up
from stanchion.stores.mongo.client.server import BULK_SECONDS, Server
from stanchion.stores.mongo.discarding import Discarding
from stanchion.stores.mongo.operate import Operating
from stanchion.stores.mongo.push import Pushing
from stanchion.stores.mongo.query import Looking
from stanchion.stores.mongo.scanning import Scanning
from stanchion.stores.mongo.stats import Stats
from stanchion.stores.protocol import Listener
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Outcome
from stanchion.stores.records.queues import QueueStats, Stat


class MongoStore(Discarding, Claiming, Pushing, Operating, Looking, Scanning):
    """Jobs in a MongoDB database."""

    capabilities = CAPABILITIES

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self._stats = Stats(server, self.lanes_of, self.counts, self.across)

    @property
    def skew(self) -> float:
        """Seconds added to the server's clock, for tests."""
        return self.server.outside.skew

    @skew.setter
    def skew(self, seconds: float) -> None:
        self.server.outside.skew = seconds

    def setup(self) -> None:
        self.server.call(lambda on, _again: set_up(on), BULK_SECONDS)

    def setup_script(self) -> str:
        return script()

    def check(self) -> None:
        self.server.call(lambda on, _again: checked(on))

    def settle(self, outcomes: Sequence[Outcome], tx: Any = None, *, repeat: bool = False) -> list[JobState | None]:
        return (self if tx is None else self.inside(tx)).settle_each(outcomes, repeat=repeat)

    def stats(self, queues: Collection[str], fields: Collection[Stat]) -> dict[str, QueueStats]:
        return self._stats.stats(queues, fields)

    def lane_depths(self, queue: str, lanes: Sequence[int] | None = None, at_most: int = 1000) -> dict[int, int]:
        return self._stats.lane_depths(queue, lanes, at_most)

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        with transaction(self.server.outside) as session:
            yield session
        self.tail.committed(session)
        self.follow_up(self.duties_of(self.tail.after(session).jobs))

    def listen(
        self, queues: Iterable[str], *, finished: Iterable[str] | None = None, interchangeable: bool = False
    ) -> Listener:
        return self.tail.listen(queues, finished, interchangeable=interchangeable)

    def close(self) -> None:
        self.tail.close()
        self.server.outside.close()
