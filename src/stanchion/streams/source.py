"""What a driver asks of a stream: where to begin, up to where there is work, and what is in a batch."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

from stanchion.errors import ForeignCheckpoint, InvalidInput, StreamTaken
from stanchion.stores.protocol import Store
from stanchion.stores.records import Bury, Claim, Commit, WorkerRow
from stanchion.streams.acknowledging import acknowledge
from stanchion.streams.state import Part, Position, StreamState, give_back, load, ranges, settle, swap, worker_id

HEARTBEAT = 10.0

HALVED_FROM = 2
"""From this replay of a batch on, half of its jobs go back before it is tried again."""

BURIED_FROM = 3
"""From this replay of a batch on, its only job is dead."""


class StreamSource:
    """One driver's hold on a stream, from the first call on until another driver opens the stream.

    Every call raises StreamTaken from then on, and ForeignCheckpoint for positions that aren't of this stream, or lie
    where it can't be. `heartbeat`: seconds between the calls of `beat` that the caller sees to.
    """

    def __init__(self, store: Store, name: str, queue: str, heartbeat: float = HEARTBEAT) -> None:
        self._store, self._name, self._queue, self._heartbeat = store, name, queue, heartbeat
        self._driver = uuid4().hex
        self._epoch: int | None = None
        self._left: int | None = None
        self._begun = 0  # the batch whose present processing was counted

    # -- positions

    def initial(self) -> Position:
        """Return where a driver without a log begins: behind what is acknowledged."""
        state = self._mine()
        return Position(state.id, state.acked)

    def stop_after_ready(self) -> None:
        """Reserve no more than as many jobs as are ready now: what comes meanwhile can't keep a driver from its end."""
        self._mine()
        self._left = self._store.sizes(self._queue).ready

    def latest(self, start: Position, limit: int) -> Position:
        """Return up to where there is work: `start` itself, or one batch further, of up to `limit` jobs.

        All up to `start` is finished by the driver's log: it is acknowledged here.
        """
        state = self._checked(start)
        if not state.acked <= start.seq <= state.reserved:
            raise self._foreign(state, start)
        while start.seq > state.acked:
            state = acknowledge(self._store, self._name, state) or self._mine()
        if not state.pending:
            limit = limit if self._left is None else min(limit, self._left)
            if not (limit and self._reserve(state, limit)):
                return start
            self._begun = start.seq + 1
        return Position(state.id, start.seq + 1)

    def _reserve(self, state: StreamState, limit: int) -> bool:
        """Claim the next batch and number it; False when there is nothing to claim."""
        token, worker = state.next_token, worker_id(self._name, state.epoch)
        count = self._store.reserve(Claim(self._queue, limit, token, worker, repeat=True))
        if not count:
            return False
        try:
            self._write(lambda now: replace(now, reserved=now.reserved + 1, holder=now.epoch, replays=0, run=None))
        except StreamTaken:
            give_back(self._store, token, self._store.ids_in_hand(self._queue, token))
            raise
        if self._left is not None:
            self._left -= min(count, self._left)
        return True

    # -- batches

    def parts(self, start: Position, end: Position, count: int) -> list[Part]:
        """Divide the batch between two positions into up to `count` parts, at least one; a replay has what is left.

        One that keeps failing is thinned out, before anybody reads it: half of it goes back; a job alone is buried.
        """
        state = self._checked(end)
        if not (state.acked <= end.seq <= state.reserved and start.seq <= end.seq):
            raise self._foreign(state, end)
        ids: list[str] = []
        if state.pending and end.seq == state.reserved:
            ids = sorted(self._store.ids_in_hand(self._queue, state.token))
            if self._begun != end.seq:
                self._begun = end.seq
                state = self._write(lambda now: replace(now, replays=now.replays + 1))
                ids = self._thinned(state, ids)
        whole = Part(self._name, state.id, self._queue, end.seq, state.token, state.epoch, len(ids))
        return [whole._replace(first=first, last=last) for first, last in ranges(ids, max(1, count))] or [whole]

    def _thinned(self, state: StreamState, ids: list[str]) -> list[str]:
        if len(ids) > 1 and state.replays >= HALVED_FROM:
            half = (len(ids) + 1) // 2
            give_back(self._store, state.token, ids[half:])
            return ids[:half]
        if len(ids) == 1 and state.replays >= BURIED_FROM:
            error = (
                f"PoisonJob: the batch of the stream {self._name!r} in which this job was alone has failed each time, "
                f"the last after {state.replays} replays; the driver's log has the error"
            )
            settle(self._store, [Bury(ids[0], state.token, error)])
            return []
        return ids

    # -- liveness

    def beat(self) -> None:
        """Keep the jobs of this driver alive, and those of the batch that it has taken over."""
        state = self._mine()
        for epoch in {state.epoch, state.holder if state.pending else state.epoch}:
            self._store.beat(
                WorkerRow(
                    id=worker_id(self._name, epoch),
                    host=socket.gethostname(),
                    pid=os.getpid(),
                    queues=(self._queue,),
                    threads=0,
                    heartbeat=self._heartbeat,
                    began=(),  # which job of a batch a driver died of, if any, its replays tell
                )
            )

    # -- the note

    def _mine(self) -> StreamState:
        """Return the state; StreamTaken when another driver has opened the stream since this one did."""
        if self._epoch is None:
            return self._open()
        state = load(self._store, self._name)
        if state is None or (state.epoch, state.driver) != (self._epoch, self._driver):
            raise StreamTaken(self._name)
        return state

    def _checked(self, position: Position) -> StreamState:
        state = self._mine()
        if position.stream != state.id:
            raise ForeignCheckpoint(self._name, "it is that of another stream, or of one of this name that was removed")
        return state

    def _foreign(self, state: StreamState, position: Position) -> ForeignCheckpoint:
        age = "an older checkpoint" if position.seq < state.acked else "a newer checkpoint"
        return ForeignCheckpoint(
            self._name, f"it is at batch {position.seq}, {age} than the store, which is at {state.acked}"
        )

    def _write(self, change: Callable[[StreamState], StreamState]) -> StreamState:
        while True:
            written = swap(self._store, self._name, change(self._mine()))
            if written is not None:
                return written

    def _open(self) -> StreamState:
        """Take the stream over: from here on it refuses the driver before."""
        opened = None
        while opened is None:
            before = load(self._store, self._name)
            if before is not None and before.queue != self._queue:
                raise InvalidInput(
                    f"the stream {self._name!r} reads the queue {before.queue!r}, not {self._queue!r}; "
                    f"give a stream of another queue another name, with the option stream"
                )
            fresh = before or StreamState(str(uuid4()), self._queue, self._driver)
            opened = swap(self._store, self._name, replace(fresh, driver=self._driver, epoch=fresh.epoch + 1, run=None))
        self._epoch = opened.epoch
        self.beat()
        if before is not None:
            self._tidy_up_after(before)
        return opened

    def _tidy_up_after(self, before: StreamState) -> None:
        """Give back what the driver before has claimed and not numbered, and finish what it has acknowledged."""
        unnumbered = before.next_token
        give_back(self._store, unnumbered, self._store.ids_in_hand(self._queue, unnumbered))
        if not before.pending:
            left = self._store.ids_in_hand(self._queue, before.token)
            settle(self._store, [Commit(job_id, before.token) for job_id in left])
