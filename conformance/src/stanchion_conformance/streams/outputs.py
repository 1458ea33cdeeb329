"""Outputs by key: of each key, a station keeps the newest version, whatever comes last."""

from __future__ import annotations

from typing import Any, cast

import pytest

from stanchion import Job, JobState, Pipeline, Stanchion
from stanchion.context import context_of
from stanchion.core.times import moment
from stanchion.errors import InvalidInput
from stanchion.pipelines.outputs import Output, Version, current, replace_older
from stanchion.pipelines.pipeline import plan_of
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import LONG_LEASE, StoreClock, all_at_once


def declared(app: Stanchion, code: int = 1) -> Pipeline:
    """raw, then sums by their order, whose function is of a release of the code."""
    etl = app.pipeline("bills")
    etl.station("raw", to="sums")(lambda item: item)
    etl.station("sums", key="order")(lambda item: {**item, "code": code})
    return etl


@pytest.fixture
def bills(app: Stanchion) -> Pipeline:
    """raw, then sums by their order."""
    return declared(app)


def of(bills: Pipeline, order: str = "17") -> Any:
    """Return the current output of an order."""
    job = bills.output("sums", order)
    return None if job is None else job.result


def states(bills: Pipeline) -> list[str]:
    """Return the states of the items that have ended, oldest first."""
    return [job.state.value for job in reversed(bills.queue("sums").history())]


class TestOutputsByKey:
    def test_the_later_input_is_the_output(self, bills: Pipeline, clock: StoreClock) -> None:
        assert of(bills) is None
        for n in (1, 2):
            bills.push({"order": 17, "n": n})
            clock.advance(1)
        bills.push({"order": "18", "n": 3})
        bills.push({"n": 4})
        bills.drain()
        assert of(bills) == {"order": 17, "n": 2, "code": 1}
        assert of(bills, "18") == {"order": "18", "n": 3, "code": 1}
        assert states(bills) == ["done"] * 4

    def test_an_earlier_input_that_comes_late_is_superseded(self, app: Stanchion, clock: StoreClock) -> None:
        ran: list[Any] = []
        bills = app.pipeline("bills")
        bills.station("raw", to="sums")(lambda item: item)
        bills.station("sums", key="order")(ran.append)
        early = bills.push({"order": 17, "n": 1}, delay=60)
        clock.advance(1)
        late = bills.push({"order": 17, "n": 2})
        bills.drain()
        clock.advance(60)
        bills.drain()
        assert ran == [{"order": 17, "n": 2}]
        job = cast("Job", bills.queue("sums").get(early.id))
        assert job.state is JobState.CANCELLED
        assert f"superseded: item {late.id} is the output of key '17'" in job.errors[-1]["error"]

    def test_one_that_is_overtaken_while_it_runs_is_superseded(
        self, app: Stanchion, bills: Pipeline, clock: StoreClock
    ) -> None:
        bills.push({"order": 17, "n": 1})
        clock.advance(1)
        bills.push({"order": 17, "n": 2})
        for raw in bills.queue("raw").reserve(2, lease=LONG_LEASE):
            raw.move("bills.sums")
        station = plan_of(bills).stations["sums"]
        early, late = (app.store.fetch([one.id])[one.id] for one in _reserved(bills))
        outcomes = [station.outcome(row, None, "done") for row in (late, early)]
        assert app.store.settle(outcomes) == [JobState.DONE, JobState.CANCELLED]
        assert cast("Job", bills.output("sums", 17)).id == late.id

    def test_a_backfill_replaces_the_output_of_the_same_input(
        self, store: Store, bills: Pipeline, clock: StoreClock
    ) -> None:
        bills.push({"order": 17, "n": 1})
        bills.drain()
        clock.advance(1)
        better = declared(Stanchion(store=store), code=2)
        better.backfill("raw", name="fix")
        better.drain()
        assert of(bills) == {"order": 17, "n": 1, "code": 2}
        assert states(bills) == ["done", "done"]

    def test_a_backfill_replaces_no_output_of_a_later_input(
        self, store: Store, bills: Pipeline, clock: StoreClock
    ) -> None:
        bills.push({"order": 17, "n": 1})
        clock.advance(1)
        middle = context_of(bills).store.now()
        clock.advance(1)
        bills.push({"order": 17, "n": 2})
        bills.drain()
        clock.advance(1)
        better = declared(Stanchion(store=store), code=2)
        assert better.backfill("raw", until=moment(middle)).enqueued == 1
        better.drain()
        assert of(bills) == {"order": 17, "n": 2, "code": 1}
        assert states(bills) == ["done", "done", "cancelled"]

    def test_an_older_backfill_replaces_no_output_of_a_newer_one(
        self, store: Store, bills: Pipeline, clock: StoreClock
    ) -> None:
        bills.push({"order": 17, "n": 1})
        bills.drain()
        clock.advance(1)
        bills.backfill("raw", name="first", priority=-50)
        clock.advance(1)
        bills.backfill("raw", name="second")
        (second, first) = bills.queue("raw").reserve(2, lease=LONG_LEASE)
        second.move("bills.sums")
        declared(Stanchion(store=store), code=2).drain()
        assert of(bills)["code"] == 2
        first.move("bills.sums")
        declared(Stanchion(store=store), code=3).drain()
        assert of(bills)["code"] == 2
        assert states(bills)[1:] == ["cancelled", "done"] or states(bills)[1:] == ["done", "cancelled"]

    def test_a_replay_is_the_same_input_run_again(self, bills: Pipeline, clock: StoreClock) -> None:
        early = bills.push({"order": 17, "n": 1})
        clock.advance(1)
        bills.push({"order": 17, "n": 2})
        bills.drain()
        clock.advance(1)
        bills.replay([early.id])
        bills.drain()
        assert of(bills)["n"] == 2

    def test_many_at_once_leave_the_newest(
        self, app: Stanchion, other_app: Stanchion, bills: Pipeline, clock: StoreClock
    ) -> None:
        for n in range(8):
            bills.push({"order": 17, "n": n})
            clock.advance(1)
        for raw in bills.queue("raw").reserve(8, lease=LONG_LEASE):
            raw.move("bills.sums")
        both = [declared(one).drain for one in (app, other_app)]
        all_at_once(both)
        assert of(bills)["n"] == 7
        assert states(bills).count("cancelled") + states(bills).count("done") == 8

    def test_one_that_loses_a_race_looks_again(
        self, store: Store, bills: Pipeline, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        queue, write = bills.queue("sums").name, store.compare_and_set

        def overtaken(*change: Any) -> bool:
            monkeypatch.setattr(store, "compare_and_set", write)
            assert replace_older(store, queue, "17", Output(Version(3), "late")) is None
            return store.compare_and_set(*change)

        monkeypatch.setattr(store, "compare_and_set", overtaken)
        assert replace_older(store, queue, "17", Output(Version(2), "early")) == Output(Version(3), "late")
        assert current(store, queue, "17")[0] == Output(Version(3), "late")

    def test_a_key_of_another_kind_is_told(self, app: Stanchion, bills: Pipeline) -> None:
        bills.push({"order": [17], "n": 1})
        bills.drain()
        (letter,) = bills.dead_letters.find()
        assert "the key of an item must be a text or a whole number" in letter.errors[-1]["error"]
        with pytest.raises(InvalidInput, match="key must be the name of a field"):
            app.pipeline("wrong").station("raw", key=cast("Any", 3))(print)
        keyed = app.pipeline("keyed")
        keyed.station("raw", key=lambda item: item["missing"], max_attempts=1)(lambda item: item)
        keyed.push({})
        keyed.drain()
        assert "KeyError" in keyed.dead_letters.find()[0].errors[-1]["error"]


def _reserved(bills: Pipeline) -> list[Any]:
    """Reserve the two items of the last station; return the earlier one first."""
    found = bills.queue("sums").reserve(2, lease=LONG_LEASE)
    return sorted(found, key=lambda one: one.enqueued_at)
