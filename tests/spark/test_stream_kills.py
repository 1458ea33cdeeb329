"""A stream whose processes are killed, at any step: every input and every output is there exactly once."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stanchion import Stanchion
from tests.conftest import NewDatabase
from tests.spark import killing
from tests.spark.supervision import supervised

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

BATCH = 20
TRIES = 8
ROOT = Path(__file__).parents[2]
BOTH = ["after open", "before latest", "before claim", "before number", "after latest", "before parts", "after parts"]
BOTH += ["before begin", "after begin", "after rows", "before take", "after take"]
STEPS = {
    "append": [*BOTH, "before publish", "after publish"],
    # Up to the sink it is all the same.
    "move": ["after begin", "before take", "before settle", "after settle", "before drop", "before acknowledge"],
}
STEPS["move"] += ["after acknowledge"]
ZOMBIE = 8
"""Seconds for which what was not killed stands still, and then goes on."""


@pytest.fixture
def pg_app(new_pg_database: NewDatabase) -> Iterator[Stanchion]:
    with closing(Stanchion(new_pg_database())) as app:
        app.setup()
        yield app


@pytest.fixture
def sqlite_app(tmp_path: Path) -> Iterator[Stanchion]:
    with closing(Stanchion(f"sqlite:///{tmp_path / 'jobs.db'}")) as app:
        yield app


def fill(app: Stanchion, count: int) -> None:
    app.queue("raw").push_many(list(range(count)))


def until_done(folder: Path, run: Callable[[], Any]) -> None:
    """Run until the step was come by, in which all dies; on a busy machine Spark may give up before."""
    for _ in range(TRIES):
        with suppress(Exception):  # whatever Spark makes of it
            supervised(run)
        if (folder / "done").exists():
            return
    raise AssertionError(f"no process came by {(folder / 'at').read_text()}")


def to_the_end(run: Callable[[], Any]) -> None:
    """Run to the end, again where Spark gave up by itself."""
    for left in reversed(range(TRIES)):
        try:
            supervised(run)
        except Exception:
            if not left:
                raise
        else:
            return


def check(app: Stanchion, count: int) -> None:
    """Every input is gone, every output there once."""
    raw, clean = app.queue("raw"), app.queue("clean")
    assert raw.size().total == 0
    found: list[int] = []
    while jobs := clean.reserve(500):
        found += [job.payload for job in jobs]
    assert sorted(found) == list(range(count))
    counts = raw.counts()
    assert counts.committed + counts.moved == count


@pytest.mark.nightly
@pytest.mark.parametrize("mode", ["append", "move"])
def test_python_processes_die_at_each_step(
    spark: "SparkSession", sqlite_app: Stanchion, tmp_path: Path, mode: str
) -> None:
    """Java lives on here, and starts the query again."""
    killing.register(spark)
    pushed = 0

    def run() -> None:
        nonlocal pushed
        if sqlite_app.queue("raw").size().ready < 2 * BATCH:  # a step is come by only where there is work
            sqlite_app.queue("raw").push_many(list(range(pushed, pushed + 2 * BATCH)))
            pushed += 2 * BATCH
        killing.run(spark, sqlite_app.url, tmp_path, mode, BATCH)

    for step in STEPS[mode]:
        killing.kill_at(tmp_path, step)
        until_done(tmp_path, run)
    to_the_end(lambda: killing.run(spark, sqlite_app.url, tmp_path, mode, BATCH))
    check(sqlite_app, pushed)


@pytest.mark.nightly
@pytest.mark.parametrize("staged", [False, True])
def test_processes_die_around_prepared_jobs(
    spark: "SparkSession", pg_app: Stanchion, tmp_path: Path, *, staged: bool
) -> None:
    """Plain jobs travel in messages, or many in a row of the stage; `copy` and `value` are in the transaction."""
    killing.register(spark)
    if staged:
        (tmp_path / killing.STAGED).touch()
    pushed = 0

    def run() -> None:
        nonlocal pushed
        if pg_app.queue("raw").size().ready < 2 * BATCH:
            pg_app.queue("raw").push_many([{"n": pushed + n} for n in range(2 * BATCH)])
            pushed += 2 * BATCH
        killing.run(spark, pg_app.url, tmp_path, "append", BATCH)

    for step in ("before plain", "after plain", "before copy", "after copy", "after value", "after publish"):
        killing.kill_at(tmp_path, step)
        until_done(tmp_path, run)
    to_the_end(lambda: killing.run(spark, pg_app.url, tmp_path, "append", BATCH))
    assert pg_app.queue("raw").size().total == 0
    found = sorted(job.payload["n"] for job in pg_app.queue("clean").find(limit=10_000))
    assert found == list(range(pushed))
    assert pg_app.queue("clean").counts().pushed == pushed


@pytest.mark.nightly
@pytest.mark.parametrize("other_app", ["redis_url", "mongo_url"], indirect=True)
def test_stores_without_batches(spark: "SparkSession", other_app: Stanchion, tmp_path: Path) -> None:
    killing.register(spark)
    fill(other_app, 8 * BATCH)
    for step in ("after latest", "after settle", "before drop", "after acknowledge"):
        killing.kill_at(tmp_path, step)
        until_done(tmp_path, lambda: killing.run(spark, other_app.url, tmp_path, "move", BATCH))
    to_the_end(lambda: killing.run(spark, other_app.url, tmp_path, "move", BATCH))
    check(other_app, 8 * BATCH)


def drive(app: Stanchion, folder: Path, mode: str, program: str = "tests.spark.killing", *more: str) -> None:
    """Run a driver of its own; an error unless it came to its end."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", program, app.url, str(folder), mode, *more]
    subprocess.run(command, cwd=ROOT, env=env, stderr=subprocess.DEVNULL, timeout=850, check=True)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("mode", "steps"),
    [
        ("append", ["after publish", "before publish"]),
        ("move", ["after settle", "after acknowledge"]),
    ],
)
def test_all_of_a_driver_is_killed(
    spark: "SparkSession", pg_app: Stanchion, tmp_path: Path, mode: str, steps: list[str]
) -> None:
    """Java and Python at once. With `zombie` the process that is in the step goes on with it some seconds later."""
    fill(pg_app, 4 * BATCH)
    harmless_from = 0.0
    for n, step in enumerate(steps):
        killing.kill_at(tmp_path, step, zombie=ZOMBIE if n % 2 else 0)
        until_done(tmp_path, lambda: drive(pg_app, tmp_path, mode))
        if n % 2:
            harmless_from = time.monotonic() + ZOMBIE + 2
    killing.register(spark)
    to_the_end(lambda: killing.run(spark, pg_app.url, tmp_path, mode))
    time.sleep(max(0.0, harmless_from - time.monotonic()))  # for the zombies to have done their worst
    check(pg_app, 4 * BATCH)


@pytest.mark.nightly
@pytest.mark.parametrize("mode", ["append", "move"])
def test_random_kills(spark: "SparkSession", sqlite_app: Stanchion, tmp_path: Path, mode: str) -> None:
    killing.register(spark)
    choose, pushed = random.Random(mode), 0
    for _ in range(15):
        sqlite_app.queue("raw").push_many(list(range(pushed, pushed + 30)))
        pushed += 30
        killing.kill_at(tmp_path, f"{choose.choice(['before', 'after'])} {choose.choice(list(killing.STEPS))}")
        with suppress(Exception):
            supervised(lambda: killing.run(spark, sqlite_app.url, tmp_path, mode))
    (tmp_path / "at").unlink(missing_ok=True)
    to_the_end(lambda: killing.run(spark, sqlite_app.url, tmp_path, mode))
    check(sqlite_app, pushed)


@pytest.mark.nightly
def test_two_drivers_and_a_lost_checkpoint(spark: "SparkSession", sqlite_app: Stanchion, tmp_path: Path) -> None:
    """One that died in a batch, one without its checkpoint, and the first again, which is refused."""
    from pyspark.errors import StreamingQueryException

    killing.register(spark)
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    fill(sqlite_app, 50)
    killing.kill_at(first, "after take")
    until_done(first, lambda: killing.run(spark, sqlite_app.url, first, "append"))
    to_the_end(lambda: killing.run(spark, sqlite_app.url, second, "append"))
    with pytest.raises(StreamingQueryException, match="older checkpoint"):
        killing.run(spark, sqlite_app.url, first, "append")
    check(sqlite_app, 50)
