"""The spans of batches that Spark works on."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from stanchion import Stanchion
from stanchion.errors import StanchionError
from stanchion.spark.stations import engine as stations
from tests.telemetry.spans import attributes, identity, links, recording, span, spans

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.mark.nightly
def test_a_batch_is_linked_to_its_items_and_what_it_makes_belongs_to_it(spark: "SparkSession", tmp_path: Path) -> None:
    recording()
    app = Stanchion(f"sqlite:///{tmp_path}/jobs.db", traces=True)
    etl, inside = app.pipeline("etl"), []

    @etl.spark_station("raw", to=["sums", "kept"], schema="n int")
    def raw(items: "DataFrame") -> dict[str, "DataFrame"]:
        inside.append(trace.get_current_span().get_span_context().span_id)
        return {"sums": items.groupBy().sum("n").withColumnRenamed("sum(n)", "sum"), "kept": items}

    for end in ("sums", "kept"):
        etl.station(end)(lambda item: item)
    for number in range(2):
        etl.push({"n": number})
    stations.run(etl, ["raw"], spark=spark, available_now=True)
    pushes, batch = [identity(one) for one in spans("push etl.raw")], span("process etl.raw")
    assert batch.kind is SpanKind.CONSUMER
    assert links(batch) == pushes
    assert attributes(batch)["messaging.batch.message_count"] == 2
    assert inside == [identity(batch)[1]]
    (total,) = etl.queue("sums").find()
    assert trace_of(total.headers) == identity(batch)
    assert sorted(trace_of(job.headers) for job in etl.queue("kept").find()) == sorted(pushes)
    app.close()


def trace_of(headers: dict[str, Any]) -> tuple[int, int]:
    """Return the trace and the span of a context."""
    _, trace_id, span_id, _ = headers["traceparent"].split("-")
    return int(trace_id, 16), int(span_id, 16)


@pytest.mark.nightly
def test_a_batch_that_fails_ends_its_span_with_the_error(spark: "SparkSession", tmp_path: Path) -> None:
    recording()
    app = Stanchion(f"sqlite:///{tmp_path}/jobs.db", traces=True)
    etl = app.pipeline("etl")

    @etl.spark_station("raw", schema="n int")
    def raw(items: "DataFrame") -> "DataFrame":
        return items.drop("job_id")

    etl.push({"n": 1})
    with pytest.raises(StanchionError):
        stations.run(etl, spark=spark, available_now=True)
    batch = span("process etl.raw")
    assert batch.status.status_code is StatusCode.ERROR
    assert attributes(batch)["error.type"] == "stanchion.errors.InvalidInput"
    app.close()
