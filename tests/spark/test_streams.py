"""Streams through Spark: from queue to queue, on each store."""

import json
import re
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from stanchion import Push, Stanchion
from stanchion.jobs.job import JobState
from tests.spark.conftest import nightly
from tests.spark.supervision import supervised

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRANSACTIONAL = [nightly("sqlite_url"), "pg_url", nightly("mariadb_url")]


class Streams:
    """A store, and queries that read its queue `raw` and end when it is empty."""

    def __init__(self, spark: "SparkSession", app: Stanchion, folder: Path) -> None:
        self.spark, self.app, self.folder = spark, app, folder

    def run(
        self, *columns: str, where: str = "true", stream: str = "raw", lanes: str | None = None, **writes: Any
    ) -> None:
        """Run a query whose rows have these columns, until all is done that is ready now."""
        reads: dict[str, Any] = {"url": self.app.url, "queue": "raw", "maxRecordsPerBatch": 200, "partitions": 2}
        if lanes is not None:
            reads |= {"stream": stream, "lanes": lanes}
        frame = self.spark.readStream.format("stanchion").options(**reads).load().where(where).selectExpr(*columns)
        checkpoint = str(self.folder / f"checkpoint of {stream}")
        writes = {"url": self.app.url, "stream": stream, "checkpointLocation": checkpoint, **writes}
        query = frame.writeStream.format("stanchion").options(**writes).trigger(availableNow=True)
        self.query = query.start()
        supervised(self.query.awaitTermination)

    def fill(self, count: int) -> None:
        self.app.queue("raw").push_many([{"n": n} for n in range(count)])

    def found(self, queue: str) -> list[int]:
        """Return what has come to a queue."""
        return sorted(job.payload["n"] for job in self.app.queue(queue).find(limit=10_000))


@pytest.fixture(params=["sqlite_url", *map(nightly, ("pg_url", "mariadb_url", "redis_url", "mongo_url"))])
def streams(spark: "SparkSession", request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Streams]:
    url = (
        f"sqlite:///{tmp_path / 'jobs.db'}" if request.param == "sqlite_url" else request.getfixturevalue(request.param)
    )
    with closing(Stanchion(url)) as app:
        app.setup()
        yield Streams(spark, app, tmp_path)


class TestModes:
    @pytest.mark.nightly
    def test_move_on_every_store(self, streams: Streams) -> None:
        """With rows that go their own way, one that has failed, and one that is dropped."""
        streams.fill(300)
        streams.run(
            "id as job_id",
            "payload",
            "if(get_json_object(payload, '$.n') % 10 = 3, 'odd', null) as queue",
            "if(get_json_object(payload, '$.n') = 7, 'seven', null) as error",
            where="get_json_object(payload, '$.n') <> 8",
            mode="move",
            to="clean",
        )
        assert streams.found("odd") == list(range(3, 300, 10))
        assert streams.found("clean") == [n for n in range(300) if n % 10 != 3 and n not in (7, 8)]
        raw = streams.app.queue("raw")
        assert raw.size().total == 0
        assert (raw.counts().moved, raw.counts().committed) == (298, 1)
        (dead,) = raw.find(state=JobState.DEAD)
        assert dead.payload == {"n": 7}
        assert dead.errors[-1]["error"] == "seven"

    @pytest.mark.parametrize("streams", [nightly("sqlite_url")], indirect=True)
    def test_lanes_as_streams_of_their_own(self, streams: Streams) -> None:
        raw = streams.app.queue("raw")
        raw.configure(lanes=8, lanes_per_tenant=1)
        raw.push_many([Push({"n": n}, tenant=f"t{n}") for n in range(64)])
        low = [job.payload["n"] for job in raw.find(limit=100) if job.lane is not None and job.lane < 4]
        assert 0 < len(low) < 64
        streams.run("id as job_id", "payload", stream="raw-0-3", lanes="0-3", mode="move", to="low")
        assert (streams.found("low"), raw.size().total) == (sorted(low), 64 - len(low))
        streams.run("id as job_id", "payload", stream="raw-4-", lanes="4-", mode="move", to="high")
        assert (len(streams.found("high")), raw.size().total) == (64 - len(low), 0)

    @pytest.mark.parametrize("streams", TRANSACTIONAL, indirect=True)
    def test_append(self, streams: Streams) -> None:
        """One that has failed has no output, and no other way than to the dead."""
        streams.fill(300)
        streams.run(
            "id as job_id",
            "payload",
            "5 as priority",
            "if(get_json_object(payload, '$.n') = 7, 'seven', null) as error",
            mode="append",
            to="clean",
        )
        assert streams.found("clean") == [n for n in range(300) if n != 7]
        assert {job.priority for job in streams.app.queue("clean").find(limit=10)} == {5}
        counts = streams.app.queue("raw").counts()
        assert (counts.committed, counts.buried) == (299, 1)
        read = {job.payload["n"]: job.id for job in streams.app.queue("raw").find(state="done", limit=300)}
        batches = set()
        for job in streams.app.queue("clean").find(limit=300):
            made_from = job.headers["x-lineage"]
            [[first, last]] = made_from["items"]
            assert made_from["stream"] == "raw"
            assert first <= read[job.payload["n"]] <= last
            batches.add((made_from["batch"], made_from["write"], first, last))
        assert len(batches) == len({batch for batch, *_ in batches}) == 2
        offsets = [json.loads(one.sources[0].latestOffset) for one in streams.query.recentProgress]
        assert (offsets[0]["seq"], offsets[0]["behind"]) == (2, 100)  # later counts may be older than their batch

    @pytest.mark.parametrize("streams", ["sqlite_url"], indirect=True)
    @pytest.mark.nightly
    def test_finish(self, streams: Streams) -> None:
        """With results; an error that is to be tried again gives the job back."""
        streams.fill(30)
        streams.run(
            "id as job_id",
            "struct(length(payload) as length) as result",
            "if(get_json_object(payload, '$.n') = 7, 'later', null) as error",
            "3600 as delay",
            mode="finish",
            errors="retry",
        )
        raw = streams.app.queue("raw")
        assert {job.result["length"] for job in raw.find(state=JobState.DONE, limit=100)} == {7, 8}
        (again,) = raw.find(state=JobState.SCHEDULED)
        assert (again.payload, again.failures) == ({"n": 7}, 1)


@pytest.mark.parametrize("streams", ["sqlite_url"], indirect=True)
class TestQueries:
    def test_rows_of_elsewhere_are_appended_once(self, streams: Streams, tmp_path: Path) -> None:
        """The log of the last batch is lost, so Spark repeats it."""
        source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
        streams.spark.range(20).selectExpr("named_struct('n', id) as payload").write.json(str(source))

        def run() -> None:
            rows = streams.spark.readStream.schema("payload struct<n: long>").json(str(source))
            query = rows.writeStream.format("stanchion").options(url=streams.app.url, to="clean")
            query = query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
            supervised(lambda: query.start().awaitTermination())

        run()
        for file in (checkpoint / "commits").iterdir():
            file.unlink()
        run()
        (made_from,) = {json.dumps(job.headers) for job in streams.app.queue("clean").find()}
        assert json.loads(made_from).keys() == {"x-lineage"}
        assert list(json.loads(made_from)["x-lineage"]) == ["write"]
        assert streams.found("clean") == list(range(20))

    @pytest.mark.nightly
    def test_a_job_that_breaks_the_query_is_dead_with_the_error(self, streams: Streams) -> None:
        """Once its attempts are used up; all others go through."""
        streams.app.queue("raw").push_many([Push({"n": n}, max_attempts=1) for n in range(4)])
        breaks = "if(get_json_object(payload, '$.n') = 2, raise_error('two'), payload) as payload"
        restarts = 0
        while streams.app.queue("raw").size().total:
            restarts += 1
            assert restarts < 10
            with suppress(StreamingQueryException):
                streams.run(breaks, mode="append", to="clean")
        assert streams.found("clean") == [0, 1, 3]
        (dead,) = streams.app.queue("raw").find(state=JobState.DEAD)
        assert dead.payload == {"n": 2}
        assert re.search("PoisonJob: .*two", dead.errors[-1]["error"], re.DOTALL)

    def test_one_batch_of_all_is_refused(self, streams: Streams, tmp_path: Path) -> None:
        rows = streams.spark.readStream.format("stanchion").options(url=streams.app.url, queue="raw").load()
        query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        with pytest.raises(StreamingQueryException, match="availableNow=True"):
            supervised(lambda: query.trigger(once=True).start().awaitTermination())

    @pytest.mark.nightly
    def test_other_sinks_are_acknowledged_too(self, streams: Streams, tmp_path: Path) -> None:
        """By the reader, as soon as Spark's log has the batch; here in a function that runs the batch twice."""
        streams.fill(30)
        found: dict[int, list[int]] = {}

        def collect(frame: "DataFrame", number: int) -> None:
            assert frame.count() == 10, number
            found[number] = [int(row.n) for row in frame.selectExpr("get_json_object(payload, '$.n') as n").collect()]

        rows = streams.spark.readStream.format("stanchion").options(
            url=streams.app.url, queue="raw", maxRecordsPerBatch=10
        )
        query = rows.load().writeStream.foreachBatch(collect).option("checkpointLocation", str(tmp_path / "checkpoint"))
        supervised(lambda: query.trigger(availableNow=True).start().awaitTermination())
        assert sorted(n for batch in found.values() for n in batch) == list(range(30))
        assert streams.app.queue("raw").counts().committed == 30
