"""Which stations of a pipeline the engine on Spark takes for busy, and when it settles their items."""

import threading
from typing import Any, cast
from unittest.mock import Mock

import pytest

from stanchion import Stanchion
from stanchion.context import context_of
from stanchion.core.ids import new_id
from stanchion.pipelines import Pipeline
from stanchion.pipelines.pipeline import plan_of
from stanchion.spark.stations import items
from stanchion.spark.stations.engine import _Engine
from stanchion.spark.stations.queries import Queries
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.outcomes import Move
from stanchion.stores.records.workers import WorkerRow
from stanchion.streams import StreamSource
from stanchion.streams.state import KIND, StreamState, worker_id


@pytest.fixture
def app() -> Stanchion:
    return Stanchion("memory://")


@pytest.fixture
def etl(app: Stanchion) -> Pipeline:
    made = app.pipeline("etl")
    made.station("raw", to="clean")(lambda item: item)
    made.station("clean")(lambda item: item)
    plan_of(made).prepare()
    return made


@pytest.fixture
def engine(etl: Pipeline) -> _Engine:
    return _Engine(etl, plan_of(etl).chosen(()), cast("Queries", None), threading.Event(), until_empty=True)


def names(engine: _Engine) -> list[str]:
    return [station.station for station in engine._wanted()]


class TestWanted:
    def test_only_stations_with_items_and_those_behind(self, etl: Pipeline, engine: _Engine) -> None:
        assert names(engine) == []
        etl.push(1, station="clean")
        assert names(engine) == ["clean"]
        etl.pause("clean")
        assert names(engine) == []
        etl.push(1)
        assert names(engine) == ["raw", "clean"]

    def test_of_those_behind_only_the_ones_that_run_here(self, etl: Pipeline) -> None:
        engine = _Engine(etl, plan_of(etl).chosen(["raw"]), cast("Queries", None), threading.Event(), until_empty=True)
        etl.push(1)
        assert names(engine) == ["raw"]

    def test_those_that_run_go_on_while_another_is_busy(self, etl: Pipeline, engine: _Engine) -> None:
        engine.running["raw"] = Mock()
        assert names(engine) == []
        etl.push(1, station="clean")
        assert names(engine) == ["raw", "clean"]

    def test_all_if_they_run_until_they_are_stopped(self, engine: _Engine) -> None:
        engine.until_empty = False
        assert names(engine) == ["raw", "clean"]

    def test_a_batch_that_is_not_acknowledged(self, app: Stanchion, etl: Pipeline, engine: _Engine) -> None:
        etl.push(1)
        source = StreamSource(app.store, "etl.raw", "etl.raw")
        end = source.latest(source.initial(), 10)
        assert names(engine) == ["raw", "clean"]
        source.latest(end, 10)
        assert names(engine) == []

    def test_one_that_comes_to_have_items_while_another_has_a_batch(
        self, app: Stanchion, etl: Pipeline, engine: _Engine
    ) -> None:
        etl.push(1, station="clean")
        source = StreamSource(app.store, "etl.clean", "etl.clean")
        source.latest(source.initial(), 10)
        engine.running["clean"] = Mock()
        etl.push(1)
        assert names(engine) == ["raw", "clean"]

    def test_what_is_due_is_not_read_while_all_run(
        self, app: Stanchion, etl: Pipeline, engine: _Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        etl.push(1)
        source = StreamSource(app.store, "etl.raw", "etl.raw")
        source.latest(source.initial(), 10)
        engine.running |= {"raw": Mock(), "clean": Mock()}
        read: list[Any] = []
        stats = app.store.stats

        def noted(queues: Any, fields: Any) -> Any:
            read.extend(fields)
            return stats(queues, fields)

        monkeypatch.setattr(app.store, "stats", noted)
        assert names(engine) == ["raw", "clean"]
        assert read == ["totals"]

    def test_items_that_are_claimed_for_a_batch_without_a_number(
        self, app: Stanchion, etl: Pipeline, engine: _Engine
    ) -> None:
        etl.push(1)
        StreamSource(app.store, "etl.raw", "etl.raw").initial()
        (value,) = app.store.values(KIND)
        state = StreamState.of(value)
        worker = worker_id("etl.raw", state.epoch)
        app.store.beat([WorkerRow(id=worker, host="h", pid=1, queues=("etl.raw",), threads=0, heartbeat=10.0)])
        app.store.claim(Claim("etl.raw", 1, state.next_token, worker, rows=False))
        assert names(engine) == ["raw", "clean"]

    def test_an_item_that_is_claimed_and_goes_on_between_two_looks(
        self, app: Stanchion, etl: Pipeline, engine: _Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is at no station when that one is looked at."""
        etl.push(1)
        engine.running["raw"] = Mock()
        store, stats = app.store, app.store.stats

        def after_it_has_gone_on(queues: Any, fields: Any) -> Any:
            if "next_due" not in fields:
                return stats(queues, fields)
            before = stats(["etl.clean"], fields)
            (row,) = store.claim(Claim("etl.raw", 1, new_id(), lease=30.0)).rows
            store.settle([Move(row.lease, "etl.clean")])
            return stats(["etl.raw"], fields) | before

        monkeypatch.setattr(store, "stats", after_it_has_gone_on)
        assert names(engine) == ["raw", "clean"]


class TestPortions:
    def sizes(self, etl: Pipeline, count: int) -> list[int]:
        etl.push_many(range(count))
        rows = context_of(etl).store.claim(Claim("etl.raw", count, new_id(), lease=30.0)).rows
        return [len(portion) for portion in items._portions(plan_of(etl).stations["raw"], rows)]

    def test_have_at_most_so_many_items(self, etl: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(items, "AT_ONCE", 4)
        monkeypatch.setattr(items, "SETTLED_WITHIN", 3600.0)
        assert self.sizes(etl, 10) == [4, 4, 2]

    def test_end_early_if_the_items_take_long(self, etl: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(items, "SETTLED_WITHIN", -1.0)
        assert self.sizes(etl, 3) == [1, 1, 1]
