"""The map of shards: which of them has what, and which partitions are on their way from one to another.

    planned ──announced──► leaving ──► moved ──► in its new shard; the old one is a former one
                              └──jobs run too long──► planned

planned: the move is recorded; its only effect is on operations that a divided queue refuses. leaving: pushes go to the
old shard, which delivers no jobs. moved: pushes go to the new one, which delivers no jobs yet.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self

from stanchion.core.names.partition_names import logical_name

Phase = Literal["planned", "leaving", "moved"]


class Move(NamedTuple):
    """A partition on its way to the shard `to`."""

    to: str
    phase: Phase = "planned"


class Former(NamedTuple):
    """A shard that had a partition until a time, in microseconds by the clock of the default shard."""

    shard: str
    until: int


@dataclass(frozen=True)
class ShardMap:
    """Which shard holds what.

    `default`: the shard of everything not named by `places`. `places`: the shards of partitions, by name, such as
    "orders#3". `version`: of the value in which it is stored; 0 for a map that exists only as a file.
    """

    default: str
    places: Mapping[str, str] = field(default_factory=dict)
    moving: Mapping[str, Move] = field(default_factory=dict)
    former: Mapping[str, tuple[Former, ...]] = field(default_factory=dict)
    version: int = 0
    _divided: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        places = {name: shard for name, shard in self.places.items() if shard != self.default}
        object.__setattr__(self, "places", places)
        object.__setattr__(self, "_divided", frozenset(map(logical_name, (*places, *self.moving))))

    def of(self, queue: str) -> str:
        """Return the shard that stores new jobs of a physical queue."""
        move = self.moving.get(queue)
        return move.to if move is not None and move.phase == "moved" else self.source(queue)

    def source(self, queue: str) -> str:
        """Return the shard of a physical queue before its move, if it is on its way."""
        return self.places.get(queue, self.default)

    def is_held(self, queue: str) -> bool:
        """Return whether no shard delivers jobs of a physical queue, because it is moving."""
        move = self.moving.get(queue)
        return move is not None and move.phase != "planned"

    def others(self, queue: str) -> tuple[str, ...]:
        """Return the shards other than `of` that may have jobs or history of a physical queue, the latest first."""
        move = self.moving.get(queue)
        current = () if move is None or move.phase == "planned" else (self.source(queue), move.to)
        names = (*current, *(one.shard for one in reversed(self.former.get(queue, ()))))
        return tuple(name for name in dict.fromkeys(names) if name != self.of(queue))

    def divides(self, queue: str) -> bool:
        """Return whether a queue, or a partition's queue, may have partitions outside the default shard."""
        return logical_name(queue) in self._divided

    # -- changes

    def planned(self, queues: Iterable[str], to: str) -> Self:
        """Return the map with moves of these physical queues; leave out the ones already there or moving."""
        new = {queue: Move(to) for queue in queues if queue not in self.moving and self.of(queue) != to}
        return replace(self, moving={**self.moving, **new})

    def in_phase(self, queues: Iterable[str], phase: Phase) -> Self:
        """Return the map with moves in another phase; without the finished ones."""
        changed = {queue: self.moving[queue]._replace(phase=phase) for queue in queues if queue in self.moving}
        return replace(self, moving={**self.moving, **changed})

    def arrived(self, queues: Iterable[str], now: int) -> Self:
        """Return the map with moves that have ended at their destination."""
        places, moving, former = dict(self.places), dict(self.moving), dict(self.former)
        for queue in queues:
            if (move := moving.pop(queue, None)) is not None:
                left = Former(places.get(queue, self.default), now)
                before = (one for one in former.get(queue, ()) if one.shard not in (left.shard, move.to))
                former[queue] = (*before, left)
                places[queue] = move.to
        return replace(self, places=places, moving=moving, former=former)

    def without(self, queues: Iterable[str]) -> Self:
        """Return the map without the moves of these physical queues."""
        gone = set(queues)
        return replace(self, moving={queue: move for queue, move in self.moving.items() if queue not in gone})

    # -- as it is stored

    def stored(self) -> dict[str, object]:
        """Return the plain form of the map, without its version."""
        return {
            "default": self.default,
            "places": dict(sorted(self.places.items())),
            "moving": {queue: [*move] for queue, move in sorted(self.moving.items())},
            "former": {queue: [[*one] for one in shards] for queue, shards in sorted(self.former.items())},
        }

    @classmethod
    def of_stored(cls, stored: Mapping[str, Any], version: int) -> Self:
        """Return the map of a plain form."""
        return cls(
            stored["default"],
            stored["places"],
            {queue: Move(*move) for queue, move in stored["moving"].items()},
            {queue: tuple(Former(*one) for one in shards) for queue, shards in stored["former"].items()},
            version,
        )


def text_of(stored: Mapping[str, object]) -> str:
    """Return a plain form as the text of a value."""
    return json.dumps(stored, separators=(",", ":"))
