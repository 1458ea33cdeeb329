"""The driver's side of plain stations: one Spark job for all of them, whose tasks are workers.

It needs no micro-batches and no checkpoint: what the items are at is in the store, and a dead task is a dead worker.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from stanchion.core.backoff import Backoff
from stanchion.errors import StanchionError
from stanchion.pipelines.station import Station
from stanchion.spark.stations import rounds
from stanchion.spark.stations.tasks import NOTHING, TaskWorker
from stanchion.stores.rules.leases.liveness import MISSED_BEATS
from stanchion.worker.worker import STEP_SECONDS_MAX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("stanchion.spark")


@dataclass(frozen=True)
class TaskRounds:
    """Starts rounds for some stations of a pipeline. `tasks`: their number; `heartbeat`, `grace`: of the workers."""

    spark: SparkSession
    stations: Sequence[Station]
    tasks: int
    heartbeat: float
    grace: float

    def start(self) -> TaskRound:
        """Start a round."""
        return TaskRound(self)


class TaskRound:
    """One Spark job and its heart, until the job has ended."""

    def __init__(self, given: TaskRounds) -> None:
        from pyspark.sql.utils import is_remote

        self._is_remote = is_remote()
        self._spark, self._tasks, self._every, self._grace = given.spark, given.tasks, given.heartbeat, given.grace
        first = given.stations[0]
        self._context, self._queue, self.id = first.context, first.queue, uuid4().hex
        self._told = f"{first.topology.pipeline}: {', '.join(one.station for one in given.stations)}"
        queues = tuple(one.queue for one in given.stations)
        self._worker = TaskWorker(self._context, queues, self.id, self._every, self._grace)
        self.began = time.monotonic()
        self.error: Exception | None = None
        self.ending = False
        """The driver has ended the round."""
        self._ended = threading.Event()
        self._renew()
        self._heart = threading.Thread(target=self._beat, name="stanchion-round", daemon=True)
        self._job = threading.Thread(target=self._run, name="stanchion-tasks", daemon=True)
        self._heart.start()
        self._job.start()

    @property
    def active(self) -> bool:
        """True until the Spark job has ended."""
        return self._job.is_alive()

    def end(self) -> None:
        """Ask the tasks to stop."""
        self.ending = True
        self._ended.set()
        try:
            rounds.end(self._context.store, self._queue, self.id)
        except StanchionError as error:
            log.warning("the tasks stop once their round is over: %s", error)

    def wait(self, seconds: float) -> bool:
        """Wait for the end of the job; return whether it has ended."""
        self._job.join(seconds)
        return not self._job.is_alive()

    @property
    def seconds_to_stop(self) -> float:
        """Seconds that the tasks may take to stop."""
        return self._grace + 3 * STEP_SECONDS_MAX

    def kill(self) -> None:
        """Cancel the job; Spark kills the Python processes of its tasks."""
        with suppress(Exception):  # Spark's errors have no common class, and the session may be gone
            if self._is_remote:
                self._spark.interruptTag(self.id)
            else:
                self._spark.sparkContext.cancelJobGroup(self.id)

    def _run(self) -> None:
        try:
            self._name_job()
            self._spark.range(0, self._tasks, 1, self._tasks).mapInArrow(self._worker.function(), NOTHING).collect()
        except Exception as error:  # Spark's errors have no common class
            self.error = error
        finally:
            self._ended.set()
            with suppress(StanchionError):  # so that tasks of a failed job stop before Spark kills them
                rounds.end(self._context.store, self._queue, self.id)

    def _name_job(self) -> None:
        """Name the jobs of this thread, for the UI and for `kill`. Spark Connect has tags, and no descriptions."""
        if self._is_remote:
            self._spark.addTag(self.id)
        else:
            self._spark.sparkContext.setJobGroup(self.id, self._told, interruptOnCancel=True)

    def _renew(self) -> None:
        rounds.renew(self._context.store, self._queue, self.id, MISSED_BEATS * self._every)

    def _beat(self) -> None:
        backoff, pause = Backoff(longest=min(5.0, self._every)), self._every
        while not self._ended.wait(pause):
            try:
                self._renew()
            except StanchionError as error:
                pause = backoff.failed()
                log.warning("the heartbeat of the tasks failed, next try in %.1f s: %s", pause, error)
            else:
                backoff.succeeded()
                pause = self._every
        with suppress(StanchionError):  # a renewal may have come after the end
            rounds.end(self._context.store, self._queue, self.id)
