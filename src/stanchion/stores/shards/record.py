"""The map as each shard has it on record, so that no process uses another one by mistake.

`setup` writes it, shard by shard, and may be repeated. A partition may change its shard only while it has no live jobs,
as these would not be found.
"""

from __future__ import annotations

import json
from typing import Any

from stanchion.errors import InvalidInput
from stanchion.stores.shards.fleet import Fleet
from stanchion.stores.shards.map import ShardMap
from stanchion.stores.shards.shard import Shard

KIND, NAME = "shards", "map"


class MapRecord:
    """Compares the map of this process with those on record."""

    def __init__(self, chart: ShardMap, fleet: Fleet) -> None:
        self._chart, self._fleet = chart, fleet

    def check(self, shard: Shard) -> None:
        """Raise InvalidInput if a shard has another map on record, or is another shard."""
        text, _ = self._stored(shard)
        if text is not None and text != self._text(shard):
            raise InvalidInput(
                f"shard {shard.name!r} is {json.loads(text)['shard']!r} in the map with which it was set up, or has "
                f"other partitions; use that map, or run `stanchion setup` with this one while no program runs"
            )

    def write(self) -> None:
        """Put the map of this process on record. Raises InvalidInput if jobs would be left behind."""
        for shard in self._fleet.all:
            self._refuse_left(shard)
        for shard in self._fleet.all:
            text, version = self._stored(shard)
            while text != self._text(shard):
                shard.ask(shard.store.compare_and_set, KIND, NAME, self._text(shard), version)
                text, version = self._stored(shard)

    def _refuse_left(self, shard: Shard) -> None:
        text, _ = self._stored(shard)
        if text is None:
            return
        before: dict[str, Any] = json.loads(text)
        if before["shard"] != shard.name:
            raise InvalidInput(
                f"shard {shard.name!r} was set up as {before['shard']!r}; give it that name, or its own URL"
            )
        known = ShardMap(before["default"], {}, before["places"])
        moved = {name for name in {*before["places"], *self._chart.places} if known.of(name) != self._chart.of(name)}
        gone = [name for name in sorted(moved) if known.of(name) == shard.name]
        left = shard.ask(shard.store.stats, gone, ["states"]) if gone else {}
        for name, stats in left.items():
            if stats.states.total:
                raise InvalidInput(
                    f"shard {shard.name!r} has {stats.states.total} live jobs in {name!r}, which the map gives to "
                    f"{self._chart.of(name)!r}; let workers empty it with the map of before"
                )

    def _stored(self, shard: Shard) -> tuple[str | None, int]:
        found = shard.ask(shard.store.values, KIND, [NAME])
        return (found[0].text, found[0].version) if found else (None, 0)

    def _text(self, shard: Shard) -> str:
        stored = {
            "shard": shard.name,
            "default": self._chart.default,
            "places": dict(sorted(self._chart.places.items())),
        }
        return json.dumps(stored, separators=(",", ":"))
