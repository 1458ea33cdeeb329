"""Batches of plain rows, which are stored without a look at each: as those that are, row by row."""

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from cryptography.fernet import Fernet
from pyspark import TaskContext
from pyspark.sql.types import StructType

from stanchion import Stanchion
from stanchion.core.ids import new_id, new_ids
from stanchion.core.spark_errors import StagedJobsLost
from stanchion.errors import InvalidInput
from stanchion.spark.datasource import runs
from stanchion.spark.datasource.json_texts import are_objects, may_be_compact
from stanchion.spark.datasource.writing import task_stage
from stanchion.spark.datasource.writing import write as writing
from stanchion.spark.datasource.writing.columns import new_ids as new_arrow_ids
from stanchion.spark.datasource.writing.write import JobsWriter, Staged, writer_of
from stanchion.stores.records.jobs import NewJob
from stanchion.stores.records.query import Query
from tests.spark.conftest import nightly

ODD = (
    '{"a":"tab\\tline\\nquote\\" back\\\\slash"}',
    '{"a":"\\b\\f\\r\\\\N \\\\. \\\\T"}',
    '{"a":"\\\\T\\\\t\\\\N"}',
    '{"n":12345678901234567890.12345678901234567890}',
    '{"n":1.0e2,"m":-0.0,"x":1E30}',
    '{"a":1,"a":2}',
    '{"é":"\u2028 😀 \u007f"}',
    "{}",
)
"""Objects that are compact JSON."""

NOT_COMPACT = (
    '{"a": 1}',
    '{"a":"\\u00e9\\u0000"}',
    '{"a":"\\ud83d\\ude00"}',
    '{"a":"\\/"}',
    '{"a":1E400}',
    ' {"a":1}',
    '{"a":1}\n',
    "1",
    "[1]",
    "null",
    '"text"',
)
"""JSON that needs a look."""

NO_JSON = (
    "",
    "{",
    "{}{}",
    "{}\n{}",
    "{'a':1}",
    '{"a":1,}',
    '{"a":01}',
    '{"a":NaN}',
    '{"a":Infinity}',
    '{"a":"raw\ttab"}',
    '{"a":"nul\0"}',
    '{"a":tru}',
    '{"a":"}',
    '{"a":"\\x"}',
    "\ufeff{}",
    "{/**/}",
    '{"a":' + "[" * 5000 + "]" * 5000 + "}",
)


def batch(payloads: Sequence[str | None], **columns: pa.Array) -> pa.RecordBatch:
    return pa.record_batch({"payload": pa.array(payloads, pa.string()), **columns})


SQL = ("sqlite", "postgresql", nightly("mariadb"))


@pytest.fixture(params=[*SQL, *map(nightly, ("redis", "mongodb"))])
def app(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Stanchion]:
    given = {"postgresql": "pg_store_url", "mariadb": "mariadb_url", "redis": "redis_url", "mongodb": "mongo_url"}
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    if request.param in given:
        url = request.getfixturevalue(given[request.param])
    with closing(Stanchion(url)) as app:
        app.setup()
        yield app


def writer(app: Stanchion, schema: pa.Schema, **options: str) -> JobsWriter:
    kinds = {pa.string(): "string", pa.int32(): "integer", pa.float64(): "double"}
    spark = StructType()
    for one in schema:
        spark.add(one.name, kinds[one.type])
    return writer_of({"url": app.url, "queue": "q", **options}, spark, False)


def write(app: Stanchion, *batches: pa.RecordBatch, **options: str) -> list[Staged]:
    made = writer(app, batches[0].schema, **options)
    messages = [made.write(iter(batches))]
    made.commit(list(messages))
    return messages


def stored(app: Stanchion) -> list[Any]:
    """Return what is stored in the order of ids, but the ids and times, and forget it."""
    rows = app.store.select(Query("live", (), order="id", limit=10_000)).rows
    assert all(row.run_at <= row.enqueued_at for row in rows)
    assert len({row.run_at for row in rows}) <= 1
    assert app.queue("q").counts().pushed == len([row for row in rows if row.queue == "q"])
    for queue in {row.queue for row in rows}:
        app.store.drop_queue(queue)
    return [row._replace(id="", run_at=0, enqueued_at=0) for row in rows]


def both_ways(app: Stanchion, monkeypatch: pytest.MonkeyPatch, *batches: pa.RecordBatch, **options: str) -> list[Any]:
    """Write rows, both as columns and one by one; return the jobs, which are the same."""
    [by_columns] = write(app, *batches, **options)
    jobs = stored(app)
    with monkeypatch.context() as patched:
        patched.setattr(writing, "plain_columns", lambda *_: None)
        [one_by_one] = write(app, *batches, **options)
    assert by_columns.carried
    assert not one_by_one.carried
    assert jobs == stored(app)
    return jobs


def random_text(rng: random.Random) -> str:
    alphabet = 'aZ09 \t\n\r\b\f\\"/\0\x1f\x7f\u0085é\u2028😀N.{}[],:'
    return "".join(rng.choice(alphabet) for _ in range(rng.randrange(20)))


def is_compact_json(texts: pa.Array, most: int) -> bool:
    """Return whether both checks of the bulk write take these texts."""
    return may_be_compact(texts, most) and are_objects(texts)


class TestSame:
    def test_a_named_write_is_told(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        """Both ways, and beside the headers that a row has."""
        name = 'orders "\\ 5'
        with monkeypatch.context() as patched:
            for way in ("columns", "one by one"):
                if way == "one by one":
                    patched.setattr(writing, "plain_columns", lambda *_: None)
                write(app, batch(['{"n":1}']), writeId=f"{name} {way}")
                (job,) = stored(app)
                assert json.loads(job.headers) == {"x-lineage": {"write": f"{name} {way}"}}
        own = pa.array(['{"a":1,"x-lineage":"of its source"}', None])
        write(app, batch(["{}", "{}"], headers=own), writeId="w")
        assert [json.loads(job.headers) for job in stored(app)] == [
            {"a": 1, "x-lineage": {"write": "w"}},
            {"x-lineage": {"write": "w"}},
        ]
        write(app, batch(["{}"]))
        assert [job.headers for job in stored(app)] == [None]

    def test_odd_objects(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        jobs = both_ways(app, monkeypatch, batch(list(ODD)))
        assert [job.payload for job in jobs] == list(ODD)

    def test_random_objects(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        rng = random.Random(1)
        given = [{random_text(rng): [random_text(rng), rng.random(), None]} for _ in range(600)]
        texts = [json.dumps(one, separators=(",", ":"), ensure_ascii=False) for one in given]
        texts = [text for text in texts if is_compact_json(pa.array([text]), 1000)]
        assert len(texts) > 100
        both_ways(app, monkeypatch, batch(texts[:50]), batch(texts[50:]))

    def test_all_fields(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        rows = batch(
            ["{}"] * 4,
            priority=pa.array([1, None, -100, 100], pa.int32()),
            tenant=pa.array(["a\\t", "a\\N", None, "\\T"], pa.string()),
            max_attempts=pa.array([1, None, 3, 4], pa.int32()),
            timeout=pa.array([0.1, None, 1e-7, 5.0], pa.float64()),
            queue=pa.array(["p"] * 4, pa.string()),
        )
        jobs = both_ways(app, monkeypatch, rows, priority="7", tenant="of all", maxAttempts="9", timeout="3.5")
        assert [job.priority for job in jobs] == [1, 7, -100, 100]
        assert [job.rank for job in jobs] == [1, 7, -100, 100]
        assert [job.tenant for job in jobs] == ["a\\t", "a\\N", "of all", "\\T"]
        assert [job.timeout for job in jobs] == [0.1, 3.5, 1e-7, 5.0]
        assert {job.queue for job in jobs} == {"p"}

    def test_jobs_that_expire(self, app: Stanchion) -> None:
        rows = batch(["{}"] * 3, expires=pa.array([5.0, None, 60.0], pa.float64()))
        [written] = write(app, rows, expires="3.5")
        assert not written.carried  # as columns
        assert [job.expires for job in stored(app)] == [5.0, 3.5, 60.0]
        write(app, batch(["{}"]), expires="7")
        assert [job.expires for job in stored(app)] == [7.0]
        with pytest.raises(InvalidInput, match="expires"):
            write(app, batch(["{}"]), expires="0")

    def test_options(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        [job] = both_ways(app, monkeypatch, batch(["{}"]), priority="interactive", tenant="t\\", maxAttempts="2")
        assert (job.tenant, job.max_attempts) == ("t\\", 2)
        [job] = both_ways(app, monkeypatch, batch(["{}"]), tenant="0")
        assert (job.priority, job.rank, job.tenant) == (0, 0, "0")

    def test_no_fields(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        [job] = both_ways(app, monkeypatch, batch(["{}"], tenant=pa.nulls(1, pa.string())))
        assert (job.tenant, job.max_attempts, job.timeout) == (None, NewJob("", "", "").max_attempts, None)


class TestJson:
    @pytest.mark.parametrize("text", ODD)
    def test_compact(self, text: str) -> None:
        assert is_compact_json(pa.array([text]), 1000)
        assert is_compact_json(pa.array(["{}", text, "{}"]).slice(1, 1), 1000)

    @pytest.mark.parametrize("text", [*NOT_COMPACT, *NO_JSON, None, "{" + "[" * 9000])
    def test_what_needs_a_look(self, text: str | None) -> None:
        assert not is_compact_json(pa.array([text], pa.string()), 100_000)
        assert not is_compact_json(pa.array(["{}", text, "{}"], pa.string()), 100_000)

    def test_numbers_that_python_refuses(self) -> None:
        assert not is_compact_json(pa.array(['{"n":' + "1" * 5000 + "}"]), 100_000)

    def test_bytes_that_are_no_text(self) -> None:
        broken = pa.array([b'{"a":"\xff"}', b'{"a":"\xed\xa0\x80"}'], pa.binary()).view(pa.string())
        assert not is_compact_json(broken.slice(0, 1), 1000)
        assert not is_compact_json(broken.slice(1, 1), 1000)

    def test_size(self) -> None:
        assert is_compact_json(pa.array(['{"a":"é"}']), 10)
        assert not is_compact_json(pa.array(['{"a":"é"}']), 9)

    def test_random_texts_are_what_python_takes(self) -> None:
        rng, taken = random.Random(2), 0
        for _ in range(3000):
            text = "{" + "".join(rng.choice('{}[]",:1e-.0 ax\\ntrue') for _ in range(rng.randrange(9))) + "}"
            if is_compact_json(pa.array([text]), 1000):
                taken += 1
                assert isinstance(json.loads(text), dict)
        assert taken


class TestOneByOne:
    @pytest.mark.parametrize("text", [*NOT_COMPACT[:3], *map(nightly, NOT_COMPACT[3:])])
    def test_other_json(self, app: Stanchion, text: str) -> None:
        [message] = write(app, batch(["{}", text]))
        assert not message.carried
        assert [json.loads(job.payload) for job in stored(app)] == [{}, json.loads(text)]

    def test_an_error_names_its_row(self, app: Stanchion) -> None:
        with pytest.raises(InvalidInput, match="not JSON"):
            write(app, batch(["{}", "{'a':1}"]))
        with pytest.raises(InvalidInput, match="priority"):
            write(app, batch(["{}"], priority=pa.array([1000], pa.int32())))
        assert stored(app) == []

    def test_lanes_partitions_order_keys_and_keys(self, app: Stanchion) -> None:
        app.queue("lanes").configure(lanes=4)
        app.queue("parts").configure(partitions=2)
        rows = batch(["{}"] * 8)
        for queue in ("lanes", "parts"):
            [message] = write(app, rows, queue=queue)
            assert not message.carried
            assert app.queue(queue).size().total == 8
        assert sum(app.queue("lanes").lanes().values()) == 8
        [message] = write(app, batch(["{}"] * 2, order_key=pa.array(["a", "b"])))
        assert not message.carried
        [message] = write(app, batch(["{}"] * 2, key=pa.array(["a", "a"])))
        assert not message.carried
        assert app.queue("q").size().total == 3

    def test_several_queues(self, app: Stanchion) -> None:
        [message] = write(app, batch(["{}"] * 3, queue=pa.array(["p", None, "r"])))
        assert not message.carried
        assert [app.queue(name).size().total for name in "pqr"] == [1, 1, 1]

    def test_encrypted(self, app: Stanchion) -> None:
        [message] = write(app, batch(["{}"]), keys=Fernet.generate_key().decode())
        assert not message.carried
        assert stored(app)[0].payload.startswith("enc:")

    def test_delayed_and_tasks(self, app: Stanchion) -> None:
        for options in ({"delay": "60"}, {"task": "t"}, {"rate": "5/s"}):
            text = '{"args":[],"kwargs":{}}'
            [message] = write(app, batch([text]), **options)
            assert not message.carried
        assert app.queue("q").size().total == 3


@pytest.mark.parametrize("app", SQL, indirect=True)
class TestStage:
    def test_many_are_staged_and_published_together_with_few(
        self, app: Stanchion, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(task_stage, "CARRIED_BYTES", 2000)
        rows = batch([json.dumps({"n": n}, separators=(",", ":")) for n in range(500)])
        made = writer(app, rows.schema, writeId="w")
        lost = made.write(iter([rows]))  # an attempt that Spark does not name, as its executor died
        messages = [made.write(iter([rows.slice(0, 10)])), made.write(iter([rows.slice(10), batch(["[1]"])]))]
        assert [(message.jobs, sum(one.jobs for one in message.carried)) for message in messages] == [(0, 10), (491, 0)]
        assert lost.jobs == 500
        assert app.queue("q").size().total == 0
        made.commit(list(messages))
        made.commit(list(messages))  # again, as after a lost reply
        found = sorted(job.payload for job in stored(app))
        assert found == sorted([*rows.column("payload").to_pylist(), "[1]"])
        assert nothing_staged(app)

    @pytest.mark.parametrize(
        ("jobs", "carriers"), [pytest.param(1, runs.CARRIERS, id="some"), pytest.param(500, runs.FIRST, id="many")]
    )
    def test_only_the_first_tasks_carry_jobs(
        self, app: Stanchion, monkeypatch: pytest.MonkeyPatch, jobs: int, carriers: int
    ) -> None:
        monkeypatch.setattr(task_stage, "CARRIED_BYTES", 8 * 20_000)
        task = Mock()
        monkeypatch.setattr(TaskContext, "get", lambda: task)
        made = writer(app, batch(["{}"]).schema)
        messages = []
        for task.partitionId.return_value in (0, carriers - 1, carriers, 100_000):
            messages.append(made.write(iter([batch(["{}"] * jobs)])))
        staged = [(message.jobs, sum(one.jobs for one in message.carried)) for message in messages]
        assert staged == [(0, jobs), (0, jobs), (jobs, 0), (jobs, 0)]
        made.commit(list(messages))
        assert len(stored(app)) == 4 * jobs

    def test_a_repeat_of_the_write_adds_nothing(self, app: Stanchion) -> None:
        for _ in range(2):
            write(app, batch(["{}"] * 5), writeId="once")
        assert len(stored(app)) == 5

    def test_lost_rows_of_the_stage_are_noticed(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(task_stage, "CARRIED_BYTES", 0)
        made = writer(app, batch(["{}"]).schema)
        messages = [made.write(iter([batch(["{}"] * 5)]))]
        with app.transaction() as connection:
            connection.exec_driver_sql("DELETE FROM stanchion_stage_prepared")
        with pytest.raises(StagedJobsLost):
            made.commit(list(messages))
        assert stored(app) == []

    def test_an_abort_and_upkeep_clear_the_stage(self, app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(task_stage, "CARRIED_BYTES", 0)
        for end in ("abort", "upkeep"):
            made = writer(app, batch(["{}"]).schema)
            messages = [made.write(iter([batch(["{}"] * 5)]))]
            assert not nothing_staged(app)
            if end == "abort":
                made.abort(list(messages))
            else:
                app.store.clock_offset = 90_000.0
                app.store.maintain()
                app.store.clock_offset = 0.0
            assert nothing_staged(app)


def nothing_staged(app: Stanchion) -> bool:
    with app.transaction() as connection:
        counts = [
            connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar()
            for table in ("stanchion_stage", "stanchion_stage_prepared")
        ]
    return counts == [0, 0]


def test_ids_ascend_with_those_made_otherwise() -> None:
    made = [new_id(), *new_arrow_ids(10_000).to_pylist(), *new_ids(3), *new_arrow_ids(1).to_pylist(), new_id()]
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert {len(one) for one in made} == {36}
