"""Files of Delta tables: rows in their partitions, and found by each column."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

pytest.importorskip("deltalake")

from stanchion.lake.delta import DeltaTarget, Once
from stanchion.lake.files import DeltaFiles

NOON = datetime(2031, 5, 1, 12, tzinfo=UTC)
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "n": (pa.int64(), [5, -3, None]),
    "text": (pa.string(), ["b", "y" * 40, "a" * 33]),
    "ratio": (pa.float64(), [0.5, 1e9, None]),
    "flag": (pa.bool_(), [True, True, None]),
    "day": (pa.date32(), [date(2031, 5, 1), date(1999, 1, 1), None]),
    "at": (pa.timestamp("us", "UTC"), [NOON, None, None]),
    "plain": (pa.timestamp("us"), [NOON.replace(tzinfo=None), None, None]),
    "none": (pa.string(), [None, None, None]),
}
UNBOUNDED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "": (pa.int32(), [1, 2, 3]),
    "cost": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-2.00"), None]),
    "raw": (pa.binary(), [b"a", b"b", None]),
    "heat": (pa.float64(), [float("nan"), float("inf"), 1.0]),
}


@pytest.mark.parametrize("extra", UNBOUNDED)
def test_each_row_is_found_by_each_column(tmp_path: Path, extra: str) -> None:
    columns = {**COLUMNS, extra or "more": UNBOUNDED[extra]}
    schema = pa.schema([*((name, kind) for name, (kind, _) in columns.items()), ("in", pa.struct([("a", pa.int64())]))])
    rows = [{**{name: values[n] for name, (_, values) in columns.items()}, "in": {"a": n}} for n in range(3)]
    target = DeltaTarget(tmp_path / "table", schema)
    files = DeltaFiles(target.folder, schema, ())
    files.add(pa.RecordBatch.from_pylist(rows, schema))
    table = target.open()
    assert table.append(files.close(), Once("test", 1))
    read = table._delta.to_pyarrow_dataset()
    for name, (kind, values) in columns.items():
        for value in values:
            wanted = ds.field(name).is_null() if value is None else ds.field(name) == pa.scalar(value, kind)
            same = values.count(value) if value == value else 0  # no number is equal to what is none
            assert read.to_table(filter=wanted).num_rows == same, (name, value)
    assert read.to_table(filter=ds.field("in", "a") == 2).num_rows == 1


def test_rows_are_in_their_partitions(tmp_path: Path) -> None:
    schema = pa.schema([("n", pa.int64()), ("city", pa.string()), ("odd", pa.bool_())])
    cities = ("Oslo", "a b/c%é=:", None)
    rows = [{"n": n, "city": cities[n % 3], "odd": n % 2 == 1} for n in range(100)]
    target = DeltaTarget(tmp_path / "table", schema, ("city", "odd"))
    files = DeltaFiles(target.folder, schema, target.by)
    files.add(pa.RecordBatch.from_pylist(rows, schema))
    table, written = target.open(), files.close()
    assert len(written) == 6
    assert table.append(written, Once("test", 1))
    assert not table.append(written, Once("test", 1))
    assert table._delta.to_pyarrow_table().sort_by("n").to_pylist() == rows
