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

    The path is like that of SQLite: `shards:///shards.toml` is relative, `shards:////etc/shards.toml` is not.
    """
    from stanchion.stores.shards.shard import Shard
    from stanchion.stores.shards.store import ShardedStore

    path = url.removeprefix(f"{SCHEME}:///")
    if path == url or not path:
        raise InvalidInput(f"{url!r} names no file with the shards: write {SCHEME}:///shards.toml")
    chart = map_in(Path(path).expanduser())
    shards = {name: Shard(name, open_shard(of), is_default=name == chart.default) for name, of in chart.urls.items()}
    return ShardedStore(chart, shards)
