"""What the documentation shows of Spark, works: the blocks that its other tests leave out for want of a session."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stanchion import Bury, Stanchion
from stanchion.feed.horizon import Settled
from stanchion.feed.reader import NOW
from stanchion.spark.stations import engine as stations
from tests.docs.pages import PAGES, Block, blocks
from tests.docs.reader import Reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDS_SPARK = "needs Spark"


def of_spark(page: Path) -> list[Block]:
    """Return the blocks of a page that are run here."""
    return [block for block in blocks(page) if NEEDS_SPARK in (block.reason or "")]


@contextmanager
def spark_page(app: Stanchion, reader: Reader, spark: "SparkSession", data: Path) -> Iterator[None]:
    """A dead mail among the finished ones, and two orders of a day."""

    @app.task(queue="mail", name="send")
    def send(address: str) -> Any:
        return Bury("no such address") if address == "b" else None

    send.enqueue_many([("a",), ("b",)])
    app.drain(["mail"])
    orders = spark.createDataFrame([("ann", 3), ("bob", 5)], "customer string, items int")
    orders.write.parquet(str(data / "orders/2026-01-31"))
    flights = spark.createDataFrame([("AA1", 210), ("UA2", 2475)], "flight string, miles int").coalesce(1)
    flights.write.parquet(str(data / "flights/2026-01"))
    yield
    assert [(row.task, row.state) for row in reader.namespace.failed.collect()] == [("send", "dead")]
    found = {job.tenant: job.payload for job in app.queue("orders").find()}
    assert found == {name: {"customer": name, "items": items} for name, items in (("ann", 3), ("bob", 5))}
    (chunk,) = app.queue("flights.raw").find()
    assert [*chunk.payload] == [{"flight": "AA1", "miles": 210}, {"flight": "UA2", "miles": 2475}]


@contextmanager
def streams_page(app: Stanchion, reader: Reader, _spark: "SparkSession", _data: Path) -> Iterator[None]:
    """Some jobs to move."""
    app.queue("raw").push_many([{"n": n} for n in range(30)])
    yield
    try:
        deadline = time.monotonic() + 120
        while app.queue("clean").size().total < 30 and time.monotonic() < deadline:
            time.sleep(0.1)
    finally:
        reader.namespace.query.stop()
    assert sorted(job.payload["n"] for job in app.queue("clean").find()) == list(range(30))
    assert app.queue("raw").size().total == 0


def settle(app: Stanchion) -> None:
    """Wait until a stream of finished jobs tells all that have finished until now."""
    at, feed = app.store.now(), Settled(0, 0)
    while feed.move(app.store.select(NOW).horizon) <= at:  # type: ignore[arg-type]
        time.sleep(0.1)


@contextmanager
def lake_page(app: Stanchion, reader: Reader, _spark: "SparkSession", data: Path) -> Iterator[None]:
    """Orders with a schema."""
    orders = app.queue("orders", schema="id bigint not null, city string")
    orders.push_many([{"id": n, "city": "Oslo"} for n in range(30)])
    app.queue("mail").push(1)
    app.queue("mail").pop()
    settle(app)
    yield
    finished = reader.namespace.DeltaTable(str(data.parent / "checkpoints/lake/finished"))
    assert "mail" in finished.to_pyarrow_table(columns=["queue"])["queue"].to_pylist()
    assert sorted(row.id for row in reader.namespace.read.collect()) == list(range(30))
    assert orders.size().total == 0


@contextmanager
def pipelines_page(app: Stanchion, reader: Reader, spark: "SparkSession", data: Path) -> Iterator[None]:
    """A pipeline to put the station into, and the table that it joins."""
    zones = spark.createDataFrame([("a", "airport"), ("c", "city")], "zone string, name string")
    zones.write.parquet(str(data / "zones"))
    etl = app.pipeline("fares")
    reader.namespace.__dict__.update(etl=etl, priced_alone=lambda _: None)
    yield
    for end in ("paid", "sums", "hourly", "too_late"):
        etl.station(end)(lambda item: item)
    etl.push_many([{"zone": "a", "fare": 1.5}, {"zone": "a", "fare": 2.0}, {"zone": "?", "fare": 9.0}])
    ridden = [(8, 1.0), (8, 2.5), (10, 4.0)]  # the last one closes the first hour
    etl.push_many([{"zone": "a", "fare": fare, "at": f"2027-01-15T{hour:02}:30:00Z"} for hour, fare in ridden], "fares")
    stations.run(etl, spark=spark, available_now=True)
    paid = sorted((job.result["name"], job.result["fare"]) for job in etl.queue("paid").find(state="done"))
    assert paid == [("airport", 1.5), ("airport", 2.0)]
    (total,) = [job.result for job in etl.queue("sums").find(state="done")]
    assert total == {"name": "airport", "sum(fare)": 3.5}
    assert etl.status().stations[0].dropped == 1
    (hour,) = [job.result for job in etl.queue("hourly").find(state="done")]
    assert (hour["zone"], hour["fares"]) == ("a", 3.5)


@contextmanager
def start_page(_app: Stanchion, reader: Reader, _spark: "SparkSession", _data: Path) -> Iterator[None]:
    """It brings all that it needs: its store is a file. What was done is not done again."""
    yield
    etl = reader.namespace.etl
    assert [(one.station, one.came, one.out, one.dead) for one in etl.status().stations] == [
        ("raw", 100_000, 99_830, 170),
        ("priced", 99_830, 99_830, 0),
    ]
    results = {trip["plane"]: trip["price"] for job in etl.queue("priced").find(state="done") for trip in job.result}
    assert (len(results), results["N2000"]) == (99_830, pytest.approx(20 + 0.1 * 1995 * 1.609))


SURROUNDINGS: dict[str, Callable[[Stanchion, Reader, "SparkSession", Path], AbstractContextManager[None]]] = {
    "spark": spark_page,
    "spark-start": start_page,
    "streams": streams_page,
    "lake": lake_page,
    "pipelines-spark": pipelines_page,
}
"""What a page takes to be there before its blocks, and what must be there after them."""


@pytest.mark.nightly
@pytest.mark.parametrize("page", [page for page in PAGES if of_spark(page)], ids=lambda page: page.stem)
def test_a_page_does_what_it_says(page: Path, spark: "SparkSession", pg_app: Stanchion, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shown = {
        "postgresql://localhost/shop": str(pg_app.url),
        "/data/": f"{data}/",
        "/var/lib/etl/": f"{tmp_path}/checkpoints/",
        '"checkpoints/km"': f'"{tmp_path}/checkpoints/km"',
        "sqlite:///trips.db": f"sqlite:///{tmp_path}/trips.db",
    }
    reader = Reader(
        tmp_path, shown
    )  # its module can't be imported, so Spark is sent the functions of the page themselves
    with SURROUNDINGS[page.stem](pg_app, reader, spark, data):
        for block in of_spark(page):
            assert block.language == "python", block
            reader.run(page, block)
