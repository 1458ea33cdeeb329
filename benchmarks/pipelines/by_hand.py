"""The same stations by hand: chunks in a column of bytes, one connection, one statement for each step.

It has no leases, no fencing, no retries and no counts; past chunks are kept.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.pipelines.stations import KM, SHORT

_SCHEMA = """
create table hand (id bigint generated always as identity primary key, station text not null, claimed timestamptz,
    data bytea not null);
create index on hand (station, id) where claimed is null;
create table past (like hand);
alter table hand alter data set storage external;
alter table past alter data set storage external;
"""
_PUSH = "insert into hand (station, data) values ('raw', %s)"
_CLAIM = """
update hand set claimed = now() where id = (
    select id from hand where station = any(%s) and claimed is null order by id limit 1 for update skip locked
) returning id, station, data
"""
_MOVE = "update hand set station = 'clean', claimed = null, data = %s where id = %s"
_DIVIDE = """
with gone as (delete from hand where id = %s returning *), kept as (insert into past select * from gone)
insert into hand (station, data) values ('short', %s), ('long', %s)
"""
_END = """
with gone as (delete from hand where id = %s returning *)
insert into past select id, station, claimed, %s from gone
"""


def push(url: str, tables: Iterator[pa.Table], size: int) -> None:
    """Store the items."""
    with psycopg.connect(url) as connection:
        connection.execute(_SCHEMA)
        for table in tables:
            for batch in table.to_batches(size):
                connection.execute(
                    "insert into hand (station, data) values ('raw', %s)", [_encoded(batch)], binary=True
                )


def work(url: str) -> int:
    """Run the stations until no chunk is left; return the items that came to the end."""
    ended = 0
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.cursor(binary=True)
        while True:
            found = cursor.execute(_CLAIM, [["raw", "clean", "short", "long"]], prepare=True).fetchone()
            if found is None:
                return ended
            key, station, data = found
            batch = pa.ipc.open_stream(data).read_next_batch()
            if station == "raw":
                made = batch.append_column("km", pc.multiply(batch["miles"], KM))
                cursor.execute(_MOVE, [_encoded(made), key])
            elif station == "clean":
                short = pc.less(batch["miles"], SHORT)
                parts = [_encoded(batch.filter(short)), _encoded(batch.filter(pc.invert(short)))]
                cursor.execute(_DIVIDE, [key, *parts])
            else:
                ended += batch.num_rows
                cursor.execute(_END, [key, _encoded(batch.select(["n", "km"]))])


def _encoded(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()
