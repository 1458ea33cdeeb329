"""The span of a batch of items, on Spark's driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from stanchion.context.context import Context
from stanchion.pipelines.station import Station
from stanchion.stores.records.jobs import JobRow
from stanchion.streams.state import reserved
from stanchion.telemetry.traces import LINKS, Headers

_COLUMNS = ("id", "queue", "lane", "state", "priority", "rank", "run_at", "enqueued_at", "headers")


@contextmanager
def batch_span(context: Context, station: Station, token: str, size: int) -> Iterator[Headers]:
    """Make the span of a batch, the current one within the block; yield the headers of its new items.

    It is linked to the pushes of the first items. Without tracing it makes and reads nothing.
    """
    if context.traces is None:
        yield {}
        return
    query = replace(reserved(station.queue, token, None, None), columns=_COLUMNS, limit=LINKS)
    rows = [
        JobRow(**dict(zip(_COLUMNS, values, strict=True)), payload="") for values in context.store.select(query).rows
    ]
    block = context.traces.block(station.queue, rows, size)
    try:
        yield block.headers
    except BaseException as error:
        block.end(error)
        raise
    block.end()
