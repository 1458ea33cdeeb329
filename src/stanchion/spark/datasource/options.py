"""The options of the data source, and their checks.

Names are in Spark's style (`writeId`); case and underscores are ignored. All values are text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import unquote, urlsplit

from stanchion.app import Stanchion
from stanchion.context.shard import range_in, stored_range
from stanchion.core import environment
from stanchion.core.checks import checked_name, checked_priority
from stanchion.core.values.codec import Codec
from stanchion.errors import InvalidInput, StanchionError
from stanchion.jobs.options import checked
from stanchion.schemas.ddl import struct_of
from stanchion.spark.datasource.kept_apps import APPS
from stanchion.stores.registry import absolute_url, shown_url

Use = Literal["read", "write", "readStream", "writeStream"]

T = TypeVar("T", int, float)

KEYS = environment.KEYS
"""The environment variable with comma-separated keys of payloads, newest first; read by the executing process."""

_IGNORED = {"checkpointlocation", "queryname"}
"""Spark's own options, which it passes on."""


class Option(NamedTuple):
    """An option: its uses, the parser of its text, and its default."""

    uses: frozenset[Use]
    value: Callable[[str], object]
    default: object = None


# -- values


def _whole(least: int, most: int) -> Callable[[str], int]:
    def value(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise InvalidInput(f"must be a whole number from {least:,} to {most:,}, not {text!r}")
        return number

    return value


def _one_of(*words: str) -> Callable[[str], str]:
    def value(text: str) -> str:
        if text.lower() not in words:
            raise InvalidInput(f"must be {' or '.join(words)}, not {text!r}")
        return text.lower()

    return value


def _name(text: str) -> str:
    return checked_name(text, "")


def _names(text: str) -> tuple[str, ...]:
    return tuple(_name(one.strip()) for one in text.split(","))


def _words(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in text.split(",") if one.strip())


def _flag(text: str) -> bool:
    return _one_of("true", "false")(text) == "true"


def _folder(text: str) -> Path:
    address = urlsplit(text)
    if address.scheme not in ("", "file") or not address.path:
        raise InvalidInput(f"must be a folder that all machines share under the same path, not {text!r}")
    return Path(unquote(address.path) if address.scheme else text).absolute()


def _number(kind: Callable[[str], T]) -> Callable[[str], T]:
    def value(text: str) -> T:
        try:
            return kind(text)
        except ValueError:
            raise InvalidInput(f"must be a number, not {text!r}") from None

    return value


def _priority(text: str) -> int:
    return checked_priority(int(text) if _INTEGER.fullmatch(text) else text)


_INTEGER = re.compile(r"[-+]?\d{1,9}", re.ASCII)


def _seconds(text: str) -> float:
    seconds = _number(float)(text)
    if not 0 < seconds <= 86_400:
        raise InvalidInput(f"must be seconds, more than 0 and up to a day, not {text!r}")
    return seconds


def _percent(text: str) -> float:
    share = _number(float)(text)
    if not 0 <= share <= 100:
        raise InvalidInput(f"must be percent of a batch, from 0 to 100, not {text!r}")
    return share


def _ddl(text: str) -> str:
    struct_of(text)
    return text


def _address(text: str) -> str:
    if not text.startswith(("https://", "http://")) or len(text) > 500 or not text.isprintable():
        raise InvalidInput(f"must be an address such as http://etl-1:4040, not {text[:60]!r}")
    return text


def _lanes(text: str) -> tuple[int, int]:
    return stored_range(range_in(text))


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"must be a time such as 2026-01-31T08:00:00+00:00, not {text!r}") from None


def _keys(text: str) -> tuple[str, ...]:
    """Return keys. The error for a wrong key does not show it."""
    keys = tuple(one.strip() for one in text.split(",") if one.strip())
    Codec(keys)
    return keys


_FOR_JOBS: dict[str, Callable[[str], object]] = {
    "task": _name,
    "priority": _priority,
    "delay": _number(float),
    "runAt": _moment,
    "tenant": str,
    "onDuplicate": str,
    "limits": _names,
    "rate": str,
    "rateBy": str,
    "maxAttempts": _number(int),
    "timeout": _number(float),
    "expires": _number(float),
}
"""Defaults for jobs of a write without their own column values."""

_ALL: frozenset[Use] = frozenset({"read", "write", "readStream", "writeStream"})
_READS: frozenset[Use] = frozenset({"read", "readStream"})
_WRITES: frozenset[Use] = frozenset({"write", "writeStream"})

OPTIONS: dict[str, Option] = {
    "url": Option(_ALL, str),
    "keys": Option(_ALL, _keys, ()),
    "queue": Option(_ALL, _name),
    "of": Option(_READS, _one_of("jobs", "history"), "jobs"),
    "partitions": Option(_READS, _whole(1, 10_000), 4),
    "by": Option(frozenset({"read"}), _one_of("id", "lane"), "id"),
    "typed": Option(_READS, _flag, False),
    "misfits": Option(_READS, _one_of("stop", "null", "bury"), "stop"),
    "payloadSchema": Option(_READS, _ddl),
    "eventTime": Option(frozenset({"readStream"}), str),
    "lateAfter": Option(frozenset({"readStream"}), _number(float), 0.0),
    "late": Option(frozenset({"readStream"}), _name),
    "keepArrival": Option(frozenset({"readStream"}), _flag, False),
    "expect": Option(frozenset({"readStream"}), str),
    "maxMisfits": Option(frozenset({"readStream"}), _percent, 10.0),
    "writeId": Option(_WRITES, _name),
    "rowsPerJob": Option(_WRITES, _whole(1, 1_000_000)),
    "stream": Option(frozenset({"readStream", "writeStream"}), _name),
    "ackStream": Option(frozenset({"writeStream"}), _name),
    "to": Option(frozenset({"writeStream"}), _name),
    "errors": Option(frozenset({"writeStream"}), _one_of("bury", "retry"), "bury"),
    "heartbeat": Option(frozenset({"readStream"}), _seconds, 10.0),
    "poll": Option(frozenset({"readStream"}), _seconds),
    "since": Option(frozenset({"readStream"}), _moment),
    "overlap": Option(frozenset({"readStream"}), _seconds, 30.0),
    "purged": Option(frozenset({"readStream"}), _one_of("stop", "skip"), "stop"),
    "lanes": Option(frozenset({"readStream"}), _lanes),
    "ui": Option(frozenset({"readStream"}), _address, ""),
    "maxRecordsPerBatch": Option(frozenset({"readStream"}), _whole(1, 10_000_000), 10_000),
    "growTo": Option(frozenset({"readStream"}), _whole(1, 10_000_000)),
    "mode": Option(frozenset({"writeStream"}), _one_of("append", "move", "finish", "delta"), "append"),
    "path": Option(frozenset({"writeStream"}), _folder),
    "partitionBy": Option(frozenset({"writeStream"}), _words, ()),
    "mergeSchema": Option(frozenset({"writeStream"}), _flag, False),
    **{name: Option(_WRITES, value) for name, value in _FOR_JOBS.items()},
}


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


_KNOWN = {_plain(name): name for name in OPTIONS}


@dataclass(frozen=True)
class Place:
    """A store and the keys of its payloads. Its `repr` shows neither password nor keys."""

    url: str
    keys: tuple[str, ...] = field(default=(), repr=False)

    @contextmanager
    def app(self) -> Iterator[Stanchion]:
        """Lend an app within the block: the one that this process keeps for calls like this."""
        keys = self.keys or tuple(one for one in os.environ.get(KEYS, "").split(",") if one)
        with APPS.lend((self.url, keys), lambda: Stanchion(self.url, keys=keys)) as app:
            yield app

    def __repr__(self) -> str:
        return f"<Place {shown_url(self.url)}>"


def place_of(options: Mapping[str, Any]) -> Place:
    """Return the place in checked options."""
    return Place(options["url"], options["keys"])


def given_options(given: Mapping[str, str], *uses: Use) -> dict[str, Any]:
    """Return the values of the given options. Raises InvalidInput for wrong ones, or if not for these uses."""
    known = {name for name, option in OPTIONS.items() if not option.uses.isdisjoint(uses)}
    values = {}
    for written, text in given.items():
        name = _KNOWN.get(_plain(written))
        if name in known:
            values[name] = _value(name, text)
        elif _plain(written) not in _IGNORED:
            raise InvalidInput(_unknown(written, name, uses[0], sorted(known)))
    return values


def checked_options(given: Mapping[str, str], use: Use) -> dict[str, Any]:
    """Return the values of all options of a use, by their names in OPTIONS; by default their defaults.

    Raises InvalidInput for the first wrong one.
    """
    defaults = {name: option.default for name, option in OPTIONS.items() if use in option.uses}
    values = {**defaults, **given_options(given, use)}
    return {**values, "url": reachable_url(values["url"])}


def _value(name: str, text: str) -> object:
    try:
        return OPTIONS[name].value(text)
    except StanchionError as error:
        words = str(error).strip()
        raise InvalidInput(f"the option {name} {words}" if words.startswith("must") else words) from None


def _unknown(written: str, name: str | None, use: Use, known: list[str]) -> str:
    if name is not None:
        others = " and ".join(sorted(OPTIONS[name].uses))
        return f"the option {name} is for {others}, not for {use}; leave it out"
    near = get_close_matches(_plain(written), [_plain(one) for one in known], 1)
    guess = f"did you mean {_KNOWN[near[0]]}? " if near else ""
    return f"the data source has no option {written!r} for {use}; {guess}known: {', '.join(known)}"


def reachable_url(url: str | None) -> str:
    """Return a URL that works for other processes on this machine, in any working folder."""
    url = url or os.environ.get(environment.URL)
    if not url:
        raise InvalidInput("the option url is missing: name the store, such as .option('url', 'postgresql://...')")
    if url.startswith("memory:"):
        raise InvalidInput("memory:// lives in one process, and Spark uses several; use sqlite:///jobs.db")
    return absolute_url(url)


def job_defaults(values: Mapping[str, Any]) -> dict[str, object]:
    """Return the options of a write for all its jobs, by their names in an enqueue."""
    given = {_snake(name): values[name] for name in _FOR_JOBS if name != "task" and values[name] is not None}
    checked(given, Codec(), queue=values["queue"] or "default", task=values["task"])
    return given


def _snake(name: str) -> str:
    return "".join(f"_{one.lower()}" if one.isupper() else one for one in name)
