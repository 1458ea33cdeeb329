"""A bulk write whose processes are killed, and which is repeated: all rows once, and none before they are published."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stanchion import Stanchion
from tests.spark import killed_writes, killing
from tests.spark.killed_writes import FORMS, ROWS
from tests.spark.places import opened
from tests.spark.test_stream_kills import drive, to_the_end, until_done

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(3600)]

UNSEEN = ["before task", "after task", "before commit"]
"""Steps at which nothing is published: those of a task, and the driver's before its first."""

TRANSACTION = [*UNSEEN, "before value", "after value"]
PUBLISHING = ["after publication", "before piece", "after piece"]
"""Steps of stores that publish in many calls."""

TASK = {"plain": "plain", "keyed": "rows of a task", "chunks": "rows of a task"}
STORES = ["sqlite", "pg_url", "redis_url", "mongo_url"]


def told(step: str, form: str) -> str:
    """Return a step as its process knows it."""
    return step.replace("task", TASK[form])


def seen(app: Stanchion, name: str) -> list[int]:
    """Return the numbers of the rows that are in a queue, in order."""
    jobs = app.queue(name).find(limit=10 * ROWS)
    return sorted(item["n"] for job in jobs for item in (job.payload if job.items else [job.payload]))


def check_all_once(app: Stanchion, name: str) -> None:
    assert seen(app, name) == list(range(ROWS))
    assert app.queue(name).counts().pushed == ROWS


def recover(app: Stanchion) -> None:
    """Do what any worker does once the process is presumed dead."""
    app.store.clock_offset += 10
    app.store.recover(limit=0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("url", STORES)
def test_python_processes_die_at_each_step(
    spark: "SparkSession", request: pytest.FixtureRequest, tmp_path: Path, url: str, form: str
) -> None:
    """Java lives on, and gives the write up."""
    address = f"sqlite:///{tmp_path / 'jobs.db'}" if url == "sqlite" else request.getfixturevalue(url)
    killing.register(spark)
    (tmp_path / killing.STAGED).touch()
    with opened(address) as app:
        unseen = TRANSACTION if app.store.capabilities.atomic_batches else [*UNSEEN, "before publication"]
        published = [] if app.store.capabilities.atomic_batches else PUBLISHING
        for step in [*unseen, *published, "after commit"]:
            name = step.replace(" ", "-")
            killing.kill_at(tmp_path, told(step, form))
            until_done(tmp_path, lambda name=name: killed_writes.run(spark, app.url, tmp_path, form, name))  # type: ignore[misc]
            if step in unseen:
                assert seen(app, name) == [], step
            if step == "before piece":  # of the others, the repeat completes what has begun
                recover(app)
                check_all_once(app, name)
            to_the_end(lambda name=name: killed_writes.run(spark, app.url, tmp_path, form, name))  # type: ignore[misc]
            check_all_once(app, name)


@pytest.mark.parametrize(("url", "form"), [("pg_url", "plain"), ("redis_url", "keyed"), ("mongo_url", "chunks")])
def test_all_of_a_driver_is_killed(
    spark: "SparkSession", request: pytest.FixtureRequest, tmp_path: Path, url: str, form: str
) -> None:
    """Java and Python at once: nothing is given up, and a repeat of the write goes on with it."""
    killing.register(spark)
    (tmp_path / killing.STAGED).touch()
    with opened(request.getfixturevalue(url)) as app:
        atomic = app.store.capabilities.atomic_batches
        for step in ["before commit", "after value" if atomic else "after piece"]:
            name = step.replace(" ", "-")
            killing.kill_at(tmp_path, step)
            until_done(tmp_path, lambda name=name: drive(app, tmp_path, form, "tests.spark.killed_writes", name))  # type: ignore[misc]
            assert len(seen(app, name)) == 0 if step != "after piece" else 0 < len(seen(app, name)) < ROWS
            to_the_end(lambda name=name: killed_writes.run(spark, app.url, tmp_path, form, name))  # type: ignore[misc]
            check_all_once(app, name)
