"""Chunks in an archive: a row for each item, from which the jobs come back as they were."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stanchion import Bury, Send, Stanchion
from stanchion.core.chunks.chunk import Chunk
from stanchion.core.values.codec import Codec
from stanchion.core.values.framing import as_text, chunk_with
from stanchion.spark import archive
from stanchion.spark.archiving import files, rows
from stanchion.spark.archiving.inputs import ArchivedItems
from stanchion.spark.archiving.table import existing_archive
from stanchion.stores.records.jobs import JobRow
from tests.chunks.items import exact
from tests.spark.archive.conftest import archived, ends, finished, left, with_items
from tests.spark.archive.random_items import with_random_items


def read(folder: Path, *columns: str) -> list[tuple[Any, ...]]:
    """Return rows in the order of jobs and items, as any reader of Delta sees them."""
    wanted = list(dict.fromkeys(["id", "item", *columns]))
    found = pa.table(existing_archive(folder)._delta.to_pyarrow_table(columns=wanted))
    found = found.sort_by([("id", "ascending"), ("item", "ascending")])
    return [tuple(one[name] for name in columns) for one in found.to_pylist()]


def back(folder: Path, queue: str = "orders") -> dict[str, JobRow]:
    """Return the jobs that come back."""
    return {found.row.id: found.row for found in ArchivedItems(folder, queue, None).rows(None)}


def kept(row: JobRow) -> JobRow:
    """Return a job with the fields that an archive has."""
    fields = {name: value for name, value in row._asdict().items() if name in rows.FIELDS}
    return JobRow(**{**fields, "rank": row.priority})


def test_each_item_is_a_row(app: Stanchion, folder: Path) -> None:
    etl = app.pipeline("etl")
    etl.station("end")(lambda item: None if item["n"] == 1 else item["n"] * 10)
    (chunk,) = etl.push_chunks([{"n": n, "by": "acme"} for n in range(3)], tenant="by")
    single = etl.push({"n": 7})
    etl.drain()
    done = archive(app, folder, older_than=0)
    assert (done.archived, done.items, done.purged) == (2, 4, 2)
    columns = ("id", "item", "items", "queue", "tenant", "state", "payload", "result")
    assert read(folder, *columns) == [
        (chunk.id, 0, 3, "etl.end", "acme", "done", '{"n":0,"by":"acme"}', "0"),
        (chunk.id, 1, 3, "etl.end", "acme", "done", '{"n":1,"by":"acme"}', None),
        (chunk.id, 2, 3, "etl.end", "acme", "done", '{"n":2,"by":"acme"}', "20"),
        (single.id, None, None, "etl.end", None, "done", '{"n":7}', "70"),
    ]


def test_results_are_beside_their_items(app: Stanchion, folder: Path) -> None:
    (row,) = finished(app, 1)
    items = Chunk.of([{"n": n} for n in range(4)]).named("root", [8, 2, 5, 3])
    results = Chunk.of(["five", "eight"]).named("root", [5, 8])
    entry = Chunk.of([{"e": n} for n in range(9)]).named("root", range(9))
    app.store.delete([row.ref])
    row = row._replace(payload=items.encoded(), items=4, result=results.encoded(), entry_payload=entry.encoded())
    app.store.adopt([row])
    archive(app, folder)
    found = read(folder, "item", "payload", "result", "entry_payload")
    assert found == [
        (0, '{"n":0}', '"eight"', '{"e":8}'),
        (1, '{"n":1}', None, '{"e":2}'),
        (2, '{"n":2}', '"five"', '{"e":5}'),
        (3, '{"n":3}', None, '{"e":3}'),
    ]
    assert back(folder) == {row.id: kept(row)}


def strange(number: int, row: JobRow) -> JobRow:
    """Return a job whose contents are stored in one of many ways."""
    small = Chunk.of_table(pa.table({"n": pa.array([1, 2, None], pa.int8()), "f": pa.array([1.0, 2, 3], pa.float32())}))
    mixed = Chunk.of([1, 1.0, {"a": None}, {}, {"a": {"x": 2**64}}, "é\x00", [], True])
    part = mixed.rooted("root").take([7, 2, 4])
    forms = [
        row._replace(payload=small.encoded(), items=3, entry_payload='{"came":"as one"}'),
        row._replace(payload=mixed.encoded(), items=8, arrival_payload=mixed.encoded(), kept_payloads='[["q",1,"~"]]'),
        row._replace(payload=part.encoded(), items=3, result=None, errors='[{"error":"E"}]', headers='{"a":1}'),
        row._replace(payload=mixed.encoded(), items=0, result=None),
        row._replace(payload=chunk_with(5, b"\x00 of another program"), items=5),
        row._replace(payload=small.encoded(), items=4),  # says another number
        row._replace(payload=small.encoded(), items=3, result=chunk_with(3, b"of another program")),
        row._replace(payload='"a single one"', entry_payload=mixed.encoded()),
    ]
    return forms[number % len(forms)]


def test_jobs_come_back_as_they_were(app: Stanchion, folder: Path) -> None:
    source = finished(Stanchion("memory://"), 64)
    jobs = [strange(number, row) for number, row in enumerate(source)]
    app.store.adopt(jobs)
    archive(app, folder)
    assert back(folder) == {row.id: kept(row) for row in jobs}
    for place, row in enumerate(jobs):
        alone = [item for (job_id, item) in read(folder, "id", "item") if job_id == row.id] == [None]
        assert alone == (place % 8 >= 3), place
    before = existing_archive(folder).rows()
    archive(app, folder, compact=True)
    assert back(folder) == {row.id: kept(row) for row in jobs}
    by_bounds = existing_archive(folder)._delta.to_pyarrow_table(columns=["id"], filters=[("queue", "=", "orders")])
    assert pa.table(by_bounds).num_rows == before


def test_encrypted_chunks_keep_one_row(folder: Path, tmp_path: Path) -> None:
    from cryptography.fernet import Fernet

    app = Stanchion(f"sqlite:///{tmp_path}/sealed.db", keys=[Fernet.generate_key()])
    etl = app.pipeline("etl")
    etl.station("end")(lambda item: item)
    etl.push_chunks(["secret"] * 3)
    etl.drain()
    (row,) = left(app.store)
    archive(app, folder, older_than=0)
    assert read(folder, "item", "items", "payload", "result") == [
        (None, 3, as_text(row.payload), as_text(row.result or ""))
    ]
    assert back(folder, "etl.end") == {row.id: kept(row)}
    for path in folder.rglob("*.parquet"):
        assert b"secret" not in path.read_bytes()


def test_a_chunk_with_encrypted_results_keeps_one_row(app: Stanchion, folder: Path) -> None:
    from cryptography.fernet import Fernet

    (row,) = finished(app, 1)
    app.store.delete([row.ref])
    sealed = Codec([Fernet.generate_key()]).sealed_chunk(Chunk.of([1, 2]).encoded())
    row = with_items(row, [1, 2])._replace(result=sealed)
    app.store.adopt([row])
    archive(app, folder)
    assert read(folder, "item", "items") == [(None, 2)]
    assert back(folder) == {row.id: kept(row)}


def test_divided_chunks_have_no_items(app: Stanchion, folder: Path) -> None:
    etl = app.pipeline("etl")
    etl.station("raw", to=["odd", "even"])(lambda n: Send("odd" if n % 2 else "even", n))
    etl.station("odd")(lambda n: n)
    etl.station("even")(lambda n: Bury("four") if n == 4 else n)
    (chunk,) = etl.push_chunks(list(range(10)))
    etl.drain()
    done = archive(app, folder, older_than=0)
    found = read(folder, "id", "item", "items", "queue", "payload")
    assert [one[1:4] for one in found if one[0] == chunk.id] == [(None, 0, "etl.raw")]
    items = sorted(json.loads(payload) for *_, item, _, _, payload in found if item is not None)
    dead = sum(len(job.payload) if isinstance(job.payload, Chunk) else 1 for job in app.find(state="dead"))
    assert len(items) + dead == 10
    assert done.items == len(items)


def test_an_archive_of_an_earlier_release(app: Stanchion, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has chunks in one row each."""
    first = finished(app, 100, chunks=True)
    with monkeypatch.context() as before:
        before.setattr(files, "batches_of", lambda jobs: [rows._as_stored(jobs)])
        archive(app, folder, keep=True)
    assert set(read(folder, "item")) == {(None,)}
    assert archive(app, folder).archived == 0, "what it has is known"
    second = finished(app, 100, seed=8, chunks=True)
    archive(app, folder)
    assert back(folder) == {row.id: kept(row) for row in [*first, *second]}
    assert {items for (items, item) in read(folder, "items", "item") if item is None} >= {None, 0, 5}


def test_typed_columns_of_items(app: Stanchion, folder: Path) -> None:
    app.pipeline("etl").station("end")(lambda item: item)
    app.queue("etl.end", schema="n bigint, name string")
    app.pipelines["etl"].push_chunks([{"n": 1, "name": "a"}, {"n": 2}, {"n": 3, "name": "c"}])
    app.pipelines["etl"].drain()
    archive(app, folder, older_than=0, typed=True)
    assert [one for (one,) in read(folder, "payload_etl_end")] == [
        {"n": 1, "name": "a"},
        {"n": 2, "name": None},
        {"n": 3, "name": "c"},
    ]


@pytest.mark.parametrize("limit", ["ROWS", "_REPEATED"])
def test_a_large_chunk_comes_in_pieces(
    app: Stanchion, folder: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    (row,) = finished(app, 1)
    app.store.delete([row.ref])
    row = with_items(row, [{"n": n} for n in range(1000)])._replace(headers=json.dumps({"x": "y" * 1000}))
    app.store.adopt([row])
    monkeypatch.setattr(rows, limit, 7 if limit == "ROWS" else 7_500)
    pieces = list(rows.batches_of([row]))
    assert {piece.num_rows for piece in pieces[:-1]} <= {5, 6, 7}
    archive(app, folder)
    assert [json.loads(payload) for (payload,) in read(folder, "payload")] == [{"n": n} for n in range(1000)]
    assert back(folder) == {row.id: kept(row)}
    assert archived(folder) == ends([row])


def test_a_chunk_has_one_end_in_files(app: Stanchion, folder: Path) -> None:
    jobs = finished(app, 40, chunks=True)
    archive(app, folder)
    parts = existing_archive(folder).parts()
    found = [end for batch in files.ends_in([Path(part.place) for part in parts]) for end in batch]
    assert sorted(found) == sorted(ends(jobs).elements())
    app.store.adopt(jobs[3:4])
    again = archive(app, folder)
    assert (again.archived, again.items, again.purged) == (0, 0, 1)


def test_kept_payloads_are_stored_once(app: Stanchion) -> None:
    """They may have several megabytes."""
    row = with_items(finished(app, 1)[0], [1, 2, 3])._replace(kept_payloads='[["q",1,"long"]]')
    (batch,) = rows.batches_of([row])
    assert batch.column("kept_payloads").null_count == 3
    assert batch.column("chunk").to_pylist()[0]["kept_payloads"] == row.kept_payloads
    assert batch.column("chunk").null_count == 2


@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=pytest.mark.nightly)])
def test_random_items_come_back_the_same(tmp_path: Path, folder: Path, count: int) -> None:
    app = Stanchion(f"sqlite:///{tmp_path}/jobs.db")
    app.setup()
    etl = app.pipeline("etl")
    etl.station("raw")(lambda item: item)
    items = with_random_items(app, count)
    payloads = {row.id: row.payload for row in left(app.store)}
    done = archive(app, folder)
    assert (done.archived, done.items) == (len(items), sum(map(len, items.values())))
    shown: dict[str, list[object]] = {}
    for job_id, payload in read(folder, "id", "payload"):
        shown.setdefault(job_id, []).append(json.loads(payload))
    for job_id, one in items.items():
        assert exact(shown[job_id]) == exact(one)
    assert etl.backfill("raw", source=folder).enqueued == done.items
    copies = {job.origin or "": job.id for job in etl.queue("raw").find(state="ready", limit=len(items))}
    assert copies.keys() == items.keys()
    copied = app.store.fetch(list(copies.values()))
    for job_id, copy in copies.items():
        assert copied[copy].payload == payloads[job_id]
    app.close()
