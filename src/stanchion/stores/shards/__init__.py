"""Several stores as one: the partitions of queues are divided among them by a map, all else is in one of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stanchion.errors import InvalidInput
from stanchion.stores.shards.map import map_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from stanchion.stores.protocol import Store
    from stanchion.stores.shards.store import ShardedStore

SCHEME = "shards"


def open_store(url: str, open_shard: Callable[[str], Store]) -> ShardedStore:
    """Return the store of the map in the file that a URL names, without connecting; `open_shard` opens each shard.

    The path is written as for SQLite: `shards:///shards.toml` is relative, `shards:////etc/shards.toml` is not.
    """
    from stanchion.stores.shards.roster import Roster
    from stanchion.stores.shards.store import ShardedStore

    path = url.removeprefix(f"{SCHEME}:///")
    if path == url or not path:
        raise InvalidInput(f"{url!r} names no file with the shards: write {SCHEME}:///shards.toml")
    file = Path(path).expanduser().absolute()
    urls, given = map_in(file)
    stores = {name: open_shard(of) for name, of in urls.items()}
    return ShardedStore(given, Roster(given.default, stores, lambda: map_in(file).urls, open_shard))
