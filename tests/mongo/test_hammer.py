"""Many processes on one queue: no job is handed out twice, and none is lost when some of them are killed."""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import JobState
from stanchion_conformance.harness import QUEUE, NewStore, counts_of, find_jobs, new_job
from tests.mongo import hammer

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

PROCESSES = 6
JOBS = 3000


class Hammers:
    """The processes of a test."""

    def __init__(self, url: str, directory: Path, lease: float) -> None:
        self._url, self._directory, self._lease = url, directory, lease
        self.running: list[subprocess.Popen[str]] = []
        self._made = 0

    def start(self, count: int = 1) -> None:
        """Start so many more, which begin at once."""
        new = [self._start() for _ in range(count)]
        for process in new:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in new:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        self.running += new

    def events(self) -> Counter[tuple[str, str]]:
        """Return what they wrote down, as (event, id)."""
        lines = (line for path in self._directory.iterdir() for line in path.read_text().splitlines())
        return Counter((event, job_id) for event, _, job_id in (line.partition(" ") for line in lines))

    def _start(self) -> subprocess.Popen[str]:
        self._made += 1
        journal = self._directory / f"journal-{self._made}"
        command: list[str | Path] = [
            sys.executable,
            "-m",
            hammer.__name__,
            self._url,
            journal,
            str(self._made),
            str(self._lease),
        ]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture
def store(new_store: NewStore) -> Iterator[Store]:
    store = new_store()
    for start in range(0, JOBS, 500):
        store.push([new_job(priority=number % 3) for number in range(start, start + 500)])
    yield store
    store.drop_queue(QUEUE)


@pytest.mark.parametrize("limits", [{}, {"max_running": 40}], ids=["", "one by one"])
def test_no_job_is_handed_out_twice(store: Store, database: str, tmp_path: Path, limits: dict[str, int]) -> None:
    store.configure(QUEUE, limits)
    hammers = Hammers(database, tmp_path, lease=300)
    hammers.start(PROCESSES)
    assert [process.wait(800) for process in hammers.running] == [0] * PROCESSES
    events = hammers.events()
    assert set(events.values()) == {1}
    assert Counter(event for event, _ in events) == {"claimed": JOBS, "done": JOBS}
    counts = counts_of(store, QUEUE)
    # A claimer that has lost its lock on a slow machine gives back what it got.
    assert (counts.pushed, counts.reserved - counts.rolled_back, counts.committed) == (JOBS, JOBS, JOBS)


def test_none_is_lost_or_done_twice_when_some_are_killed(store: Store, database: str, tmp_path: Path) -> None:
    hammers = Hammers(database, tmp_path, lease=6)
    hammers.start(PROCESSES)
    for _ in range(8):
        time.sleep(0.3)
        hammers.running.pop(0).kill()
        hammers.start()
    assert [process.wait(800) for process in hammers.running] == [0] * PROCESSES
    done = [count for (event, _), count in hammers.events().items() if event == "done"]
    assert set(done) == {1}
    states = Counter(row.state for row in find_jobs(store, queue=QUEUE, limit=2 * JOBS))
    assert states == {JobState.DONE: JOBS}
    counts = counts_of(store, QUEUE)
    assert counts.pushed == JOBS
    assert len(done) <= counts.committed <= JOBS
