"""The header of jobs that are made of many rows: the write, and the batch of a stream with the ids of its jobs.

It is the same for all rows of a batch, so it costs nothing per row.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from stanchion.pipelines.route import LINEAGE
from stanchion.stores.records.jobs import NewJob
from stanchion.streams import SinkBatch


def of_write(write: str) -> str:
    """Return the headers of the jobs of a write."""
    return _headers({"write": write})


def of_batch(write: str, stream: str | None, batch: SinkBatch | None) -> str:
    """Return the headers of the jobs that a stream writes. `batch`: None for rows that are from no batch of it."""
    if batch is None:
        return of_write(write)
    read = batch.state.run
    spans = [] if read is None or read.first is None else [[read.first, read.last]]
    return _headers({"stream": stream, "batch": batch.seq, "write": write, "items": spans})


def with_headers(jobs: Sequence[NewJob], headers: str) -> list[NewJob]:
    """Return jobs with these headers added to their own."""
    return [job._replace(headers=headers if job.headers is None else _both(job.headers, headers)) for job in jobs]


def _both(own: str, headers: str) -> str:
    return json.dumps({**json.loads(own), **json.loads(headers)}, separators=(",", ":"))


def _headers(made_from: dict[str, object]) -> str:
    return json.dumps({LINEAGE: made_from}, separators=(",", ":"))
