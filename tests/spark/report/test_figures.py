"""The figures of a report, beside those that pandas finds."""

import json
import math
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

from stanchion import Stanchion
from stanchion.core.service_levels import BANDS
from stanchion.core.text.error_kinds import group_in
from stanchion.reporting import report
from stanchion.reporting.figures import IDS, NAMES, SHARES
from stanchion.stores.records.jobs import SECOND, JobRow
from stanchion.stores.rules.lifecycle.jobs import items_of
from tests.spark.archive.conftest import finished
from tests.spark.report.jobs import told


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stanchion, list[JobRow]]]:
    """A store, and its jobs."""
    app = Stanchion(f"sqlite:///{tmp_path_factory.mktemp('report')}/jobs.db")
    rows = told(finished(Stanchion("memory://"), 1_500, chunks=True))
    app.store.adopt(rows)
    yield app, rows
    app.close()


@pytest.fixture(scope="module")
def figures(known: tuple[Stanchion, list[JobRow]]) -> dict[str, Any]:
    made = report(known[0])
    assert "flights.out" in made.html()
    assert json.loads(made.json())["whole"]["jobs"] == sum(map(items_of, known[1])) > 1_700
    return made.figures


@pytest.fixture(scope="module")
def frame(known: tuple[Stanchion, list[JobRow]]) -> pd.DataFrame:
    items = [items_of(row) for row in known[1]]
    frame = pd.DataFrame(row._asdict() for row in known[1]).assign(items=items)
    frame = frame.loc[frame.index.repeat(items)]  # a row for each item, none of a divided chunk
    frame["pickup"] = ((frame.started_at - frame.run_at) / SECOND).clip(lower=0)
    frame["run"] = ((frame.finished_at - frame.started_at) / SECOND / frame["items"]).where(frame.state != "cancelled")
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
    failed = frame.assign(task=frame.task.fillna(""), errors=frame.errors.map(lambda text: json.loads(text or "[]")))
    each = failed.reset_index(drop=True).explode("errors").dropna(subset="errors")
    each["group"] = [group_in(entry, task) for entry, task in zip(each.errors, each.task, strict=True)]
    found = {(row["group"], row["queue"], row["task"]): row for row in figures["errors"]["rows"]}
    assert {key: row["count"] for key, row in found.items()} == dict(each.groupby(["group", "queue", "task"]).size())
    assert figures["errors"]["total"] == len(each)
    counts = [row["count"] for row in figures["errors"]["rows"]]
    assert counts == sorted(counts, reverse=True)
    died = each[each.state == "dead"].groupby("id").tail(1)
    by_group = {key: own.sort_values(["finished_at", "id"]) for key, own in died.groupby(["group", "queue", "task"])}
    dead = {key: own["items"].sum() for key, own in by_group.items()}
    assert {key: row["dead"] for key, row in found.items() if row["dead"]} == dead
    assert {key: row["ids"] for key, row in found.items() if row["ids"]} == {
        key: list(own.id)[::-1][:IDS] for key, own in by_group.items()
    }


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
    assert list(found) == ["flights.raw", "flights.clean", "flights.out"]
