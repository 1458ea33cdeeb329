"""Stations with a watermark, whose processes are killed: they make what a batch computation makes, once each."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stanchion import Stanchion
from tests.spark import killing
from tests.spark.killed_windows import WORK, Rides, run
from tests.spark.places import opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(3600)]

ROOT = Path(__file__).parents[2]
TRIES = 8
STEPS = ["after publish", "after latest", "after take", "before publish", "after parts", "after publish"]
SOME = ["after publish", "before publish", "after latest"]

DRIVER_STEPS = ["after publish", "before logged", "before publish", "after publish"]
"""After `publish` the store has the batch, and Spark's log lacks it; at `logged` both have it."""


def die_at(spark: "SparkSession", rides: Rides, folder: Path, steps: list[str]) -> None:
    """Let Python processes die at these steps, push more between them, and see the pipeline to its end."""
    killing.register(spark)
    for step in steps:
        killing.kill_at(folder, step)
        while not (folder / "done").exists():
            rides.push()
            run(spark, rides.etl, folder)
        rides.push_late()
    rides.push_last()
    run(spark, rides.etl, folder)
    rides.check(spark)


@pytest.mark.parametrize("query", WORK)
def test_python_processes_die_at_each_step(spark: "SparkSession", app: Stanchion, tmp_path: Path, query: str) -> None:
    die_at(spark, Rides(app, tmp_path, query), tmp_path, STEPS)


@pytest.mark.parametrize("url", ["pg_url", "mariadb_url"])
def test_on_servers(spark: "SparkSession", request: pytest.FixtureRequest, tmp_path: Path, url: str) -> None:
    with opened(request.getfixturevalue(url)) as app:
        die_at(spark, Rides(app, tmp_path, "sums"), tmp_path, SOME)


def drive(app: Stanchion, folder: Path) -> bool:
    """Run a driver of its own; return whether it came to its end."""
    command = [sys.executable, "-m", "tests.spark.killed_windows", app.url, str(folder)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=env, stderr=subprocess.DEVNULL, timeout=850, check=False)
    return done.returncode == 0


@pytest.mark.parametrize(("url", "steps"), [("sqlite", 4), ("pg_url", 2), ("mariadb_url", 2)])
def test_all_of_a_driver_is_killed(
    spark: "SparkSession", request: pytest.FixtureRequest, tmp_path: Path, url: str, steps: int
) -> None:
    """Java and Python at once; the next driver has the same checkpoint."""
    address = f"sqlite:///{tmp_path / 'jobs.db'}" if url == "sqlite" else request.getfixturevalue(url)
    with opened(address) as app:
        rides = Rides(app, tmp_path, "sums")
        for step in DRIVER_STEPS[:steps]:
            killing.kill_at(tmp_path, step)
            for _ in range(TRIES):
                rides.push()
                assert not drive(app, tmp_path), step
                if (tmp_path / "done").exists():  # else Spark gave up by itself, on a busy machine
                    break
            assert (tmp_path / "done").exists(), step
            rides.push_late()
        rides.push_last()
        killing.register(spark)
        run(spark, rides.etl, tmp_path)
        rides.check(spark)
