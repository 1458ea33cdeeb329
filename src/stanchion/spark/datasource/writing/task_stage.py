"""A task's jobs, and their location until the driver publishes them."""

from __future__ import annotations

from stanchion.jobs.insert import batches, chunks
from stanchion.spark.datasource.runs import carried_share
from stanchion.stores.ports import PreparedJobs
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.prepared import PlainColumns, Prepared

CARRIED_BYTES = 8 << 20
"""Bytes of prepared jobs that one of the first tasks may send to the driver in its message; others send less.

A task with more stages its jobs.
"""

STAGED_BYTES = 4 << 20
"""Bytes of chunks from which they are staged, together."""


class TaskStage:
    """The new jobs of a task: staged, or carried to the driver while they are few.

    `staged`: the number of jobs under the attempt. `carried`: prepared jobs for the message of the task.
    """

    def __init__(self, store: Store, write: str, attempt: str) -> None:
        self._store, self._write, self._attempt = store, write, attempt
        self.staged = 0
        self.carried: list[Prepared] = []
        self._chunks: list[NewJob] = []
        self._bytes = 0
        self._bytes_max = CARRIED_BYTES * carried_share()

    def add(self, jobs: list[NewJob]) -> None:
        """Stage jobs."""
        for chunk in (chunk for some in batches(jobs) for chunk in chunks(some)):
            self._store.stage(self._write, self._attempt, chunk)
            self.staged += len(chunk)

    def add_chunks(self, jobs: list[NewJob]) -> None:
        """Take jobs that carry many items; they are staged together with later ones, by `finish` at the latest."""
        self._chunks += jobs
        if sum(len(job.payload) for job in self._chunks) >= STAGED_BYTES:
            self.finish()

    def finish(self) -> None:
        """Stage the rest."""
        self.add(self._chunks)
        self._chunks = []

    def add_plain(self, store: Store, columns: PlainColumns) -> bool:
        """Take plain jobs; False if the store takes them only one by one."""
        preparing = store.extension(PreparedJobs)
        if preparing is None or (prepared := preparing.prepare(columns)) is None:
            return False
        self._bytes += sum(len(one.rows) for one in prepared)
        self.carried += prepared
        if self._bytes > self._bytes_max:
            preparing.stage_prepared(self._write, self._attempt, self.carried)
            self.staged += sum(one.jobs for one in self.carried)
            self.carried = []
        return True
