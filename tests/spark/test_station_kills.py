"""The stations of a pipeline on Spark, whose processes are killed at any step: each item comes to its end once."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stanchion import Stanchion
from tests.spark import killed_stations, killing
from tests.spark.killed_stations import found, pipeline, push, wanted
from tests.spark.places import opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

ROOT = Path(__file__).parents[2]
TRIES = 8

WORKER_STEPS = ["before hand over", "before outcome at raw", "before outcomes", "after outcomes"]
STEPS = [
    *WORKER_STEPS,
    "before number",
    "after parts",
    "after part at priced",
    "after made",
    "before outcome at priced",
]
# The first is in burying what does not fit, and the last in moving what does.
STEPS += ["after portion at priced"] * 3
# All that there is has been claimed, and not numbered.
SOME = ["after outcomes", "before number", "after made", "after portion at priced", "after portion at priced"]

SOME_OF_CHUNKS = ["after outcomes", "after part at priced", "after made", "before portion at priced"]
SOME_OF_CHUNKS += ["after portion at priced"] * 3
"""A portion is a single chunk."""


def run_until_all_died(
    app: Stanchion, folder: Path, run: Callable[[], None], numbers: int, size: int | None = None
) -> None:
    """Run until all steps were come by; then judge. `size`: of chunks."""
    etl = pipeline(app, folder)
    for batch in range(TRIES):
        push(etl, range(batch * numbers, (batch + 1) * numbers), size)
        run()
        if not (folder / "at").exists():
            assert found(etl) == wanted(range((batch + 1) * numbers))
            return
    raise AssertionError(f"no process came by {(folder / 'at').read_text()}")


def test_python_processes_die_at_each_step(spark: "SparkSession", app: Stanchion, tmp_path: Path) -> None:
    """Java and the driver live on, and start the queries again."""
    killing.kill_at(tmp_path, *STEPS)
    run_until_all_died(app, tmp_path, lambda: killed_stations.run(spark, app.url, tmp_path), 40)
    assert (tmp_path / "done").exists()


@pytest.mark.parametrize("url", ["sqlite", "pg_url", "redis_url", "mongo_url"])
def test_chunks(spark: "SparkSession", request: pytest.FixtureRequest, tmp_path: Path, url: str) -> None:
    """Those of raw are divided for priced, and those of priced end by the rows of their items."""
    with opened(f"sqlite:///{tmp_path / 'jobs.db'}" if url == "sqlite" else request.getfixturevalue(url)) as app:
        killing.kill_at(tmp_path, *SOME_OF_CHUNKS)
        run_until_all_died(app, tmp_path, lambda: killed_stations.run(spark, app.url, tmp_path), 40, size=7)


@pytest.mark.parametrize("size", [None, 7])
@pytest.mark.parametrize("url", ["sqlite", "pg_url", "mariadb_url", "redis_url", "mongo_url"])
def test_two_stations_in_one_plan(
    spark: "SparkSession", request: pytest.FixtureRequest, tmp_path: Path, url: str, size: int | None
) -> None:
    """An item that has passed both stands at the first one until both are stored."""
    (tmp_path / killed_stations.TOGETHER).touch()
    with opened(f"sqlite:///{tmp_path / 'jobs.db'}" if url == "sqlite" else request.getfixturevalue(url)) as app:
        killing.kill_at(tmp_path, "after part at priced", "after made", *["before portion", "after portion"] * 3)
        run_until_all_died(app, tmp_path, lambda: killed_stations.run(spark, app.url, tmp_path), 40, size=size)


@pytest.mark.parametrize("url", ["pg_url", "redis_url", "mongo_url"])
def test_on_servers(spark: "SparkSession", request: pytest.FixtureRequest, tmp_path: Path, url: str) -> None:
    with opened(request.getfixturevalue(url)) as app:
        killing.kill_at(tmp_path, *SOME)
        run_until_all_died(app, tmp_path, lambda: killed_stations.run(spark, app.url, tmp_path), 20)


def drive(app: Stanchion, folder: Path) -> bool:
    """Run a driver of its own; return whether it came to its end."""
    command = [sys.executable, "-m", "tests.spark.killed_stations", app.url, str(folder)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, stderr=subprocess.DEVNULL, timeout=850, check=False)
    return done.returncode == 0


def test_all_of_a_driver_is_killed(spark: "SparkSession", pg_app: Stanchion, tmp_path: Path) -> None:
    """Java and Python at once: in a task, and as a batch ends."""
    etl, numbers = pipeline(pg_app, tmp_path), range(40)
    push(etl, numbers)
    for step in ("before outcomes", "after acknowledge"):
        killing.kill_at(tmp_path, step)
        for _ in range(TRIES):
            assert not drive(pg_app, tmp_path), step
            if not (tmp_path / "at").exists():  # else Spark gave up by itself, on a busy machine
                break
        assert not (tmp_path / "at").exists(), step
    killed_stations.run(spark, pg_app.url, tmp_path)
    assert found(etl) == wanted(numbers)
