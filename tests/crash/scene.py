"""One store, the processes that work on it, and the journals they leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobRow, JobState, NewJob
from stanchion.stores.records.queues import Sizes
from stanchion.stores.registry import open_store
from stanchion_conformance.harness import counts_of, find_jobs, sizes_of
from tests.crash.checker import Trial, broken_rules
from tests.crash.journal import Event, Journal, What, history
from tests.crash.producer import QUEUE, Pushing, new_batch, settings
from tests.crash.recording import recorded

T = TypeVar("T")
Process = subprocess.Popen[bytes]

PYTHONPATH = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
STANCHION = [sys.executable, "-c", "from stanchion.ops.cli import main; main()"]
WORKER = [*STANCHION, "worker", "tests.crash.jobs:app"]
MOST_ROWS = 100_000
TIMEOUT_SECONDS = 180.0
"""Seconds that nothing takes on the slowest machine, if it comes at all."""


def until(reached: Callable[[], T], seconds: float, what: str) -> T:
    """Return the first true answer; AssertionError when there is none in time."""
    deadline = time.monotonic() + seconds
    while not (answer := reached()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.05)
    return answer


class Scene:
    """Starts processes on the store at `url`, and judges what became of its jobs."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        self._folder, self._journals = folder, folder / "journals"
        self._journals.mkdir()
        self._started: list[Process] = []
        self._plain = open_store(url)
        self._plain.setup()
        self.store: Store = recorded(self._plain, Journal(self._journals))

    # -- processes

    def worker(
        self, *flags: str, url: str | None = None, fate: str = "", threads: int = 4, heartbeat: float = 0.5
    ) -> Process:
        """Start `stanchion worker`; `url` is its own way to the store, `fate` that of doom.py."""
        given = ["--threads", str(threads), "--heartbeat", f"{heartbeat}s", *flags]
        return self._start([*WORKER, *given], url, fate)

    def producer(self, pushing: Pushing, url: str | None = None, fate: str = "") -> Process:
        """Start a producer."""
        return self._start([sys.executable, "-m", "tests.crash.producer", settings(pushing)], url, fate)

    def stanchion(self, *arguments: str, fate: str = "") -> Process:
        """Start another command than a worker."""
        return self._start([*STANCHION, *arguments], None, fate)

    def _start(self, command: Sequence[str], url: str | None, fate: str) -> Process:
        environment = {
            **os.environ,
            "STANCHION_CALL_SECONDS": "10",  # shorter than the outages
            "PYTHONPATH": PYTHONPATH,
            "STANCHION_URL": url or self.url,
            "CRASH_JOURNAL": str(self._journals),
            "CRASH_FATE": fate,
        }
        with (self._folder / "log").open("ab") as log:
            self._started.append(subprocess.Popen(command, cwd=self._folder, env=environment, stdout=log, stderr=log))
        return self._started[-1]

    def kill(self, process: Process) -> None:
        """Kill a process and wait for its end."""
        process.kill()
        process.wait(TIMEOUT_SECONDS)

    def end(self, *processes: Process, seconds: float = TIMEOUT_SECONDS) -> None:
        """Send SIGTERM and wait; all processes must end well."""
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            assert process.wait(seconds) == 0, self.log

    def close(self) -> None:
        """Kill what still runs, and close the store."""
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                self.kill(process)
        self._plain.close()

    # -- jobs

    def push(self, count: int, seconds: float = 0.0, *, size: int = 500, **fields: Any) -> list[str]:
        """Push jobs that run for so long, in batches; return their ids."""
        batches = [new_batch(min(size, count - done), seconds, **fields) for done in range(0, count, size)]
        return [pushed.id for batch in batches for pushed in self.store.push(batch)]

    def push_fatal(self) -> str:
        """Push a job that kills its process, three times at most; return its id."""
        return self.store.push([NewJob(new_id(), QUEUE, '{"args":[]}', "fatal", max_attempts=3)])[0].id

    def delay(self) -> float:
        """Push one job; return the seconds until a worker has begun it."""
        began = time.monotonic()
        job = self.push(1)[0]

        def begun() -> list[Event]:
            return [event for event in self.events("started") if event.job == job]

        return self.wait(begun, TIMEOUT_SECONDS, "the job to begin")[0].at - began

    @property
    def sizes(self) -> Sizes:
        """How many jobs are live."""
        return sizes_of(self.store, QUEUE)

    @property
    def committed(self) -> int:
        """How many jobs are committed."""
        return counts_of(self.store, QUEUE).committed

    def drained(self) -> None:
        """Wait until no job is live."""
        self.wait(lambda: self.sizes.total == 0, TIMEOUT_SECONDS, "no live jobs")

    def advances(self, by: int, what: str) -> None:
        """Wait until so many more jobs are committed."""
        before = self.committed
        self.wait(lambda: self.committed >= before + by, TIMEOUT_SECONDS, f"{by} more commits {what}")

    # -- what happened

    def events(self, *kinds: What, of: Process | None = None) -> list[Event]:
        """Return the events of these kinds so far, of all processes or one."""
        return history(self._journals, *kinds, pid=of.pid if of else None)

    def seen(self, what: What, of: Process, count: int = 1) -> list[Event]:
        """Wait until a process has written down so many events of a kind; return them."""

        def written() -> list[Event]:
            events = self.events(what, of=of)
            return events if len(events) >= count else []

        return self.wait(written, TIMEOUT_SECONDS, f"{count} times {what!r} of {of.pid}")

    def row(self, job: str) -> JobRow:
        """Return a job as it is stored."""
        return self._plain.fetch([job])[job]

    def trial(self, *, doomed: Sequence[str] = (), drained: bool = True) -> Trial:
        """Return all that happened, and what the store holds now."""
        rows = find_jobs(self._plain, queue=QUEUE, states=tuple(JobState), limit=MOST_ROWS)
        counts = counts_of(self._plain, QUEUE)
        return Trial(history(self._journals), rows, counts, frozenset(doomed), drained)

    def verify(self, *, doomed: Sequence[str] = (), drained: bool = True) -> None:
        """Fail with every rule that the history breaks."""
        broken = broken_rules(self.trial(doomed=doomed, drained=drained))
        assert not broken, "\n".join([f"{len(broken)} rules broken", *broken[:20], self.log])

    def wait(self, reached: Callable[[], T], seconds: float, what: str) -> T:
        """Do as `until`, and show the log when the time runs out."""
        try:
            return until(reached, seconds, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log}") from None

    @property
    def log(self) -> str:
        """The end of what the processes logged."""
        return (self._folder / "log").read_text(errors="replace")[-4000:]
