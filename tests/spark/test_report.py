"""The figures of a report as Spark counts them, beside those that Python does."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from stanchion import Bury, Send, Stanchion
from stanchion.errors import InvalidInput
from stanchion.ops.cli import cli
from stanchion.reporting import report as count
from stanchion.spark import archive, report
from stanchion.spark.archiving import files
from stanchion.spark.archiving import rows as archive_rows
from stanchion.spark.archiving.table import existing_archive
from stanchion.spark.reporting.source import finished_jobs
from stanchion.stores.records.jobs import SECOND, JobRow, JobState
from stanchion.stores.rules.lifecycle.jobs import items_of
from tests.spark.archive.conftest import finished
from tests.spark.report.jobs import told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stanchion, Path, list[JobRow]]]:
    """A store and an archive that share some jobs, and all jobs that are in one of them."""
    place = tmp_path_factory.mktemp("report")
    app, source = Stanchion(f"sqlite:///{place}/jobs.db"), Stanchion("memory://")
    rows = told(finished(source, 1_500, chunks=True))
    first, second = rows[:1_000], rows[1_000:]
    app.store.adopt(first)
    archive(app, place / "archive", older_than=86_400, keep=True)
    app.store.adopt(second)
    yield app, place / "archive", rows
    app.close()


@pytest.fixture(scope="module")
def figures(spark: "SparkSession", known: tuple[Stanchion, Path, list[JobRow]]) -> dict[str, Any]:
    app, folder, rows = known
    made = report(app, folder, spark=spark)
    page = made.html()
    assert "flights.out" in page
    assert json.loads(made.json())["whole"]["jobs"] == sum(map(items_of, rows)) > 1_700
    return made.figures


@pytest.mark.nightly
def test_it_is_what_python_counts(figures: dict[str, Any], known: tuple[Stanchion, Path, list[JobRow]]) -> None:
    every = Stanchion("memory://")
    every.store.adopt(known[2])
    found = count(every).figures
    assert set(found) == set(figures)
    for name in set(found) - {"now"}:
        assert close(figures[name]) == found[name], name


def close(value: Any) -> Any:
    """Return figures that equal others with almost the same numbers."""
    if isinstance(value, dict):
        return {name: close(one) for name, one in value.items()}
    if isinstance(value, list):
        return [close(one) for one in value]
    return pytest.approx(value, abs=2e-6) if isinstance(value, float) else value


def test_items_of_chunks(spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In rows of their own, in an archive of an earlier release, and in the store."""
    app, jobs = Stanchion(f"sqlite:///{tmp_path}/jobs.db"), list[JobRow]()
    with monkeypatch.context() as before:
        before.setattr(files, "batches_of", lambda some: [archive_rows._as_stored(some)])
        jobs += finished(app, 100, "earlier", chunks=True)
        archive(app, tmp_path / "archive")
    jobs += finished(app, 100, "later", seed=8, chunks=True)
    archive(app, tmp_path / "archive", keep=True)
    jobs += finished(app, 100, "stored", seed=9, chunks=True)
    found = finished_jobs(spark, app, tmp_path / "archive", None, None, []).groupBy("queue").count().collect()
    items = {row["queue"]: row["count"] for row in found}
    assert items == {queue: sum(items_of(row) for row in jobs if row.queue == queue) for queue in items}
    assert items.keys() == {"earlier", "later", "stored"}
    app.close()


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", ["sqlite", "memory"])
def test_forks_and_dead_letters_count_once(spark: "SparkSession", tmp_path: Path, scheme: str) -> None:
    app = Stanchion("memory://" if scheme == "memory" else f"sqlite:///{tmp_path}/jobs.db")
    etl = app.pipeline("etl")

    @etl.station("raw", to=["clean", "odd"])
    def raw(item: int) -> list[Send]:
        return [Send("odd" if item % 2 else "clean", item), Send("clean", item), Send("clean", -1)]

    @etl.station("clean", to="out")
    def clean(item: int) -> int | Bury:
        if item < 0:
            return Bury("negative")
        return item

    @etl.station("odd", to="out")
    def odd(item: int) -> int:
        return item

    @etl.station("out")
    def out(item: int) -> None:
        pass

    etl.push_many([0, 1])
    etl.run(until_empty=True)
    assert len(etl.dead_letters.find()) == 2
    made = report(app, spark=spark)
    assert {row["station"]: row["items"] for row in made.figures["stations"]} == {
        "etl.raw": 2,
        "etl.clean": 5,
        "etl.odd": 1,
        "etl.out": 4,
    }
    assert made.figures["whole"]["dead"] == sum(row["dead"] for row in made.figures["throughput"]) == 2
    assert made.figures["errors"]["rows"][0]["count"] == 2
    assert {row["queue"]: row["dead"] for row in made.figures["tasks"]["rows"]}["etl.clean"] == 2
    app.close()


@pytest.mark.nightly
def test_bounds(spark: "SparkSession", known: tuple[Stanchion, Path, list[JobRow]]) -> None:
    app, folder, rows = known
    middle = sorted(row.finished_at or 0 for row in rows)[700]
    moment = datetime.fromtimestamp(middle / SECOND, UTC)
    later = [row for row in rows if (row.finished_at or 0) >= middle]
    assert len(later) == 800
    assert report(app, folder, since=moment, spark=spark).jobs == sum(map(items_of, later))
    earlier = [row for row in rows[:1000] if (row.finished_at or 0) < middle and row.queue == "orders"]
    assert report(None, folder, until=moment, queues=["orders"], spark=spark).jobs == sum(map(items_of, earlier))
    with pytest.raises(InvalidInput, match="time zone"):
        report(app, since=datetime(2026, 1, 1), spark=spark)
    with pytest.raises(InvalidInput, match="nothing to report on"):
        report(None)


@pytest.mark.nightly
def test_nothing_and_one_job_in_memory(spark: "SparkSession") -> None:
    app = Stanchion("memory://")
    nothing = report(app, spark=spark)
    assert (nothing.jobs, nothing.figures["whole"]["first"]) == (0, None)
    assert "Nothing to report" in nothing.html()
    app.queue("orders").push(1)
    app.queue("orders").pop()
    one = report(app, spark=spark)
    assert one.figures["whole"]["done"] == one.jobs == 1
    assert one.figures["attempts"] == [{"attempts": 1, JobState.DONE: 1, "dead": 0, "cancelled": 0}]
    assert "1 attempt" in one.html()


@pytest.mark.nightly
def test_the_command(
    spark: "SparkSession", known: tuple[Stanchion, Path, list[JobRow]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, folder, rows = known
    items = archive_rows.items_in_rows(existing_archive(folder)._delta.to_pyarrow_table(columns=["item", "items"]))
    monkeypatch.delenv("STANCHION_URL", raising=False)
    page = tmp_path / "page.html"
    answer = CliRunner().invoke(cli, ["report", str(folder), "--out", str(page), "--title", "A year"])
    assert (answer.exit_code, answer.stdout) == (0, f"wrote {page}: {items:,} finished jobs\n")
    assert '<p class="kicker">A year' in page.read_text()
    both = CliRunner().invoke(cli, ["report", str(folder), "--url", app.url, "--json"])
    assert json.loads(both.stdout)["whole"]["jobs"] == sum(map(items_of, rows))
    none = CliRunner().invoke(cli, ["report", str(folder), "--since", "1s", "--out", str(page)])
    assert none.exit_code == 1
    assert "no job has finished" in none.stderr
    assert spark.active() is spark, "the command leaves the session as it is"
