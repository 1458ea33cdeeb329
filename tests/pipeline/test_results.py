"""The results of a station as a typed table: one row an item."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from stanchion import Pipeline, Stanchion, Table
from stanchion.errors import InvalidInput


@dataclass
class Day:
    n: int
    at: datetime
    amount: Decimal
    tags: list[str]
    note: str | None = None


AT = datetime(2031, 5, 1, 8, tzinfo=UTC)


def day(item: dict[str, Any]) -> Day | None:
    """Return what the stations of these tests return."""
    return None if item["n"] == 3 else Day(item["n"], AT, Decimal("12.50"), ["a", str(item["n"])])


@pytest.mark.parametrize("to", [None, Table("days")])
def test_typed_by_the_annotation(etl: Pipeline, to: Table | None) -> None:
    etl.station("daily", to=to)(day)
    (chunk,) = etl.push_chunks([{"n": n} for n in range(1, 6)])
    single = etl.push({"n": 7})
    etl.drain()
    found = etl.results("daily", as_="arrow")
    assert isinstance(found, pa.Table)
    assert found.schema.names == ["job_id", "item", "n", "at", "amount", "tags", "note"]
    assert found.schema.field("at").type == pa.timestamp("us", "UTC")
    assert found.schema.field("amount").type == pa.decimal128(38, 18)
    rows = sorted(found.to_pylist(), key=lambda row: int(row["n"]))
    assert [(row["job_id"], row["item"], row["n"]) for row in rows] == [
        *((chunk.id, n - 1, n) for n in (1, 2, 4, 5)),
        (single.id, 0, 7),
    ]
    assert {row["at"] for row in rows} == {AT}
    assert {row["amount"] for row in rows} == {Decimal("12.5")}
    assert rows[-1]["tags"] == ["a", "7"]
    frame = etl.results("daily")
    assert isinstance(frame, pd.DataFrame)
    assert sorted(frame["n"]) == [1, 2, 4, 5, 7]
    assert str(frame["n"].dtype).startswith("int64")
    assert isinstance(etl.results("daily", as_="polars"), pl.DataFrame)
    assert len(frame[frame["note"].isna()]) == 5
    assert etl.results("daily", as_="arrow", limit=2).num_rows == 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("to", [None, Table("days")])
def test_without_any(etl: Pipeline, to: Table | None) -> None:
    etl.station("daily", to=to)(day)
    etl.push({"n": 3})
    etl.drain()
    found = etl.results("daily", as_="arrow")
    assert isinstance(found, pa.Table)
    assert (found.num_rows, found.schema.names[:3]) == (0, ["job_id", "item", "n"])


def test_inferred_without_an_annotation(etl: Pipeline) -> None:
    etl.station("raw", to=["objects", "mixed", "numbers"])(lambda item: item)
    etl.station("objects", entry=True)(lambda item: item)
    etl.station("mixed", entry=True)(lambda item: item)
    etl.station("numbers", entry=True)(lambda item: item["a"])
    items = [{"a": 1}, {"a": 2, "b": "x"}, {"b": None, "c": [1]}]
    etl.push_many(items, "objects")
    etl.push_chunks(items, "objects")
    etl.push_many([{"a": 1}, {"a": "x"}, "text", 5], "mixed")
    etl.push_chunks([{"a": n} for n in range(3)], "numbers")
    etl.drain()
    rows = etl.results("objects", as_="arrow").to_pylist()  # type: ignore[attr-defined]
    wanted = [(1, None, None), (2, "x", None), (None, None, [1])]
    assert sorted(((row["a"], row["b"], row["c"]) for row in rows), key=str) == sorted([*wanted, *wanted], key=str)
    mixed = etl.results("mixed", as_="arrow").to_pylist()  # type: ignore[attr-defined]
    assert sorted(row["result"] for row in mixed) == ['"text"', "5", '{"a": "x"}', '{"a": 1}']
    assert [row["result"] for row in etl.results("numbers", as_="arrow").to_pylist()] == [0, 1, 2]  # type: ignore[attr-defined]


def test_what_has_no_results(etl: Pipeline, tmp_path: Path) -> None:
    etl.station("raw", to="end")(lambda item: item)
    etl.station("end")(day)
    with pytest.raises(InvalidInput, match="sends its items on, to end"):
        etl.results("raw")
    with pytest.raises(InvalidInput, match="as_ must be pandas, arrow or polars"):
        etl.results("end", as_="xlsx")  # type: ignore[arg-type]
    with Stanchion(f"sqlite:///{tmp_path}/other.db") as app:
        other = app.pipeline("etl")
        other.station("end")(lambda item: item)
        other.push({"n": "text"})
        other.drain()
        app.pipeline("etl")
    with Stanchion(f"sqlite:///{tmp_path}/other.db") as app:
        later = app.pipeline("etl")
        later.station("end")(day)
        with pytest.raises(InvalidInput, match="a result does not fit the type bigint"):
            later.results("end")


def test_more_than_a_page(etl: Pipeline) -> None:
    etl.station("end")(lambda item: {"n": item})
    etl.push_many(range(450))
    etl.drain()
    assert sorted(etl.results("end")["n"]) == list(range(450))  # type: ignore[index]
