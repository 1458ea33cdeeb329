"""A worker: claims jobs of some queues, runs them, and stores their outcomes."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stanchion.alerts.alerts import monitor
from stanchion.alerts.collector import StoreMetrics
from stanchion.context import HasContext, context_of
from stanchion.context.context import Context
from stanchion.core.checks import checked_name, positive_seconds, seconds_of, whole
from stanchion.core.concurrency.aio import off_loop_alone
from stanchion.core.ids import NAME_MAX, process_id
from stanchion.errors import InvalidInput, SchemaMismatch, StanchionError, StoreUnavailable
from stanchion.jobs.options import named_queues
from stanchion.stores.ports import BehindManagers
from stanchion.stores.records.workers import Beat, WorkerRow
from stanchion.telemetry.counts import JobCounts, Sums
from stanchion.telemetry.failures import UNMET, FailureTally
from stanchion.telemetry.jobs import WorkerCollector
from stanchion.telemetry.lines import SUM_SECONDS, JobLines
from stanchion.telemetry.prometheus import exposed, new_registry
from stanchion.telemetry.server import LOOPBACK, Route, probes
from stanchion.telemetry.times import JobTimes
from stanchion.worker.claiming.claimer import Claimer, Crew, UntilEmpty
from stanchion.worker.claiming.due_queues import DueQueues
from stanchion.worker.claiming.order import Order, checked_order
from stanchion.worker.claiming.served_queues import checked_lanes, served_by
from stanchion.worker.finisher import Finisher
from stanchion.worker.health import Health
from stanchion.worker.heartbeat import Heartbeat
from stanchion.worker.process.oversight import Oversight
from stanchion.worker.process.remarks import Remarks
from stanchion.worker.process.signals import Calls
from stanchion.worker.process.status import Status, StatusReporter, checked_port
from stanchion.worker.reaper import Reaper
from stanchion.worker.running.alone import Alone
from stanchion.worker.running.default_timeouts import DefaultTimeouts
from stanchion.worker.running.hearers import Hearers
from stanchion.worker.running.hooks import WorkerHooks
from stanchion.worker.running.runner import Runners
from stanchion.worker.scheduler import Scheduler

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

log = logging.getLogger("stanchion.worker")

STEP_SECONDS_MAX = 2.0
"""Seconds that each step of a stop may take beyond the grace period, as the store may not answer."""

TICK = 0.01

THREADS_MAX = 10_000


class Worker:
    """Runs the jobs of some queues in this process.

    `queues`: their names, or patterns such as `mail.*`; None for the queues of all tasks. `threads`: maximum number of
    concurrent jobs. `heartbeat`: seconds between heartbeats; after three missed ones, other workers take its jobs.
    `grace`: seconds that running jobs get to finish on a stop. `poll`: seconds between polls of the whole fleet; None:
    the app's. `until_empty`: `run` returns once the queues hold no due job and none runs here. `until_finished`: `run`
    returns once the queues hold no live job; both wait for a paused queue. `health_file`: file that begins with "ok"
    or "red". `health_port`: port that serves the same as JSON, with status 200 or 503. `health_host`: its address.
    `name`: start of its id in lists and jobs, not necessarily unique; None: the host's name. `timeout`: seconds that an
    attempt may run if neither its job, its task, its queue nor the app has a time-out.

    `metrics`: serve metrics for Prometheus on `health_port`, at /metrics. `store_metrics`: include metrics of all
    queues and alerts, which read the store every 15 seconds; raises MissingExtra without the client library.
    `metrics_file`: file for the counts of this worker, read by a supervisor.

    `lanes`: lanes to serve of some queues, `{"orders": range(0, 16)}` or `"orders=0-15"`; other workers serve the rest.
    `order`: order among queues: "priority", the queue with the job of the highest priority, in turn where these are
    equal; "strict", the first of `queues` that has a due job; "fair", each in turn.

        new ──start──► running ──stop, signal, or emptied──► stopping ──► stopped
    """

    def __init__(
        self,
        app: HasContext,
        queues: Collection[str] | None = None,
        threads: int = 8,
        heartbeat: float = 10.0,
        grace: float = 30.0,
        poll: float | None = None,
        until_empty: bool = False,
        health_file: str | Path | None = None,
        health_port: int | None = None,
        *,
        health_host: str = LOOPBACK,
        until_finished: bool = False,
        name: str | None = None,
        timeout: float | timedelta | None = None,
        lanes: Mapping[str, range] | str | Iterable[str] | None = None,
        order: Order = "priority",
        metrics: bool = False,
        store_metrics: bool = False,
        metrics_file: str | Path | None = None,
    ) -> None:
        self._threads = whole(threads, "threads", 1, THREADS_MAX)
        self._context = context = context_of(app)
        self.id = process_id(
            socket.gethostname() if name is None else checked_name(name, "the name of a worker", NAME_MAX)
        )
        """The id of this worker in the store and in its jobs."""
        self._named = None if queues is None else named_queues(queues)
        self._lanes, self._order = checked_lanes(lanes), checked_order(order)
        self._every = positive_seconds(heartbeat, "heartbeat")
        self._grace = seconds_of(grace, "grace")
        self._poll = positive_seconds(context.poll if poll is None else poll, "poll")
        own_timeout = None if timeout is None else positive_seconds(timeout, "timeout")
        self._defaults = DefaultTimeouts(context, own_timeout, self._every)
        self._until_empty, self._until_finished = until_empty or until_finished, until_finished
        self._failures, self._unmet, self._times = FailureTally(), FailureTally(UNMET), JobTimes()
        self._lines: JobLines | None = None
        self._health = Health(silence=2 * self._every)
        self._health_file, self._health_port = health_file, checked_port(health_port)
        self._health_host = health_host
        self._metrics = JobCounts() if metrics or metrics_file is not None else None
        self._metrics_file = metrics_file
        self._registry = self._new_registry() if metrics else None
        self._of_store = StoreMetrics.of(lambda: monitor(self._context)) if metrics and store_metrics else None
        if store_metrics and not metrics:
            raise InvalidInput("store_metrics is served together with metrics: pass both")
        self._calls = Calls()
        self._oversight = Oversight(self._calls)
        self._remarks = Remarks()
        self._started = False
        self._state = "running"
        self._lifecycle = threading.Lock()

    # -- life

    def start(self) -> None:
        """Start the threads and return. Raises InvalidInput for an unusable store or missing tasks.

        If the store does not answer, the worker starts red and keeps trying. Tables of another release are waited for,
        too, as a deployment may be under way, but not with `until_empty`: SchemaMismatch.
        """
        with self._lifecycle:
            if self._started:
                raise InvalidInput("this worker has been started before; make a new one")
            self._served = served_by(self._context, self._named, self._lanes)
            with suppress(StoreUnavailable, *(() if self._until_empty else (SchemaMismatch,))):
                self._context.registry.prepare(self._context.store, self._served.names)  # beats say what is suppressed
            self._reporter = StatusReporter(
                *(self._status, self._health_file, self._health_port, self._health_host, self._routes()),
                {} if self._metrics_file is None else {self._metrics_file: lambda: self._sums().text()},
            )
            self._started = True
            self._open_runners()
            alone = Alone(self._runners, lambda: self._claimer.outstanding, lambda: self._heartbeat.beat())
            self._claimer = Claimer(
                *(self._context, self.id, self._served),
                DueQueues(self._context, self._served, self._poll, self._order),
                self._threads,
                Crew(self._runners, self._finisher, self._health, self._times, alone),
                lambda: self._heartbeat.revive(),
                UntilEmpty(self.finish, self._until_finished) if self._until_empty else None,
            )
            self._heartbeat = Heartbeat(
                *(self._context, self._every, self._health, self._row, self._runners.longest),
                *(self._answered, self._each_second, self._tell_failures),
            )
            self._reaper = Reaper(
                *(self._context, self._every / 2, lambda: self._heartbeat.steady),
                *(self._failures.add_lost, lambda: self._claimer.live),
            )
            named = ", ".join(self.queues) or "no queue yet"
            self._remarks.info("worker %s runs %s with %d threads", self.id, named, self._threads)
            crons = self._context.registry.crons
            self._scheduler = Scheduler(self._context, lambda: self._claimer.live) if crons else None
            self._state = "stopped"  # for good, if a hook fails
            self._runners.begin()
            self._state = "running"
            for role in (self._reporter, self._finisher, self._heartbeat, self._claimer, self._reaper):
                role.start()
            if (pulse := self._oversight.pulse) is not None:
                pulse.start(self.id, self._runners.left)
            if self._scheduler is not None:
                self._scheduler.start()

    def _open_runners(self) -> None:
        self._hooks = WorkerHooks(self._context.hooks, self.finish)
        self._lines = JobLines() if JobLines.wanted() else None
        ends = [one.ended for one in (self._metrics, self._lines) if one is not None]
        self._finisher: Finisher = Finisher(
            *(self._context, self._health, lambda queues: self._claimer.settled(queues), self._metrics),
            *(self._failures, self._unmet, self._lines),
        )
        pulse = self._oversight.pulse
        self._runners: Runners = Runners(
            *(self._context, self._threads, self._defaults),
            Hearers(
                *(self._finisher.put, lambda: self._claimer.room(), self._oversight.stuck, ends, self._times.ended),
                lambda row, claimed_at: self._heartbeat.holding.may_begin(row, claimed_at),
                *(None if pulse is None else pulse.begins, lambda queue: queue in self._served.names),
            ),
            self._hooks,
        )

    def run(self) -> None:
        """Work until SIGTERM, SIGINT, `stop`, or, if so configured, until the queues are empty.

        In the main thread, the first signal stops the worker within its grace period, the second immediately.
        """
        with self._calls:
            self.start()
            try:
                while not self._calls.wait(60):
                    pass
            finally:
                self.stop()
        self._hooks.check()

    def finish(self) -> None:
        """Make `run` stop the worker and return. Does not block; any thread may call it, even a task."""
        self._calls.wake()

    def stop(self, grace: float | None = None) -> None:
        """Stop claiming, let jobs finish for `grace` seconds, return the rest without counting their attempt.

        Returns within the grace period plus a few seconds, whatever the store and the tasks do.
        """
        self._context.blocking.check()
        seconds = self._grace if grace is None else seconds_of(grace, "grace")
        with self._lifecycle:
            if not self._started or self._state == "stopped":
                return
            self._state = "stopping"
            self.finish()
            self._remarks.info("worker %s stops; %d reserved jobs get %g s", self.id, self._claimer.reserved, seconds)
            deadline = time.monotonic() + seconds
            self._reaper.stop()
            if self._scheduler is not None:
                self._scheduler.stop(STEP_SECONDS_MAX)
            self._claimer.stop(STEP_SECONDS_MAX)
            self._heartbeat.soon()
            self._give_back_buffered()
            while self._claimer.reserved and time.monotonic() < deadline and self._calls.signals < 2:
                time.sleep(TICK)
                self._give_back_buffered()
            self._runners.disown()
            self._runners.stop()
            stored = self._finisher.close(STEP_SECONDS_MAX)
            self._runners.wait(max(STEP_SECONDS_MAX, deadline - time.monotonic()))
            if not stored:
                self._remarks.warning("%d outcomes could not be stored; their jobs run again", self._finisher.backlog)
            if self._lines is not None:
                self._remarks.call(self._lines.sum_up)
            self._heartbeat.stop(STEP_SECONDS_MAX, leave=stored and not self._claimer.reserved)
            self._state = "stopped"
            if (pulse := self._oversight.pulse) is not None:
                pulse.stop()
            self._health.stopped()
            self._reporter.stop()
            self._remarks.info("worker %s has stopped", self.id)
            self._remarks.close(STEP_SECONDS_MAX)

    astart = off_loop_alone(start)
    astop = off_loop_alone(stop)

    @property
    def queues(self) -> list[str]:
        """The queues that it serves, known once it has started; a pattern's change as queues are made and dropped."""
        return self._served.names

    @property
    def healthy(self) -> bool:
        """True if the worker runs, reaches its store, and none of its event loops is blocked."""
        return self._trouble() is None

    @property
    def health_port(self) -> int | None:
        """The port that serves its health, if any; with port 0, known after the start."""
        return self._reporter.port if self._started else self._health_port

    # -- between the roles

    def _each_second(self) -> None:
        self._runners.loops.check()
        self._times.fold()

    def _answered(self, beat: Beat) -> None:
        self._claimer.live, self._claimer.due.sharing = beat.live, beat.sharing
        self._meet_managers()
        self._claimer.registered()
        self._claimer.cancel(beat.cancelled)
        self._runners.cancel(beat.cancelled)
        self._defaults.refresh()
        self._tell_failures(self._every)
        if self._lines is not None:
            self._lines.sum_up(SUM_SECONDS)

    def _tell_failures(self, every: float = 0.0) -> None:
        """Merge failures into the store, unless that was done within `every` seconds; the rest waits."""
        try:
            for tally in (self._failures, self._unmet):
                tally.merge(self._context.store, every)
        except StanchionError as error:
            log.debug("the tally of failures waits: %s", error)

    def _meet_managers(self) -> None:
        """Beat immediately when the store's managers, if any, report that a job should stop."""
        holding = self._heartbeat.holding
        if holding.managers is None and (managers := self._context.store.extension(BehindManagers)) is not None:
            holding.managers = managers
            managers.on_stop(self.id, self._heartbeat.soon)

    def _give_back_buffered(self) -> None:
        self._finisher.put(self._runners.wind_up())

    # -- reports

    def _row(self) -> WorkerRow:
        return WorkerRow(
            id=self.id,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=tuple(self.queues),
            threads=self._threads,
            heartbeat=self._every,
            state=self._state,
            lanes=self._served.ranges,
            order=None if self._until_empty else self._order,  # as no look finds a job that is on its way by a stream
            began=self._runners.began() + self._claimer.alone.starting if self._started else None,
            times=self._times.recent(),
        )

    def _trouble(self) -> str | None:
        of_roles = self._started and (self._finisher.trouble(2 * self._every) or self._runners.loops.trouble())
        return self._health.trouble() or of_roles or (self._hooks.trouble if self._started else None) or None

    def _routes(self) -> dict[str, Route]:
        routes = probes(
            self._dead_thread, lambda: self._trouble() or (None if self._state == "running" else "stopping")
        )
        if self._registry is not None:
            routes["/metrics"] = exposed(self._registry, self._of_store)
        return routes

    def _dead_thread(self) -> str | None:
        """Return which thread of the worker has died, as only a restart brings it back; None: none has."""
        alive = {
            "claimer": self._claimer.alive,
            "finisher": self._finisher.alive,
            "heartbeat": self._heartbeat.alive,
        }
        dead = [name for name in alive if not alive[name]] if self._state == "running" else []
        return f"the {dead[0]} has died" if dead else None

    def _new_registry(self) -> CollectorRegistry:
        registry = new_registry()
        WorkerCollector(self._sums).register(registry)
        return registry

    def _sums(self) -> Sums:
        assert self._metrics is not None  # noqa: S101 - only asked for then
        return self._metrics.sums(
            slots=self._threads,
            running_jobs=len(self._runners.running),
            reserved_jobs=self._claimer.reserved,
            unstored_outcomes=self._finisher.backlog,
            healthy=self._trouble() is None,
        )

    def _status(self) -> Status:
        trouble = self._trouble()
        return {
            "status": "red" if trouble else "ok",
            "reason": trouble,
            "worker": self.id,
            "state": self._state,
            "queues": self.queues,
            "order": self._order,
            "lanes": {name: [max(0, first), last] for name, first, last in self._served.ranges},
            "reserved": self._claimer.reserved,
            "pickup_delay": self._claimer.delays.figures(),
        }


def oversight_of(worker: Worker) -> Oversight:
    """Return the ties of a worker to the process that runs it."""
    return worker._oversight


def run_worker(context: Context, queues: Collection[str] | None, threads: int, /, **options: Any) -> None:
    """Run a worker in this process until SIGTERM, SIGINT or an exception; see `Worker`."""
    Worker(context, queues, threads, **options).run()
