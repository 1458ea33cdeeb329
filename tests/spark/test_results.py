"""Results of a station as a typed DataFrame of Spark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from stanchion import Stanchion, Table
from stanchion.errors import InvalidInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass
class Stop:
    city: str
    minutes: int | None


@dataclass
class Day:
    n: int
    at: datetime
    day: date
    amount: Decimal
    tags: list[str]
    stop: Stop
    note: str | None = None


AT = datetime(2031, 5, 1, 8, tzinfo=UTC)
SCHEMA = "n bigint NOT NULL, at timestamp NOT NULL, local timestamp_ntz, seen map<string,int>"


def day(item: dict[str, Any]) -> Day:
    return Day(item["n"], AT, AT.date(), Decimal("12.5"), ["a"], Stop("Oslo", None))


@pytest.mark.parametrize("to", ["", "table", "delta", "parquet"])
def test_typed_by_the_annotation(spark: SparkSession, app: Stanchion, to: str, tmp_path: Path) -> None:
    etl = app.pipeline("etl")
    target = Table("days") if to == "table" else Table(f"{to}://{tmp_path}/days") if to else None
    etl.station("daily", to=target)(day)
    etl.push_chunks([{"n": n} for n in range(5)])
    etl.push({"n": 5})
    for pushed in (False, True):
        if pushed:
            etl.drain()
        found: DataFrame = etl.results("daily", spark=spark)  # type: ignore[assignment]
        assert [(one.name, one.dataType.simpleString()) for one in found.schema] == [
            *(("job_id", "string"), ("item", "bigint"), ("n", "bigint"), ("at", "timestamp"), ("day", "date")),
            *(("amount", "decimal(38,18)"), ("tags", "array<string>")),
            *(("stop", "struct<city:string,minutes:bigint>"), ("note", "string")),
        ]
        assert found.count() == (6 if pushed else 0)
    assert sorted(row.n for row in found.where("amount = 12.5 and stop.city = 'Oslo'").collect()) == list(range(6))
    limited: DataFrame = etl.results("daily", spark=spark, limit=2)  # type: ignore[assignment]
    assert limited.count() == 2


def test_times_without_a_zone_stay_as_they_are(spark: SparkSession, app: Stanchion) -> None:
    etl = app.pipeline("etl")
    etl.station("daily", to=Table("days", schema=SCHEMA))(lambda item: item)
    etl.push({"n": 1, "at": "2031-05-01T08:00:00Z", "local": "2031-05-01T08:00:00", "seen": {"a": 1}})
    etl.drain()
    found: DataFrame = etl.results("daily", spark=spark)  # type: ignore[assignment]
    assert found.schema["local"].dataType.simpleString() == "timestamp_ntz"
    (row,) = found.select("local", "seen").collect()
    assert (row.local, row.seen) == (datetime(2031, 5, 1, 8), {"a": 1})


def test_without_an_annotation_and_a_session(spark: SparkSession, app: Stanchion) -> None:
    etl = app.pipeline("etl")
    etl.station("daily")(lambda item: item)
    assert etl.results("daily", spark=spark).count() == 0  # type: ignore[attr-defined]
    etl.push_many([{"n": 1}, {"n": 2, "more": "x"}])
    etl.drain()
    found: DataFrame = etl.results("daily", spark=spark)  # type: ignore[assignment]
    assert sorted((row.n, row.more) for row in found.collect()) == [(1, None), (2, "x")]
    with pytest.raises(InvalidInput, match="spark must be a session of Spark"):
        etl.results("daily", spark="local[2]")
