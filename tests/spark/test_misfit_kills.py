"""A stream that buries misfits, and whose processes are killed: each job ends once, and the brake judges as before."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from stanchion import Stanchion
from tests.spark import killed_misfits, killing
from tests.spark.killed_misfits import MISFITS, Numbers
from tests.spark.places import opened
from tests.spark.supervision import supervised
from tests.spark.test_stream_kills import drive, to_the_end, until_done

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(3600)]

BURYING = ["before bury", "after some", "after bury"]
APPEND = ["after latest", *BURYING, "after begin", "after take", "before publish", "after publish"]
MOVE = [*BURYING, "after rows", "before settle", "after settle", "before drop", "after acknowledge"]


def stops(spark: "SparkSession", app: Stanchion, folder: Path, mode: str) -> None:
    """Run until the brake holds."""
    with pytest.raises(StreamingQueryException, match=f"{MISFITS + 1} of {killed_misfits.BATCH} jobs"):
        supervised(lambda: killed_misfits.run(spark, app.url, folder, mode))


@pytest.mark.parametrize(
    ("url", "mode"), [("sqlite", "append"), ("pg_url", "append"), ("redis_url", "move"), ("mongo_url", "move")]
)
def test_python_processes_die_at_each_step(
    spark: "SparkSession", request: pytest.FixtureRequest, tmp_path: Path, url: str, mode: str
) -> None:
    address = f"sqlite:///{tmp_path / 'jobs.db'}" if url == "sqlite" else request.getfixturevalue(url)
    killing.register(spark)
    with opened(address) as app:
        numbers = Numbers(app)

        def run() -> None:
            while app.queue("raw").size().ready < 2 * killed_misfits.BATCH:
                numbers.push()
            killed_misfits.run(spark, app.url, tmp_path, mode)

        for step in APPEND if mode == "append" else MOVE:
            killing.kill_at(tmp_path, step)
            until_done(tmp_path, run)
        to_the_end(lambda: killed_misfits.run(spark, app.url, tmp_path, mode))
        numbers.check()

        buried = len(numbers.misfits)
        numbers.push(MISFITS + 1)
        killing.kill_at(tmp_path, "after parts")
        until_done(tmp_path, lambda: killed_misfits.run(spark, app.url, tmp_path, mode))
        stops(spark, app, tmp_path, mode)
        stops(spark, app, tmp_path, mode)
        numbers.check_buried(buried)
        to_the_end(lambda: killed_misfits.run(spark, app.url, tmp_path, mode, percent=100))
        numbers.check()


@pytest.mark.parametrize(("url", "mode"), [("pg_url", "append"), ("mongo_url", "move")])
def test_all_of_a_driver_is_killed(
    spark: "SparkSession", request: pytest.FixtureRequest, tmp_path: Path, url: str, mode: str
) -> None:
    """Java and Python at once, with some misfits buried, and with all of them."""
    killing.register(spark)
    with opened(request.getfixturevalue(url)) as app:
        numbers = Numbers(app)
        for step in ("after some", "after bury"):
            numbers.push()
            numbers.push()
            killing.kill_at(tmp_path, step)
            until_done(tmp_path, lambda: drive(app, tmp_path, mode, "tests.spark.killed_misfits"))
        to_the_end(lambda: killed_misfits.run(spark, app.url, tmp_path, mode))
        numbers.check()
