"""What is told of a pipeline that runs on Spark: its progress to people, the work of its plain stations as lineage.

Both come from the counts of the queues, and so include what other processes do at these stations meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from stanchion.errors import StanchionError
from stanchion.pipelines.plan import PipelinePlan
from stanchion.pipelines.station import Station
from stanchion.pipelines.status import PipelineStatus, StationProgress, progress_since, status_of
from stanchion.spark.lineage import followers
from stanchion.stores.records.jobs import SECOND

log = logging.getLogger("stanchion.spark")

Watch = Callable[[Sequence[StationProgress]], object]
"""Gets the progress of the stations every few seconds, and at the end."""

READ_SECONDS = 2.0
"""Seconds between two reads of the status, at least."""

_SPACING = 20
"""Divisor: reads take at most this fraction of the time, as they count the items of large queues."""

LINEAGE_SECONDS = 10.0
"""Seconds of work that one run of lineage covers."""


class Reports:
    """Reads the status of stations from time to time, if anybody wants to know it."""

    def __init__(self, plan: PipelinePlan, stations: Sequence[Station], watch: Watch | None) -> None:
        self._plan, self._stations, self._watch = plan, stations, watch
        plain = {one.station: one.queue for one in stations if one.frame is None}
        self._plain = plain if followers(plan.context) else {}
        self._read_at = 0.0
        self._wanted = watch is not None or bool(self._plain)
        if self._wanted:
            self._first = self._last = self._told = self._read(None)

    def look(self, *, at_last: bool = False) -> None:
        """Read and report the status, if it is time for that."""
        if not self._wanted or (time.monotonic() < self._read_at and not at_last):
            return
        try:
            self._last = self._read(self._last)
        except StanchionError as error:
            log.debug("the progress of the pipeline can't be read: %s", error)
            return
        if self._watch is not None:
            self._watch(progress_since(self._first, self._last))
        if at_last or self._last.at - self._told.at >= LINEAGE_SECONDS * SECOND:
            self._tell_lineage()

    def _read(self, before: PipelineStatus | None) -> PipelineStatus:
        plan, began = self._plan, time.monotonic()
        found = status_of(plan.context.store, plan.name, self._stations, plan.dead_letters, before)
        took = time.monotonic() - began
        self._read_at = began + max(READ_SECONDS, _SPACING * took)
        return found

    def _tell_lineage(self) -> None:
        before, self._told = self._told, self._last
        for one in progress_since(before, self._told):
            if one.done and one.station in self._plain:
                for follower in followers(self._plan.context):
                    follower.worked(self._plain[one.station], one.done, before.at, self._told.at)
