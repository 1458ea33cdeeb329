"""The links between stations, checked before the first item."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from stanchion.errors import InvalidInput

if TYPE_CHECKING:
    from stanchion.pipelines.station import Station

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    pass

Stations = Mapping[str, "Station"]


def check_links(pipeline: str, stations: Stations, entries: Iterable[str]) -> None:
    """Raise InvalidInput, which says what to mend, unless items can get to every station, and from each to an end.

    `entries`: where items come in from outside.
    """
    if not stations:
        raise InvalidInput(f"pipeline {pipeline!r} has no stations; declare one with @{pipeline}.station('raw')")
    for station in stations.values():
        for target in station.to:
            if target not in stations:
                raise InvalidInput(
                    f"station {station.station!r} of pipeline {pipeline!r} goes on to {target!r}, which is no station "
                    f"(there are: {', '.join(stations)}); declare it, or mend to="
                )
    entries = list(entries)
    followers = reachable(stations)
    reached = set(entries).union(*(followers[entry] for entry in entries))
    fed = {target for station in stations.values() for target in station.to}
    for name in stations:
        if name not in reached:
            why = (
                f"only stations that can't be reached themselves lead to {name!r}"
                if name in fed
                else (f"nothing leads to station {name!r}")
            )
            raise InvalidInput(
                f"{why} of pipeline {pipeline!r}; name it in the to= of a station that {entries[0]!r} leads to, or "
                f"declare it with entry=True if items are pushed there"
            )
    for name, followed in followers.items():
        if all(stations[one].to for one in (name, *followed)):
            raise InvalidInput(
                f"items that come to station {name!r} of pipeline {pipeline!r} can never leave it: every station "
                f"from there goes on to another; add one without to=, and lead the loop to it"
            )


def reachable(stations: Stations) -> dict[str, set[str]]:
    """Return for each station those that an item can come to from it; itself among them where there is a loop."""
    return {name: _from(stations, name) for name in stations}


def _from(stations: Stations, start: str) -> set[str]:
    found: set[str] = set()
    ahead = list(stations[start].to)
    while ahead:
        name = ahead.pop()
        if name in stations and name not in found:
            found.add(name)
            ahead += stations[name].to
    return found


DEAD = "dead"
"""What the queue of dead letters is named, in place of a station."""


class Frame(NamedTuple):
    """Work on whole batches of items by Spark, as a DataFrame of this schema (DDL)."""

    function: Callable[..., Any]
    schema: str
    max_per_batch: int
