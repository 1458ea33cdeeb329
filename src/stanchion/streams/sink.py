"""What readers and sinks of a batch do, each in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from stanchion.errors import LeasesLost, StreamTaken
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Outcome
from stanchion.stores.records.staging import Finish, Publication
from stanchion.streams.acknowledge import acknowledge
from stanchion.streams.poison import LONGEST
from stanchion.streams.rereading import finished_rows, keeps_history
from stanchion.streams.state import Part, Run, StreamState, known, load, reserved_ids, reserved_rows, settle, swap


def begin(store: Store, part: Part, run: str) -> None:
    """Write down, before its first row is read, in which run this batch is; StreamTaken for a driver of the past."""
    mine = Run(run, part.seq, part.size, *part.span)
    while True:
        state = load(store, part.name)
        if state is None or (state.id, state.epoch) != (part.stream, part.epoch):
            raise StreamTaken(part.name)
        if state.run is not None and state.run.seq > part.seq:  # a reader that was given up is late
            raise StreamTaken(part.name)
        if state.run == mine or swap(store, part.name, replace(state, run=mine, begun=mine, failure=None)) is not None:
            return


def rows(store: Store, part: Part) -> list[JobRow]:
    """Return the jobs of a part, by their ids: those in hand, or those that were finished with its batch."""
    if part.finished and part.size:
        return list(finished_rows(store, part.queue, part.token, part.first, part.last))
    return reserved_rows(store, part.queue, part.token, part.first, part.last) if part.size else []


@dataclass(frozen=True, slots=True)
class SinkBatch:
    """The batch that a run has read, for what becomes of it."""

    store: Store
    name: str
    run: str
    state: StreamState
    seq: int
    size: int

    @classmethod
    def read_by(cls, store: Store, name: str, run: str) -> Self | None:
        """Return the batch of a stream that this run has read; None if it has read none.

        StreamTaken if it has, and another driver has come since; InvalidInput if there is no such stream.
        """
        state = known(store, name)
        if run in state.past:
            raise StreamTaken(name)
        if state.run is None or state.run.name != run:
            return None
        return cls(store, name, run, state, state.run.seq, state.run.size)

    @classmethod
    def pending(cls, store: Store, name: str) -> tuple[Self, list[str]] | None:
        """Return the batch that is in hand, with the ids of its jobs; None if all batches are acknowledged.

        InvalidInput if there is no such stream.
        """
        state = known(store, name)
        if not state.pending:
            return None
        ids = reserved_ids(store, state.queue, state.token)
        return cls(store, name, "", state, state.reserved, len(ids)), ids

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
        """True when the batch was finished before: what is done for it again must have no effect."""
        return self.state.acked >= self.seq

    def is_read_in(self, run: str) -> bool:
        """Tell whether the present run of the batch has a name that ends like this."""
        return self.state.run is not None and self.state.run.seq == self.seq and self.state.run.name.endswith(run)

    def settle(self, outcomes: Sequence[Outcome]) -> int:
        """Settle outcomes of jobs of this batch; return how many of them counted.

        The others are no longer in hand: they were settled before, or were taken back and come again.
        """
        return settle(self.store, list(outcomes))

    def publish(
        self, attempts: Sequence[tuple[str, int]], settled: int = 0, *, write: str = "", stateless: bool = False
    ) -> None:
        """Store what was staged, commit the jobs of the batch and acknowledge it, in one step; a repeat does nothing.

        `settled`: how many jobs of the batch this run has settled otherwise. `write`: the name under which it was
        staged, if not that of the batch. Unless the query is `stateless`, it may need the jobs again: where the queue
        does not keep them in history they stay in hand, and are finished when the driver's log has the batch.

        Raises LeasesLost when jobs are missing: what was computed from them must not be there twice; StagedJobsLost;
        StreamTaken.
        """
        write = write or self.write
        if self.acknowledged:
            self.store.unstage(write)
            return
        in_hand, queue = self.size - settled, self.state.queue
        held = self.state.published >= self.seq  # by a run before, when the queue kept less history
        if held or not (stateless or self._can_be_read_again()):
            left = len(reserved_ids(self.store, queue, self.token))
            if left != in_hand:
                raise LeasesLost(queue, in_hand, left)
            self.publish_ahead(attempts, write)
            return
        publication = Publication(
            write,
            tuple(attempts),
            value=self.state.acknowledged(self.size, 0 if stateless else in_hand).change(self.name),
            finish=Finish(queue, self.token, in_hand) if in_hand else None,
        )
        if not self.store.publish(publication):
            self._check_acknowledged()

    def _can_be_read_again(self) -> bool:
        return not self.store.capabilities.atomic_batches or keeps_history(self.store, self.state.queue)

    def publish_ahead(self, attempts: Sequence[tuple[str, int]], write: str = "") -> Self:
        """Store what was staged while the jobs of the batch stay in hand, once for it; return the batch as it then is.

        Raises StagedJobsLost; StreamTaken when another driver has come, or the batch was finished.
        """
        write = write or self.write
        if self.state.published >= self.seq:
            # Refused by the value; yet what a store without transactions had begun comes to its end.
            self.store.publish(Publication(write, value=replace(self.state, version=0).change(self.name)))
            return self
        ahead = replace(self.state, published=self.seq)
        if not self.store.publish(Publication(write, tuple(attempts), value=ahead.change(self.name))):
            found = load(self.store, self.name)
            if found is None or found.text != ahead.text:
                raise StreamTaken(self.name)
        return replace(self, state=replace(ahead, version=self.state.version + 1))

    def drop_rest(self) -> None:
        """Commit the jobs that are left in hand, as no outcome was given for them, and acknowledge the batch."""
        if not self.acknowledged and acknowledge(self.store, self.name, self.state, self.size) is None:
            self._check_acknowledged()

    def failed(self, error: str) -> None:
        """Write down that the run has ended with an error of the query; nothing when the batch is another's by now."""
        while True:
            state = load(self.store, self.name)
            if state is None or (state.id, state.epoch, state.reserved) != (self.state.id, self.state.epoch, self.seq):
                return
            begun = state.begun or Run(self.run, self.seq, self.size)
            if not state.pending or swap(self.store, self.name, replace(state, begun=begun, failure=error[:LONGEST])):
                return

    def _check_acknowledged(self) -> None:
        found = load(self.store, self.name)
        if found is None or found.id != self.state.id or found.acked < self.seq:
            raise StreamTaken(self.name)
