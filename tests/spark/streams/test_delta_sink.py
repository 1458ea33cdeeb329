"""The sink that writes a stream to a Delta table, called as Spark calls it, without Spark; its drivers die anywhere."""

import json
import pickle
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from deltalake import DeltaTable
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from stanchion import InvalidInput, Stanchion
from stanchion.core.spark_errors import LeasesLost, StreamTaken, TableRefused
from stanchion.lake import delta as delta_table
from stanchion.lake.delta import OpenTable
from stanchion.lake.files import DeltaFiles
from stanchion.spark.datasource.delta import sink as delta_sink
from stanchion.spark.datasource.delta.sink import DeltaSink
from stanchion.spark.datasource.reading import stream_read
from stanchion.spark.datasource.reading.stream_read import StreamReader, stream_reader
from stanchion.spark.datasource.writing.stream_write import stream_writer
from stanchion.streams import SinkBatch, streams

T = TypeVar("T")
READ = StructType().add("id", "string").add("payload", "string")
ROWS = StructType().add("n", "long").add("city", "string").add("day", "date")
CITIES = ("Oslo", "a b/c%é=:", None)


class Died(BaseException):
    """The process is gone; nothing after this is done."""


def sent(thing: T) -> T:
    """Return what another process gets of it."""
    copy: T = pickle.loads(pickle.dumps(thing))  # noqa: S301
    return copy


def row_of(job: dict[str, Any]) -> dict[str, Any]:
    from datetime import date

    n = int(json.loads(job["payload"])["n"])
    return {"n": n, "city": CITIES[n % 3], "day": date(2031, 5, 1 + n % 2)}


@dataclass
class Log:
    """What Spark has in its checkpoint: the ends of batches that began, and how many are finished."""

    folder: Path
    ends: list[dict[str, Any]] = field(default_factory=list)
    finished: int = 0

    def __post_init__(self) -> None:
        (self.folder / "offsets").mkdir(parents=True, exist_ok=True)


class Driver:
    """Runs a query on a store as Spark does, two tasks a batch."""

    runs = count()
    readers: ClassVar[list[StreamReader]] = []

    def __init__(self, url: str, table: Path, log: Log, schema: StructType = ROWS, **options: str) -> None:
        self.url, self.table, self.log, self.schema, self.options = url, table, log, schema, options
        self.run_id = f"run{next(Driver.runs)}"
        self.reader = sent(stream_reader({"url": url, "queue": "raw", "stream": "etl", "partitions": "2"}, READ))
        self.readers.append(self.reader)

    def work(self, limit: int = 10) -> None:
        """Process what is ready, from the log on."""
        log = self.log
        self.reader.prepareForTriggerAvailableNow()
        while True:
            start = log.ends[log.finished - 1] if log.finished else self.reader.initialOffset()
            if len(log.ends) == log.finished:
                end = self.reader.latestOffset(start, ReadMaxRows(limit))
                if end == start:
                    return
                log.ends.append(end)
            self.batch(start, log.ends[log.finished])
            log.finished += 1

    def batch(self, start: dict[str, Any], end: dict[str, Any]) -> None:
        number = self.log.finished
        with pytest.MonkeyPatch.context() as patched:
            for module in (stream_read, delta_sink):
                patched.setattr(module, "this_run", lambda: f"{self.run_id}:{number}")
            patched.setattr(delta_sink, "this_batch", lambda: f"query:{number}")
            parts = self.reader.partitions(start, end)
            messages = [self.writer().write(self.output(sent(self.reader).read(part))) for part in parts]
            try:
                self.writer().commit(messages, number)
            except Exception:
                self.writer().abort(messages, number)
                raise

    def writer(self) -> DeltaSink:
        given = {"url": self.url, "stream": "etl", "mode": "delta", "path": str(self.table), **self.options}
        writer = stream_writer({**given, "checkpointLocation": str(self.log.folder)}, self.schema, False)
        assert isinstance(writer, DeltaSink)
        return sent(writer)

    def output(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [row_of(job) for job in batch.to_pylist()]
            kinds = {"n": pa.int64(), "city": pa.string(), "day": pa.date32(), "more": pa.int32()}
            yield pa.RecordBatch.from_pylist(rows, pa.schema([(one.name, kinds[one.name]) for one in self.schema]))


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """End the processes of the drivers: what they have opened would keep this one from its end."""
    yield
    for reader in Driver.readers:
        if "_opened" in vars(reader):
            reader._opened.close()
    Driver.readers.clear()


@pytest.fixture(params=["sqlite", "pg_url", "mariadb_url", "redis_url", "mongo_url"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stanchion]:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    with closing(Stanchion(url if request.param == "sqlite" else request.getfixturevalue(request.param))) as one:
        one.setup()
        one.queue("raw").push_many([{"n": n} for n in range(40)])
        yield one


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "lake" / "orders"


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "checkpoint")


only_sqlite = pytest.mark.parametrize("app", ["sqlite"], indirect=True)


def numbers(table: Path) -> list[int]:
    """Return the rows of the table, as any reader of Delta sees them."""
    return sorted(DeltaTable(str(table)).to_pyarrow_table(columns=["n"])["n"].to_pylist())


def files(table: Path) -> set[Path]:
    return set(table.rglob("*.parquet"))


def named(table: Path) -> set[Path]:
    """Return the files that the table has."""
    return {table / path for path in pa.table(DeltaTable(str(table)).get_add_actions())["path"].to_pylist()}


def test_each_row_once(app: Stanchion, table: Path, log: Log) -> None:
    Driver(app.url, table, log, partitionBy="city,day").work()
    found = DeltaTable(str(table))
    rows = found.to_pyarrow_table().sort_by("n").to_pylist()
    assert rows == [row_of({"payload": json.dumps({"n": n})}) for n in range(40)]
    assert found.metadata().partition_columns == ["city", "day"]
    assert app.queue("raw").size().total == 0
    assert app.queue("raw").counts().committed == 40
    (stream,) = streams(app.store)
    assert (stream.reserved, stream.acked) == (4, 4)
    assert found.transaction_version(f"stanchion:etl:{stream.id}") == 4
    assert sum(one["num_records"] for one in pa.table(found.get_add_actions()).to_pylist()) == 40


STEPS: dict[str, tuple[Any, str]] = {
    "writing files": (DeltaFiles, "close"),
    "making the table": (delta_table.DeltaTarget, "open"),
    "the look at the stream": (SinkBatch, "read_by"),
    "the look at its jobs": (SinkBatch, "hold"),
    "adding files": (OpenTable, "append"),
    "acknowledging": (SinkBatch, "drop_rest"),
}


@pytest.mark.one_in_each("step", "app", "before")
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_its_driver_dies(
    app: Stanchion, table: Path, log: Log, monkeypatch: pytest.MonkeyPatch, step: str, before: bool
) -> None:
    """At each step, in its second batch; then another continues from Spark's log."""
    owner, name = STEPS[step]
    with monkeypatch.context() as patched:
        patched.setattr(DeltaFiles, "drop", lambda _files: None)
        function, calls = getattr(owner, name), count()

        def dying(*args: Any, **options: Any) -> Any:
            ends = next(calls) == (2 if step == "writing files" else 1)
            if ends and before:
                raise Died
            answer = function(*args, **options)
            if ends:
                raise Died
            return answer

        patched.setattr(owner, name, staticmethod(dying) if name == "read_by" else dying)
        with pytest.raises(Died):
            Driver(app.url, table, log).work()
    done = app.queue("raw").counts().committed
    assert done <= len(numbers(table)), "no job is done before the table has its row"
    Driver(app.url, table, log).work()
    assert numbers(table) == list(range(40))
    assert app.queue("raw").size().total == 0
    assert app.queue("raw").counts().committed == 40
    DeltaTable(str(table)).vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    assert files(table) == named(table)


@only_sqlite
def test_two_drivers_at_once(app: Stanchion, table: Path, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """One stands still right before its commit to the table, and another does all; then the first goes on."""
    hold = SinkBatch.hold

    def overtaken(batch: SinkBatch) -> SinkBatch:
        held = hold(batch)
        monkeypatch.setattr(SinkBatch, "hold", hold)
        Driver(app.url, table, log).work()
        return held

    monkeypatch.setattr(SinkBatch, "hold", overtaken)
    first = Driver(app.url, table, Log(log.folder, log.ends))
    with suppress(StreamTaken):
        first.work()
    assert numbers(table) == list(range(40))
    assert files(table) == named(table), "the slower one deletes its files"
    assert app.queue("raw").size().total == 0


@only_sqlite
def test_jobs_that_were_taken_back_are_not_in_the_table(
    app: Stanchion, table: Path, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_by, queue = SinkBatch.read_by, app.queue("raw")

    def late(*args: Any) -> SinkBatch | None:
        batch = read_by(*args)
        (held, *_) = queue.find(state="running")
        app.store.settle([_rollback(batch, held.id)])
        return batch

    with monkeypatch.context() as patched:
        patched.setattr(SinkBatch, "read_by", staticmethod(late))
        with pytest.raises(LeasesLost):
            Driver(app.url, table, log).work()
    assert not named(table)
    Driver(app.url, table, log).work()
    Driver(app.url, table, log).work()
    assert numbers(table) == list(range(40))


def _rollback(batch: SinkBatch | None, job: str) -> Any:
    from stanchion.stores.records.outcomes import Rollback

    assert batch is not None
    return Rollback(batch.state.lease(job), 0.0, refund=True)


@only_sqlite
def test_a_query_with_state_is_acknowledged_by_its_reader(app: Stanchion, table: Path, log: Log) -> None:
    (log.folder / "state").mkdir()
    driver = Driver(app.url, table, log)
    end = driver.reader.latestOffset(start := driver.reader.initialOffset(), ReadMaxRows(10))
    driver.batch(start, end)
    assert app.queue("raw").size().running == 10, "Spark's log does not have the batch yet"
    log.ends, log.finished = [end], 0
    Driver(app.url, table, log).work()
    assert numbers(table) == list(range(40))
    assert app.queue("raw").size().total == 0


@only_sqlite
def test_rows_of_no_batch_are_written_once(app: Stanchion, table: Path, log: Log) -> None:
    """As a window closes they come from the state of the query."""
    rows = pa.RecordBatch.from_pylist([row_of({"payload": '{"n": 5}'})], pa.schema(list(_arrow())))
    driver = Driver(app.url, table, log)
    driver.reader.initialOffset()
    for batch, number in ((0, 0), (0, 0), (1, 1)):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(delta_sink, "this_run", lambda: "another")
            patched.setattr(delta_sink, "this_batch", lambda batch=batch: f"query:{batch}")
            driver.writer().commit([driver.writer().write(iter([rows]))], number)
    assert numbers(table) == [5, 5]
    assert files(table) == named(table)


def _arrow() -> Iterator[tuple[str, pa.DataType]]:
    yield from (("n", pa.int64()), ("city", pa.string()), ("day", pa.date32()))


@only_sqlite
def test_columns_that_come_later(app: Stanchion, table: Path, log: Log) -> None:
    Driver(app.url, table, log).work(limit=40)
    app.queue("raw").push_many([{"n": n} for n in range(40, 45)])
    wider = StructType([*ROWS.fields, *StructType().add("more", "integer").fields])
    for _ in range(3):
        with pytest.raises(TableRefused, match="has no column more; the option mergeSchema=true"):
            Driver(app.url, table, log, wider).work()
    assert app.queue("raw").size().running == 5, "no job is to blame"
    Driver(app.url, table, log, wider, mergeSchema="true").work()
    assert numbers(table) == list(range(45))
    assert [one.name for one in DeltaTable(str(table)).schema().fields] == ["n", "city", "day", "more"]


@only_sqlite
@pytest.mark.parametrize(
    ("schema", "options", "match"),
    [
        (ROWS, {"partitionBy": "day"}, "partitions are by no column"),
        (StructType().add("n", "string"), {}, "column n is of type long, not string"),
    ],
)
def test_a_table_of_another_form(
    app: Stanchion, table: Path, log: Log, schema: StructType, options: dict[str, str], match: str
) -> None:
    Driver(app.url, table, log).work(limit=20)
    app.queue("raw").push({"n": 40})
    with pytest.raises(TableRefused, match=match):
        Driver(app.url, table, log, schema, **options).writer().target.open()


WRONG: list[tuple[dict[str, str], str]] = [
    ({"path": ""}, "a folder that all machines share"),
    ({"path": "s3://lake/orders"}, "a folder that all machines share"),
    ({"partitionBy": "town"}, "names 'town'; known columns: n, city, day"),
    ({"partitionBy": "n,city,day"}, "names all columns"),
    ({"queue": "clean"}, "option queue is for new jobs"),
    ({"mode": "append", "queue": "clean"}, "option path is for mode=delta alone"),
]


@pytest.mark.parametrize(("options", "match"), WRONG)
def test_wrong_options(tmp_path: Path, options: dict[str, str], match: str) -> None:
    given = {"url": f"sqlite:///{tmp_path}/jobs.db", "stream": "etl", "mode": "delta", "path": str(tmp_path)}
    with pytest.raises(InvalidInput, match=match):
        stream_writer({**given, **options}, ROWS, False)
