"""Decisions of a backfill on each item that it finds: enqueue it again, or leave it out for a reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from stanchion.context.context import Context
from stanchion.errors import PayloadMisfit
from stanchion.pipelines.backfilling.record import BackfillRecord
from stanchion.pipelines.outputs import version_of
from stanchion.pipelines.replay import origins_of, rerun_of
from stanchion.pipelines.topology import Topology
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.rules.lifecycle.jobs import state_of
from stanchion.stores.rules.lifecycle.trail import own_stops_of, was_split


class Choice(NamedTuple):
    """What becomes of an item of the window: a copy, or the reason why there is none, in short and in full."""

    id: str
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
        inside = [row for row in rows if self._is_inside(row)]
        parts = [row for row in rows if self._is_part(row)]
        ids = [row.id for row in inside]
        here = dict(zip(ids, inside, strict=True)) if self._stored else self._context.store.fetch(ids)
        chosen = [self._choice(row, here.get(row.id)) for row in inside]
        return chosen + (self._lost(parts) if self._stored and parts else [])

    def _came_at(self, row: JobRow) -> int | None:
        """Return when an item itself came to the station first."""
        return next((stop.entered_at for stop in own_stops_of(row) if stop.queue == self._queue), None)

    def _is_inside(self, row: JobRow) -> bool:
        came, since = self._came_at(row), self._record.asked.since
        return row.task is None and came is not None and (since is None or since <= came) and came < self._record.until

    def _is_part(self, row: JobRow) -> bool:
        """Return whether an item was split after the station, so that another one runs again in its place."""
        return was_split(row) and self._came_at(row) is None

    def _lost(self, parts: Sequence[JobRow]) -> list[Choice]:
        _, lost = origins_of(self._context.store, self._topology, {row.id: row for row in parts}, self._queue)
        return [
            Choice(one, reason="lost", told=f"was split from {gone}, which is not in history any more")
            for one, gone in lost.items()
        ]

    def _choice(self, row: JobRow, stored: JobRow | None) -> Choice:
        if stored is not None and not self._is_over(stored):
            return Choice(row.id, reason="live", told=f"is still on its way, or has finished since, in {stored.queue}")
        if version_of(row).again_at or (row.origin is not None and not was_split(row)):
            return Choice(row.id, reason="copy", told="was enqueued again before: its original runs in its place")
        plan = rerun_of(self._topology, row.id, row, self._queue, again_at=self._record.began_at)
        if plan.copy is None:
            return Choice(row.id, reason="payload", told=plan.refusal or "")
        priority = self._record.asked.priority
        copy = plan.copy if priority is None else plan.copy._replace(priority=priority)
        try:
            self._context.check_fits(copy)
        except PayloadMisfit as misfit:
            return Choice(row.id, reason="misfit", told=str(misfit))
        return Choice(row.id, copy)

    def _is_over(self, row: JobRow) -> bool:
        """Return whether an item was finished when the backfill began; later ones ran with today's code, or will."""
        ended_at = row.finished_at or own_stops_of(row)[-1].entered_at  # a dead letter has none
        return state_of(row, 0).final and ended_at <= self._record.began_at
