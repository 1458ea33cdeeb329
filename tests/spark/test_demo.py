"""The demonstration on Spark, held against workers and against pandas."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from flights import run
from stanchion import Job, Queue, Stanchion
from stanchion.ops.cli.console.output import Output
from stanchion.streams import streams
from tests.demo.flights import assert_agrees, by_pandas, let_leave

pytestmark = pytest.mark.usefixtures("spark")

DAYS = 31


def all_of(queue: Queue) -> list[Job]:
    """Return the history of a queue."""
    jobs: list[Job] = []
    while page := queue.history(limit=10_000, after=jobs[-1].id if jobs else None):
        jobs += page
    return jobs


def flown(url: str, engine: str, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run the demonstration on an engine; return its JSON, and the flights with what they were joined with."""
    assert run(url, False, Output(as_json=True), keep=True, engine=engine)
    report = json.loads(capsys.readouterr().out)
    with closing(Stanchion(url)) as app:
        jobs = all_of(app.queue(report["queues"][2]))
        assert [stop[0] for stop in jobs[0].headers["x-route"]] == ["raw", "clean"]
        assert all(job.tenant == job.payload["carrier"] for job in jobs)
        return report, {job.payload["id"]: job.payload for job in jobs}


@pytest.mark.nightly
def test_spark_and_workers_come_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    let_leave(monkeypatch, DAYS)
    by_spark, on_spark = flown(f"sqlite:///{tmp_path / 'spark.db'}", "spark", capsys)
    by_workers, on_workers = flown(f"sqlite:///{tmp_path / 'workers.db'}", "workers", capsys)
    assert_agrees(by_spark, by_pandas(DAYS))
    assert_agrees(by_workers, by_pandas(DAYS))
    assert on_spark == on_workers
    for part in ("total", "carriers", "joined"):
        assert by_spark[part] == by_workers[part]
    assert (by_spark["engine"], by_workers["engine"]) == ("spark", "workers")

    page = Path(by_spark["page"]).read_text(encoding="utf-8")
    assert "flights that left New York in January 2013" in page
    assert all(queue in page for queue in by_spark["queues"][2:4])
    assert "<script src" not in page
    assert by_workers["queues"][2] in Path(by_workers["page"]).read_text(encoding="utf-8")


@pytest.mark.nightly
def test_spark_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    let_leave(monkeypatch, 1)
    url = f"sqlite:///{tmp_path / 'flights.db'}"
    assert run(url, False, Output(), engine="spark")
    told = capsys.readouterr().out
    assert "clean → enriched, Spark" in told
    assert Path(told.splitlines()[-1]).name == "report.html"
    with closing(Stanchion(url)) as app:
        assert app.queues() == []
        assert streams(app.store) == []
        assert [worker for worker in app.workers() if worker.id.startswith("stream:")] == []
