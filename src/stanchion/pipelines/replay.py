"""Replay: items of a pipeline run again from a station that they have passed, with the payload that they had there.

An item that was split from another before that station stands for the other one, which runs again once.

Steps: (1) plan the copies, batch by batch; (2) stage them, unseen; (3) publish them in one step. A death before (3)
leaves nothing, so a repetition enqueues no item twice; after (3), a repetition of the same write does nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from stanchion.context.context import Context
from stanchion.core.checks import checked_name
from stanchion.core.ids import new_ids
from stanchion.core.values.framing import Content
from stanchion.errors import InvalidInput
from stanchion.jobs.insert import batches, chunks, make_ready
from stanchion.jobs.job import Job
from stanchion.jobs.lookup import job_of
from stanchion.pipelines.outputs import version_of, with_version
from stanchion.pipelines.route import headers_at_entry
from stanchion.pipelines.topology import Topology
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.records.staging import Publication
from stanchion.stores.rules.lifecycle.jobs import state_of
from stanchion.stores.rules.lifecycle.trail import own_stops_of, payload_at, was_split
from stanchion.stores.rules.staging import WRITE_KIND

PAGE = 500
"""Items per call of the store."""

_SHOWN = 5


class Rerun(NamedTuple):
    """Decision of a replay on an item. `origin`: the item that runs again; `copy`: as this one; or why not."""

    id: str
    origin: str | None = None
    copy: NewJob | None = None
    refusal: str | None = None


class Reruns:
    """A replay of items from a station (None: from their entry); each item that runs again is copied once.

    `write_id`: a name for it; once published, the same replay does nothing for 30 days.
    """

    def __init__(self, context: Context, topology: Topology, station: str | None, write_id: str | None = None) -> None:
        self._context, self._topology = context, topology
        self._queue = None if station is None else topology.queue(topology.named(station))
        self._write = f"replay:{secrets.token_hex(8)}" if write_id is None else checked_name(write_id, "the write id")
        self._attempt, self._staged = secrets.token_hex(8), 0
        self._planned: set[str] = set()

    def was_published(self) -> bool:
        """Return whether the same write has been published before."""
        return bool(self._context.store.values(WRITE_KIND, [self._write]))

    def run(self, ids: Iterable[str], *, strict: bool = False) -> list[str]:
        """Enqueue copies of items; return their ids. `strict`: raise if one can't run again; else it is left out."""
        copies: list[str] = []
        if self.was_published():
            return copies
        refused = Refused()
        for batch in batches(ids, PAGE):
            plans = self.plan(batch)
            if strict:
                refused.add(plans)
            if not refused.count:
                copies += self.stage(plans)
        refused.raise_any()
        return copies if self.publish() else []

    def plan(self, ids: Sequence[str]) -> list[Rerun]:
        """Return the decisions on these items. Ids that are not stored are left out."""
        store = self._context.store
        rows = store.fetch(ids)
        origins, lost = origins_of(store, self._topology, rows, self._queue)
        now, plans = store.now(), list[Rerun]()
        for job_id in dict.fromkeys(ids):
            if job_id in lost:
                plans.append(Rerun(job_id, refusal=f"was split from {lost[job_id]}, which is not in history any more"))
            elif job_id in rows:
                plans.append(self._plan_for(rows[job_id], origins[job_id], now))
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
        return [copy.id for copy in copies]

    def publish(self) -> bool:
        """Enqueue all staged copies in one step; False, with nothing enqueued, if the same write was published."""
        if not self._staged:
            return True
        return self._context.store.publish(Publication(self._write, ((self._attempt, self._staged),)))


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
    return Rerun(job_id, row.id, _copy(row, begin, payload, again_at))


def _not_kept(topology: Topology, row: JobRow, queue: str) -> str:
    own = dict.fromkeys(stop.queue for stop in own_stops_of(row))
    able = [one for one in topology.queues if one in own and payload_at(row, one) is not None]
    told = (
        f"replay it from {' or '.join(able)}" if able else "declare the pipeline with keep_entry=True for later items"
    )
    return f"does not have the payload of its arrival in {queue} any more: {told}"


def _begin(topology: Topology, row: JobRow, queue: str | None) -> str | None:
    """Return the queue from which an item runs again; None if it has not passed it."""
    own = [stop.queue for stop in own_stops_of(row)]
    if queue is not None:
        return queue if queue in own else None
    return next((one for one in own if one in topology.queues or topology.had(one)), None)


def origins_of(
    store: Store, topology: Topology, rows: Mapping[str, JobRow], queue: str | None
) -> tuple[dict[str, JobRow], dict[str, str]]:
    """Return the item to run again for each of these, by id, and for others the origin that is gone."""
    origins, lost = dict(rows), dict[str, str]()
    while True:
        above = {
            one: row.origin
            for one, row in origins.items()
            if one not in lost and row.origin is not None and _is_of_its_origin(topology, row, queue)
        }
        if not above:
            return origins, lost
        parents = store.fetch(list(dict.fromkeys(above.values())))
        for one, parent in above.items():
            if parent in parents:
                origins[one] = parents[parent]
            else:
                lost[one] = parent


def _is_of_its_origin(topology: Topology, row: JobRow, queue: str | None) -> bool:
    """Return whether the item from which this one was split runs again in its place."""
    return was_split(row) and (queue is None or _begin(topology, row, queue) is None)


def _copy(row: JobRow, queue: str, payload: Content, again_at: int) -> NewJob:
    (job_id,) = new_ids(1)
    version = version_of(row)._replace(again_at=again_at)
    return NewJob(
        job_id,
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
    for batch in batches(ids, PAGE):
        rows = context.store.fetch(batch)
        yield from (job_of(context, rows[one]) for one in batch if one in rows)


FINAL = [state for state in JobState if state.final]
"""The states of items that may run again."""
