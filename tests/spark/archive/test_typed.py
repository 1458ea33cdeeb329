"""Typed columns of an archive, and archives that were written before there were some."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from stanchion import InvalidInput, Stanchion
from stanchion.spark import archive
from stanchion.spark.archiving import files, rows, table


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Stanchion]:
    app = Stanchion(f"sqlite:///{tmp_path}/jobs.db")
    app.setup()
    yield app
    app.close()


def done(app: Stanchion, queue: str, *payloads: Any) -> None:
    """Push and finish jobs."""
    app.queue(queue).push_many(payloads)
    for job in app.queue(queue).reserve(100):
        job.commit()


def read(folder: Path, *columns: str) -> list[tuple[Any, ...]]:
    """Return the rows in the order of their jobs, as any reader of Delta sees them."""
    found = pa.table(DeltaTable(str(folder)).to_pyarrow_table(columns=["id", *columns])).sort_by("id")
    return [tuple(one[name] for name in columns) for one in found.to_pylist()]


def test_payloads_are_columns(app: Stanchion, folder: Path) -> None:
    app.queue("orders", schema="id bigint not null, sent timestamp, tags array<string>")
    app.queue("etl.load", schema="costs map<string,decimal(10,2)>")
    done(app, "orders", {"id": 1, "sent": "2031-05-01T08:00:00Z"}, {"id": 2, "tags": ["a", None]})
    done(app, "etl.load", {"costs": {"toll": "1.50"}})
    done(app, "mail", {"to": "ann"})
    archive(app, folder, older_than=0, typed=True)
    assert read(folder, "queue", "payload_orders") == [
        ("orders", {"id": 1, "sent": datetime(2031, 5, 1, 8, tzinfo=UTC), "tags": None}),
        ("orders", {"id": 2, "sent": None, "tags": ["a", None]}),
        ("etl.load", None),
        ("mail", None),
    ]
    (costs,) = [one["costs"] for (one,) in read(folder, "payload_etl_load") if one is not None]
    assert [(name, str(cost)) for name, cost in costs] == [("toll", "1.50")]
    assert read(folder, "payload")[3] == ('{"to":"ann"}',)


def test_what_does_not_fit_is_null(app: Stanchion, folder: Path) -> None:
    done(app, "orders", {"id": "one"}, [1])
    app.queue("orders").configure(schema="id bigint")
    done(app, "orders", {"id": 3})

    @app.task(queue="orders")
    def call() -> None:
        """A call's arguments are no payload."""

    call.enqueue()
    app.drain(["orders"])
    archive(app, folder, older_than=0, typed=True)
    assert [one for (one,) in read(folder, "payload_orders")] == [None, None, {"id": 3}, None]


def test_fields_that_come_later(app: Stanchion, folder: Path) -> None:
    done(app, "orders", {"id": 1})
    archive(app, folder, older_than=0)
    orders = app.queue("orders", schema="id bigint")
    done(app, "orders", {"id": 2})
    archive(app, folder, older_than=0, typed=True)
    orders.configure(schema="id bigint, note string")
    done(app, "orders", {"id": 3, "note": "new"})
    archive(app, folder, older_than=0, typed=True)
    done(app, "orders", {"id": 4})
    archive(app, folder, older_than=0, compact=True)
    found = [one for (one,) in read(folder, "payload_orders")]
    assert found == [None, {"id": 2, "note": None}, {"id": 3, "note": "new"}, None]


def test_an_archive_of_an_earlier_release(app: Stanchion, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lacks a column that jobs have now."""
    done(app, "orders", {"id": 1})
    with monkeypatch.context() as before:
        lacking = {"past_waits", "item", "chunk"}
        fewer = pa.schema([field for field in rows.IN_FILES if field.name not in lacking])
        batches = rows.batches_of
        for module in (files, table):
            before.setattr(module, "IN_FILES", fewer)
        before.setattr(files, "batches_of", lambda jobs: (one.select(fewer.names) for one in batches(jobs)))
        before.setattr(files, "items_in_rows", lambda found: found.num_rows)
        before.setattr(files, "jobs_in", lambda found: found.num_rows)
        before.setattr(table, "_SCHEMA", fewer.append(pa.field("day", pa.date32())))
        archive(app, folder, older_than=0)
    (old,) = folder.rglob("*.parquet")
    assert "past_waits" not in pq.read_schema(old).names
    done(app, "orders", {"id": 2})
    archive(app, folder, older_than=0)
    assert read(folder, "payload", "past_waits") == [('{"id":1}', None), ('{"id":2}', None)]
    assert table.existing_archive(folder).rows() == 2


def test_a_column_of_another_type(app: Stanchion, folder: Path) -> None:
    orders = app.queue("orders", schema="id bigint")
    done(app, "orders", {"id": 1})
    archive(app, folder, older_than=0, typed=True)
    orders.configure(schema="id string")
    done(app, "orders", {"id": "2"})
    with pytest.raises(InvalidInput, match="other types of columns"):
        archive(app, folder, older_than=0, typed=True)
    assert archive(app, folder, older_than=0).archived == 1


@pytest.mark.parametrize("names", [("orders", "Orders"), ("etl.load", "etl_load")])
def test_queues_whose_columns_would_have_one_name(app: Stanchion, folder: Path, names: tuple[str, str]) -> None:
    for name in names:
        app.queue(name, schema="id bigint")
        done(app, name, {"id": 1})
    with pytest.raises(InvalidInput, match="would have one name, without case and dots"):
        archive(app, folder, older_than=0, typed=True)
    assert archive(app, folder, older_than=0, typed=True, queues=[names[1]]).archived == 1
