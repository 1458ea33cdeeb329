"""The reader and the writer of streams, called as Spark calls them, without Spark."""

import json
import pickle
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import StructType

from stanchion import Stanchion
from stanchion.core.spark_errors import LeasesLost, StreamTaken
from stanchion.errors import InvalidInput
from stanchion.jobs.job import JobState
from stanchion.spark.datasource.reading import stream_read as stream_source
from stanchion.spark.datasource.reading.stream_read import StreamReader, stream_reader
from stanchion.spark.datasource.writing import stream_write as stream_sink
from stanchion.spark.datasource.writing.stream_write import stream_writer
from stanchion.stores.records.workers import WorkerRow
from stanchion.streams import StreamSource, streams

Rows = list[dict[str, Any]]
T = TypeVar("T")

READ = StructType().add("id", "string").add("payload", "string")
KINDS = {"delay": "double", "priority": "integer", "item": "integer"}


def schema_of(*names: str) -> StructType:
    schema = StructType()
    for name in names:
        schema.add(name, KINDS.get(name, "string"))
    return schema


def sent(thing: T) -> T:
    """Return what another process gets of it."""
    copy: T = pickle.loads(pickle.dumps(thing))  # noqa: S301
    return copy


class Query:
    """A streaming query: what comes out of `transform` is written, each batch of it by two tasks."""

    runs = 0
    reads = READ

    def __init__(self, url: str, transform: Callable[[Rows], Rows], *columns: str, **options: str) -> None:
        self.url, self.transform, self.columns, self.options = url, transform, columns, options
        Query.runs += 1
        reader = stream_reader({"url": url, "queue": "raw", "stream": "etl", "partitions": "2"}, self.reads)
        self.reader = sent(reader)

    def run(self, limit: int = 1000) -> None:
        """Process what is ready."""
        self.reader.prepareForTriggerAvailableNow()
        start = self.reader.initialOffset()
        while (end := self.reader.latestOffset(start, ReadMaxRows(limit))) != start:
            self.batch(start, end)
            start = end

    def batch(self, start: dict[str, Any], end: dict[str, Any], before_end: Callable[[], Any] = lambda: None) -> None:
        parts = self.reader.partitions(start, end)
        messages = [self.writer().write(self.output(self.task().read(part))) for part in parts]
        before_end()
        self.writer().commit(messages, 7)

    def task(self) -> StreamReader:
        """Return the reader as a task has it."""
        return sent(self.reader)

    def writer(self) -> stream_sink.StreamWriter:
        options = {"url": self.url, "stream": "etl", "to": "clean", **self.options}
        writer = stream_writer(options, schema_of(*self.columns), False)
        assert isinstance(writer, stream_sink.StreamWriter)
        return sent(writer)

    def output(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = self.transform(batch.to_pylist())
            kinds = [
                (name, {"double": pa.float64(), "integer": pa.int32()}.get(KINDS.get(name, ""), pa.string()))
                for name in self.columns
            ]
            yield pa.RecordBatch.from_pylist(rows, pa.schema(kinds))


@pytest.fixture(autouse=True)
def run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each query a run of its own."""
    for module in (stream_source, stream_sink):
        monkeypatch.setattr(module, "this_run", lambda: f"run {Query.runs}:7")
    monkeypatch.setattr(stream_sink, "this_batch", lambda: "query:7")


@pytest.fixture(params=["sqlite", "pg_url", "mariadb_url", "redis_url", "mongo_url"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stanchion]:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with closing(Stanchion(url if request.param == "sqlite" else request.getfixturevalue(request.param))) as one:
        one.setup()
        one.queue("raw").push_many([{"n": n} for n in range(40)])
        yield one


only_sqlite = pytest.mark.parametrize("app", ["sqlite"], indirect=True)
transactional = pytest.mark.parametrize("app", ["sqlite", "pg_url", "mariadb_url"], indirect=True)


def found(app: Stanchion, queue: str) -> list[int]:
    return sorted(job.payload["n"] for job in app.queue(queue).find(limit=1000))


def number(row: dict[str, Any]) -> int:
    return int(json.loads(row["payload"])["n"])


def test_move(app: Stanchion) -> None:
    """Rows that go on, elsewhere, to the dead; and one that is dropped."""

    def transform(rows: Rows) -> Rows:
        return [
            {
                "job_id": row["id"],
                "payload": json.dumps({"n": number(row) + 100}),
                "queue": "odd" if number(row) % 2 else None,
                "error": "seven" if number(row) == 7 else None,
            }
            for row in rows
            if number(row) != 8
        ]

    Query(app.url, transform, "job_id", "payload", "queue", "error", mode="move").run(limit=15)
    assert found(app, "clean") == [n + 100 for n in range(0, 40, 2) if n != 8]
    assert found(app, "odd") == [n + 100 for n in range(1, 40, 2) if n != 7]
    raw = app.queue("raw")
    assert raw.size().total == 0
    (dead,) = raw.find(state=JobState.DEAD)
    assert (dead.payload, dead.errors[-1]["error"]) == ({"n": 7}, "seven")
    assert (raw.counts().moved, raw.counts().committed, raw.counts().buried) == (38, 1, 1)


def test_move_without_a_payload_leaves_it(app: Stanchion) -> None:
    Query(
        app.url, lambda rows: [{"job_id": row["id"], "delay": 60.0} for row in rows], "job_id", "delay", mode="move"
    ).run()
    assert found(app, "clean") == list(range(40))
    assert app.queue("clean").size().scheduled == 40


def test_finish(app: Stanchion) -> None:
    def transform(rows: Rows) -> Rows:
        return [
            {"job_id": row["id"], "result": row["payload"], "error": "later" if number(row) == 7 else None}
            for row in rows
        ]

    Query(app.url, transform, "job_id", "result", "error", mode="finish", errors="retry").run()
    raw = app.queue("raw")
    done = raw.find(state=JobState.DONE, limit=100)
    assert sorted(job.result["n"] for job in done) == [n for n in range(40) if n != 7]
    (again,) = raw.find(state=JobState.SCHEDULED)
    assert (again.payload, again.failures) == ({"n": 7}, 1)


@transactional
def test_append(app: Stanchion) -> None:
    """Two for each, none for one that has failed."""

    def transform(rows: Rows) -> Rows:
        return [
            {
                "job_id": row["id"],
                "payload": row["payload"],
                "queue": queue,
                "priority": 5,
                "error": "seven" if number(row) == 7 else None,
            }
            for row in rows
            for queue in (("one", "two") if number(row) != 7 else ("one",))
        ]

    query = Query(app.url, transform, "job_id", "payload", "queue", "priority", "error", mode="append")
    query.run(limit=15)
    assert found(app, "one") == found(app, "two") == [n for n in range(40) if n != 7]
    assert {job.priority for job in app.queue("one").find()} == {5}
    counts = app.queue("raw").counts()
    assert (counts.committed, counts.buried) == (39, 1)


@transactional
def test_append_of_what_is_no_longer_reserved(app: Stanchion) -> None:
    query = Query(app.url, lambda rows: [{"payload": row["payload"]} for row in rows], "payload")
    start = query.reader.initialOffset()
    end = query.reader.latestOffset(start, ReadMaxRows(10))

    def take_back() -> None:
        app.store.leave("stream:etl:1")
        app.store.clock_offset += 100
        app.store.beat([WorkerRow("w", "host", 1, (), 1, 10.0)])
        assert len(app.store.recover(limit=3)) == 3

    with pytest.raises(LeasesLost):
        query.batch(start, end, before_end=take_back)
    assert found(app, "clean") == []


def same(rows: Rows) -> Rows:
    return [{"job_id": row["id"], "payload": row["payload"]} for row in rows]


@only_sqlite
def test_a_repeated_batch_has_no_effect(app: Stanchion) -> None:
    """Spark repeats a batch whose end it has not logged."""
    first = Query(app.url, same, "job_id", "payload", mode="move")
    start = first.reader.initialOffset()
    end = first.reader.latestOffset(start, ReadMaxRows(10))
    first.batch(start, end)
    second = Query(app.url, same, "job_id", "payload", mode="move")
    second.batch(second.reader.initialOffset(), end)
    assert len(found(app, "clean")) == 10
    assert second.reader.latestOffset(end, ReadMaxRows(100))["seq"] == 2


@only_sqlite
def test_rows_of_elsewhere_are_appended_once(app: Stanchion) -> None:
    writer = stream_writer({"url": app.url, "queue": "clean"}, schema_of("payload"), False)
    rows = pa.RecordBatch.from_pylist([{"payload": '{"n": 1}'}])
    for _ in range(2):
        writer.commit([writer.write(iter([rows]))], 7)
    assert found(app, "clean") == [1]


@only_sqlite
def test_a_stream_that_was_not_read_is_not_acknowledged(app: Stanchion) -> None:
    other = StreamSource(app.store, "other", "raw")
    other.latest(other.initial(), 2)
    query = Query(app.url, same, "job_id", "payload", mode="move", stream="other")
    with pytest.raises(StreamTaken):
        query.run()
    assert app.queue("raw").size().running == 40
    nothing = Query(app.url, lambda _rows: [], "payload", stream="other")
    nothing.run()
    assert app.queue("raw").size().running == 2


@only_sqlite
@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (["payload"], {"mode": "move"}, "the column job_id is missing"),
        (["payload", "error"], {"mode": "append"}, "the column job_id is missing"),
        (["job_id", "priority"], {"mode": "move"}, "'priority' is unknown for mode=move"),
        (["job_id", "payload"], {"mode": "finish"}, "'payload' is unknown for mode=finish"),
        (["payload"], {"mode": "sideways"}, "the option mode must be append or move or finish"),
        (["job_id"], {"mode": "move", "stream": ""}, "stream"),
    ],
)
def test_mistakes(app: Stanchion, columns: list[str], options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Query(app.url, same, *columns, **options).writer()


@only_sqlite
@pytest.mark.parametrize("mode", ["append", "move"])
def test_a_row_that_cannot_be_a_job_is_buried(app: Stanchion, mode: str) -> None:
    """All others go on, and the stream with them."""

    def transform(rows: Rows) -> Rows:
        return [{**row, "payload": "{"} if number(row) in (7, 8, 21) else row for row in same(rows)]

    Query(app.url, transform, "job_id", "payload", mode=mode).run(limit=15)
    assert found(app, "clean") == [n for n in range(40) if n not in (7, 8, 21)]
    dead = app.queue("raw").find(state=JobState.DEAD)
    assert sorted(job.payload["n"] for job in dead) == [7, 8, 21]
    assert all("contains text that is not JSON" in job.errors[-1]["error"] for job in dead)
    assert app.queue("raw").size().total == 0


@only_sqlite
def test_rows_of_which_none_can_be_a_job_are_the_fault_of_the_query(app: Stanchion) -> None:
    broken = Query(app.url, lambda rows: [{**row, "payload": "{"} for row in same(rows)], "job_id", "payload")
    with pytest.raises(InvalidInput, match="not JSON"):
        broken.run()
    assert app.queue("raw").size().running == 40


@only_sqlite
@pytest.mark.parametrize("first", [True, False])
def test_rows_of_another_stream_in_the_same_batch(app: Stanchion, first: bool) -> None:
    """Their task may come before any that reads the stream which the sink names."""
    query = Query(app.url, same, "payload")
    start = query.reader.initialOffset()
    end = query.reader.latestOffset(start, ReadMaxRows(10))
    elsewhere = pa.RecordBatch.from_pylist([{"payload": json.dumps({"n": n})} for n in (100, 101)])

    def write(part: Any) -> Any:
        read = iter([elsewhere]) if part is None else query.output(query.task().read(part))
        return query.writer().write(read)

    for _ in range(2):
        parts = [None, *query.reader.partitions(start, end)]
        query.writer().commit([write(part) for part in (parts if first else parts[::-1])], 7)
    assert found(app, "clean") == [*range(10), 100, 101]
    assert app.queue("raw").counts().committed == 10


@only_sqlite
def test_rows_of_a_batch_without_jobs_are_stored_once(app: Stanchion) -> None:
    """A window closes, or only another stream has had rows."""
    query = Query(app.url, same, "payload")
    query.reader.initialOffset()
    rows = pa.RecordBatch.from_pylist([{"payload": '{"n": 100}'}])
    for _ in range(2):
        query.writer().commit([query.writer().write(iter([rows]))], 7)
    assert found(app, "clean") == [100]
    assert app.queue("raw").counts().committed == 0


@only_sqlite
def test_one_batch_of_all_is_refused(app: Stanchion) -> None:
    query = Query(app.url, same, "payload")
    with pytest.raises(InvalidInput, match="availableNow=True"):
        query.reader.latestOffset(query.reader.initialOffset(), ReadAllAvailable())


@only_sqlite
@pytest.mark.parametrize(("mode", "refused"), [("append", False), ("move", True)])
def test_queries_with_state_append(app: Stanchion, tmp_path: Path, mode: str, refused: bool) -> None:
    """Seen by the folder that Spark keeps their state in."""
    for name in ("offsets", "state"):
        (tmp_path / "checkpoint" / name).mkdir(parents=True)
    columns = ["payload"] if mode == "append" else ["job_id", "payload"]
    query = Query(app.url, same, *columns, mode=mode, checkpointLocation=f"file://{tmp_path}/checkpoint")
    if refused:
        with pytest.raises(InvalidInput, match="write new jobs with mode=append"):
            query.run()
    else:
        query.run()
    assert len(found(app, "clean")) == (0 if refused else 40)


@only_sqlite
@pytest.mark.parametrize("stateful", [True, False])
def test_a_batch_is_read_again_for_the_state_alone(app: Stanchion, tmp_path: Path, stateful: bool) -> None:
    for name in ("offsets", "state") if stateful else ("offsets",):
        (tmp_path / "checkpoint" / name).mkdir(parents=True)

    def query() -> Query:
        return Query(app.url, same, "payload", checkpointLocation=str(tmp_path / "checkpoint"))

    first = query()
    start = first.reader.initialOffset()
    end = first.reader.latestOffset(start, ReadMaxRows(10))
    first.batch(start, end)
    again = query()
    parts = again.reader.partitions(start, end)
    rows = [row for part in parts for batch in again.task().read(part) for row in batch.to_pylist()]
    assert [number(row) for row in rows] == (list(range(10)) if stateful else [])
    again.batch(start, end)
    assert found(app, "clean") == list(range(10))


@only_sqlite
@pytest.mark.parametrize(("number_of_batch", "counted", "left"), [(7, 2, 5), (8, 0, 10)])
def test_a_failed_sink_says_so(app: Stanchion, number_of_batch: int, counted: int, left: int) -> None:
    """Spark tells it that the query failed, not why; and of a batch that may be another than that which was read."""
    query = Query(app.url, same, "payload")
    start = query.reader.initialOffset()
    end = query.reader.latestOffset(start, ReadMaxRows(10))
    for _ in range(2):
        for part in query.reader.partitions(start, end):
            list(query.task().read(part))
        query.writer().abort([None, None], number_of_batch)
        query = Query(app.url, same, "payload")
    query.reader.partitions(start, end)
    assert (streams(app.store)[0].replays, app.queue("raw").size().running) == (counted, left)


@only_sqlite
def test_rows_that_cannot_be(app: Stanchion) -> None:
    """The batch is not finished, and comes again when the query is repaired."""
    twice = Query(app.url, lambda rows: same(rows) + same(rows), "job_id", "payload", mode="move")
    with pytest.raises(InvalidInput, match="two rows have the same job_id"):
        twice.run()
    no_id = Query(app.url, lambda _rows: [{"job_id": None, "payload": "1"}], "job_id", "payload", mode="move")
    with pytest.raises(InvalidInput, match="job_id is null"):
        no_id.run()
    no_json = Query(app.url, lambda _rows: [{"payload": "{"}], "payload")
    with pytest.raises(InvalidInput, match="not JSON"):
        no_json.run()
    sizes = app.queue("raw").size()
    assert (sizes.running, sizes.ready) == (20, 20), "it has failed twice, and half of it goes back"
    for _ in range(2):  # the first is a replay, too
        Query(app.url, same, "job_id", "payload", mode="move").run()
    assert found(app, "clean") == list(range(40))
