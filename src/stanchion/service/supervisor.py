"""The supervisor: keeps a number of worker processes alive, and stops them together.

child:  starting ──► running ──exit code 0 or 2──► finished
           ▲            │ died
           └──back-off──┘
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

from stanchion.alerts.alerts import monitor
from stanchion.alerts.collector import StoreMetrics
from stanchion.context import context_of
from stanchion.core.backoff import Backoff
from stanchion.core.boot_clock import boot_clock
from stanchion.service.loading import load
from stanchion.service.settings import EXIT_OK, EXIT_UNUSABLE, WorkerSettings
from stanchion.service.stand_in import StandIn, store_of
from stanchion.telemetry.counts import Sums, sums_in
from stanchion.telemetry.jobs import WorkerCollector
from stanchion.telemetry.prometheus import exposed, new_registry
from stanchion.telemetry.server import Route, probes
from stanchion.worker.process.pulse import pulse_in
from stanchion.worker.process.remarks import Remarks
from stanchion.worker.process.signals import Calls
from stanchion.worker.process.status import REWRITE, Status, StatusReporter

TICK = 0.2
SETTLED = 10.0
"""Seconds after which a child counts as well started, which resets its back-off."""

_FROZEN = 12 * REWRITE
"""Seconds after which a child that has not written its status counts as frozen, so that a restart is due."""

STOP_SECONDS_MAX = 15.0
"""Seconds beyond the grace period after which a child that was asked to stop is killed."""


class Child:
    """One worker process and its replacements."""

    def __init__(self, settings: WorkerSettings, status_file: Path, remarks: Remarks) -> None:
        self._metrics_file = status_file.with_suffix(".metrics") if settings.metrics else None
        self._pulse_file = status_file.with_suffix(".pulse")
        self._settings = replace(
            settings,
            health_file=str(status_file),
            health_port=None,
            metrics=False,
            store_metrics=False,
            metrics_file=None if self._metrics_file is None else str(self._metrics_file),
            pulse_file=str(self._pulse_file),
        )
        self._status_file, self._remarks = status_file, remarks
        self._past = Sums()
        self._backoff = Backoff(first=0.5, longest=30.0)
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = self._start_at = 0.0
        self.finished = False
        self.code = EXIT_OK

    def check(self, *, stopping: bool) -> None:
        """Handle the end of the process; start it if it should run but does not."""
        if self.finished:
            return
        if self._process is None:
            if stopping:
                self.finished = True
            elif time.monotonic() >= self._start_at:
                self._start()
            return
        code = self._process.poll()
        if code is None:
            return
        self._past.add(self._counted(), gauges=False)
        if self._metrics_file is not None:
            self._metrics_file.unlink(missing_ok=True)
        self._process = None
        self.code = code
        self.finished = stopping or code in (EXIT_OK, EXIT_UNUSABLE)
        if not self.finished:
            if time.monotonic() - self._started_at > SETTLED:
                self._backoff.succeeded()
            pause = self._backoff.failed()
            self._start_at = time.monotonic() + pause
            self._remarks.warning("a worker process ended with code %d; the next one starts in %.1f s", code, pause)

    def _start(self) -> None:
        self._status_file.unlink(missing_ok=True)
        self._pulse_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "stanchion.service.process", self._settings.to_json(), str(os.getpid())]
        # In its own session, so that Ctrl-C in a terminal reaches only the supervisor, which passes it on once.
        self._process = subprocess.Popen(command, start_new_session=True)  # noqa: S603 - our own command
        self._started_at = time.monotonic()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process."""
        if self._process is not None:
            self._process.send_signal(number)

    @property
    def process(self) -> tuple[int, Path] | None:
        """The process that runs now, and the file of its pulse."""
        process = self._process
        return None if process is None else (process.pid, self._pulse_file)

    def add_to(self, sums: Sums) -> None:
        """Add what this process and those before it have counted."""
        sums.add(self._past)
        sums.add(self._counted())

    def _counted(self) -> Sums:
        try:
            return Sums() if self._metrics_file is None else sums_in(self._metrics_file.read_text())
        except OSError:
            return Sums()

    def frozen(self) -> bool:
        """Return True if the process runs, has not written its status for long, and its jobs are out of time."""
        pulse = pulse_in(self._pulse_file)
        if pulse is not None and boot_clock() < pulse.until:
            return False
        try:
            return self._process is not None and time.time() - self._status_file.stat().st_mtime > _FROZEN
        except OSError:
            return False

    def trouble(self) -> str | None:
        """Return the failure of this child, or None."""
        if self.finished:
            return None
        try:
            age = time.time() - self._status_file.stat().st_mtime
            word = self._status_file.read_text().strip()
        except OSError:
            return "a worker process is not up"
        if age > 3 * REWRITE:
            return f"a worker process has been silent for {age:.0f} s"
        return None if word.startswith("ok") else word


class Supervisor:
    """Starts worker processes, restarts dead ones, forwards signals, and combines their health."""

    def __init__(self, settings: WorkerSettings, processes: int) -> None:
        self._settings, self._processes = settings, processes
        self._children: list[Child] = []
        self._calls, self._remarks = Calls(), Remarks()

    def run(self) -> int:
        """Run until stopped, or until all processes have finished; return the exit code."""
        with self._calls, tempfile.TemporaryDirectory(prefix="stanchion-") as folder:
            reporter = StatusReporter(
                *(self._status, self._settings.health_file, self._settings.health_port, self._settings.health_host),
                self._routes(),
            )
            files = [Path(folder, f"worker-{number}") for number in range(self._processes)]
            self._children = [Child(self._settings, file, self._remarks) for file in files]
            reporter.start()
            stopping = threading.Event()
            threading.Thread(target=self._stand_in, args=(stopping,), name="stanchion-stand-in", daemon=True).start()
            try:
                return self._keep()
            finally:
                stopping.set()
                reporter.stop()

    def _stand_in(self, stopping: threading.Event) -> None:
        try:
            store = store_of(self._settings.target)
        except Exception as error:  # the processes report it, if they can't use the app either
            self._remarks.warning("no heartbeats can be sent for processes whose threads don't run: %s", error)
            return
        if store is not None:
            StandIn(self._living, self._settings.heartbeat, lambda: store).run(stopping)

    def _living(self) -> list[tuple[int, Path]]:
        return [process for child in self._children if (process := child.process) is not None]

    def _routes(self) -> dict[str, Route]:
        routes = probes(self._frozen, lambda: self._status()["reason"])
        if self._settings.metrics:
            registry, of_store = new_registry(), None
            WorkerCollector(self._sums).register(registry)
            if self._settings.store_metrics:
                context = context_of(load(self._settings.target))
                of_store = StoreMetrics.of(lambda: monitor(context))
            routes["/metrics"] = exposed(registry, of_store)
        return routes

    def _sums(self) -> Sums:
        found = Sums()
        for child in self._children:
            child.add_to(found)
        return found

    def _frozen(self) -> str | None:
        return "a worker process is frozen" if any(child.frozen() for child in self._children) else None

    def _keep(self) -> int:
        passed_on, kill_at = 0, float("inf")
        while not all(child.finished for child in self._children):
            for child in self._children:
                child.check(stopping=passed_on > 0)
            unusable = any(child.code == EXIT_UNUSABLE for child in self._children)
            if passed_on < self._calls.signals or (unusable and not passed_on):
                passed_on += 1
                kill_at = min(kill_at, time.monotonic() + self._settings.grace + STOP_SECONDS_MAX)
                self._send(signal.SIGTERM)
            if time.monotonic() > kill_at:
                self._remarks.error("worker processes did not stop in time and are killed")
                self._send(signal.SIGKILL)
            self._calls.wait(TICK)
        return EXIT_UNUSABLE if any(child.code == EXIT_UNUSABLE for child in self._children) else EXIT_OK

    def _send(self, number: signal.Signals) -> None:
        for child in self._children:
            child.send(number)

    def _status(self) -> Status:
        trouble = next((trouble for child in self._children if (trouble := child.trouble())), None)
        return {
            "status": "red" if trouble else "ok",
            "reason": trouble,
            "worker": f"supervisor-{os.getpid()}",
            "processes": sum(not child.finished for child in self._children),
        }
