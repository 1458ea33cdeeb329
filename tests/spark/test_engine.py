"""Which stations of a pipeline the engine on Spark takes for busy, and when it starts and ends their tasks."""

import threading
from typing import Any
from unittest.mock import Mock

import pytest

from stanchion import Stanchion
from stanchion.core.ids import new_id
from stanchion.errors import StanchionError, StoreUnavailable
from stanchion.pipelines import Pipeline
from stanchion.pipelines.pipeline import plan_of
from stanchion.spark.stations import engine as module
from stanchion.spark.stations.engine import _Engine, _Stop
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.outcomes import Move
from stanchion.stores.records.workers import WorkerRow
from stanchion.streams import StreamSource
from stanchion.streams.state import KIND, StreamState, worker_id
from stanchion.worker.process.signals import Calls


@pytest.fixture
def app() -> Stanchion:
    return Stanchion("memory://")


def declared(app: Stanchion, **on_spark: bool) -> Pipeline:
    """Declare the stations raw and clean, each plain or on Spark."""
    made = app.pipeline("etl")
    for name, to in (("raw", "clean"), ("clean", None)):
        if on_spark[name]:
            made.spark_station(name, to=to, schema="n int")(lambda rows: rows)
        else:
            made.station(name, to=to)(lambda item: item)
    plan_of(made).prepare()
    return made


@pytest.fixture
def etl(app: Stanchion) -> Pipeline:
    """Two stations on Spark."""
    return declared(app, raw=True, clean=True)


def of(etl: Pipeline, *stations: str, until_empty: bool = True, rounds: Any = None, **options: Any) -> _Engine:
    """Return an engine that starts nothing, or rounds of `rounds`."""
    stop = _Stop(Calls(), threading.Event())
    return _Engine(plan_of(etl).chosen(stations), Mock(), rounds, stop, until_empty, **options)


@pytest.fixture
def engine(etl: Pipeline) -> _Engine:
    return of(etl)


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
        etl.push(1)
        assert names(of(etl, "raw")) == ["raw"]

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


class Round:
    """Stands for a Spark job."""

    def __init__(self) -> None:
        self.active, self.ending, self.began = True, False, 0.0
        self.error: Exception | None = None

    def end(self) -> None:
        self.ending = True


class Rounds:
    """Notes the rounds that are started."""

    def __init__(self) -> None:
        self.started: list[Round] = []
        self.trouble: Exception | None = None

    def start(self) -> Round:
        if self.trouble is not None:
            raise self.trouble
        self.started.append(Round())
        return self.started[-1]


@pytest.fixture
def rounds() -> Rounds:
    return Rounds()


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock of the engine; a test moves it."""
    at = [1000.0]
    clock = Mock(monotonic=lambda: at[0])
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr("stanchion.spark.stations.restarts.time", clock)
    return at


def keep(engine: _Engine) -> list[str]:
    """Look once, and start or end a round; return the names of the stations that are wanted."""
    wanted = engine._wanted()
    engine._keep_round(wanted)
    return [station.station for station in wanted]


class TestPlainStations:
    def test_work_until_no_item_is_due_or_runs(self, app: Stanchion, rounds: Rounds) -> None:
        etl = declared(app, raw=False, clean=False)
        engine = of(etl, rounds=rounds)
        assert keep(engine) == []
        etl.push(1)
        assert keep(engine) == ["raw", "clean"]
        (row,) = app.store.claim(Claim("etl.raw", 1, new_id(), lease=30.0)).rows
        assert keep(engine) == ["raw", "clean"]
        app.store.settle([Move(row.lease, "etl.clean", delay=3600.0)])
        assert keep(engine) == []
        assert len(rounds.started) == 1

    def test_an_item_that_moves_between_the_reads_of_due_and_running_ones(
        self, app: Stanchion, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        etl = declared(app, raw=False, clean=False)
        engine = of(etl, rounds=rounds)
        etl.push(1)
        keep(engine)
        (row,) = app.store.claim(Claim("etl.raw", 1, new_id(), lease=30.0)).rows
        select = app.store.select

        def after_it_has_moved(query: Any) -> Any:
            app.store.settle([Move(row.lease, "etl.clean")])
            return select(query)

        monkeypatch.setattr(app.store, "select", after_it_has_moved)
        assert keep(engine) == ["raw", "clean"]

    def test_without_a_bound_nothing_is_read(self, app: Stanchion, rounds: Rounds) -> None:
        engine = of(declared(app, raw=False, clean=False), until_empty=False, rounds=rounds)
        assert keep(engine) == ["raw", "clean"]
        engine.backlog = Mock(claims=lambda: 0, due=Mock(side_effect=AssertionError))
        assert keep(engine) == ["raw", "clean"]

    @pytest.mark.parametrize("until_empty", [True, False])
    def test_leave_the_cores_to_the_queries_while_these_have_all_the_work(
        self, app: Stanchion, rounds: Rounds, now: list[float], until_empty: bool
    ) -> None:
        etl = declared(app, raw=False, clean=True)
        engine = of(etl, until_empty=until_empty, rounds=rounds)
        etl.push(1)
        keep(engine)
        (first,) = rounds.started
        (row,) = app.store.claim(Claim("etl.raw", 1, new_id(), lease=30.0)).rows
        app.store.settle([Move(row.lease, "etl.clean")])
        assert keep(engine) == ["clean"]
        assert not first.ending
        now[0] += 3
        keep(engine)
        assert first.ending
        first.active = False
        keep(engine)
        etl.push(2)
        keep(engine)
        assert len(rounds.started) == 2

    def test_are_busy_beside_a_query_that_has_a_batch(self, app: Stanchion, rounds: Rounds) -> None:
        etl = declared(app, raw=False, clean=True)
        engine = of(etl, rounds=rounds)
        etl.push(1)
        keep(engine)
        etl.push(1, station="clean")
        source = StreamSource(app.store, "etl.clean", "etl.clean")
        source.latest(source.initial(), 10)
        engine.running["clean"] = Mock()
        assert keep(engine) == ["raw", "clean"]

    def test_take_turns_with_queries_on_a_single_core(self, app: Stanchion, rounds: Rounds, now: list[float]) -> None:
        etl = declared(app, raw=False, clean=True)
        engine = of(etl, rounds=rounds, takes_turns=True)
        etl.push(1)
        keep(engine)
        (first,) = rounds.started
        first.began = now[0]
        now[0] += 5.5
        keep(engine)
        assert first.ending
        first.active = False
        keep(engine)
        assert len(rounds.started) == 1
        now[0] += 5.5
        keep(engine)
        assert len(rounds.started) == 2

    def test_a_round_that_ends_by_itself_is_followed_by_another_after_a_pause(
        self, app: Stanchion, rounds: Rounds, now: list[float]
    ) -> None:
        engine = of(declared(app, raw=False, clean=False), until_empty=False, rounds=rounds)
        keep(engine)
        for pause in (1, 2, 4):
            rounds.started[-1].active = False
            rounds.started[-1].error = OSError("the executor is gone")
            started = len(rounds.started)
            keep(engine)
            now[0] += pause - 0.5
            keep(engine)
            assert len(rounds.started) == started
            now[0] += 1
            keep(engine)
            assert len(rounds.started) == started + 1

    def test_rounds_that_claim_nothing_are_given_up(self, app: Stanchion, rounds: Rounds, now: list[float]) -> None:
        etl = declared(app, raw=False, clean=False)
        engine = of(etl, rounds=rounds)
        etl.push_many(range(30))

        def fail() -> None:
            rounds.started[-1].active = False
            rounds.started[-1].error = OSError("no module named flights")
            now[0] += 100
            keep(engine)

        keep(engine)
        for _ in range(20):  # a claim is progress
            keep(engine)
            app.store.claim(Claim("etl.raw", 1, new_id(), lease=30.0))
            fail()

        def fail_again_and_again() -> None:
            for _ in range(20):
                keep(engine)
                fail()

        with pytest.raises(StanchionError, match="the job of the plain stations failed: no module named flights"):
            fail_again_and_again()

    def test_an_error_that_lasts_is_raised(self, app: Stanchion, rounds: Rounds) -> None:
        engine = of(declared(app, raw=False, clean=False), until_empty=False, rounds=rounds)
        keep(engine)
        rounds.started[0].active = False
        rounds.started[0].error = OSError("Traceback\n  stanchion.errors.InvalidInput: no tasks")
        with pytest.raises(StanchionError, match="InvalidInput: no tasks"):
            keep(engine)

    def test_the_store_may_be_away(self, app: Stanchion, rounds: Rounds, now: list[float]) -> None:
        etl = declared(app, raw=False, clean=True)
        engine = of(etl, until_empty=False, rounds=rounds)
        rounds.trouble = StoreUnavailable("no answer")
        etl.push(1)
        assert keep(engine) == ["raw", "clean"]
        engine.backlog = Mock(due=Mock(side_effect=StoreUnavailable("no answer")), claims=lambda: 0)
        assert keep(engine) == ["raw", "clean"]
        rounds.trouble = None
        now[0] += 2
        keep(engine)
        assert len(rounds.started) == 1
