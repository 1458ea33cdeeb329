"""Copies of archived jobs, enqueued."""

import dataclasses
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from stanchion import JobState, Send, Stanchion
from stanchion.context import context_of
from stanchion.core.chunks.chunk import Chunk
from stanchion.errors import InvalidInput
from stanchion.ops.cli import cli
from stanchion.spark import Replay, archive, replay
from stanchion.stores.protocol import pages
from stanchion.stores.records.jobs import JobRow
from stanchion.stores.records.query import Condition, Query
from tests.chunks.items import exact
from tests.spark.archive.conftest import finished, left
from tests.spark.archive.random_items import with_random_items

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
    assert replay(app, folder, condition, dry_run=True, spark=spark) == Replay(len(wanted), False, len(wanted))
    assert app.queue("orders").size().total == 0
    assert replay(app, folder, condition, spark=spark) == Replay(len(wanted), True, len(wanted))
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
        assert done == Replay(dead, enqueued, dead)
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
    assert replay(app, folder, "true", spark=spark) == Replay(1, True, 1)
    (copy,) = app.find(state="ready")
    assert copy.payload == {"n": 1}
    assert replay(app, folder, "true", queue="other", spark=spark) == Replay(0, False, 0)


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


def test_items_of_chunks(spark: "SparkSession", app: Stanchion, folder: Path) -> None:
    etl = app.pipeline("etl")
    etl.station("raw", to=["odd", "even"])(lambda n: Send("odd" if n % 2 else "even", n))
    etl.station("odd")(lambda n: n)
    etl.station("even")(lambda n: n)
    etl.push_chunks(range(10))
    app.queue("etl.raw").push(11)
    etl.drain()
    odd, even = (next(job for job in app.queue(f"etl.{name}").history() if job.items) for name in ("odd", "even"))
    payloads = {row.id: row.payload for row in app.store.fetch([odd.id, even.id]).values()}
    archive(app, folder, older_than=0)

    def replayed(where: str, to: str | None = None) -> dict[str | None, Any]:
        """Return the copies by what they are of."""
        before = {job.id for job in app.find(state="ready", limit=1000)}
        done = replay(app, folder, where, to=to, spark=spark)
        copies = [job for job in app.find(state="ready", limit=1000) if job.id not in before]
        assert done == Replay(sum(job.items or 1 for job in copies), True, len(copies))
        assert replay(app, folder, where, dry_run=True, spark=spark) == dataclasses.replace(done, enqueued=False)
        return {job.origin: job for job in copies}

    every = replayed("true")
    assert every.keys() >= {odd.id, even.id}
    assert len(every) == 3
    for job_id, payload in payloads.items():
        assert app.store.fetch([every[job_id].id])[every[job_id].id].payload == payload
    some = replayed("item is not null and payload in ('3', '4', '8')", to="again")
    assert {job.queue for job in some.values()} == {"again"}
    assert some[odd.id].payload == 3
    assert list(some[even.id].payload) == [4, 8]
    assert some[even.id].payload.names("new") == [name for name in even.payload.names("") if name[-1] in "48"]


@pytest.mark.parametrize("count", [500, pytest.param(100_000, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)])])
def test_random_items_come_back_the_same(spark: "SparkSession", app: Stanchion, folder: Path, count: int) -> None:
    """Whole chunks byte by byte; of others, the items that match."""
    app.setup()
    items = with_random_items(app, count)
    payloads = {row.id: row.payload for row in left(app.store)}
    archive(app, folder)

    def copies(where: str, to: str) -> dict[str, JobRow]:
        assert replay(app, folder, where, to=to, spark=spark).enqueued
        found = [row for page in pages(app.store, Query("live", (Condition("queue", "=", to),))) for row in page]
        return {row.origin or "": row for row in found}

    assert {job: row.payload for job, row in copies("true", "all").items()} == payloads
    some = copies("item % 2 = 0 or item is null", "some")
    assert some.keys() == items.keys()
    for job, row in some.items():
        payload = row.payload
        found = Chunk.decoded(payload).values if isinstance(payload, bytes) else [context_of(app).codec.decode(payload)]
        assert exact(found) == exact(items[job][::2])
