"""The map of shards: their URLs, and the partitions that each holds."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from stanchion.core.checks import checked_name, refuse_unknown
from stanchion.core.partition_names import MAX_PARTITIONS, checked_queue, logical_name, partition_name
from stanchion.errors import InvalidInput

_FIELDS = ("default", "shards", "partitions")
_SQLITE = "sqlite:///"
_RANGE = re.compile(r"\s*(\d{1,4})(?:-(\d{1,4}))?\s*", re.ASCII)


class ShardMap:
    """Which shard holds what.

    `default`: the shard of all that `places` does not name. `urls`: those of the shards, by name. `places`: the shards
    of partitions, by their names, such as "orders#3".
    """

    def __init__(self, default: str, urls: Mapping[str, str], places: Mapping[str, str]) -> None:
        self.default, self.urls = default, urls
        self.places = {name: shard for name, shard in places.items() if shard != default}
        self._divided = frozenset(map(logical_name, self.places))

    def of(self, queue: str) -> str:
        """Return the shard of a physical queue."""
        return self.places.get(queue, self.default)

    def divides(self, queue: str) -> bool:
        """Return True if a queue, or that of a partition, may have partitions in another shard than the default."""
        return logical_name(queue) in self._divided

    def partitions_in(self, shard: str) -> list[str]:
        """Return the partitions that the map gives to a shard."""
        return sorted(name for name, of in self.places.items() if of == shard)


def map_in(path: Path) -> ShardMap:
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


def _read(given: Mapping[str, Any], folder: Path) -> ShardMap:
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
            for number in _numbers(queue, text):
                if places.setdefault(partition_name(queue, number), shard) != shard:
                    raise InvalidInput(f"partition {number} of queue {queue!r} is in two shards")
    return ShardMap(default, urls, places)


def _table(given: Mapping[str, Any], name: str) -> list[tuple[str, Any]]:
    table = given.get(name, {})
    if not isinstance(table, dict):
        raise InvalidInput(f"{name} must be a table, not {table!r}")
    return list(table.items())


def _url(name: str, url: Any, folder: Path) -> str:
    """Return the URL of a shard; the path of a SQLite file is relative to the folder of the map."""
    if not isinstance(url, str) or url.startswith("shards:"):
        raise InvalidInput(f"shard {name!r} needs the URL of a database or a manager")
    return f"{_SQLITE}{folder / url.removeprefix(_SQLITE)}" if url.startswith(_SQLITE) else url


def _numbers(queue: str, text: Any) -> Iterator[int]:
    """Yield the numbers in a text such as "0-3,8"."""
    for part in text.split(",") if isinstance(text, str) else [""]:
        found = _RANGE.fullmatch(part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not first <= last < MAX_PARTITIONS:
            raise InvalidInput(
                f"the partitions of queue {queue!r} are a text such as '0-3,8', of numbers below {MAX_PARTITIONS}, "
                f"not {text!r}"
            )
        yield from range(first, last + 1)
