"""The stream of finished jobs, read as Spark reads it, without Spark: each finish once per checkpoint."""

import json
import pickle
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType, TimestampType

from stanchion import InvalidInput, Stanchion
from stanchion.core.spark_errors import HistoryPurged
from stanchion.spark.datasource.reading import history_feed as feeds
from stanchion.spark.datasource.reading.history_feed import HistoryFeed, history_feed
from stanchion.spark.datasource.reading.stream_read import stream_reader
from stanchion.spark.datasource.source import StanchionSource
from stanchion.stores.records.jobs import SECOND, UNLANED, JobRow

T = TypeVar("T")
READ = StructType().add("id", "string").add("state", "string").add("payload", "string")
READ = READ.add("finished_at", TimestampType())
Offset = dict[str, int]


def sent(thing: T) -> T:
    """Return what another process gets of it."""
    copy: T = pickle.loads(pickle.dumps(thing))  # noqa: S301
    return copy


@pytest.fixture(params=["sqlite", "pg_url", "mariadb_url", "redis_url", "mongo_url"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stanchion]:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with closing(Stanchion(url if request.param == "sqlite" else request.getfixturevalue(request.param))) as one:
        one.setup()
        yield one


only_sqlite = pytest.mark.parametrize("app", ["sqlite"], indirect=True)


class Feed:
    """A query with its log: the ends of its batches, and what each has read."""

    readers: list[HistoryFeed] = []  # noqa: RUF012 - of the test that runs

    def __init__(self, app: Stanchion, **options: Any) -> None:
        given = {"url": str(app.url), "overlap": "0.001", "partitions": "3", "poll": "0.01"}
        self.given = {**given, **{name: str(value) for name, value in options.items()}}
        self.ends: list[Offset] = []
        self.batches: list[list[dict[str, Any]]] = []

    def reader(self) -> HistoryFeed:
        reader = sent(history_feed(self.given, READ))
        self.readers.append(reader)
        return reader

    def run(self, most: int = 1000) -> None:
        """Process what is there, in a driver of its own."""
        reader = self.reader()
        reader.prepareForTriggerAvailableNow()
        start = self.ends[-1] if self.ends else reader.initialOffset()
        while (end := reader.latestOffset(start, ReadMaxRows(most))) != start:
            self.batches.append(self.read(reader, start, end))
            self.ends.append(end)
            start = end

    def read(self, reader: HistoryFeed, start: Offset, end: Offset) -> list[dict[str, Any]]:
        start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
        parts = [sent(part) for part in reader.partitions(start, end)]
        return [row for part in parts for batch in sent(reader).read(part) for row in batch.to_pylist()]

    def until(self, count: int, most: int = 1000) -> list[str]:
        """Run until so many finishes were read; return their ids."""
        deadline = time.monotonic() + 60
        while len(ids := [row["id"] for batch in self.batches for row in batch]) < count:
            assert time.monotonic() < deadline
            self.run(most)
            time.sleep(0.05)  # PostgreSQL tells only what is two seconds old
        return ids


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    for reader in Feed.readers:
        if "_opened" in vars(reader):
            reader._opened.close()
    Feed.readers.clear()


def finish(app: Stanchion, count: int, queue: str = "orders") -> list[str]:
    """Push and finish jobs: done, dead and cancelled ones."""
    app.queue(queue).push_many([{"n": n} for n in range(count)])
    found = []
    for n, job in enumerate(app.queue(queue).reserve(count)):
        found.append(job.id)
        if n % 3:
            job.commit()
        else:
            job.bury("no")
    return found


def adopt(app: Stanchion, queue: str, *ago: float) -> None:
    """Put jobs into history that have finished so many seconds ago."""
    from stanchion.core.ids import new_ids

    now = app.store.now()
    for job, seconds in zip(new_ids(len(ago)), ago, strict=True):
        at = now - int(seconds * SECOND)
        row = JobRow(job, queue, UNLANED, "done", 0, 0, at, at, "{}", attempts=1, started_at=at, finished_at=at)
        assert all(app.store.adopt([row]))


@pytest.mark.nightly_except("sqlite", "mongo_url")
def test_each_finish_once_in_bounded_batches(app: Stanchion) -> None:
    feed = Feed(app)
    wanted = finish(app, 50) + finish(app, 20, "mail")
    feed.until(70, most=15)
    wanted += finish(app, 30)
    found = feed.until(100, most=15)
    assert sorted(found) == sorted(wanted)
    assert {row["state"] for batch in feed.batches for row in batch} == {"done", "dead"}
    feed.run()
    assert sum(map(len, feed.batches)) == 100
    times = [row["finished_at"] for batch in feed.batches for row in batch]
    assert [max(row["finished_at"] for row in batch) for batch in feed.batches if batch] == sorted(
        max(row["finished_at"] for row in batch) for batch in feed.batches if batch
    )
    assert max(map(len, feed.batches)) <= 15 or len(set(times)) < len(times)


@pytest.mark.nightly_except("sqlite", "pg_url")
def test_a_batch_is_replayed_as_it_was(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "FEW", 3)  # so that several tasks read it
    feed = Feed(app)
    finish(app, 40)
    feed.until(40, most=12)
    finish(app, 10)
    reader, start = feed.reader(), {"after": 0}
    assert len(reader.partitions(start, feed.ends[-1])) > 1
    for end, batch in zip(feed.ends, feed.batches, strict=True):
        again = feed.read(reader, start, end)
        assert sorted(row["id"] for row in again) == sorted(row["id"] for row in batch)
        start = end


@only_sqlite
def test_what_may_still_become_visible_is_left(app: Stanchion) -> None:
    finish(app, 5)
    adopt(app, "orders", 3700, 3500)
    feed = Feed(app, overlap=3600)
    feed.run()
    assert [len(batch) for batch in feed.batches] == [1]


@only_sqlite
def test_one_queue_from_a_time_on(app: Stanchion) -> None:
    adopt(app, "orders", 7200, 3600, 60)
    adopt(app, "mail", 60)
    since = datetime.now(UTC) - timedelta(seconds=3700)
    assert len(Feed(app, queue="orders", since=since.isoformat()).until(2)) == 2
    assert len(Feed(app, queue="orders").until(3)) == 3
    assert len(Feed(app).until(4)) == 4


@only_sqlite
def test_purged_history(app: Stanchion) -> None:
    app.queue("orders").configure(history_ttl=3600)
    adopt(app, "orders", 1800)
    feed = Feed(app)
    feed.until(1)
    feed.ends.append({"after": app.store.now() - 7200 * SECOND})
    with pytest.raises(HistoryPurged, match="purged=skip"):
        feed.run()
    with pytest.raises(HistoryPurged):
        feed.reader().partitions(feed.ends[-1], {"after": app.store.now()})
    feed.given["purged"] = "skip"
    feed.until(2)
    app.queue("silent", history_ttl=0).push(1)
    feed.run()
    with pytest.raises(InvalidInput, match="keeps no history"):
        Feed(app, queue="silent").run()


@only_sqlite
def test_an_idle_feed_does_not_fall_behind(app: Stanchion) -> None:
    """Its offset moves on though nothing finishes."""
    adopt(app, "orders", 3600)
    feed = Feed(app)
    feed.run()
    assert [len(batch) for batch in feed.batches] == [1, 0]
    assert app.store.now() - feed.ends[-1]["after"] < 60 * SECOND
    feed.run()
    assert len(feed.ends) == 2


@only_sqlite
def test_an_idle_driver_waits(app: Stanchion) -> None:
    finish(app, 1)
    reader = Feed(app).reader()
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    while (again := reader.latestOffset(end, reader.getDefaultReadLimit())) != end:
        end = again
    assert reader.latestOffset(end, ReadMaxRows(5)) == end


@only_sqlite
def test_wrong_options(app: Stanchion) -> None:
    for options, match in (
        ({"stream": "etl"}, "option stream is for a stream of live jobs"),
        ({"misfits": "bury"}, "can't be buried"),
        ({"since": "2031-05-01T08:00:00"}, "since"),
    ):
        with pytest.raises(InvalidInput, match=match):
            history_feed({"url": str(app.url), **options}, READ)
    with pytest.raises(InvalidInput, match="give of=history too"):
        stream_reader({"url": str(app.url), "queue": "orders", "purged": "skip"}, READ)
    source = StanchionSource({"url": str(app.url), "of": "history"})
    assert "finished_at timestamp" in source.schema()
    assert isinstance(source.streamReader(READ), HistoryFeed)
