"""Lineage: what Spark did with the jobs of queues, as events of OpenLineage."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from openlineage.client import OpenLineageClient
from openlineage.client.transport.file import FileConfig, FileTransport

from stanchion import Stanchion
from stanchion.context import context_of
from stanchion.errors import MissingExtra
from stanchion.spark import lineage
from stanchion.spark.lineage import LineageListener, follow
from stanchion.spark.stations import engine as stations
from stanchion.spark.stations.reports import Reports
from stanchion.streams import StreamSource
from stanchion.streams.state import KIND, StreamState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def client(tmp_path: Path) -> OpenLineageClient:
    """A client that appends events to a file."""
    return OpenLineageClient(transport=FileTransport(FileConfig(str(tmp_path / "events.jsonl"), append=True)))


def events(folder: Path) -> list[dict[str, Any]]:
    """Return the events that were sent."""
    file = folder / "events.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def progress(batch: int, offset: Any, rows: int = 10, **fields: Any) -> Any:
    """Return what Spark tells of a batch."""
    source = SimpleNamespace(description="Rate@1", endOffset=json.dumps(offset), numInputRows=rows)
    return SimpleNamespace(
        progress=SimpleNamespace(
            id="q", batchId=batch, name=fields.get("name"), timestamp="2026-01-31T10:00:00.500Z", batchDuration=1500,
            numInputRows=rows, sources=[source], sink=SimpleNamespace(numOutputRows=fields.get("written", -1)),
        )
    )  # fmt: skip


@pytest.fixture
def app() -> Iterator[Stanchion]:
    """An app with a stream of a queue, and a pipeline."""
    app = Stanchion("memory://")
    app.queue("raw").push({"n": 1})
    StreamSource(app.store, "raw", "raw").initial()
    etl = app.pipeline("etl")
    etl.station("first", to=["second", "third"])(lambda item: item)
    for end in ("second", "third"):
        etl.station(end)(lambda item: item)
    etl.push(1)
    yield app
    app.close()


def listener(app: Stanchion, client: Any, **outputs: list[str]) -> LineageListener:
    return LineageListener(app, outputs, "shop", client)


def test_a_batch_is_a_run_with_its_queue_and_its_outputs(
    app: Stanchion, client: OpenLineageClient, tmp_path: Path
) -> None:
    (stream,) = map(StreamState.of, app.store.values(KIND))
    one = listener(app, client, clean=["clean"])
    one.onQueryProgress(progress(7, {"stream": stream.id, "seq": 1}, name="clean", written=9))
    start, complete = events(tmp_path)
    assert (start["eventType"], start["eventTime"]) == ("START", "2026-01-31T10:00:00.500000+00:00")
    assert (complete["eventType"], complete["eventTime"]) == ("COMPLETE", "2026-01-31T10:00:02+00:00")
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert (complete["job"]["namespace"], complete["job"]["name"]) == ("shop", "clean")
    (read,), (written,) = complete["inputs"], complete["outputs"]
    assert (read["namespace"], read["name"], read["inputFacets"]["inputStatistics"]["rowCount"]) == (
        *("memory://", "raw"),
        10,
    )
    assert (written["namespace"], written["name"]) == ("memory://", "clean")
    assert written["outputFacets"]["outputStatistics"]["rowCount"] == 9


def test_a_repeated_batch_is_the_same_run(app: Stanchion, client: OpenLineageClient, tmp_path: Path) -> None:
    one = listener(app, client)
    for batch in (1, 1, 2):
        one.onQueryProgress(progress(batch, {}))
    runs = [event["run"]["runId"] for event in events(tmp_path)[::2]]
    assert (runs[0] == runs[1], len(set(runs))) == (True, 2)


def test_batches_without_rows_are_none(app: Stanchion, client: OpenLineageClient, tmp_path: Path) -> None:
    listener(app, client).onQueryProgress(progress(1, {}, rows=0))
    assert events(tmp_path) == []


@pytest.mark.parametrize("offset", [None, 5, {"stream": "of another store"}, {"stream": 5}, {"seq": 1}])
def test_sources_of_others_are_named_as_spark_does(
    app: Stanchion, client: OpenLineageClient, tmp_path: Path, offset: Any
) -> None:
    listener(app, client).onQueryProgress(progress(1, offset))
    (read,) = events(tmp_path)[0]["inputs"]
    assert (read["namespace"], read["name"]) == ("spark", "Rate")


def test_the_stations_after_one_are_known(app: Stanchion, client: OpenLineageClient, tmp_path: Path) -> None:
    listener(app, client).onQueryProgress(progress(1, {}, name="etl.first"))
    assert [one["name"] for one in events(tmp_path)[0]["outputs"]] == ["etl.second", "etl.third"]


def test_the_work_of_plain_stations_is_told_from_the_counts_of_their_queues(
    app: Stanchion, client: OpenLineageClient, tmp_path: Path
) -> None:
    following, elsewhere = listener(app, client), listener(Stanchion("sqlite:///other.db"), client)
    lineage._FOLLOWERS.update([following, elsewhere])
    plan = context_of(app).registry.pipelines["etl"]
    reports = Reports(plan, plan.chosen(()), None)
    plan.pipeline.drain()
    reports.look(at_last=True)
    reports.look(at_last=True)
    start, complete = events(tmp_path)
    assert (start["eventType"], complete["eventType"], start["job"]["name"]) == ("START", "COMPLETE", "etl.first")
    assert start["run"]["runId"] == complete["run"]["runId"]
    (read,), written = complete["inputs"], complete["outputs"]
    assert (read["name"], read["inputFacets"]["inputStatistics"]["rowCount"]) == ("etl.first", 1)
    assert [one["name"] for one in written] == ["etl.second", "etl.third"]


def test_an_error_ends_a_run(app: Stanchion, client: OpenLineageClient, tmp_path: Path) -> None:
    one = listener(app, client)
    one.onQueryStarted(SimpleNamespace(id="q", name="clean"))  # type: ignore[arg-type]
    run = "8688f0f2-ae1e-48c0-a146-7bf0fd08cb27"
    for error in (None, "ValueError: seven"):
        ended: Any = SimpleNamespace(id="q", runId=run, exception=error)
        one.onQueryTerminated(ended)
        one.onQueryStarted(SimpleNamespace(id="q", name="clean"))  # type: ignore[arg-type]
    (failed,) = events(tmp_path)
    assert (failed["eventType"], failed["run"]["runId"], failed["job"]["name"]) == ("FAIL", run, "clean")
    assert failed["run"]["facets"]["errorMessage"]["message"] == "ValueError: seven"


def test_a_client_that_fails_costs_no_batch(app: Stanchion, caplog: pytest.LogCaptureFixture) -> None:
    def emit(_event: Any) -> None:
        raise ConnectionError("no answer")

    listener(app, SimpleNamespace(emit=emit)).onQueryProgress(progress(1, {}))
    assert "an event of lineage was not sent: no answer" in caplog.text


def test_a_missing_client_is_named(app: Stanchion) -> None:
    spark: Any = None
    with (
        patch.dict(sys.modules, {"openlineage.client": None}),
        pytest.raises(MissingExtra, match=r"stanchion\[openlineage\]"),
    ):
        follow(spark, app)


@pytest.mark.nightly
def test_spark_tells_it_of_a_stream_and_of_stations(
    spark: "SparkSession", client: OpenLineageClient, tmp_path: Path
) -> None:
    app = Stanchion(f"sqlite:///{tmp_path / 'jobs.db'}")
    etl = app.pipeline("etl")
    etl.station("first", to="second")(lambda item: item)
    etl.station("second")(lambda item: item)
    etl.push_many([{"n": n} for n in range(20)])
    app.queue("raw").push_many([{"n": n} for n in range(30)])
    following = follow(spark, app, outputs={"clean them": ["clean"]}, client=client)
    try:
        raw = spark.readStream.format("stanchion").options(url=app.url, queue="raw", maxRecordsPerBatch=20).load()
        writer = raw.select("payload").writeStream.format("stanchion").queryName("clean them")
        writer = writer.options(url=app.url, stream="raw", queue="clean", checkpointLocation=str(tmp_path / "clean"))
        writer.trigger(availableNow=True).start().awaitTermination()
        stations.run(etl, spark=spark, available_now=True)
        spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    finally:
        spark.streams.removeListener(following)
    done = [one for one in events(tmp_path) if one["eventType"] == "COMPLETE"]
    rows: dict[tuple[str, str, str], int] = {}
    for one in done:
        place = one["job"]["name"], one["inputs"][0]["name"], ",".join(to["name"] for to in one["outputs"])
        rows[place] = rows.get(place, 0) + one["inputs"][0]["inputFacets"]["inputStatistics"]["rowCount"]
    assert rows == {
        ("clean them", "raw", "clean"): 30,
        ("etl.first", "etl.first", "etl.second"): 20,
        ("etl.second", "etl.second", ""): 20,
    }
    assert len({one["run"]["runId"] for one in done}) == len(done)
