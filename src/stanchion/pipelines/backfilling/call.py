"""A backfill as it is asked for: its checks, its name, and whether it runs or only counts."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from stanchion.context.context import Context
from stanchion.core.checks import aware, checked_name, checked_priority, whole
from stanchion.core.times import micros
from stanchion.errors import InvalidInput
from stanchion.pipelines.backfilling.record import Asked, Backfill, BackfillRecord, recorded
from stanchion.pipelines.backfilling.run import BackfillRun, Watch, existing, opened
from stanchion.pipelines.backfilling.sources import archived
from stanchion.pipelines.topology import Topology

NAME_MAX = 100
"""Characters of a name; names of its pages are longer."""


class Given(NamedTuple):
    """A caller's arguments, unchecked."""

    station: str
    since: datetime | None = None
    until: datetime | None = None
    source: str | Path | None = None
    name: str | None = None
    priority: int | None = None


def backfill_of(
    context: Context, topology: Topology, given: Given, *, dry_run: bool, max_live: int | None, watch: Watch
) -> Backfill:
    """Run a backfill to its end, or count; see `Pipeline.backfill`."""
    asked = _asked(topology, given)
    name = _named(asked) if given.name is None else checked_name(given.name, "the name of a backfill", NAME_MAX)
    if max_live is not None:
        whole(max_live, "max_live", 1)
    archive = None if asked.source is None else archived(asked.source, topology.queue(asked.station), asked.since)
    if dry_run:
        record = existing(context, name, asked) or BackfillRecord(name, asked, context.store.now())
        return BackfillRun(context, topology, record, archive, watch).count()
    return BackfillRun(context, topology, opened(context, name, asked), archive, watch, max_live).run()


def backfills_of(context: Context, pipeline: str) -> list[Backfill]:
    """Return the recorded backfills of a pipeline, the latest first."""
    return [Backfill.of(record) for record in recorded(context.store, pipeline)]


def _asked(topology: Topology, given: Given) -> Asked:
    since = None if given.since is None else micros(aware(given.since, "since"))
    until = None if given.until is None else micros(aware(given.until, "until"))
    if since is not None and until is not None and since >= until:
        raise InvalidInput("the window is empty: since must be before until")
    return Asked(
        topology.pipeline,
        topology.named(given.station),
        since,
        until,
        None if given.source is None else str(Path(given.source).absolute()),
        None if given.priority is None else checked_priority(given.priority),
    )


def _named(asked: Asked) -> str:
    """Return the name of the requested backfill."""
    return f"{asked.station[:60]}-{sha256(repr(tuple(asked)).encode()).hexdigest()[:16]}"
