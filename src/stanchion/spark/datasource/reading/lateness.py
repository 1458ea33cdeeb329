"""Late jobs of a stream, whose time is not after the watermark when their batch begins.

Spark drops them silently. So the reader takes them out before it reads the batch: they go to a queue, or are
dead letters. The watermark is Spark's, computed from the same rows: the highest time of the batches before, less the
delay, in milliseconds. It is stored with the position of the stream, and changes in the step that acknowledges a batch,
so that no replayed or returned batch moves it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from stanchion.core.times import iso
from stanchion.errors import InvalidInput
from stanchion.schemas.ddl import struct_of
from stanchion.schemas.kinds import Plain
from stanchion.spark.datasource.reading.typed import Misfits
from stanchion.stores.records.jobs import UNLANED, Lease
from stanchion.stores.records.outcomes import Bury, Move, Outcome

_MS = 1000


@dataclass(frozen=True)
class Lateness:
    """The field with the time of a job, the delay of the watermark in milliseconds, and the queue of late jobs.

    `keeps`: late jobs keep the payload with which they arrived.
    """

    field: str
    delay: int
    to: str | None = None
    keeps: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Lateness | None:
        """Return the lateness options of a stream. Raises InvalidInput."""
        name = options["eventTime"]
        if name is None:
            return None
        kinds = {one.name: one.kind for one in struct_of(options["payloadSchema"] or "").fields}
        if kinds.get(name) != Plain("timestamp") or not options["typed"] or options["misfits"] != "bury":
            raise InvalidInput("the option eventTime needs typed=true, misfits=bury, and a timestamp in payloadSchema")
        return cls(name, round(options["lateAfter"] * 1000), options["late"], options["keepArrival"])

    def watermark(self, seen: int | None) -> int:
        """Return the watermark behind batches with this highest time, in microseconds; before any, Spark's is 0."""
        return 0 if seen is None else max(0, (seen // _MS - self.delay) * _MS)

    def outcome(self, lease: Lease, at: int | None, watermark: int) -> Outcome:
        """Return what becomes of a late job, or of one without a time."""
        if at is None:
            return Bury(lease, f"PayloadMisfit: field {self.field} is null, and the query needs the time of each job")
        if self.to is not None:
            return Move(lease, self.to, None, 0.0, UNLANED, None, True, keep_arrival=self.keeps)
        told = f"{self.field} {_shown(at)} is not after the watermark {_shown(watermark)}"
        return Bury(lease, f"LateItem: {told}")


@dataclass
class Admitted:
    """Result of scanning a batch: misfits, late jobs with their times, and the latest time of the others."""

    misfits: dict[str, Any] = field(default_factory=dict)
    late: dict[str, int | None] = field(default_factory=dict)
    latest: int | None = None
    size: int = 0

    def add(
        self, ids: Sequence[str], times: pa.Array, misfits: Misfits, watermark: int, refused: Collection[str] = ()
    ) -> None:
        """Add the jobs of a part of the batch, except for jobs refused before."""
        self.misfits.update({job: why for job, why in misfits.jobs.items() if job not in refused})
        self.size += len(ids)
        for one, at in zip(ids, times.cast(pa.int64()).to_pylist(), strict=True):
            if one in misfits.jobs or one in refused:
                continue
            if at is None or at <= watermark:
                self.late[one] = at
            else:
                self.latest = at if self.latest is None else max(self.latest, at)


def _shown(at: int) -> str:
    return iso(datetime.fromtimestamp(at / 1_000_000, UTC)) or ""
