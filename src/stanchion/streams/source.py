"""The driver's side of a stream: where to start, the end of the available work, and the content of a batch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from time import monotonic
from typing import Any, Literal, NamedTuple
from uuid import uuid4

from stanchion.core.boot_clock import boot_clock
from stanchion.core.spark_errors import BatchNotKept, ForeignCheckpoint, StreamStopped, StreamTaken
from stanchion.core.values.framing import items_in
from stanchion.errors import InvalidInput, StoreUnavailable
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.outcomes import Bury, Commit, Outcome
from stanchion.stores.records.workers import LaneRange
from stanchion.stores.rules.leases.liveness import MISSED_BEATS
from stanchion.streams import poison
from stanchion.streams.acknowledge import acknowledge
from stanchion.streams.ahead import Ahead
from stanchion.streams.holding import rows_of
from stanchion.streams.rereading import finished_rows
from stanchion.streams.sizing import Growth, Reserved, Sizing, next_items, ranges, within
from stanchion.streams.state import (
    Part,
    Position,
    StreamState,
    compare_and_set,
    give_back,
    load,
    reserved_ids,
    reserved_jobs,
    reserved_rows,
    settle,
    worker_id,
)

log = logging.getLogger("stanchion.streams")

HEARTBEAT = 10.0


class _Claimed(NamedTuple):
    """A batch that this driver has claimed: when, by its own clock, its jobs, and how many were asked for."""

    at: float
    jobs: int
    limit: int

    @property
    def full(self) -> bool:
        """Whether there were as many; then there may be more."""
        return self.jobs >= self.limit


class StreamSource:
    """One driver's claim to a stream, from its first call until another driver opens the stream.

    After that, every call raises StreamTaken. Positions of another stream, or impossible ones, raise ForeignCheckpoint.
    `heartbeat`: seconds between calls of `beat`, which the caller makes. `how_ended`: returns how earlier runs of the
    query ended. `lanes`: read only these lanes, from the first to the last. `ui`: the address of the driver's own page.
    `cut`: returns the outcome that cuts a job of many items into several, of which none was begun.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        queue: str,
        heartbeat: float = HEARTBEAT,
        how_ended: poison.HowEnded = poison.unknown,
        lanes: tuple[int, int] | None = None,
        ui: str = "",
        cut: Callable[[JobRow], Outcome] | None = None,
    ) -> None:
        self._store, self._name, self._queue, self._heartbeat = store, name, queue, heartbeat
        self._how_ended = how_ended
        self._lanes = lanes
        self._ui = ui
        self._cut = cut
        self._driver = uuid4().hex
        self._epoch: int | None = None
        self._beaten = -inf
        """When the last answered heartbeat was sent, by the boot clock."""
        self._left: int | None = None
        self._let_go = 0  # the last batch whose hold has ended
        self._begun = 0  # the batch whose current processing was counted
        self._claimed: _Claimed | None = None
        self._sizing = Sizing(lambda: next_items(store, queue))
        self.growth = Growth(None)
        """How batches grow; by default they do not."""
        self._ahead = Ahead(self._claim_ahead)

    # -- positions

    def initial(self) -> Position:
        """Return where a driver without a log starts: after the last acknowledged batch."""
        state = self._mine()
        return Position(state.id, state.acked)

    def stop_after_ready(self) -> None:
        """Reserve at most as many jobs as are ready now, so that new jobs can't keep the driver running.

        If they are too many to be counted within the time of a call, jobs that arrive meanwhile are reserved too.
        """
        self._mine()
        try:
            self._left = self._ready("states")
        except StoreUnavailable as error:  # if it can't be reached at all, the next call reports it
            log.warning(
                "the ready jobs of the queue %r may be too many to count in time: the stream %r also reads jobs that "
                "arrive while it runs (%s)",
                self._queue,
                self._name,
                error,
            )

    def latest(self, start: Position, limit: int) -> Position:
        """Return up to where there is work: `start` itself, or the next batch, of up to about `limit` items.

        The driver's log has all batches up to `start`, so they are acknowledged here.
        """
        self._ahead.batch_ends()
        state = self._checked(start)
        self._revive()
        if not state.acked <= start.seq <= state.reserved:
            raise self._foreign(state, start)
        while start.seq > state.acked:
            state = acknowledge(self._store, self._name, state) or self._mine()
        if state.outside > self._let_go and not state.held:
            self._let_go_of(state)
        if not state.pending:
            measured = self._measured()
            jobs = self._jobs_for(self.growth.of(limit))
            if not (jobs and self._reserve(state, jobs, measured)):
                if measured:
                    self._write(lambda now: replace(now, **measured))
                return start
            self._begun = start.seq + 1
        return Position(state.id, start.seq + 1)

    def _jobs_for(self, items: int) -> int:
        """Return the number of jobs to claim for so many items."""
        jobs = self._sizing.jobs_for(items)
        return jobs if self._left is None else min(jobs, self._left)

    def _let_go_of(self, state: StreamState) -> None:
        """End the hold of an acknowledged batch."""
        self._let_go = state.outside
        self.beat()
        if state.holder != state.epoch:
            self._store.leave(worker_id(self._name, state.holder))

    def _measured(self) -> dict[str, Any]:
        """Return the size and the time of the batch that has ended, if this driver has claimed it."""
        ended, self._claimed = self._claimed, None
        if ended is None:
            return {}
        seconds = monotonic() - ended.at
        self.growth.ended(seconds, full=ended.full)
        return {"jobs": ended.jobs, "seconds": round(seconds, 3)}

    def behind(self) -> int:
        """Return the number of ready items of the queue; of jobs in the lanes of this stream, if it has some."""
        return self._ready("items")

    def _ready(self, counted: Literal["states", "items"]) -> int:
        found = self._store.stats([self._queue], [counted])[self._queue]
        ready = (found.states if counted == "states" else found.items).ready
        if self._lanes is None:
            return ready
        first, last = self._lanes
        queued = self._store.lane_depths(self._queue, range(first, last + 1), at_most=ready)
        return min(ready, sum(queued.values()))

    def _reserve(self, state: StreamState, limit: int, measured: dict[str, Any]) -> bool:
        """Claim the next batch and number it; return False if there is nothing to claim."""
        count = self._ahead.numbering(lambda: self._claim(state, limit))
        if not count:
            return False
        try:
            self._write(lambda now: replace(now.with_batch(), **measured))
        except StreamTaken:
            self._give_back(state.next_token)
            raise
        self._claimed = _Claimed(monotonic(), count, limit)
        if self._left is not None:
            self._left -= min(count, self._left)
        return True

    def _claim(self, state: StreamState, limit: int) -> int:
        """Reserve the jobs of the next batch, which has no number yet; a repeat returns those reserved before."""
        worker = worker_id(self._name, state.epoch)
        wanted = Claim(self._queue, limit, state.next_token, worker, repeat=True, lanes=self._lanes, rows=False)
        return self._store.claim(wanted).reserved

    def _claim_ahead(self, limit: int) -> None:
        """Claim the next batch while the last one is processed."""
        state = self._mine()
        self._claim(state, limit)
        try:
            self._mine()
        except StreamTaken:  # the next driver may have looked for such jobs before these were reserved
            self._give_back(state.next_token)

    def _give_back(self, token: str) -> None:
        give_back(self._store, self._queue, token, reserved_ids(self._store, self._queue, token))

    # -- batches

    def parts(self, start: Position, end: Position, count: int, most: int | None = None) -> list[Part]:
        """Divide the batch between two positions into up to `count` parts, at least one; a replay has the jobs left.

        A batch that nobody has begun to read has up to `most` items, or what it has grown to, or a single job: the
        others go back. If the batch
        was acknowledged since, it has the same jobs again, from history, as far as the query may need them; writes for
        them have no effect. A batch that keeps failing is halved before it is read. Raises BatchNotKept; StreamStopped
        if single jobs fail one after the other.
        """
        state = self._checked(end)
        self._revive()  # before the jobs of the batch are read: jobs that others have taken are left out
        if not (state.acked <= end.seq <= state.reserved and start.seq <= end.seq):
            raise self._foreign(state, end)
        jobs: list[Reserved] = []
        if end.seq == state.reserved:
            limited = None if most is None else self.growth.of(most)
            jobs = self._pending(state, limited) if state.pending else self._finished(state)
        if state.pending and self._claimed is not None and self._claimed.full:
            limit = self._claimed.limit if most is None else self._sizing.jobs_for(self.growth.ahead(most))
            self._ahead.batch_begins(limit if self._left is None else min(limit, self._left))
        span = (jobs[0].id, jobs[-1].id) if jobs else (None, None)
        whole = Part(self._name, state.id, self._queue, end.seq, state.token, state.epoch, len(jobs), span=span)
        whole = whole._replace(finished=not state.pending, items=sum(job.items for job in jobs))
        return [whole._replace(first=first, last=last) for first, last in ranges(jobs, max(1, count))] or [whole]

    def _finished(self, state: StreamState) -> list[Reserved]:
        """Return the jobs finished with the last batch, if they may be needed again."""
        if not state.again or state.begun is None:
            return []
        rows = finished_rows(self._store, self._queue, state.token, state.begun.first, state.begun.last)
        jobs = [Reserved(row.id, items_in(row.payload) or 1) for row in rows]
        if len(jobs) < state.again:
            raise BatchNotKept(self._name, state.reserved, state.again, len(jobs))
        return jobs

    def _pending(self, state: StreamState, most: int | None) -> list[Reserved]:
        """Return the reserved jobs of the last batch; fewer if it is too large, or the query has failed on it."""
        jobs = reserved_jobs(self._store, self._queue, state.token)
        if most is not None and (state.begun is None or state.begun.seq != state.reserved):
            jobs = self._trimmed(state, jobs, most)
        if self._begun == state.reserved:
            return jobs
        self._begun = state.reserved
        error = poison.blamed(state, self._how_ended)
        if error is None:
            return jobs
        was_alone = len(jobs) == 1 and state.begun is not None and state.begun.size == 1
        stops = was_alone and state.buried is not None and poison.alike(state.buried, error)

        def failed(now: StreamState) -> StreamState:
            counted = replace(now, replays=now.replays + 1, alone=now.alone + was_alone, stopped=stops)
            return replace(counted, error=error, failure=None, begun=None)  # each failure counts once

        state = self._write(failed)
        if stops:
            raise StreamStopped(self._name, jobs[0].id, error)
        if state.published == state.reserved or state.held:  # returned jobs would produce their outputs twice
            return jobs
        if len(jobs) > 1 and state.replays >= poison.HALVED_FROM:
            half = (len(jobs) + 1) // 2
            give_back(self._store, self._queue, state.token, [job.id for job in jobs[half:]])
            return jobs[:half]
        return self._tried_again(state, jobs, error) if was_alone else jobs

    def _trimmed(self, state: StreamState, jobs: list[Reserved], most: int) -> list[Reserved]:
        """Give back the jobs of a batch that are too many; return the others."""
        self._sizing.measure([job.items for job in jobs])
        kept = within(jobs, most)
        if kept < len(jobs):
            give_back(self._store, self._queue, state.token, [job.id for job in jobs[kept:]])
            if self._left is not None:
                self._left += len(jobs) - kept
        return jobs[:kept]

    def _tried_again(self, state: StreamState, jobs: list[Reserved], error: str) -> list[Reserved]:
        """Return a job that has failed alone; nothing if it was buried after its last attempt, or cut into parts."""
        for row in reserved_rows(self._store, self._queue, state.token, jobs[0].id, jobs[0].id):
            if self._cut is not None and jobs[0].items > 1:  # one of its items is at fault
                settle(self._store, [self._cut(row)])
                return []
            attempts = row.attempts - 1 + state.alone
            if attempts >= row.max_attempts:
                self._write(lambda now: replace(now, buried=error))
                told = f"PoisonJob: alone in its batch of the stream {self._name!r}, attempt {attempts}: {error}"
                settle(self._store, [Bury(row.lease, told)])
                return []
        return jobs

    def bury(self, jobs: Mapping[str, str]) -> None:
        """Bury jobs of the last batch that its reader can't take, with these errors, before it is read."""
        state = self._mine()
        settle(self._store, [Bury(state.lease(job), error) for job, error in jobs.items()])

    def state(self) -> StreamState:
        """Return the stored state."""
        return self._mine()

    def settle(self, outcomes: Sequence[Outcome], latest: int | None) -> None:
        """Settle jobs of the last batch before it is read; `latest`: the highest time of the others."""
        settle(self._store, list(outcomes))
        if self._mine().seeing != latest:
            self._write(lambda now: replace(now, seeing=latest))

    # -- liveness

    def beat(self) -> None:
        """Send a heartbeat for the jobs of this driver, and for the batch that it has taken over."""
        state, sent_at = self._mine(), boot_clock()
        lanes = () if self._lanes is None else (LaneRange(self._queue, *self._lanes),)
        self._store.beat(rows_of(self._name, state, self._heartbeat, lanes))
        self._beaten = sent_at
        if self._mine().held != state.held:  # a sink has begun to hold the batch, or ended it
            self.beat()

    def _revive(self) -> None:
        """Beat now if the last answered heartbeat is so old that others may take the jobs of this driver."""
        if boot_clock() - self._beaten >= MISSED_BEATS * self._heartbeat:
            self.beat()

    # -- the value

    def _mine(self) -> StreamState:
        """Return the state. Raises StreamTaken if another driver has opened the stream since."""
        if self._epoch is None:
            return self._open()
        state = load(self._store, self._name)
        if state is None or (state.epoch, state.driver) != (self._epoch, self._driver):
            raise StreamTaken(self._name)
        return state

    def _checked(self, position: Position) -> StreamState:
        state = self._mine()
        if position.stream != state.id:
            raise ForeignCheckpoint(self._name, "it is of another stream, or of a deleted one with this name")
        return state

    def _foreign(self, state: StreamState, position: Position) -> ForeignCheckpoint:
        age = "an older checkpoint" if position.seq < state.acked else "a newer checkpoint"
        return ForeignCheckpoint(
            self._name, f"it is at batch {position.seq}, {age} than the store, which is at {state.acked}"
        )

    def _write(self, change: Callable[[StreamState], StreamState]) -> StreamState:
        while True:
            written = compare_and_set(self._store, self._name, change(self._mine()))
            if written is not None:
                return written

    def _open(self) -> StreamState:
        """Take over the stream; from now on it refuses the previous driver."""
        opened = None
        while opened is None:
            before = load(self._store, self._name)
            if before is not None and before.queue != self._queue:
                raise InvalidInput(
                    f"the stream {self._name!r} reads the queue {before.queue!r}, not {self._queue!r}; "
                    f"use another stream name for another queue, by the option stream"
                )
            fresh = before or StreamState(str(uuid4()), self._queue, self._driver)
            opened = compare_and_set(self._store, self._name, fresh.taken_over(self._driver, self._ui))
        self._epoch = opened.epoch
        self.beat()
        if before is not None:
            self._tidy_up_after(before)
        return opened

    def _tidy_up_after(self, before: StreamState) -> None:
        """Return the previous driver's unnumbered claims, and commit its acknowledged jobs."""
        self._give_back(before.next_token)
        if not before.pending:
            left = reserved_ids(self._store, self._queue, before.token)
            settle(self._store, [Commit(before.lease(job_id)) for job_id in left])
