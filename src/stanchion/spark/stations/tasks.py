"""A worker in a task of Spark: an ordinary one with one thread, which works for as long as its round goes on.

round goes on ──► running ──driver ends the round, or is gone──► stopping: running items get the grace ──► task ends
                     └─ signal, abandoned attempt, failed hook ──► stopping ──► task fails, and Spark starts another
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from stanchion.context.context import Context
from stanchion.errors import StanchionError
from stanchion.spark.stations import rounds
from stanchion.worker.worker import Worker, oversight_of

LOOK_SECONDS = 0.5
"""Seconds between two reads of the round."""

NOTHING = "nothing boolean"
"""The schema of what a task returns: no rows."""


class TaskInterrupted(StanchionError):
    """The worker of a task stopped, and its driver had not asked for it."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the worker of this task stopped, as {why}; Spark starts another one")


@dataclass(frozen=True, slots=True)
class TaskWorker:
    """What each task of a round needs for its worker. `heartbeat`, `grace`: in seconds, as of any worker."""

    context: Context
    queues: tuple[str, ...]
    round_id: str
    heartbeat: float
    grace: float

    def function(self) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return the function of a `mapInArrow` that works in each task, and returns no rows."""
        worker = self

        def work(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for _ in numbers:
                pass
            worker.run()
            yield from ()

        return work

    def goes_on(self) -> bool:
        """Return whether the round goes on."""
        return rounds.goes_on(self.context.store, self.queues[0], self.round_id)

    def run(self) -> None:
        """Work until the round ends. Raises TaskInterrupted if the worker stopped before."""
        if not self.goes_on():
            return
        worker = Worker(self.context, self.queues, 1, self.heartbeat, self.grace, name="spark")
        watch = _Watch(self, worker)
        watch.start()
        try:
            worker.run()
        finally:
            watch.stopped.set()
            self.context.close()
        if watch.interrupted is not None or not watch.ended:
            raise TaskInterrupted(watch.interrupted or "a signal told it to")


class _Watch(threading.Thread):
    """Stops a worker at the end of its round, or with the process that started its own."""

    def __init__(self, task: TaskWorker, worker: Worker) -> None:
        super().__init__(name="stanchion-round", daemon=True)
        self._task, self._worker, self._parent = task, worker, os.getppid()
        self.stopped = threading.Event()
        self.ended = False
        """The round has ended."""
        self.interrupted: str | None = None
        oversight_of(worker).on_stuck = self._stuck

    def run(self) -> None:
        while not self.stopped.wait(LOOK_SECONDS):
            if os.getppid() != self._parent:
                self._interrupt("the process of Spark that started it is gone")
                return
            try:
                self.ended = not self._task.goes_on()
            except StanchionError:
                continue  # the worker waits for its store, and says so
            if self.ended:
                self._worker.finish()
                return

    def _stuck(self) -> None:
        self._interrupt("the thread of an attempt that took too long can't be stopped")

    def _interrupt(self, why: str) -> None:
        self.interrupted = why
        self._worker.finish()
