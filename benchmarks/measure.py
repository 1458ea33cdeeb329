"""How each quantity is taken: the same clock, the same moments, for every contender."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Thread
from time import monotonic, perf_counter, sleep, time

import psutil  # type: ignore[import-untyped]

from benchmarks.contenders import ConcurrentContender, Contender, Place
from benchmarks.probe import Probe

WARM_UP = 20
"""Jobs before a measurement: connections, prepared statements and caches are then as in a long run."""

EMPTY_POLL = 0.005
TIMEOUT = 180.0
GAPS = (0.020, 0.060)
"""Seconds between two jobs of a latency measurement, drawn evenly."""


class MeasurementFailed(Exception):
    """A contender lost or repeated a job, or did not finish in time."""


def enqueue_seconds(contender: Contender, enqueue: Callable[[int, int], None], count: int) -> float:
    """Return the seconds that enqueueing takes, from an open connection to the last commit."""
    contender.open()
    try:
        contender.enqueue_one(0, WARM_UP)
        began = perf_counter()
        enqueue(WARM_UP, count)
        return perf_counter() - began
    finally:
        contender.close()


def drain(reference: str, place: Place, contender: Contender, directory: Path, jobs: int) -> tuple[float, int]:
    """Return the seconds that one worker process takes for all jobs, numbered from 0, and its memory in bytes.

    The time runs from the start of the first handler, so without interpreter and connections, to the
    moment when the store has no unfinished job. The store is asked only after the last handler has
    started, so that asking disturbs nothing.
    """
    probe = Probe.create(directory / "probe", jobs)
    with _worker(reference, place, probe) as process:
        _await(lambda: probe.executed() == jobs, process, f"{contender.name}: not all jobs were executed")
        _await(lambda: contender.unfinished() == 0, process, f"{contender.name}: not all jobs were finished")
        ended = time()
        memory = _memory(process.pid)
    if probe.repeated():
        raise MeasurementFailed(f"{contender.name}: {probe.repeated()} jobs were executed more than once")
    return ended - probe.first_start(), memory


def latencies(reference: str, place: Place, contender: Contender, directory: Path, samples: int) -> list[float]:
    """Return the seconds from just before each enqueue to the start of its handler, for an idle worker."""
    jobs = WARM_UP + samples
    probe = Probe.create(directory / "probe", jobs)
    gaps = random.Random(jobs)
    sent: list[float] = []
    contender.open()
    try:
        with _worker(reference, place, probe) as process:
            for job in range(jobs):
                sent.append(time())
                contender.enqueue_one(job, 1)
                if job < WARM_UP:
                    _await(lambda: probe.executed() == len(sent), process, f"{contender.name}: the warm-up stalled")
                sleep(gaps.uniform(*GAPS))
            _await(lambda: probe.executed() == jobs, process, f"{contender.name}: not all jobs were executed")
    finally:
        contender.close()
    return [probe.starts[job] - sent[job] for job in range(WARM_UP, jobs)]


def committers_seconds(contender: ConcurrentContender, threads: int, each: int, wakeup: bool) -> float:
    """Return the seconds that so many threads take, each for `each` commits after one to warm up."""
    barrier = Barrier(threads + 1, timeout=TIMEOUT)
    failures: list[BaseException] = []

    def run(first: int, push: Callable[[int], object]) -> None:
        try:
            push(first)
            barrier.wait()
            for job in range(first + 1, first + 1 + each):
                push(job)
        except BaseException as error:
            failures.append(error)
            barrier.abort()

    with contender.committers(threads, wakeup) as pushes:
        crowd = [Thread(target=run, args=(number * (each + 1), push)) for number, push in enumerate(pushes)]
        for thread in crowd:
            thread.start()
        with suppress(BrokenBarrierError):  # the thread that broke it has recorded why
            barrier.wait()
        began = perf_counter()
        for thread in crowd:
            thread.join()
        seconds = perf_counter() - began
    if failures:
        raise MeasurementFailed(f"{contender.name}: {failures[0]!r}")
    return seconds


@contextmanager
def _worker(reference: str, place: Place, probe: Probe) -> Iterator[subprocess.Popen[bytes]]:
    """Run the contender's worker as a process of its own; told to terminate at the end."""
    command = [sys.executable, "-m", "benchmarks.worker", reference]
    arguments = [place.to_json(), str(probe.path), str(probe.capacity)]
    process = subprocess.Popen([*command, *arguments], cwd=Path(__file__).parent.parent)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(reached: Callable[[], bool], process: subprocess.Popen[bytes], failure: str) -> None:
    deadline = monotonic() + TIMEOUT
    while not reached():
        if process.poll() is not None:
            raise MeasurementFailed(f"{failure}: the worker ended with code {process.returncode}")
        if monotonic() > deadline:
            raise MeasurementFailed(f"{failure} within {TIMEOUT:g} s")
        sleep(EMPTY_POLL)


def _memory(pid: int) -> int:
    """Return the resident memory of a process and its children, in bytes."""
    process = psutil.Process(pid)
    return sum(int(each.memory_info().rss) for each in [process, *process.children(recursive=True)])
