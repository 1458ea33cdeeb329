"""Progress bars: one per station, one for the alerts, one for the sums at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flights.meter import Meter
from flights.pipeline import Pipeline
from stanchion.ops.cli.console.human import rate

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bars:
    """Shows how far the stations are."""

    def __init__(self, progress: Progress, pipeline: Pipeline, flights: int) -> None:
        self._progress, self._pipeline, self._flights = progress, pipeline, flights
        self._stations = {
            self._add("feed", flights): pipeline.feed,
            self._add("clean", flights): pipeline.clean,
            self._add("enrich", flights): pipeline.enrich,
            self._add("land", flights): pipeline.land,
        }
        self._alerts = self._add("alerts", None)
        self._sums: TaskID | None = None

    def update(self) -> None:
        """Show where the stations are now."""
        for task, meter in self._stations.items():
            self._progress.update(task, completed=meter.jobs, note=_pace(meter))
        alerts = self._pipeline.alerts
        total = self._pipeline.raised or None
        self._progress.update(self._alerts, completed=alerts.jobs, total=total, note=_pace(alerts))

    def summed(self, results: int) -> None:
        """Show that more results have been summed up."""
        if self._sums is None:
            self._sums = self._add("sum up", self._flights)
        self._progress.advance(self._sums, results)

    def chunking(self) -> None:
        """Show that the flights go through once more, in chunks."""
        self._add("chunks", None)

    def reporting(self) -> None:
        """Show that the report is being made."""
        self._add("report", None)

    def _add(self, name: str, total: int | None) -> TaskID:
        return self._progress.add_task(f"{name:<7}", total=total, note="")


def _pace(meter: Meter) -> str:
    return f"{rate(meter.rate)}/s" if meter.jobs else ""
