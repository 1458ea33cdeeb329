"""The figures of a report, beside those that pandas finds."""

import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from stanchion import Bury, Send, Stanchion
from stanchion.core.service_levels import BANDS
from stanchion.errors import InvalidInput
from stanchion.ops.cli import cli
from stanchion.spark import archive, report
from stanchion.spark.archiving.table import existing_archive
from stanchion.spark.reporting.figures import NAMES, SHARES
from stanchion.stores.records.jobs import SECOND, JobRow, JobState
from tests.archive.conftest import finished

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ERRORS = ("KeyError: 'k{n}'", "TimeoutError: no answer in {n} s", "ValueError: order 0x{n}f is gone")


def told(rows: list[JobRow]) -> list[JobRow]:
    """Return finished jobs with errors, delays and ways of their own."""
    told = []
    for n, row in enumerate(rows):
        delay = (n % 97) ** 3 * SECOND // 100
        errors = [
            {"attempt": one, "at": 1.0, "error": ERRORS[(n * one) % 7 % 3].format(n=n)}
            for one in range(1, row.attempts)
        ]
        way = [["raw", 1 + n % 2, (row.enqueued_at or 0) / SECOND], ["clean", 1, (row.enqueued_at or 0) / SECOND + 1]]
        moved = n % 3 == 0
        told.append(
            row._replace(
                run_at=(row.started_at or 0) - delay,
                errors=json.dumps(errors) if errors else None,
                failures=len(errors),
                queue="flights.out" if moved else row.queue,
                headers=json.dumps({"x-route": way, "other": [1]}) if moved else None,
            )
        )
    return told


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stanchion, Path, list[JobRow]]]:
    """A store and an archive that share some jobs, and all jobs that are in one of them."""
    place = tmp_path_factory.mktemp("report")
    app, source = Stanchion(f"sqlite:///{place}/jobs.db"), Stanchion("memory://")
    rows = told(finished(source, 1_500))
    first, second = rows[:1_000], rows[1_000:]
    app.store.adopt(first)
    archive(app, place / "archive", older_than=86_400, keep=True)
    app.store.adopt(second)
    yield app, place / "archive", rows
    app.close()


@pytest.fixture(scope="module")
def figures(spark: "SparkSession", known: tuple[Stanchion, Path, list[JobRow]]) -> dict[str, Any]:
    app, folder, _ = known
    made = report(app, folder, spark=spark)
    page = made.html()
    assert "flights.out" in page
    assert str(json.loads(made.json())["whole"]["jobs"]) == "1500"
    return made.figures


@pytest.fixture(scope="module")
def frame(known: tuple[Stanchion, Path, list[JobRow]]) -> pd.DataFrame:
    frame = pd.DataFrame(row._asdict() for row in known[2])
    frame["pickup"] = ((frame.started_at - frame.run_at) / SECOND).clip(lower=0)
    frame["run"] = ((frame.finished_at - frame.started_at) / SECOND).where(frame.state != "cancelled")
    frame["band"] = [next(band.name for band in BANDS if priority >= band.least) for priority in frame.priority]
    return frame


def close(found: dict[str, float], values: "pd.Series[float]") -> None:
    """See that each percentile is a value of the right rank: so many are not above it."""
    ordered = sorted(values.dropna())
    for name, share in zip(NAMES, SHARES, strict=True):
        assert found[name] == pytest.approx(ordered[math.ceil(share * len(ordered)) - 1])


def test_the_whole(figures: dict[str, Any], frame: pd.DataFrame) -> None:
    whole = figures["whole"]
    assert whole["jobs"] == len(frame)
    for state in ("done", "dead", "cancelled"):
        assert whole[state] == (frame.state == state).sum()
    assert whole["failures"] == frame.failures.sum()
    assert whole["run_total"] == pytest.approx(frame.run.sum())
    assert whole["first"] == pytest.approx(frame.finished_at.min() / SECOND)
    assert whole["tenants"] == frame.tenant.nunique()


def test_throughput(figures: dict[str, Any], frame: pd.DataFrame) -> None:
    step = figures["step"]
    counted = frame.groupby([frame.finished_at // SECOND // step * step, "state"]).size()
    for row in figures["throughput"]:
        for state in ("done", "dead", "cancelled"):
            assert row[state] == counted.get((row["at"], state), 0)
    assert sum(row["done"] for row in figures["throughput"]) == (frame.state == "done").sum()


def test_bands_and_service_levels(figures: dict[str, Any], frame: pd.DataFrame) -> None:
    assert [row["band"] for row in figures["bands"]] == [band.name for band in BANDS]
    for row, band in zip(figures["bands"], BANDS, strict=True):
        own = frame[frame.band == band.name]
        close(row["pickup"], own.pickup)
        close(row["run"], own.run)
        age, run, attempts = row["levels"]
        assert (age["kept"], age["of"]) == ((own.pickup <= band.max_age).sum(), len(own))
        assert (run["kept"], run["of"]) == ((own.run <= band.max_run).sum(), own.run.notna().sum())
        assert (attempts["kept"], attempts["of"]) == ((own.attempts <= band.max_attempts).sum(), len(own))
        assert age["share"] == pytest.approx((own.pickup <= band.max_age).mean())


def test_pickup_over_time(figures: dict[str, Any], frame: pd.DataFrame) -> None:
    step, moments = figures["step"], [row["at"] for row in figures["throughput"]]
    for row in figures["pickup"]:
        own = frame[frame.band == row["band"]]
        by_step = own.groupby(own.finished_at // SECOND // step * step).pickup
        for at, p95 in zip(moments, row["p95"], strict=True):
            if p95 is None:
                assert at not in by_step.groups
            else:
                ordered = sorted(by_step.get_group(at))
                assert p95 == pytest.approx(ordered[math.ceil(0.95 * len(ordered)) - 1], abs=1e-6)


def test_tasks_and_attempts(figures: dict[str, Any], frame: pd.DataFrame) -> None:
    grouped = frame.assign(task=frame.task.fillna("")).groupby(["queue", "task"])
    assert len(figures["tasks"]["rows"]) == len(grouped)
    for row in figures["tasks"]["rows"]:
        own = grouped.get_group((row["queue"], row["task"]))
        assert (row["jobs"], row["dead"], row["failures"]) == (
            len(own),
            (own.state == "dead").sum(),
            own.failures.sum(),
        )
        close(row["run"], own.run)
    assert {row["attempts"]: row["done"] for row in figures["attempts"]} == dict(
        frame[frame.state == "done"].groupby("attempts").size()
    )


def test_errors(figures: dict[str, Any], frame: pd.DataFrame) -> None:
    texts = [error["error"] for errors in frame.errors.dropna() for error in json.loads(errors)]
    kinds = pd.Series(texts).str.extract(r"^(\w+)")[0].value_counts()
    assert figures["errors"]["total"] == len(texts)
    found = {row["error"]: row["count"] for row in figures["errors"]["rows"]}
    assert set(found) == {"KeyError: <text>", "TimeoutError: no answer in <n> s", "ValueError: order <n> is gone"}
    assert {error.partition(":")[0]: count for error, count in found.items()} == dict(kinds)
    assert [row["count"] for row in figures["errors"]["rows"]] == sorted(found.values(), reverse=True)


def test_tenants(figures: dict[str, Any], frame: pd.DataFrame) -> None:
    grouped = frame.groupby("tenant")
    jobs, waits, runs = grouped.size(), grouped.pickup.mean(), grouped.run.sum()
    tenants = figures["tenants"]
    assert {row["tenant"]: row["jobs"] for row in tenants["rows"]} == dict(jobs)
    assert sum(row["share"] for row in tenants["rows"]) == pytest.approx(1)
    for name, values in (("jobs", jobs), ("pickup_mean", waits), ("run_time", runs)):
        assert tenants["fairness"][name] == pytest.approx(values.sum() ** 2 / (len(values) * (values**2).sum()))


def test_stations(figures: dict[str, Any], frame: pd.DataFrame) -> None:
    moved = frame[frame.queue == "flights.out"]
    found = {row["station"]: row for row in figures["stations"]}
    assert set(found) == {"flights.raw", "flights.clean", "flights.out"}
    for row in found.values():
        assert row["items"] == sum(row["counts"]) == len(moved)
    out = found["flights.out"]
    seconds = (moved.finished_at.max() - moved.finished_at.min()) / SECOND
    assert out["per_second"] == pytest.approx(len(moved) / seconds)
    assert out["retries"] == (moved.attempts - 1).sum()
    assert found["flights.clean"]["retries"] == 0


@pytest.mark.parametrize("scheme", ["sqlite", pytest.param("memory", marks=pytest.mark.nightly)])
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
    assert report(app, folder, since=moment, spark=spark).jobs == 800
    assert report(None, folder, until=moment, queues=["orders"], spark=spark).jobs == sum(
        (row.finished_at or 0) < middle and row.queue == "orders" for row in rows[:1000]
    )
    with pytest.raises(InvalidInput, match="time zone"):
        report(app, since=datetime(2026, 1, 1), spark=spark)
    with pytest.raises(InvalidInput, match="nothing to report on"):
        report(None)


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
    app, folder, _ = known
    monkeypatch.delenv("STANCHION_URL", raising=False)
    page = tmp_path / "page.html"
    answer = CliRunner().invoke(cli, ["report", str(folder), "--out", str(page), "--title", "A year"])
    assert (answer.exit_code, answer.stdout) == (0, f"wrote {page}: {existing_archive(folder).rows()} finished jobs\n")
    assert "<h1>A year</h1>" in page.read_text()
    both = CliRunner().invoke(cli, ["report", str(folder), "--url", app.url, "--json"])
    assert json.loads(both.stdout)["whole"]["jobs"] == 1_500
    none = CliRunner().invoke(cli, ["report", str(folder), "--since", "1s", "--out", str(page)])
    assert none.exit_code == 1
    assert "no job has finished" in none.stderr
    assert spark.active() is spark, "the command leaves the session as it is"
