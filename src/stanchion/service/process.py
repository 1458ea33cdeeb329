"""Worker processes, as run by `stanchion worker`."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time

from stanchion.core.checks import whole
from stanchion.errors import InvalidInput, SchemaMismatch
from stanchion.service.garbage import collect_less
from stanchion.service.loading import load
from stanchion.service.logs import flushed, log_to_stderr
from stanchion.service.settings import EXIT_OK, EXIT_UNUSABLE, WorkerSettings
from stanchion.service.stand_in import watched
from stanchion.worker.process.status import checked_port
from stanchion.worker.worker import Worker, oversight_of

log = logging.getLogger("stanchion.worker")

MOST_PROCESSES = 1000

PARENT_TICK = 1.0


def run_worker_process(settings: WorkerSettings, processes: int = 1) -> int:
    """Run a worker in this process, or `processes` of them as children; return the exit code.

    Call it in the main thread of a process that does nothing else: an attempt that can't be stopped makes the
    process re-execute its own command line. Raises InvalidInput for unusable settings or an unusable app.
    """
    from stanchion.service.supervisor import Supervisor

    log_to_stderr(settings.log_level, settings.log_format)
    whole(processes, "processes", 1, MOST_PROCESSES)
    if checked_port(settings.health_port) is None and (settings.metrics or settings.store_metrics):
        raise InvalidInput("metrics are served on the port of health: give --health-port, such as 8017")
    return ended(work(settings) if processes == 1 else Supervisor(settings, processes).run())


def ended(code: int) -> int:
    """Return the exit code of this process; end it here if its output is not read, as the interpreter would wait."""
    if not flushed():
        os._exit(code)
    return code


def work(settings: WorkerSettings, parent: int | None = None) -> int:
    """Run one worker until it is stopped, its queues are empty, or its parent process is gone."""
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    app = load(settings.target, settings.imports)
    collect_less()
    worker = Worker(
        app,
        *(settings.queues, settings.threads, settings.heartbeat, settings.grace, settings.poll),
        *(settings.until_empty, settings.health_file, settings.health_port),
        health_host=settings.health_host,
        until_finished=settings.until_finished,
        name=settings.name,
        timeout=settings.timeout,
        lanes=settings.lanes,
        order=settings.order,
        metrics=settings.metrics,
        store_metrics=settings.store_metrics,
        metrics_file=settings.metrics_file,
    )
    stuck = threading.Event()

    def replace_process() -> None:
        stuck.set()
        worker.finish()
        log.warning("restarting this process, as one of its threads can't be stopped")

    oversight = oversight_of(worker)
    oversight.on_stuck = replace_process
    if parent is not None:
        threading.Thread(target=_watch_parent, args=(parent, worker), daemon=True).start()
    with watched(worker, settings):
        worker.run()
    if stuck.is_set() and not oversight.stop_requested:
        os.chdir(folder)
        flushed()
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - the very command that runs
    return EXIT_OK


def _watch_parent(parent: int, worker: Worker) -> None:
    """Stop the worker once its parent process has died, as no other process would restart or stop it."""
    while os.getppid() == parent:
        time.sleep(PARENT_TICK)
    worker.finish()
    log.warning("the process that started this worker is gone; stopping")


def main(text: str, parent: str) -> int:
    """Run as the child of a supervisor."""
    settings = WorkerSettings.from_json(text)
    log_to_stderr(settings.log_level, settings.log_format)
    try:
        return ended(work(settings, int(parent)))
    except (InvalidInput, SchemaMismatch) as error:
        log.error("%s", error)
        return EXIT_UNUSABLE


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
