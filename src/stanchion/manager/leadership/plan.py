"""A manager's next steps on slices, by its slices in memory and the state in the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from stanchion.manager.leadership.assignment import assignment
from stanchion.manager.leadership.owner import Owned
from stanchion.manager.leadership.rows import SliceRow
from stanchion.manager.leadership.slices import Slice
from stanchion.manager.leadership.view import View


class Plan(NamedTuple):
    """Names of slices' values, and rows as they are to be written.

    A row to write has the version that the store must have, and 0 if it has none.
    """

    stop: list[str]
    """Owned in memory; but by another one in the store, or for another manager, or with other lanes now."""
    give: list[SliceRow]
    """Mine in the store, no longer in memory, and for another manager; or to be taken once their lanes are free."""
    take: list[SliceRow]
    forget: list[SliceRow]
    """Of queues that are gone, or have fewer lanes now, without an owner."""


def plan_for(me: str, mine: Mapping[str, Owned], busy: Collection[str], view: View) -> Plan:
    """Return what to do. `busy`: slices that are being released; they are left alone."""
    assigned = assigned_in(view)
    ours = {name for name, session in assigned.items() if session == me}
    stop = [name for name, owned in mine.items() if name not in ours or not _stands(me, owned, name, view)]
    free = [name for name in assigned if name in ours and name not in mine and name not in busy]
    take = list(_takes(me, free, view))
    kept = {*mine, *busy, *(row.name for row in take)}
    give = [row._replace(owner=None) for row in view.rows.values() if row.owner == me and row.name not in kept]
    return Plan(stop, give, take, list(_forgotten(me, busy, view)))


def assigned_in(view: View) -> dict[str, str]:
    """Return the session that each slice belongs to."""
    sessions = tuple(sorted(view.sessions))
    if not sessions:
        return {}
    counts: defaultdict[str, int] = defaultdict(int)
    for one in view.slices.values():
        counts[one.queue] += 1
    owners = {queue: assignment(queue, count, sessions) for queue, count in counts.items()}
    return {name: owners[one.queue][one.number] for name, one in view.slices.items()}


def _stands(me: str, owned: Owned, name: str, view: View) -> bool:
    """Return True if a slice is owned in the store as in memory, and has the same lanes still."""
    row = view.rows.get(name)
    if row is None or row.owner != me or row.epoch != owned.epoch:
        return False
    return view.slices[name].lanes == owned.lanes


def _takes(me: str, names: Iterable[str], view: View) -> Iterator[SliceRow]:
    """Yield the rows of slices that can be taken: no other manager owns them, or lanes of them."""
    held: defaultdict[str, list[SliceRow]] = defaultdict(list)
    for row in view.rows.values():
        if row.owner in view.sessions and row.owner != me:
            held[row.queue].append(row)
    for name in names:
        wanted = view.slices[name]
        if any(row.name == name or _overlap(wanted, row) for row in held[wanted.queue]):
            continue
        row = view.rows.get(name) or SliceRow(name, 0, None, wanted.queue, wanted.lanes, view.now)
        yield row._replace(owner=me, queue=wanted.queue, lanes=wanted.lanes)


def _overlap(wanted: Slice, row: SliceRow) -> bool:
    """Return True if lanes are owned under a slice of another number of lanes."""
    return wanted.lanes[0] <= row.lanes[1] and row.lanes[0] <= wanted.lanes[1]


def _forgotten(me: str, busy: Collection[str], view: View) -> Iterator[SliceRow]:
    """Yield the rows to delete: one manager does it, the first of those alive."""
    if me == min(view.sessions, default=None):
        for name, row in view.rows.items():
            if name not in view.slices and name not in busy and row.owner not in view.sessions:
                yield row
