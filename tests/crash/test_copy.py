"""Copies that are killed, or meet each other, at any moment; afterwards every job is somewhere, once, as it was."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stanchion.core.ids import new_id
from stanchion.stores.protocol import Store
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.jobs import JobRow, NewJob
from stanchion.stores.records.outcomes import Rollback
from stanchion_conformance.harness import find_jobs, sizes_of
from tests.crash import checker
from tests.crash.copier import REFUSED, Copying, settings
from tests.crash.journal import LOST
from tests.crash.producer import QUEUE
from tests.crash.scene import MOST_ROWS, PYTHONPATH, TIMEOUT_SECONDS, Scene

pytestmark = pytest.mark.slow

RULES = (
    checker.jobs_are_committed_once,
    checker.refusals_hold,
    checker.nothing_starts_after_its_commit,
    checker.reservations_start_once,
    checker.successes_are_reported_once,
)

FATES = [
    {"source_fate": "after configure 1"},
    {"destination_fate": "after configure 1"},
    {"source_fate": "after select 2"},
    {"destination_fate": "before adopt 2"},
    {"destination_fate": "after adopt 2"},
    {"source_fate": "before delete 3"},
    {"source_fate": "after delete 3"},
    {"destination_fate": "before configure 2"},
    {"destination_fate": "after configure 2"},
    {"destination_fate": "before leave 1"},
]
"""Those of the second call to configure the destination kill the copy at its end: when it resumes the queue."""


class Two:
    """Two stores, with a worker's scene on each."""

    def __init__(self, folder: Path, sqlite: str, postgresql: str) -> None:
        for name in ("sqlite", "postgresql"):
            (folder / name).mkdir()
        self.sqlite = Scene(folder / "sqlite", sqlite)
        self.postgresql = Scene(folder / "postgresql", postgresql)
        self.copies: list[subprocess.Popen[bytes]] = []

    def copy(self, source: Scene, destination: Scene, **options: object) -> subprocess.Popen[bytes]:
        """Start to copy."""
        copying = replace(Copying(source.url, destination.url), **options)  # type: ignore[arg-type]
        command = [sys.executable, "-m", "tests.crash.copier", settings(copying)]
        self.copies.append(subprocess.Popen(command, env={**os.environ, "PYTHONPATH": PYTHONPATH}))
        return self.copies[-1]

    def ended(self, source: Scene, destination: Scene, **options: object) -> int:
        """Copy; return the exit code. On a slow machine a copy may take itself for late: then there is another one."""
        while (code := self.copy(source, destination, **options).wait(TIMEOUT_SECONDS)) == REFUSED:
            pass
        return code

    def close(self) -> None:
        """Kill what still runs."""
        for process in self.copies:
            process.kill()
            process.wait(TIMEOUT_SECONDS)
        self.sqlite.close()
        self.postgresql.close()


@pytest.fixture
def two(tmp_path: Path, pg_url: str) -> Iterator[Two]:
    two = Two(tmp_path, f"sqlite:///{tmp_path}/jobs.db", pg_url)
    yield two
    two.close()


@pytest.fixture(params=["to postgresql", "to sqlite"])
def scenes(request: pytest.FixtureRequest, two: Two) -> tuple[Scene, Scene]:
    """The source and the destination."""
    there = (two.sqlite, two.postgresql)
    return there if request.param == "to postgresql" else (there[1], there[0])


def fill(store: Store, count: int, seconds: float = 0.0) -> None:
    """Push jobs that differ in all that they can differ in, to a queue that keeps no history."""
    store.configure(QUEUE, {"history_ttl": 0.0})
    payload = json.dumps({"args": [seconds]})
    jobs = [
        NewJob(
            new_id(),
            QUEUE,
            payload,
            "work",
            priority=number % 7 - 3,
            headers=json.dumps({"n": number}) if number % 3 else None,
            tenant=f"tenant-{number % 11}",
            key=f"key-{number}" if number % 5 == 0 else None,
            timeout=number + 0.5 if number % 4 == 0 else None,
        )
        for number in range(count)
    ]
    for start in range(0, count, 1000):
        store.push(jobs[start : start + 1000])
    rows = store.claim(Claim(QUEUE, 50, "token")).rows
    store.settle([Rollback(row.lease, 0.0, error="ValueError: é") for row in rows])


def rows(scene: Scene) -> dict[str, JobRow]:
    return {row.id: row for row in find_jobs(scene.store, queue=QUEUE, limit=MOST_ROWS)}


def assert_same(jobs: dict[str, JobRow], *, source: Scene, destination: Scene) -> None:
    """What is in both is the same in both, and all of it is what was there at first."""
    here, there = rows(source), rows(destination)
    assert here | there == jobs
    assert there | here == jobs


def assert_moved(jobs: dict[str, JobRow], *, source: Scene, destination: Scene) -> None:
    """All is in the destination, and only there."""
    assert rows(destination) == jobs
    assert rows(source) == {}
    assert sizes_of(source.store, QUEUE).total == 0


def assert_each_ran_once(jobs: set[str], *scenes: Scene) -> None:
    """Every job was begun once and done once, in one store or the other."""
    events = [event for scene in scenes for event in scene.trial().events]
    assert Counter(event.job for event in events if event.what == "started") == Counter(jobs)
    assert {event.job for event in events if event.what == "told commit" and event.detail != LOST} == jobs
    for scene in scenes:
        assert scene.sizes.total == 0
        assert [broken for rule in RULES for broken in rule(scene.trial())] == []


def kill_under_way(copy: subprocess.Popen[bytes], destination: Scene) -> None:
    """Kill a copy some time after it has moved something, if there is anything to move."""
    before = destination.sizes.total
    destination.wait(lambda: destination.sizes.total > before or copy.poll() is not None, 120, "the copy to get on")
    time.sleep(random.uniform(0, 0.1))
    copy.kill()
    copy.wait(TIMEOUT_SECONDS)


@pytest.mark.nightly
def test_killed_around_each_of_its_steps(two: Two, scenes: tuple[Scene, Scene]) -> None:
    source, destination = scenes
    fill(source.store, 4000)
    jobs = rows(source)
    for fate in FATES:
        assert two.ended(source, destination, **fate) == -9, fate
        assert_same(jobs, source=source, destination=destination)
    assert two.ended(source, destination) == 0
    assert_moved(jobs, source=source, destination=destination)
    worker = destination.worker()
    destination.drained()
    destination.end(worker)
    assert_each_ran_once(set(jobs), source, destination)


@pytest.mark.nightly
def test_killed_at_any_moment_there_and_back(two: Two, scenes: tuple[Scene, Scene]) -> None:
    source, destination = scenes
    fill(source.store, 8000)
    jobs = rows(source)
    for _ in range(2):
        for _ in range(5):
            kill_under_way(two.copy(source, destination), destination)
            assert_same(jobs, source=source, destination=destination)
        assert two.ended(source, destination) == 0
        assert_moved(jobs, source=source, destination=destination)
        source, destination = destination, source
    worker = source.worker()  # it is the destination of the last copy
    source.drained()
    source.end(worker)
    assert_each_ran_once(set(jobs), source, destination)


@pytest.mark.nightly
def test_several_at_once_some_of_them_killed(two: Two, scenes: tuple[Scene, Scene]) -> None:
    source, destination = scenes
    fill(source.store, 6000)
    jobs = rows(source)
    worker = destination.worker()
    rivals = [
        two.copy(source, destination),
        two.copy(source, destination, destination_fate=f"after adopt {random.randint(1, 4)}"),
        two.copy(source, destination, source_fate=f"before delete {random.randint(1, 4)}"),
        two.copy(source, destination),
    ]
    assert {process.wait(TIMEOUT_SECONDS) for process in rivals} <= {0, REFUSED, -9}
    two.ended(source, destination)
    destination.drained()
    destination.end(worker)
    assert rows(source) == {}
    assert_each_ran_once(set(jobs), source, destination)


@pytest.mark.nightly
def test_while_workers_take_jobs_from_both(two: Two, scenes: tuple[Scene, Scene]) -> None:
    source, destination = scenes
    fill(source.store, 3000, 0.01)
    jobs = set(rows(source))
    # Those of the source must not be done before the copies have begun, however slow the machine.
    workers = [store.worker(threads=1, heartbeat=10.0) for store in (source, source, destination)]
    for worker in workers[:2]:
        source.seen("started", worker, 20)
    timing = {"settle": 2.0, "wait": 30.0}
    assert two.ended(source, destination, **timing, destination_fate="after adopt 3") == -9
    assert two.ended(source, destination, **timing) == 0
    assert source.sizes.total == 0
    destination.drained()
    source.end(*workers[:2])
    destination.end(workers[2])
    assert_each_ran_once(jobs, source, destination)
    assert min(source.committed, destination.committed) > 0
