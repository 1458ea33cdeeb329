"""The file of a map: the URLs of the shards, and the partitions that each holds at first."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from stanchion.core.checks import checked_name, refuse_unknown
from stanchion.core.names.partition_names import checked_queue, numbers_in, partition_name
from stanchion.errors import InvalidInput
from stanchion.stores.rules.shard_map import ShardMap

_FIELDS = ("default", "shards", "partitions")
_SQLITE = "sqlite:///"


class MapFile(NamedTuple):
    """Content of the file: the URLs of the shards, by name, and the initial map."""

    urls: Mapping[str, str]
    given: ShardMap


def map_in(path: Path) -> MapFile:
    """Return the map in a TOML file. Raises InvalidInput if it is missing, or contradicts itself."""
    try:
        given = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidInput(f"the map of shards {path} can't be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the map of shards {path} is no TOML: {error}") from None
    try:
        return _read(given, path.absolute().parent)
    except InvalidInput as error:
        raise InvalidInput(f"the map of shards {path}: {error}") from None


def _read(given: Mapping[str, object], folder: Path) -> MapFile:
    refuse_unknown(given, _FIELDS, "entry")
    urls = {checked_name(name, "the name of a shard"): _url(name, url, folder) for name, url in _table(given, "shards")}
    if len(set(urls.values())) < len(urls):
        raise InvalidInput("two shards have the same URL")
    if (default := given.get("default")) not in urls:
        raise InvalidInput(
            f"default is {default!r}, and must name one of the shards: {', '.join(urls) or 'there is none'}"
        )
    places: dict[str, str] = {}
    for queue, parts in _table(given, "partitions"):
        checked_queue(queue)
        for shard, text in _table({queue: parts}, queue):
            if shard not in urls:
                raise InvalidInput(f"queue {queue!r} has partitions in {shard!r}, which is no shard")
            for number in numbers_in(text, queue):
                if places.setdefault(partition_name(queue, number), shard) != shard:
                    raise InvalidInput(f"partition {number} of queue {queue!r} is in two shards")
    return MapFile(urls, ShardMap(default, places))


def _table(given: Mapping[str, object], name: str) -> list[tuple[str, object]]:
    table = given.get(name, {})
    if not isinstance(table, dict):
        raise InvalidInput(f"{name} must be a table, not {table!r}")
    return list(table.items())


def _url(name: str, url: object, folder: Path) -> str:
    """Return the URL of a shard; the path of a SQLite file is relative to the folder of the map."""
    if not isinstance(url, str) or url.startswith("shards:"):
        raise InvalidInput(f"shard {name!r} needs the URL of a database or a manager")
    return f"{_SQLITE}{folder / url.removeprefix(_SQLITE)}" if url.startswith(_SQLITE) else url
