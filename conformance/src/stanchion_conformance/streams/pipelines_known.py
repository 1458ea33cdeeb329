"""What a store tells about pipelines to those who have not their code."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Pipeline, Send, Stanchion
from stanchion.pipelines.record import KIND, PipelineRecord, StationRecord, recorded


@pytest.fixture
def etl(app: Stanchion) -> Pipeline:
    """A pipeline without stations."""
    return app.pipeline("etl")


def same(item: Any) -> Any:
    """Pass an item on as it is."""
    return item


class TestKnownPipelines:
    def test_others_know_the_stations_of_a_pipeline_without_its_code(self, app: Stanchion, etl: Pipeline) -> None:
        etl.station("raw", to=["clean", "late"])(lambda _item: Send("clean"))
        etl.station("clean")(same)
        etl.spark_station("late", schema="n int", entry=True)(same)
        app.queue("other").push({})
        (found,) = recorded(app.store)
        assert found == PipelineRecord(
            "etl",
            (
                StationRecord("raw", ("clean", "late")),
                StationRecord("clean"),
                StationRecord("late", entry=True, engine="spark"),
            ),
        )

    def test_a_station_that_is_declared_later_is_stored_too(self, app: Stanchion, etl: Pipeline) -> None:
        etl.station("raw")(same)
        etl.push(1)
        etl.station("more", entry=True)(same)
        etl.push(2)
        (found,) = recorded(app.store)
        assert [station.name for station in found.stations] == ["raw", "more"]

    def test_a_process_that_begins_later_is_right(self, app: Stanchion, etl: Pipeline) -> None:
        etl.station("raw")(same)
        etl.push(1)
        (value,) = app.store.values(KIND)
        older = PipelineRecord("etl", (StationRecord("old"),))
        assert app.store.compare_and_set(KIND, "etl", older.text, value.version)
        later = Stanchion(store=app.store)
        later.pipeline("etl").station("new")(same)
        later.pipeline("etl").push(1)
        (found,) = recorded(app.store)
        assert [station.name for station in found.stations] == ["new"]
