"""A stream of jobs some of which do not fit their schema, and what must become of each, whenever its driver dies.

A first batch has as many misfits as its brake allows, a second has one more. Some jobs of each are refused by an
expectation, or late.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import count
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import LongType, StructField, StructType

from stanchion import Stanchion
from stanchion.core.ids import new_id
from stanchion.core.spark_errors import JobsMisfit
from stanchion.spark.datasource.reading import stream_read
from stanchion.spark.datasource.reading.stream_read import StreamReader, stream_reader
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.streams import Part, Position
from stanchion.telemetry.failures import UNMET, tallied
from stanchion_conformance.harness import find_jobs
from stanchion_conformance.streams.stream_driver import NAME, SOURCE, TARGET, Driver, Log

BATCH = 24
MISFITS, REFUSED, LATE = 10, 3, 3
"""Those of a batch."""

PERCENT = 42
"""The misfits of the first batch, rounded up."""

LATER, EARLIER = "2031-05-01T08:00:00Z", "2031-04-01T08:00:00Z"

_PLAIN = {"typed": "true", "misfits": "bury", "payloadSchema": "id bigint not null, at timestamp", "partitions": "2"}
WAYS = {
    "misfits": _PLAIN,
    "all that is taken out": _PLAIN
    | {"eventTime": "at", "lateAfter": "86400", "late": "late", "expect": '[["id >= 0", "drop"]]'},
}
"""The options of the stream."""

MODES = ("append", "move")


_COLUMNS = StructType([StructField("payload", StructType([StructField("id", LongType())]))])


class _Source:
    """The data source's reader, as a driver calls it."""

    def __init__(self, store: Store, options: dict[str, str]) -> None:
        given = {"url": "sqlite:///unused.db", "queue": SOURCE, "stream": NAME, "poll": "0.001", **options}
        self._reader: StreamReader = stream_reader(given, _COLUMNS)
        self._reader._app = Stanchion("memory://", store=store)

    def initial(self) -> Position:
        return Position(**self._reader.initialOffset())

    def latest(self, start: Position, limit: int) -> Position:
        # An offset that only wakes the query is at the same batch.
        found = self._reader.latestOffset(start._asdict(), ReadMaxRows(limit))
        return Position(found["stream"], found["seq"])

    def parts(self, start: Position, end: Position, _count: int) -> list[Part]:
        parts: Any = self._reader.partitions(start._asdict(), end._asdict())
        return [one.part for one in parts]


class TypedDriver(Driver):
    """Processes the jobs of a stream that fit. `percent`: misfits of a batch from which on it stops."""

    def __init__(self, store: Store, log: Log, mode: str, way: str, percent: int = PERCENT) -> None:
        super().__init__(store, log, mode, limit=BATCH)
        with patch.object(stream_read, "Heart"):
            self.source: Any = _Source(store, WAYS[way] | {"maxMisfits": str(percent)})

    def stops(self) -> None:
        """Run until the brake holds."""
        with pytest.raises(JobsMisfit) as stopped:
            self.work()
        assert f"{MISFITS + 1} of {BATCH} jobs" in str(stopped.value)


class Orders:
    """What is in the queue of a stream, and what must become of it."""

    def __init__(self, store: Store, log: Log, mode: str, way: str) -> None:
        self.store, self._refused = store, way != "misfits"
        others = Counter() if way == "misfits" else Counter(cancelled=REFUSED, late=LATE)
        self._begun = self._push(Counter({TARGET: 1}))
        TypedDriver(store, log, mode, way).work()  # which gives the stream its watermark
        self._first, self._second = (
            self._push(Counter({"dead": misfits, **others, TARGET: BATCH - misfits - others.total()}))
            for misfits in (MISFITS, MISFITS + 1)
        )

    def _push(self, jobs: Counter[str]) -> Counter[Found]:
        """Push jobs, by where they must end, not in this order; return where that is."""
        made = [(place, _payload(place)) for place, count in jobs.items() for _ in range(count)]
        mixed = made[::3] + made[1::3] + made[2::3]
        self.store.push([NewJob(new_id(), SOURCE, payload) for _, payload in mixed])
        return Counter(mixed)

    def check_stopped(self) -> None:
        """The first batch has ended, and of the second nothing is lost, dead, or elsewhere."""
        left = Counter({("left", payload): count for (_, payload), count in self._second.items()})
        assert self._found() == self._begun + self._first + left

    def check_ended(self) -> None:
        """All has come to its end, once."""
        assert self._found() == self._begun + self._first + self._second
        counted = [one.failed for groups in tallied(self.store, kind=UNMET).values() for one in groups.values()]
        assert counted == ([2 * REFUSED] if self._refused else [])

    def _found(self) -> Counter[Found]:
        rows = find_jobs(self.store, limit=1000)
        for row in rows:
            if row.state == JobState.DEAD:
                assert "PayloadMisfit: field at is a string that is not a time with its zone" in str(row.errors)
        return Counter((place, str(row.payload)) for row in rows if (place := _place(row)) != "done")


Found = tuple[str, str]
"""Where a job is, and its payload."""

_numbers = count(1)


def _payload(place: str) -> str:
    """Return the payload of another job that must end there."""
    n = next(_numbers)
    made = {
        TARGET: {"id": n, "at": LATER},
        "dead": {"id": n, "at": "2031-05-01"},
        "cancelled": {"id": -n, "at": LATER},
        "late": {"id": n, "at": EARLIER},
    }
    return json.dumps(made[place], separators=(",", ":"))


def _place(row: JobRow) -> str:
    if row.queue != SOURCE:
        return row.queue
    return str(row.state) if JobState(row.state).final else "left"
