"""Copies of archived jobs, enqueued."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from stanchion import JobState, Stanchion
from stanchion.context import context_of
from stanchion.errors import InvalidInput
from stanchion.ops.cli import cli
from stanchion.spark import Replay, archive, replay
from stanchion.stores.records.jobs import JobRow
from tests.spark.archive.conftest import finished

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def app(tmp_path: Path) -> Stanchion:
    return Stanchion(f"sqlite:///{tmp_path}/jobs.db")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "archive"


@pytest.fixture
def rows(app: Stanchion, folder: Path) -> list[JobRow]:
    rows = finished(app, 300)
    archive(app, folder)
    return rows


def test_copies_of_those_that_match(spark: "SparkSession", app: Stanchion, folder: Path, rows: list[JobRow]) -> None:
    wanted = [row for row in rows if row.state == "dead" and row.task == "mail"]
    condition = "state = 'dead' AND task = 'mail' AND finished_at < current_timestamp()"
    assert replay(app, folder, condition, dry_run=True, spark=spark) == Replay(len(wanted), False)
    assert app.queue("orders").size().total == 0
    assert replay(app, folder, condition, spark=spark) == Replay(len(wanted), True)
    copies = app.find(state="ready", limit=1000)
    assert Counter(job.origin for job in copies) == Counter(row.id for row in wanted)
    by_id = {row.id: row for row in wanted}
    for job in copies:
        row = by_id[job.origin or ""]
        assert (job.queue, job.task, job.tenant, job.priority) == (row.queue, row.task, row.tenant, row.priority)
        assert context_of(app).codec.encode(job.payload) == row.payload
    in_order = [job.origin for job in sorted(copies, key=lambda job: job.id)]
    assert in_order == [row.id for row in sorted(wanted, key=lambda row: (row.enqueued_at, row.id))]


def test_a_repeat_under_the_same_id_does_nothing(
    spark: "SparkSession", app: Stanchion, folder: Path, rows: list[JobRow]
) -> None:
    dead = sum(row.state == "dead" for row in rows)
    for enqueued in (True, False):
        done = replay(app, folder, "state = 'dead'", to="again", write_id="monday", spark=spark)
        assert done == Replay(dead, enqueued)
    while app.queue("again").pop():
        pass
    app.queue("again").purge_history(0)
    assert not replay(app, folder, "state = 'dead'", to="again", write_id="monday", spark=spark).enqueued
    assert app.queue("again").size().total == 0
    assert replay(app, folder, "state = 'dead'", to="again", write_id="tuesday", spark=spark).enqueued
    assert app.queue("again").size().ready == dead


def test_a_job_that_ended_twice_is_copied_once(spark: "SparkSession", app: Stanchion, folder: Path) -> None:
    queue = app.queue("orders")
    job = queue.push({"n": 1})
    queue.reserve()[0].bury("no money")
    archive(app, folder, older_than=0, keep=True)
    queue.retry(job.id)
    queue.reserve()[0].commit("paid", payload={"n": 2})  # the copy starts from what was pushed
    archive(app, folder, older_than=0)
    assert replay(app, folder, "true", spark=spark) == Replay(1, True)
    (copy,) = app.find(state="ready")
    assert copy.payload == {"n": 1}
    assert replay(app, folder, "true", queue="other", spark=spark) == Replay(0, False)


def test_what_spark_does_not_understand(
    spark: "SparkSession", app: Stanchion, folder: Path, rows: list[JobRow]
) -> None:
    for condition in ("stat = 'dead'", "state = 'dead", "priority"):
        with pytest.raises(InvalidInput, match="Spark can't parse the condition") as caught:
            replay(app, folder, condition, spark=spark)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500
    with pytest.raises(InvalidInput, match="there is no archive"):
        replay(app, folder / "none", "true", spark=spark)
    assert app.find(state=[JobState.READY]) == []
    assert rows


def test_the_command(spark: "SparkSession", app: Stanchion, folder: Path, rows: list[JobRow]) -> None:
    dead = sum(row.state == "dead" for row in rows)

    def run(*args: str) -> tuple[int, str]:
        common = ["replay", "--archive", str(folder), "--where", "state = 'dead'", "--url", app.url]
        answer = CliRunner().invoke(cli, [*common, *args])
        return answer.exit_code, answer.stdout

    assert run("--dry-run") == (0, f"would replay: {dead} jobs\n")
    assert run("--write-id", "one", "--to", "again") == (0, f"replayed: {dead} jobs\n")
    assert run("--write-id", "one", "--to", "again") == (0, "nothing to do: this write was done before\n")
    assert run("--queue", "mail") == (1, "no archived jobs match\n")
    assert app.queue("again").size().ready == dead
    assert spark.active() is spark
