"""Decisions of a backfill on each item that it finds: enqueue it again, or leave it out for a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stanchion.context.context import Context
from stanchion.core.values.framing import items_in
from stanchion.errors import PayloadMisfit
from stanchion.pipelines.backfilling.record import BackfillRecord
from stanchion.pipelines.outputs import version_of
from stanchion.pipelines.replay import lost_with, origins_of, rerun_of
from stanchion.pipelines.topology import Topology
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.rules.lifecycle.jobs import arrival_payload, items_of, state_of
from stanchion.stores.rules.lifecycle.trail import arrivals_of, own_stops_of, was_split


class Choice(NamedTuple):
    """What becomes of an item, or of the items of a chunk: a copy, or why there is none, in short and in full."""

    id: str
    items: int
    copy: NewJob | None = None
    reason: str = ""
    told: str = ""


class Planner:
    """Chooses what becomes of the items of a backfill. `stored`: whether the items were read from the store."""

    def __init__(self, context: Context, topology: Topology, record: BackfillRecord, *, stored: bool) -> None:
        self._context, self._topology, self._record, self._stored = context, topology, record, stored
        self._queue = topology.queue(record.asked.station)
        context.declare(self._queue)  # with the schema that copies have to fit

    def choices(self, rows: Sequence[JobRow]) -> list[Choice]:
        """Return what becomes of items; those outside of the window, and parts of others, are left out silently."""
        parts = {row.id: row for row in rows if self._is_part(row)}
        origins, lost = self._origins_of(parts)
        own = [row for row in rows if row.id not in parts or origins.get(row.id) is row]
        inside = [row for row in own if self._is_inside(row)]
        ids = [row.id for row in inside]
        here = dict(zip(ids, inside, strict=True)) if self._stored else self._context.store.fetch(ids)
        chosen = [self._choice(row, here.get(row.id)) for row in inside]
        gone = [Choice(one, items_of(parts[one]), reason="lost", told=lost_with(lost[one])) for one in lost]
        return chosen + gone

    def _is_inside(self, row: JobRow) -> bool:
        came = next((stop.entered_at for stop in own_stops_of(row) if stop.queue == self._queue), None)
        since = self._record.asked.since
        return row.task is None and came is not None and (since is None or since <= came) and came < self._record.until

    def _is_part(self, row: JobRow) -> bool:
        """Return whether an item was split from another at the station or later, which runs again in its place."""
        return was_split(row) and all(stop.queue != self._queue for stop in arrivals_of(row))

    def _origins_of(self, parts: Mapping[str, JobRow]) -> tuple[Mapping[str, JobRow], Mapping[str, str]]:
        """Return the item that runs again in place of each part, and of others the origin that is gone.

        An archive has the origins, or else none of what they were split into runs again.
        """
        if not parts or not self._stored:
            return {}, {}
        return origins_of(self._context.store, parts, self._queue)

    def _choice(self, row: JobRow, stored: JobRow | None) -> Choice:
        plan = rerun_of(self._topology, row.id, row, self._queue, again_at=self._record.began_at)
        left = Choice(row.id, items_on_arrival(row) if plan.copy is None else plan.items)
        if stored is not None and not self._is_over(stored):
            where = f"is still on its way, or has finished since, in {stored.queue}"
            return left._replace(reason="live", told=where)
        if version_of(row).again_at or (row.origin is not None and not was_split(row)):
            return left._replace(reason="copy", told="was enqueued again before: its original runs in its place")
        if plan.copy is None:
            return left._replace(reason="payload", told=plan.refusal or "")
        priority = self._record.asked.priority
        copy = plan.copy if priority is None else plan.copy._replace(priority=priority)
        try:
            self._context.check_fits(copy)
        except PayloadMisfit as misfit:
            return left._replace(reason="misfit", told=str(misfit))
        return left._replace(copy=copy)

    def _is_over(self, row: JobRow) -> bool:
        """Return whether an item was finished when the backfill began; later ones ran with today's code, or will."""
        ended_at = row.finished_at or own_stops_of(row)[-1].entered_at  # a dead letter has none
        return state_of(row, 0).final and ended_at <= self._record.began_at


def items_on_arrival(row: JobRow) -> int:
    """Return the number of items with which a job came to its queue; a divided chunk has none of them any more."""
    return items_in(arrival_payload(row)) or 1
