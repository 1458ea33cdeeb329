"""The edges of a pipeline, and the reasons why items are stored at them.

push ──stored──► raw ──► clean ─┬──► short ──────────► daily
                                └──stored──► long ───► daily

An edge without a reason may be passed in memory. A fork and a merge are no reasons: an item takes one edge, whatever
the others are, and it is merged with no other. Items that a station splits are stored, as they become several jobs;
so is an item with a delay, a new priority or an order key, and one whose worker has died with it. These are facts of
an item, not of an edge.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from stanchion.pipelines.options import StationOptions
from stanchion.stores.fields.queues import restraints
from stanchion.stores.rules.capacity.limits import limits_in


class Edge(NamedTuple):
    """A link from a station to a station, or, with `source` None, from pushes to a station where items enter.

    `reasons`: why each item is stored before `target` may process it, in words; without any it need not be.
    `keeps_arrival`: an item that passes here keeps the payload with which it arrived at `source`.
    """

    source: str | None
    target: str
    reasons: tuple[str, ...] = ()
    keeps_arrival: bool = False

    @property
    def stored(self) -> bool:
        """True if each item is stored here."""
        return bool(self.reasons)


def edges_of(stations: Mapping[str, StationOptions], entries: Collection[str], *, always: bool = False) -> list[Edge]:
    """Return the edges of stations, in their order. `always`: items are stored at all of them."""
    closing = closing_edges({name: one.to for name, one in stations.items()}, entries)

    def reasons(source: str, target: str) -> Iterator[str]:
        if always:
            yield "the pipeline has stored='always'"
            return
        in_one_plan = _in_one_plan(stations, source) == target
        yield from (f"{target} {why}" for why in _before(stations[target], in_one_plan=in_one_plan))
        yield from (f"{source} {why}" for why in _around(stations[source], in_one_plan=in_one_plan))
        if stations[source].is_async and not stations[target].is_async:
            yield f"{source} is async and {target} is not"
        if (source, target) in closing:
            yield "this closes a loop"

    into = [Edge(None, name, ("items enter here",)) for name in stations if name in entries]
    links = [(name, target) for name, one in stations.items() for target in one.to if target in stations]
    return [
        *into,
        *(
            Edge(source, target, tuple(reasons(source, target)), stations[source].keep_arrival)
            for source, target in links
        ),
    ]


def _in_one_plan(stations: Mapping[str, StationOptions], source: str) -> str | None:
    """Return the station that runs in one plan of Spark with another one, whose items it gets; None without any.

    It is the only one: the items of a chunk have to stay together.
    """
    here = stations[source]
    following = [to for to in here.to if to in stations and stations[to].in_batches]
    return following[0] if here.in_batches and not here.tables and len(following) == 1 else None


def _before(station: StationOptions, *, in_one_plan: bool) -> Iterator[str]:
    """Yield why items are stored before a station."""
    yield from _around(station, in_one_plan=in_one_plan)
    if station.key is not None:
        yield "has key="
    # A pause is a state, which workers look at when an item comes.
    yield from restraints(replace(station.settings, paused=False), held=False)


def _around(station: StationOptions, *, in_one_plan: bool) -> Iterator[str]:
    """Yield why items are stored before a station, and again after it, lest they hold at the next what it needs.

    `in_one_plan`: with the station before it, or behind it.
    """
    if station.stored:
        yield "has stored=True"
    if station.writes is not None:
        yield "is a table outside of the store"
    if station.on_spark and not in_one_plan:
        yield "is a Spark station"
    if names := limits_in(station.limits).semaphores:
        yield f"takes {', '.join(names)}"
    yield from restraints(station.settings, held=True)


def closing_edges(to: Mapping[str, Collection[str]], entries: Collection[str]) -> set[tuple[str, str]]:
    """Return the edges that close a loop, for items that come from `entries`; without them no loop is left."""
    closing: set[tuple[str, str]] = set()
    seen: set[str] = set()
    for entry in [*entries, *to]:
        if entry in seen:
            continue
        seen.add(entry)
        path = {entry: iter(to[entry])}
        while path:
            station = next(reversed(path))
            target = next(path[station], None)
            if target is None:
                del path[station]
            elif target in path:
                closing.add((station, target))
            elif target in to and target not in seen:
                seen.add(target)
                path[target] = iter(to[target])
    return closing


def segments_of(edges: Collection[Edge]) -> dict[str, tuple[str, ...]]:
    """Return, by the station where it begins, each segment: that station, and those that its items reach in memory.

    A station that several segments lead to is in each of them.
    """
    following: dict[str, list[str]] = {}
    for edge in edges:
        if edge.source is not None and not edge.stored:
            following.setdefault(edge.source, []).append(edge.target)
    heads = dict.fromkeys(edge.target for edge in edges if edge.stored)
    return {head: tuple(_from(head, following)) for head in heads}


def _from(head: str, following: Mapping[str, list[str]]) -> list[str]:
    found = [head]
    for station in found:
        found += [one for one in following.get(station, ()) if one not in found]
    return found
