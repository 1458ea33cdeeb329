"""The finisher: stores outcomes, immediately when idle, in batches under load."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from contextvars import Context as Variables
from functools import partial
from itertools import accumulate
from operator import itemgetter
from typing import Final

from stanchion.context.context import Context
from stanchion.core.backoff import Backoff
from stanchion.core.names.partition_names import logical_name
from stanchion.core.text.error_kinds import group_of
from stanchion.core.text.redaction import redacted
from stanchion.errors import NotPermitted, StoreUnavailable
from stanchion.jobs.facts import has_failed_by
from stanchion.jobs.failures import failure_of
from stanchion.jobs.held_job import lease_of, passing_of, row_here, stored_outcome
from stanchion.jobs.outcome import Outcome, unmet_by
from stanchion.jobs.reservation import Reservation
from stanchion.stores.one_by_one import DATA, Left, OneByOne, takes
from stanchion.stores.records.jobs import JobState
from stanchion.stores.records.outcomes import Bury, Commit, Pass, Rollback
from stanchion.stores.rules.lifecycle.outcomes import have_rows
from stanchion.stores.rules.lifecycle.weights import bytes_of
from stanchion.stores.rules.partial_answers import ShardUnavailable
from stanchion.tasks.execution import report, unstorable
from stanchion.telemetry.counts import JobCounts
from stanchion.telemetry.failures import FailureTally
from stanchion.telemetry.lines import JobLines
from stanchion.worker.health import Health
from stanchion.worker.running.attempt import Ends, Finished

log = logging.getLogger("stanchion.worker")

MOST = 1000
"""Outcomes per call of the store."""

BYTES: Final = 4_000_000
"""Bytes of chunks in one call beyond which no more outcomes are added."""

LOAD_GROUP_MIN = 32
"""Outcomes in a group from which the worker counts as loaded, so that waiting for a larger group pays."""

LINGER = 0.004
"""Seconds to wait for more outcomes under load."""

_GOOD = frozenset((JobState.DONE, JobState.SCHEDULED, JobState.READY))
_OUTCOME = itemgetter(0)  # called by built-ins, without a frame for each job


class Finisher:
    """Takes finished attempts from any thread, stores their outcomes in its own, and fires their events.

    `settled` is called after each group, with the queues of its jobs.
    """

    def __init__(
        self,
        context: Context,
        health: Health,
        settled: Callable[[Collection[str]], None],
        metrics: JobCounts | None = None,
        failures: FailureTally | None = None,
        unmet: FailureTally | None = None,
        lines: JobLines | None = None,
    ) -> None:
        self._context, self._health, self._settled, self._metrics = context, health, settled, metrics
        self._failures, self._unmet, self._lines = failures, unmet, lines
        self._pending: deque[Finished] = deque()
        self._idle = False
        self._moved_at = time.monotonic()
        self._sign = threading.Event()
        self._closing = False
        self._aborted = threading.Event()
        self._taken = 0
        self._counting = threading.Lock()
        self._one_by_one: OneByOne[Finished] = OneByOne(
            *(self._settle_again, itemgetter(0), partial(takes, context.current_store)),
            *(self._refused, self._aborted),
        )
        self._set_aside: list[Finished] = []
        """Outcomes that the store can't take now, though it takes others: of a shard that is down, of a locked job."""
        self._late: threading.Thread | None = None
        """Stores outcomes that the store refused, while the others continue."""
        self._late_moved_at = 0.0
        self._last_error = ""
        self.weighs = False
        """The worker has claimed chunks, so that outcomes are weighed."""
        self.stored = 0
        """Jobs whose outcome the store has accepted or refused."""
        self._thread = threading.Thread(target=self._run, name="stanchion-finisher", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """True while its thread runs."""
        return self._thread.is_alive()

    def put(self, ends: Ends) -> None:
        """Hand over the ends of a finished attempt, which are stored together; never blocks."""
        self._pending.extend(ends)
        if self._idle and ends:  # the finisher sets it before its last check, so that no sign is lost
            self._sign.set()

    @property
    def received(self) -> int:
        """Jobs handed over so far."""
        return self._taken + len(self._pending)

    @property
    def backlog(self) -> int:
        """Jobs handed over and not stored yet."""
        return self.received - self.stored

    def trouble(self, seconds: float) -> str | None:
        """Return the problem if outcomes wait and none was stored for so many seconds, whatever the cause.

        Outcomes that the store doesn't take, though it takes others, are counted separately.
        """
        now, waiting = time.monotonic(), self.backlog
        if not waiting:
            return None
        if self._late is not None and (since := now - self._late_moved_at) >= seconds:
            return f"outcomes wait, as the store took others but none of them for {since:.0f} s: {self._last_error}"
        since = now - self._moved_at
        if since < seconds or (self._idle and self._late is None):
            return None
        return f"{waiting} outcomes wait, and none was stored for {since:.0f} s"

    def close(self, seconds: float) -> bool:
        """Store the rest within `seconds`; return whether everything is stored."""
        self._closing = True
        self._sign.set()
        deadline = time.monotonic() + seconds
        self._thread.join(seconds)
        if (late := self._late) is not None:
            late.join(max(0.0, deadline - time.monotonic()))
        self._aborted.set()
        self._thread.join(0.1)
        return not self._thread.is_alive() and self.backlog == 0

    def _run(self) -> None:
        size = 0
        while not self._aborted.is_set():
            if size >= LOAD_GROUP_MIN and len(self._pending) < MOST // 2:
                time.sleep(LINGER)
            group = self._gather()
            if not group:
                if self._closing:
                    return
                size = 0
                continue
            size = len(group)
            self._store(group)
            queues = {outcome.lease.queue for outcome, _, _ in group if outcome is not None}
            if None in map(_OUTCOME, group):
                queues |= {job.queue for outcome, job, _ in group if outcome is None and job is not None}
            del group  # an idle finisher keeps no errors, which have the frames of their tasks
            self._settled(set(map(logical_name, queues)))

    def _gather(self) -> list[Finished]:
        """Return the pending outcomes, waiting for the first; empty if woken by a change of state."""
        pending = self._pending
        if not pending and not self._closing:
            self._idle = True
            if not pending:
                self._sign.wait()
            self._moved_at = time.monotonic()  # before it counts as busy
            self._idle = False
            self._sign.clear()
        group = [pending.popleft() for _ in range(min(len(pending), MOST))]
        if self.weighs:
            weights = accumulate(bytes_of(outcome) for outcome, _, _ in group)
            fitting = 1 + sum(weight < BYTES for weight in weights)
            pending.extendleft(reversed(group[fitting:]))
            del group[fitting:]
        self._taken += len(group)
        if set(map(type, map(_OUTCOME, group))) <= {Commit}:
            return group
        # Commits together: stores apply consecutive ones in a single statement.
        others = [finished for finished in group if type(finished[0]) is not Commit]
        return others + [finished for finished in group if type(finished[0]) is Commit]

    def _store(self, group: list[Finished]) -> None:
        """Store a group; retry until it is stored or the worker gives up."""
        backoff, tries = Backoff(), 0
        while group:
            group, at_fault = self._tried(group, tries)
            tries += 1
            if group and at_fault:
                self._store_later(group)
                return
            if group and self._aborted.wait(backoff.failed()):
                return

    def _tried(self, group: list[Finished], tries: int) -> Left[Finished]:
        """Try to store a group that was tried so often before; return the rest."""
        try:
            states = self._settle(group, tries > 0)
        except Exception as error:  # it may be a single outcome that the store can't take now, or can't hold
            if isinstance(error, (StoreUnavailable, NotPermitted)):
                log.warning("%d outcomes wait for the store: %s", len(group), error)
            elif not isinstance(error, DATA):
                log.warning("%d outcomes wait, as storing them failed", len(group), exc_info=True)
            self._last_error = f"{type(error).__name__}: {error}"
            if isinstance(error, ShardUnavailable):
                return Left(self._left(group, error), at_fault=True)
            return self._one_by_one.store(group, error)
        self._stored(group, states)
        return Left([], at_fault=False)

    def _settle_again(self, group: Sequence[Finished]) -> None:
        self._stored(group, self._settle(group, True))

    def _refused(self, finished: Finished, error: Exception) -> bool:
        """End a job whose outcome the store can't hold: a retry would fail in the same way."""
        outcome, job, _ = finished
        if outcome is None:
            return False
        instead = unstorable(self._context, None if job is None else row_here(job), outcome, error)
        told = error if isinstance(instead, Bury) else None
        if job is not None and have_rows([outcome]):
            instead = stored_outcome(job, instead)  # at the station that writes them, where it may have come in memory
        try:
            self._settle_again([(instead, job, told)])
        except Exception:
            return False  # the outcome is refused once more, and the job ended then
        return True

    def _left(self, group: list[Finished], error: ShardUnavailable) -> list[Finished]:
        """Return the outcomes for a shard that is down; report the outcomes that others have stored."""
        asked = [finished for finished in group if finished[0] is not None]
        self._stored([asked[place] for place in error.answers], list(error.answers.values()))
        done = {id(asked[place]) for place in error.answers}
        return [finished for finished in group if id(finished) not in done]

    def _store_later(self, group: list[Finished]) -> None:
        """Store a group as soon as the store takes it, in another thread, so that it holds up no other."""
        with self._counting:
            self._set_aside += group
            if self._late is None:
                self._late_moved_at = time.monotonic()
                self._late = threading.Thread(target=self._store_late, name="stanchion-finisher-late", daemon=True)
                self._late.start()

    def _store_late(self) -> None:
        backoff, tries, group = Backoff(), 1, list[Finished]()
        while not self._aborted.is_set():
            with self._counting:
                group += self._set_aside
                self._set_aside = []
                if not group:
                    self._late = None
                    return
            before = len(group)
            group, _ = self._tried(group, tries)
            tries += 1
            if len(group) < before:
                backoff.succeeded()
                self._late_moved_at = time.monotonic()
            if group:
                self._aborted.wait(backoff.failed())

    def _stored(self, group: Sequence[Finished], states: Sequence[JobState | None]) -> None:
        with self._counting:
            self.stored += len(group)
            self._moved_at = time.monotonic()
        try:
            self._tell(group, states)
        except Exception:
            log.exception("reporting on %d outcomes failed; they are stored", len(group))

    def _settle(self, group: Sequence[Finished], repeat: bool) -> list[JobState | None]:
        """Store a group; return the new states. `repeat`: an earlier call may have stored it."""
        settling = self._context.lanes.place(
            self._context.store,
            [outcome for outcome, _, _ in group if outcome is not None],
            lambda: {job.id: job.tenant for _, job, _ in group if job is not None},
        )
        with self._health.watch("settle"):
            if last := self._context.progress.take(lease_of(job) for _, job, _ in group if job is not None):
                self._context.current_store().settle(last)
            states = self._context.current_store().settle(settling, repeat=repeat) if settling else []
        if len(states) == len(group):
            return states
        stored = iter(states)
        return [
            next(stored) if outcome is not None else job.settled_as if job is not None else None
            for outcome, job, _ in group
        ]

    def _tell(self, group: Sequence[Finished], states: Sequence[JobState | None]) -> None:
        if any(type(one[0]) is Pass or _settled_itself(one) for one in group):
            group, states = _by_station(group, states)
        if self._metrics is not None:
            self._metrics.fold()
            if not _GOOD.issuperset(states):
                self._metrics.stored([outcome.lease.queue if outcome else None for outcome, _, _ in group], states)
        hears = self._context.events.hears
        heard = any(hears(event) for event in ("done", "failed", "retrying", "dead"))
        lost = []
        for (outcome, job, error), state in zip(group, states, strict=True):
            if state is None:
                lost.append(outcome.lease.id if outcome else "?")
                continue
            failure = None if isinstance(error, Outcome) else error
            if self._lines is not None and (ended := outcome.lease if outcome else job) is not None:
                self._lines.stored(ended.id, ended.queue, outcome, failed=failure is not None)
            if job is None:
                continue
            if failure is not None:
                log.warning(
                    "job %s (%s): attempt %d failed, now %s: %s",
                    *(job.id, job.task, job.attempt, state, _told(self._context, job, failure)),
                )
            if self._failures is not None and isinstance(outcome, (Rollback, Bury)) and outcome.error is not None:
                key = outcome.group or group_of(outcome.error, job.task)
                new, dead = not has_failed_by(job, key), state is JobState.DEAD
                self._failures.add(job.queue, job.task, key, outcome.error, job.id, new=new, dead=dead)
            if self._unmet is not None and isinstance(error, Outcome) and (condition := unmet_by(error)) is not None:
                self._unmet.add(job.queue, None, condition, condition, job.id, new=True, dead=isinstance(outcome, Bury))
            if heard:
                Variables().run(report, self._context, job, outcome, state, error)
        if lost:
            log.warning(
                "%d outcomes came too late and changed nothing, as the jobs are finished or reserved by others: %s",
                *(len(lost), ", ".join(lost[:5]) + (", ..." if len(lost) > 5 else "")),
            )


def _settled_itself(finished: Finished) -> bool:
    """Return whether a function has settled an item that came to it in memory."""
    outcome, job, _ = finished
    return outcome is None and job is not None and passing_of(job) is not None


def _by_station(
    group: Sequence[Finished], states: Sequence[JobState | None]
) -> tuple[list[Finished], list[JobState | None]]:
    """Return ends and states as if each item that passed stations in memory had been stored at each of them.

    If its lease was lost, nothing is to be told of these: it runs again from the first.
    """
    told: list[Finished] = []
    then: list[JobState | None] = []
    for (outcome, job, error), state in zip(group, states, strict=True):
        passing = None if job is None else passing_of(job)
        if passing is not None and state is not None:
            for move, before in passing.behind:
                told.append((move, before if isinstance(before, Reservation) else None, None))
            then += [JobState.READY] * len(passing.behind)
        if isinstance(outcome, Pass):
            outcome = outcome.then._replace(lease=outcome.lease._replace(queue=outcome.passages[-1].queue))
        told.append((outcome, job, error))
        then.append(state)
    return told, then


def _told(context: Context, job: Reservation, error: BaseException) -> str:
    """Return the message of an error without what people are not to see."""
    mask = context.hidden.masking(job.task, lambda: job.payload)
    return str(redacted(failure_of(error, job.task, mask).error))
