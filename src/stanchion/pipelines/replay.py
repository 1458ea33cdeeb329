"""Replay: items of a pipeline run again from a station that they have passed, with the payload that they had there.

An item that was split from another before that station stands for the other one, which runs again once. So does a part
that was cut from a chunk at that station, as long as history has the chunk.

Steps: (1) plan the copies, batch by batch; (2) stage them, unseen; (3) publish them in one step. A death before (3)
leaves nothing, so a repetition enqueues no item twice; after (3), a repetition of the same write does nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from stanchion.context.context import Context
from stanchion.core.checks import checked_name
from stanchion.core.ids import new_id_with_room
from stanchion.core.values.framing import Content
from stanchion.errors import InvalidInput
from stanchion.jobs.insert import chunks, make_ready
from stanchion.jobs.job import Job
from stanchion.jobs.lookup import job_of
from stanchion.pipelines.outputs import version_of, with_version
from stanchion.pipelines.route import headers_at_entry
from stanchion.pipelines.topology import Topology
from stanchion.stores.hand_over import fitting
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.records.staging import Publication
from stanchion.stores.rules.lifecycle.jobs import items_of, state_of
from stanchion.stores.rules.lifecycle.trail import arrivals_of, own_stops_of, payload_at, was_split
from stanchion.stores.rules.staging import WRITE_KIND

PAGE = 500
"""Jobs per call of the store, and less where they are large."""

_FIRST = 10
"""Jobs of the first call, whose size is unknown."""

_SHOWN = 5


class Rerun(NamedTuple):
    """Decision of a replay on an item, or on the items of a chunk.

    `origin`: the item that runs again; `copy`: as this one; or why not. `items`: the number of items that are copied,
    or refused.
    """

    id: str
    origin: str | None = None
    copy: NewJob | None = None
    refusal: str | None = None
    items: int = 1


class Reruns:
    """A replay of items from a station (None: from their entry); each item that runs again is copied once.

    `write_id`: a name for it; once published, the same replay does nothing for 30 days. `items`: the number of items
    that were staged.
    """

    def __init__(self, context: Context, topology: Topology, station: str | None, write_id: str | None = None) -> None:
        self._context, self._topology = context, topology
        self._queue = None if station is None else topology.queue(topology.named(station))
        self._write = f"replay:{secrets.token_hex(8)}" if write_id is None else checked_name(write_id, "the write id")
        self._attempt, self._staged = secrets.token_hex(8), 0
        self._planned: set[str] = set()
        self.items = 0

    def was_published(self) -> bool:
        """Return whether the same write has been published before."""
        return bool(self._context.store.values(WRITE_KIND, [self._write]))

    def run(self, ids: Iterable[str], *, strict: bool = False) -> list[str]:
        """Enqueue copies of items; return their ids. `strict`: raise if one can't run again; else it is left out."""
        copies: list[str] = []
        if self.was_published():
            return copies
        refused = Refused()
        for plans in self.plan(ids):
            if strict:
                refused.add(plans)
            if not refused.count:
                copies += self.stage(plans)
        refused.raise_any()
        if not self.publish():
            self.items = 0
        return copies if self.items else []

    def plan(self, ids: Iterable[str]) -> Iterator[list[Rerun]]:
        """Yield the decisions on these items, in groups of jobs that fit into memory. Unknown ids are left out."""
        for some, rows in _fetched(self._context.store, ids):
            yield self._plan(some, rows)

    def _plan(self, ids: Sequence[str], rows: Mapping[str, JobRow]) -> list[Rerun]:
        store = self._context.store
        origins, lost = origins_of(store, rows, self._queue)
        now, plans = store.now(), list[Rerun]()
        for job_id in dict.fromkeys(ids):
            if job_id not in rows:
                continue
            items = max(1, items_of(rows[job_id]))
            if job_id in lost:
                plans.append(Rerun(job_id, refusal=lost_with(lost[job_id]), items=items))
                continue
            plan = self._plan_for(rows[job_id], origins[job_id], now)
            plans.append(plan if plan.copy is not None else plan._replace(items=items))
        return plans

    def _plan_for(self, row: JobRow, origin: JobRow, now: int) -> Rerun:
        plan = rerun_of(self._topology, row.id, origin, self._queue, again_at=now)
        going = next((one for one in (row, origin) if not state_of(one, now).final), None)
        if plan.refusal is None and going is not None:
            where = f"{state_of(going, now)} in {going.queue}"
            return Rerun(row.id, refusal=f"is still on its way ({where}): wait for its end, or cancel it")
        if origin.id in self._planned:
            return plan._replace(copy=None)
        if plan.copy is not None:
            self._planned.add(origin.id)
        return plan

    def stage(self, plans: Sequence[Rerun]) -> list[str]:
        """Store the copies of a plan, unseen; return their ids."""
        copies = [plan.copy for plan in plans if plan.copy is not None]
        if copies:
            store = make_ready(self._context, copies)
            for chunk in chunks(copies):
                store.stage(self._write, self._attempt, chunk)
                self._staged += len(chunk)
        self.items += sum(plan.items for plan in plans if plan.copy is not None)
        return [copy.id for copy in copies]

    def publish(self) -> bool:
        """Enqueue all staged copies in one step; False, with nothing enqueued, if the same write was published."""
        if not self._staged:
            return True
        return self._context.store.publish(Publication(self._write, ((self._attempt, self._staged),)))


def lost_with(origin: str) -> str:
    """Return why an item can't run again whose origin would run in its place."""
    return f"was split from {origin}, which is not in history any more"


def rerun_of(topology: Topology, job_id: str, row: JobRow, queue: str | None, *, again_at: int) -> Rerun:
    """Return the decision on an item, by its row, or its origin's. `again_at`: when the replay began."""
    begin = _begin(topology, row, queue)
    if row.task is not None:
        return Rerun(job_id, refusal="is a call of a task, no item")
    if begin is None:
        where = f"station {queue!r}" if queue else f"a station of pipeline {topology.pipeline!r}"
        return Rerun(job_id, refusal=f"has not passed {where}")
    if begin not in topology.queues:
        gone = f"entered at {begin!r}, which is no station any more: name a later one to run it from"
        return Rerun(job_id, refusal=gone)
    payload = payload_at(row, begin)
    if payload is None:
        return Rerun(job_id, refusal=_not_kept(topology, row, begin))
    copy = _copy(row, begin, payload, again_at)
    return Rerun(job_id, row.id, copy, items=items_of(copy))


def _not_kept(topology: Topology, row: JobRow, queue: str) -> str:
    own = dict.fromkeys(stop.queue for stop in own_stops_of(row))
    able = [one for one in topology.queues if one in own and payload_at(row, one) is not None]
    told = [f"replay it from {' or '.join(able)}"] if able else []
    if (station := next((one for one in topology.stations if topology.queue(one) == queue), None)) is not None:
        told.append(f"declare station {station!r} with keep_arrival=True for later items")
    return f"does not have the payload of its arrival in {queue} any more: {', and '.join(told)}"


def _begin(topology: Topology, row: JobRow, queue: str | None) -> str | None:
    """Return the queue from which an item runs again; None if it has not passed it."""
    own = [stop.queue for stop in own_stops_of(row)]
    if queue is not None:
        return queue if queue in own else None
    return next((one for one in own if one in topology.queues or topology.had(one)), None)


def origins_of(store: Store, rows: Mapping[str, JobRow], queue: str | None) -> tuple[dict[str, JobRow], dict[str, str]]:
    """Return the item to run again for each of these, by id, and for others the origin that is gone.

    A part that was cut from a chunk at this station runs again itself if the chunk is gone.
    """
    origins, lost, alone = dict(rows), dict[str, str](), set[str]()
    while True:
        above = {
            one: row.origin
            for one, row in origins.items()
            if not (one in lost or one in alone or row.origin is None) and _is_of_its_origin(row, queue)
        }
        if not above:
            return origins, lost
        parents = store.fetch(list(dict.fromkeys(above.values())))
        for one, parent in above.items():
            if parent in parents:
                origins[one] = parents[parent]
            elif any(stop.queue == queue for stop in own_stops_of(origins[one])):
                alone.add(one)
            else:
                lost[one] = parent


def _is_of_its_origin(row: JobRow, queue: str | None) -> bool:
    """Return whether the item from which this one was split runs again in its place."""
    return was_split(row) and all(stop.queue != queue for stop in arrivals_of(row))


def _copy(row: JobRow, queue: str, payload: Content, again_at: int) -> NewJob:
    version = version_of(row)._replace(again_at=again_at)
    return NewJob(
        new_id_with_room(),
        queue,
        payload,
        priority=row.priority,
        headers=with_version(headers_at_entry(row.headers), version),
        tenant=row.tenant,
        order_key=row.order_key,
        origin=row.id,
    )


class Refused:
    """The items of a replay that can't run again: how many, and the reasons for the first ones."""

    def __init__(self) -> None:
        self.count = 0
        self._told: list[str] = []

    def add(self, plans: Sequence[Rerun]) -> None:
        """Add the copies of a plan."""
        for plan in plans:
            if plan.refusal is not None:
                self.count += 1
                if self.count <= _SHOWN:
                    self._told.append(f"item {plan.id} {plan.refusal}")

    def raise_any(self) -> None:
        """Raise InvalidInput if there are any."""
        if self.count:
            more = f"; and {self.count - _SHOWN} more" if self.count > _SHOWN else ""
            raise InvalidInput(f"nothing was replayed: {'; '.join(self._told)}{more}")


def copies_of(context: Context, ids: Sequence[str]) -> Iterator[Job]:
    """Yield the jobs of these ids, as far as they are stored."""
    for some, rows in _fetched(context.store, ids):
        yield from (job_of(context, rows[one]) for one in some if one in rows)


def _fetched(store: Store, ids: Iterable[str]) -> Iterator[tuple[list[str], dict[str, JobRow]]]:
    """Yield ids in groups, and the jobs of these that are stored; large jobs come in small groups."""
    rest, size = iter(ids), _FIRST
    while some := list(islice(rest, size)):
        rows = store.fetch(some)
        size = fitting([*rows.values()], PAGE) if rows else PAGE
        yield some, rows


FINAL = [state for state in JobState if state.final]
"""The states of items that may run again."""
