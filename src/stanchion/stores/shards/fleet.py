"""All shards, and calls that go to several of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from stanchion.errors import StoreUnavailable
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.rules.partial_answers import ShardUnavailable
from stanchion.stores.rules.shard_map import ShardMap
from stanchion.stores.shards.known_map import KnownMap
from stanchion.stores.shards.roster import Roster
from stanchion.stores.shards.shard import Shard

T = TypeVar("T")
R = TypeVar("R")


class Fleet:
    """The shards of a map, the default shard first."""

    def __init__(self, known_map: KnownMap, roster: Roster) -> None:
        self._known_map, self._roster = known_map, roster
        self.default, self.named = roster.default, roster.named

    @property
    def all(self) -> list[Shard]:
        """All shards, the default shard first."""
        return self._roster.all

    def of(self, queue: str) -> Shard:
        """Return the shard of a physical queue."""
        return self.named(self._known_map.now.of(queue))

    def others(self, queue: str) -> list[Shard]:
        """Return the shards, other than its own, that may have jobs or history of a physical queue."""
        return list(map(self.named, self._known_map.now.others(queue)))

    def is_held(self, queue: str) -> bool:
        """Return whether no shard delivers jobs of a physical queue, because it is moving."""
        return self._known_map.now.is_held(queue)

    def split(self, items: Sequence[T], queue_of: Callable[[T], str]) -> Iterator[tuple[Shard, list[T]]]:
        """Yield the shards of some items, by the physical queue of each, and their items in order."""
        for shard, places in self._places(items, queue_of, self._known_map.now).items():
            yield shard, [items[place] for place in places]

    def each(
        self,
        items: Sequence[T],
        queue_of: Callable[[T], str],
        ask: Callable[[Shard, list[T]], Sequence[R]],
        shard_map: ShardMap | None = None,
    ) -> list[R]:
        """Return the answers for all items, in order, each asked of its shard.

        A shard that does not answer does not block the others: ShardUnavailable is raised afterwards. A repeat
        recognises the earlier effects.
        """
        answers: dict[int, R] = {}
        failure: StoreUnavailable | None = None
        for shard, places in self._places(items, queue_of, shard_map or self._known_map.now).items():
            try:
                answers |= zip(places, ask(shard, [items[place] for place in places]), strict=True)
            except StoreUnavailable as error:
                failure = failure or error
        if failure is not None:
            raise ShardUnavailable(str(failure), answers, lasting=failure.lasting) from failure
        return [answers[place] for place in range(len(items))]

    def first_known(self, items: Sequence[T], unknown: R, ask: Callable[[Shard, list[T]], Sequence[R]]) -> list[R]:
        """Ask one shard after the other for the items that none before it knew; return the answers.

        StoreUnavailable if an item stays unknown, and a shard did not answer.
        """
        answers = [unknown] * len(items)
        failure: StoreUnavailable | None = None
        for shard in self.all:
            places = [place for place, answer in enumerate(answers) if answer == unknown]
            if not places:
                break
            try:
                for place, answer in zip(places, ask(shard, [items[place] for place in places]), strict=True):
                    answers[place] = answer
            except StoreUnavailable as error:
                failure = error
        if failure is not None and unknown in answers:
            raise failure
        return answers

    def recover(self, limit: int, as_of: int | None) -> list[JobRow]:
        """Recover jobs of all shards that are up; none where live workers may look dead."""
        rows: list[JobRow] = []
        for shard in self.all:
            most = limit - len(rows) if shard.steady else 0
            rows += shard.ask_if_up((), shard.store.recover, most, as_of if most else None)
        return rows

    def _places(self, items: Sequence[T], queue_of: Callable[[T], str], shard_map: ShardMap) -> dict[Shard, list[int]]:
        places: dict[Shard, list[int]] = {}
        for place, item in enumerate(items):
            places.setdefault(self.named(shard_map.of(queue_of(item))), []).append(place)
        return places
