"""The worked example of size: each step does the rows that it should, here of some flights."""

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchmarks.year.steps import Year

from flights import source
from stanchion import Stanchion

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.nightly
def test_each_step_does_what_it_should(
    spark: "SparkSession", pg_app: Stanchion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = [*islice(source.flights(everything=False), 150)]
    some[3]["dep_delay"] = "NA"
    monkeypatch.setattr(source, "flights", lambda **_: iter(some))
    year = Year(spark, pg_app, tmp_path, times=3)
    wanted, done = {}, {}
    for what, rows, step in year.steps():
        wanted[what], done[what] = rows, step(lambda _count: None)
    assert done == wanted
    assert min(done.values()) > 400
    assert (tmp_path / "report.html").stat().st_size > 10_000
