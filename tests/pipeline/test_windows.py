"""The options of a station with a watermark."""

from datetime import timedelta
from typing import Any

import pytest

from stanchion import Pipeline
from stanchion.errors import InvalidInput
from stanchion.pipelines.pipeline import plan_of

GIVEN: dict[str, Any] = {
    "schema": "n bigint, at timestamp",
    "to": "sums",
    "watermark": ("at", "10 minutes"),
    "checkpoint": "/data/sums",
}


def declared(etl: Pipeline, **options: Any) -> Any:
    """Declare a station with a watermark; return its options."""
    etl.spark_station("raw", **{**GIVEN, **options})(print)
    frame = plan_of(etl).stations["raw"].frame
    assert frame is not None
    return frame.windows


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [("10 minutes", 600), ("1 hour", 3600), ("2 Days", 172_800), ("90s", 90), (30, 30), (timedelta(minutes=1), 60)],
)
def test_delays(etl: Pipeline, delay: Any, seconds: float) -> None:
    assert declared(etl, watermark=("at", delay)).delay == seconds


def test_the_station_for_late_items_is_one_of_the_next(etl: Pipeline) -> None:
    declared(etl, late="late")
    for end in ("sums", "late"):
        etl.station(end)(print)
    plan_of(etl).check()
    assert plan_of(etl).stations["raw"].to == ("sums", "late")
    with pytest.raises(InvalidInput, match="works on DataFrames"):
        plan_of(etl).check_worked(etl.queues)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"watermark": None}, "for stations with a watermark"),
        ({"watermark": None, "checkpoint": None, "late": "late"}, "for stations with a watermark"),
        ({"watermark": "at"}, "watermark must be a field and a delay"),
        ({"watermark": ("n", "1s")}, "'n', which is no timestamp of the schema"),
        ({"watermark": ("then", "1s")}, "'then', which is no timestamp of the schema"),
        ({"watermark": ("at", "soon")}, "the delay of the watermark must be a duration"),
        ({"checkpoint": None}, "needs checkpoint=, a folder that lasts"),
        ({"to": None}, "to another station"),
        ({"to": "late", "late": "late"}, "to another station"),
        ({"worker": print}, "workers can't run it"),
    ],
)
def test_what_is_wrong_is_told(etl: Pipeline, options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        declared(etl, **options)
