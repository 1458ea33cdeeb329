"""Reading a batch and storing its results, each in its own process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from stanchion.core.spark_errors import LeasesLost, StreamTaken
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Ending, Outcome
from stanchion.stores.records.prepared import Prepared
from stanchion.stores.records.staging import Finish, Publication
from stanchion.streams.acknowledge import acknowledge
from stanchion.streams.holding import HOLD, rows_of
from stanchion.streams.poison import LONGEST
from stanchion.streams.publishing import publish
from stanchion.streams.rereading import finished_rows, keeps_history
from stanchion.streams.sizing import Reserved
from stanchion.streams.state import (
    Part,
    Run,
    StreamState,
    compare_and_set,
    known,
    load,
    reserved_ids,
    reserved_jobs,
    reserved_rows,
    settle,
    worker_id,
)

QUERY_FAILED = "the query failed; see the log of Spark's driver"
"""Recorded by a sink that does not know the error."""


def begin(store: Store, part: Part, run: str) -> None:
    """Store which run reads this batch, before its first row is read. Raises StreamTaken for an earlier driver."""
    mine = Run(run, part.seq, part.size, *part.span, items=part.items)
    while True:
        state = load(store, part.name)
        if state is None or (state.id, state.epoch) != (part.stream, part.epoch):
            raise StreamTaken(part.name)
        if state.run is not None and state.run.seq > part.seq:  # an abandoned reader is late
            raise StreamTaken(part.name)
        changed = replace(state, run=mine, begun=mine, failure=None)
        if state.run == mine or compare_and_set(store, part.name, changed) is not None:
            return


def rows(store: Store, part: Part) -> list[JobRow]:
    """Return the jobs of a part, in id order: reserved ones, or those finished with its batch."""
    if part.finished and part.size:
        return list(finished_rows(store, part.queue, part.token, part.first, part.last))
    return reserved_rows(store, part.queue, part.token, part.first, part.last) if part.size else []


@dataclass(frozen=True, slots=True)
class SinkBatch:
    """The batch that a run has read, and what to do with it."""

    store: Store
    name: str
    run: str
    state: StreamState
    seq: int
    size: int

    @classmethod
    def read_by(cls, store: Store, name: str, run: str) -> Self | None:
        """Return the batch of a stream that this run has read, or None.

        Raises StreamTaken if another driver has taken over since; InvalidInput if there is no such stream.
        """
        state = known(store, name)
        if run in state.past:
            raise StreamTaken(name)
        if state.run is None or state.run.name != run:
            return None
        return cls(store, name, run, state, state.run.seq, state.run.size)

    @classmethod
    def pending(cls, store: Store, name: str) -> tuple[Self, list[Reserved]] | None:
        """Return the batch that is reserved, with its jobs; None if all batches are acknowledged.

        Raises InvalidInput if there is no such stream.
        """
        state = known(store, name)
        if not state.pending:
            return None
        jobs = reserved_jobs(store, state.queue, state.token)
        return cls(store, name, "", state, state.reserved, len(jobs)), jobs

    @property
    def items(self) -> int:
        """The number of items of its jobs."""
        return self.size if self.state.run is None else max(self.size, self.state.run.items)

    @property
    def has_chunks(self) -> bool:
        """True if some of its jobs carry many items."""
        return self.items > self.size

    @property
    def write(self) -> str:
        """The name under which outputs of this batch are staged."""
        return self.state.write(self.seq)

    @property
    def token(self) -> str:
        """The token of its jobs, while it is not acknowledged."""
        return self.state.token

    @property
    def acknowledged(self) -> bool:
        """True if the batch was finished before, so that repeated work must have no effect."""
        return self.state.acked >= self.seq

    def is_read_in(self, run: str) -> bool:
        """Return whether the name of the batch's current run ends with `run`."""
        return self.state.run is not None and self.state.run.seq == self.seq and self.state.run.name.endswith(run)

    def settle(self, outcomes: Sequence[Outcome]) -> int:
        """Settle outcomes of jobs of this batch; return the number applied.

        The other jobs are no longer reserved: they were settled before, or were taken back and will be delivered again.
        """
        return settle(self.store, list(outcomes))

    def publish(
        self,
        attempts: Sequence[tuple[str, int]],
        settled: int = 0,
        *,
        write: str = "",
        stateless: bool = False,
        carried: Sequence[Prepared] = (),
        ends: Sequence[Ending] = (),
    ) -> None:
        """Store the staged jobs, commit the jobs of the batch and acknowledge it, in one step; idempotent.

        `settled`: the number of jobs of the batch that this run has settled otherwise. `write`: the name under which
        the jobs were staged, if not the batch's. Unless the query is `stateless`, it may need the jobs again: if the
        queue does not keep them in history, they stay reserved until the driver's log has the batch. `carried`: further
        jobs, which were not staged. `ends`: the outcomes of jobs that are not just committed.

        Raises LeasesLost if jobs are missing, as results computed from them must not be stored twice; StagedJobsLost;
        StreamTaken; InvalidInput if jobs with such outcomes have to stay reserved.
        """
        write = write or self.write
        if self.acknowledged:
            self.store.unstage(write)
            return
        expected, queue = self.size - settled, self.state.queue
        published = self.state.published >= self.seq  # by an earlier run, when the queue kept less history
        if published or not (stateless or self._can_be_read_again()):
            if ends:
                raise InvalidInput(
                    f"single items of a job can't fail here: the query has a state and may need the jobs of a batch "
                    f"again, and the queue {queue!r} does not keep them in history; set its history_ttl to a few hours"
                )
            self._check_reserved(expected)
            self.publish_ahead(attempts, write, carried)
            return
        publication = Publication(
            write,
            tuple(attempts),
            value=self.state.acknowledged(self.size, 0 if stateless else expected).change(self.name),
            finish=Finish(queue, self.token, expected, tuple(ends)) if expected else None,
        )
        if not publish(self.store, publication, carried):
            self._check_acknowledged()

    def hold(self) -> Self:
        """Keep the jobs of the batch reserved for a day, though its driver dies; return the updated batch.

        For a sink that is about to store rows elsewhere. Raises StreamTaken if another driver has taken over;
        LeasesLost if jobs are missing, as rows computed from them must not be stored twice.
        """
        state: StreamState | None = self.state
        if not self.state.held:
            state = compare_and_set(self.store, self.name, replace(self.state, outside=self.seq))
        if state is None:
            raise StreamTaken(self.name)
        holder = worker_id(self.name, state.holder)
        self.store.beat([row for row in rows_of(self.name, state, HOLD) if row.id == holder])
        self._check_reserved(self.size)
        return replace(self, state=state)

    def _check_reserved(self, expected: int) -> None:
        left = len(reserved_ids(self.store, self.state.queue, self.token))
        if left != expected:
            raise LeasesLost(self.state.queue, expected, left)

    def _can_be_read_again(self) -> bool:
        return not self.store.capabilities.atomic_batches or keeps_history(self.store, self.state.queue)

    def publish_ahead(
        self, attempts: Sequence[tuple[str, int]], write: str = "", carried: Sequence[Prepared] = ()
    ) -> Self:
        """Store the staged jobs, once per batch, while its jobs stay reserved; return the updated batch.

        Raises StagedJobsLost; StreamTaken if another driver has taken over, or the batch is finished.
        """
        write = write or self.write
        if self.state.published >= self.seq:
            # The version refuses it, but a store without transactions completes what an earlier call started.
            self.store.publish(Publication(write, value=replace(self.state, version=0).change(self.name)))
            return self
        ahead = replace(self.state, published=self.seq)
        if not publish(self.store, Publication(write, tuple(attempts), value=ahead.change(self.name)), carried):
            found = load(self.store, self.name)
            if found is None or found.text != ahead.text:
                raise StreamTaken(self.name)
        return replace(self, state=replace(ahead, version=self.state.version + 1))

    def drop_rest(self) -> None:
        """Commit the jobs that are still reserved, as they got no other outcome, and acknowledge the batch."""
        if not self.acknowledged and acknowledge(self.store, self.name, self.state, self.size) is None:
            self._check_acknowledged()

    def failed(self, error: str) -> None:
        """Record that the run failed with an error of the query, unless another driver has taken over the batch."""
        while True:
            state = load(self.store, self.name)
            if state is None or (state.id, state.epoch, state.reserved) != (self.state.id, self.state.epoch, self.seq):
                return
            begun = state.begun or Run(self.run, self.seq, self.size)
            changed = replace(state, begun=begun, failure=error[:LONGEST])
            if not state.pending or compare_and_set(self.store, self.name, changed):
                return

    @classmethod
    def record_failure(cls, store: Store, name: str, run: str, error: str) -> None:
        """Record that the run whose name ends with `run` has failed on the pending batch, unless its error is known."""
        found = cls.pending(store, name)
        if found is not None and found[0].is_read_in(run) and found[0].state.failure is None:
            found[0].failed(error)

    def _check_acknowledged(self) -> None:
        found = load(self.store, self.name)
        if found is None or found.id != self.state.id or found.acked < self.seq:
            raise StreamTaken(self.name)
