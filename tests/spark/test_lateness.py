"""Which jobs of a batch are late, and what becomes of them."""

from typing import Any

import pyarrow as pa
import pytest

from stanchion.errors import InvalidInput
from stanchion.spark.datasource.reading.lateness import Admitted, Lateness
from stanchion.spark.datasource.reading.typed import Misfits
from stanchion.stores.records.jobs import Lease
from stanchion.stores.records.outcomes import Bury, Move

LEASE = Lease("raw", "id", "token")


def test_the_watermark_is_that_of_spark() -> None:
    late = Lateness("at", 10_000)
    assert late.watermark(None) == 0
    assert late.watermark(5_000_000) == 0
    assert late.watermark(100_000_999) == 90_000_000  # milliseconds


def test_a_job_at_the_watermark_is_late_and_one_without_a_time_too() -> None:
    found = Admitted()
    times = pa.array([90_000_000, 90_000_001, None, 5, 100_000_000], pa.timestamp("us", "UTC"))
    found.add(list("abcde"), times, Misfits("raw", 0, 5, {"d": "no"}), 90_000_000)  # type: ignore[dict-item]
    assert (found.late, found.latest, found.size) == ({"a": 90_000_000, "c": None}, 100_000_000, 5)
    assert found.misfits == {"d": "no"}
    later = pa.array([5, 200_000_000], times.type)
    found.add(list("fg"), later, Misfits("raw", 0, 2, {"f": "no"}), 90_000_000, {"f", "g"})  # type: ignore[dict-item]
    assert (set(found.misfits), found.latest, found.size) == ({"d"}, 100_000_000, 7)


def test_what_becomes_of_them() -> None:
    assert Lateness("at", 1, "late").outcome(LEASE, 5, 9) == Move(LEASE, "late", None, 0.0, -1, None, True)
    kept = Lateness("at", 1, "late", keeps=True).outcome(LEASE, 5, 9)
    assert kept == Move(LEASE, "late", None, 0.0, -1, None, True, keep_arrival=True)
    for to in ("late", None):
        without = Lateness("at", 1, to).outcome(LEASE, None, 9)
        assert isinstance(without, Bury)
        assert without.error == "PayloadMisfit: field at is null, and the query needs the time of each job"
    dead = Lateness("at", 1).outcome(LEASE, 1_000_000, 2_000_000)
    assert isinstance(dead, Bury)
    assert dead.error == (
        "LateItem: at 1970-01-01T00:00:01.000000Z is not after the watermark 1970-01-01T00:00:02.000000Z"
    )


@pytest.mark.parametrize(
    "wrong", [{"typed": False}, {"misfits": "null"}, {"payloadSchema": "at string"}, {"eventTime": "then"}]
)
def test_options(wrong: dict[str, Any]) -> None:
    given = {"typed": True, "misfits": "bury", "payloadSchema": "at timestamp", "eventTime": "at", "lateAfter": 1.5}
    given["keepArrival"] = False
    assert Lateness.of({**given, "late": None, "eventTime": None}) is None
    assert Lateness.of({**given, "late": "q"}) == Lateness("at", 1500, "q")
    assert Lateness.of({**given, "late": "q", "keepArrival": True}) == Lateness("at", 1500, "q", keeps=True)
    with pytest.raises(InvalidInput, match="eventTime needs typed=true"):
        Lateness.of({**given, **wrong, "late": None})
