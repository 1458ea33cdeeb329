"""The map on record, in the default shard, and the name of each shard, so that none is taken for another.

`setup` writes them, and may be repeated. The map is stored with the places of the file that the store was set up with.
A file may state these, or the present places; any other is refused. `setup` takes another file while no program runs:
a partition may then change its shard only if it has no live jobs, as these would not be found.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from stanchion.errors import InvalidInput
from stanchion.stores.rules.shard_map import Former, ShardMap, text_of
from stanchion.stores.shards.roster import Roster
from stanchion.stores.shards.shard import Shard

KIND, MAP, SHARD = "shards", "map", "shard"


class MapRecord:
    """Reads and changes the recorded map. `given`: the map of the file."""

    def __init__(self, given: ShardMap, roster: Roster) -> None:
        self.given, self._roster = given, roster

    def read(self) -> ShardMap:
        """Return the recorded map; the file's map if there is none."""
        stored, version = self._map()
        return self.given if stored is None else ShardMap.of_stored(stored, version)

    def change(self, change: Callable[[ShardMap], ShardMap]) -> ShardMap:
        """Apply a change to the map, by compare-and-set, until it holds; return the map."""
        while True:
            stored, version = self._map()
            if stored is None:
                raise InvalidInput("the map of shards is not on record: run `stanchion setup`")
            before = ShardMap.of_stored(stored, version)
            after = change(before)
            if after == before or self._write({**stored, **after.stored()}, version):
                return self.read()

    def check(self, shard: Shard) -> None:
        """Raise InvalidInput if a shard is another shard or, in the default shard, another map is on record."""
        named, _ = _stored(shard, SHARD)
        if named is not None and named != {"shard": shard.name, "default": self.given.default}:
            raise InvalidInput(
                f"shard {shard.name!r} is {named['shard']!r} in the map that it was set up with, whose default is "
                f"{named['default']!r}; use that map"
            )
        stored, _ = self._map() if shard.is_default else (None, 0)
        if stored is not None and self.given.places not in (stored["given"], stored["places"]):
            raise InvalidInput(
                f"shard {shard.name!r} has other partitions in the map that it was set up with; use that map, or run "
                f"`stanchion setup` with this one while no program runs"
            )

    def write(self) -> None:
        """Put the map of the file on record. Raises InvalidInput if jobs would be left behind."""
        for shard in self._roster.all:
            self._refuse_another(shard)
        self._write_map()
        for shard in self._roster.all:
            wanted: Mapping[str, object] = {"shard": shard.name, "default": self.given.default}
            while (found := _stored(shard, SHARD))[0] != wanted:
                shard.ask(shard.store.compare_and_set, KIND, SHARD, text_of(wanted), found[1])

    def _write_map(self) -> None:
        places = dict(self.given.places)
        while True:
            stored, version = self._map()
            if stored is not None and places in (stored["given"], stored["places"]):
                return
            after = self.given if stored is None else self._replaced(ShardMap.of_stored(stored, version))
            if self._write({**after.stored(), "given": places}, version):
                return

    def _replaced(self, before: ShardMap) -> ShardMap:
        """Return the map of the file in place of the one on record."""
        if before.moving:
            raise InvalidInput("partitions are on their way to another shard: run `stanchion shards resume` first")
        former = dict(before.former)
        now = self._roster.default.ask(self._roster.default.store.now)
        for name in sorted({*before.places, *self.given.places}):
            if (left := before.of(name)) != self.given.of(name):
                self._refuse_left(name, self._roster.named(left))
                former[name] = (*former.get(name, ()), Former(left, now))
        return ShardMap(self.given.default, self.given.places, {}, former)

    def _refuse_left(self, queue: str, shard: Shard) -> None:
        live = shard.ask(shard.store.stats, [queue], ["states"])[queue].states.total
        if live:
            raise InvalidInput(
                f"shard {shard.name!r} has {live} live jobs in {queue!r}, which the map gives to "
                f"{self.given.of(queue)!r}; move it by `stanchion shards move`, with the map of before"
            )

    def _refuse_another(self, shard: Shard) -> None:
        named, _ = _stored(shard, SHARD)
        if named is not None and named["shard"] != shard.name:
            raise InvalidInput(
                f"shard {shard.name!r} was set up as {named['shard']!r}; give it that name, or its own URL"
            )

    def _map(self) -> tuple[dict[str, object] | None, int]:
        return _stored(self._roster.default, MAP)

    def _write(self, stored: Mapping[str, object], version: int) -> bool:
        default = self._roster.default
        return default.ask(default.store.compare_and_set, KIND, MAP, text_of(stored), version)


def _stored(shard: Shard, name: str) -> tuple[dict[str, Any] | None, int]:
    found = shard.ask(shard.store.values, KIND, [name])
    return (json.loads(found[0].text), found[0].version) if found else (None, 0)
