"""Backfills: stations run again over the items of a window of time, each once, whatever dies."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any, cast

import pytest

from stanchion import Bury, Pipeline, Send, Stanchion
from stanchion.context import context_of
from stanchion.core.ids import new_ids
from stanchion.core.times import moment
from stanchion.errors import InvalidInput
from stanchion.pipelines.backfilling import run as backfill_run
from stanchion.pipelines.backfilling.record import Backfill
from stanchion.pipelines.outputs import INPUT
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND, NewJob
from stanchion.stores.rules.lifecycle.jobs import created
from stanchion_conformance.cron.schedules import Death, Dying
from stanchion_conformance.harness import LONG_LEASE, StoreClock, all_at_once

DAY = 86_400


def declared(app: Stanchion) -> Pipeline:
    """raw, then legs of a list or end, then end."""
    etl = app.pipeline("rides")

    @etl.station("raw", to=["end", "legs"])
    def raw(item: Any) -> Any:
        if item == "bad":
            raise Bury("as it says")
        return [Send("legs", leg) for leg in item] if isinstance(item, list) else Send("end", item + 1)

    etl.station("legs", to="end")(lambda leg: leg * 10)
    etl.station("end")(lambda item: item)
    return etl


@pytest.fixture
def rides(app: Stanchion, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    """raw, then legs of a list or end, then end; few items are several pages of a backfill."""
    monkeypatch.setattr(backfill_run, "PAGE", 3)
    return declared(app)


CHANGING = ("stage", "publish", "compare_and_set")
"""The verbs by which a backfill changes the store."""


def dying(_done: Backfill) -> None:
    """Kill a backfill behind its first page."""
    raise Death


def now(store: Store) -> datetime:
    """Return the time of the store."""
    return moment(store.now())


def waiting(rides: Pipeline, station: str = "raw") -> list[Any]:
    """Return the payloads of the waiting items of a station, in the order in which they run."""
    return [job.payload for job in reversed(rides.queue(station).find(state=["ready", "scheduled"], limit=1000))]


def results(rides: Pipeline) -> list[Any]:
    """Return the results of all items that have ended, in order."""
    return sorted(job.result for job in rides.queue("end").history(limit=1000))


class TestBackfills:
    def test_items_of_the_window_run_again_in_their_order(
        self, rides: Pipeline, store: Store, clock: StoreClock
    ) -> None:
        for n in range(4):
            rides.push_many([n, n + 10])
            rides.drain()
            clock.advance(60)
        since, until = now(store) - timedelta(seconds=190), now(store) - timedelta(seconds=70)
        done = rides.backfill("raw", since=since, until=until)
        assert waiting(rides) == [1, 11, 2, 12]
        assert (done.enqueued, done.left_out, done.fraction, done.dry_run) == (4, {}, 1.0, False)
        assert done.done_at is not None
        rides.drain()
        assert results(rides) == sorted([n + 1 for n in (0, 1, 2, 3, 10, 11, 12, 13)] + [2, 12, 3, 13])

    def test_the_time_at_the_station_counts_and_not_that_of_the_entry(
        self, rides: Pipeline, store: Store, clock: StoreClock
    ) -> None:
        rides.push(1)
        (item,) = rides.queue("raw").reserve(lease=LONG_LEASE)
        clock.advance(3600)
        item.move("rides.end")
        rides.drain()
        before = now(store) - timedelta(seconds=1800)
        assert rides.backfill("end", until=before, dry_run=True).enqueued == 0
        assert rides.backfill("end", since=before, dry_run=True).enqueued == 1
        assert rides.backfill("raw", until=before, dry_run=True).enqueued == 1
        assert rides.backfill("raw", since=before, dry_run=True).enqueued == 0
        came = rides.find("end")[0].trail[-1].entered_at
        assert rides.backfill("end", until=came, dry_run=True).enqueued == 0
        assert rides.backfill("end", until=came + timedelta(microseconds=1), dry_run=True).enqueued == 1

    def test_the_bounds_of_the_window(self, rides: Pipeline) -> None:
        item = rides.push(1)
        rides.drain()
        at = item.enqueued_at
        for since, until, count in (
            (at, None, 1),
            (None, at, 0),
            (None, at + timedelta(microseconds=1), 1),
            (at + timedelta(microseconds=1), None, 0),
        ):
            assert rides.backfill("raw", since=since, until=until, dry_run=True).enqueued == count

    def test_a_dry_run_counts_and_changes_nothing(self, rides: Pipeline) -> None:
        rides.push_many([1, 2, 3, 4, 5, 6, 7])
        rides.drain()
        seen: list[Backfill] = []
        told = rides.backfill("raw", dry_run=True, watch=seen.append)
        assert (told.enqueued, told.dry_run, told.done_at, told.fraction) == (7, True, None, 1.0)
        assert [one.enqueued for one in seen] == [3, 6, 7]
        assert (waiting(rides), rides.backfills()) == ([], [])

    def test_each_page_is_told(self, rides: Pipeline, store: Store) -> None:
        rides.push_many([1, 2, 3, 4, 5, 6, 7])
        rides.drain()
        seen: list[Backfill] = []
        rides.backfill("raw", since=now(store) - timedelta(hours=1), watch=seen.append)
        assert [one.enqueued for one in seen] == [3, 6, 7]
        assert [one.done_at is not None for one in seen] == [False, False, True]
        assert all(0 < one.fraction <= 1 for one in seen)

    def test_items_that_were_split_run_as_the_one_that_they_were(self, rides: Pipeline) -> None:
        rides.push_many([[1, 2], [3, 4]])
        rides.drain()
        done = rides.backfill("raw", name="from raw")
        assert waiting(rides) == [[1, 2], [3, 4]]
        assert (done.enqueued, done.left_out) == (2, {})
        rides.drain()
        done = rides.backfill("legs", name="from legs")
        assert waiting(rides, "legs") == [1, 2, 3, 4]
        assert (done.enqueued, done.left_out) == (4, {"copy": 4})

    def test_one_whose_origin_is_gone_is_told(self, rides: Pipeline, app: Stanchion) -> None:
        item = rides.push([1, 2])
        rides.drain()
        row = app.store.fetch([item.id])[item.id]
        assert app.store.delete([row.ref]) == [True]
        done = rides.backfill("raw", dry_run=True)
        assert (done.enqueued, done.left_out) == (0, {"lost": 2})
        assert f"was split from {item.id}, which is not in history any more" in done.told[0]

    def test_live_items_are_counted_and_left_alone(self, rides: Pipeline) -> None:
        rides.push_many([1, 2])
        rides.drain()
        rides.push_many([3, 4])
        done = rides.backfill("raw")
        assert (done.enqueued, done.left_out) == (2, {"live": 2})
        assert sorted(waiting(rides)) == [1, 2, 3, 4]

    def test_dead_letters_run_again_and_stay(self, rides: Pipeline) -> None:
        letter = rides.push("bad")
        rides.drain()
        assert rides.backfill("raw").enqueued == 1
        assert waiting(rides) == ["bad"]
        assert [job.id for job in rides.dead_letters.find()] == [letter.id]

    def test_an_older_payload_that_does_not_fit_a_new_schema_is_told(self, app: Stanchion) -> None:
        etl = app.pipeline("typed")
        etl.station("raw")(lambda item: item)
        bad, _ = cast("Any", etl.push_many([{"n": "one"}, {"n": 2}]))
        etl.drain()
        app.queue("typed.raw", schema="n bigint")
        done = etl.backfill("raw")
        assert (done.enqueued, done.left_out) == (1, {"misfit": 1})
        assert waiting(etl) == [{"n": 2}]
        assert done.told[0].startswith(f"item {bad.id} a payload does not fit the schema")

    def test_an_item_without_its_payload_is_told(self, app: Stanchion) -> None:
        etl = app.pipeline("forgetful", keep_entry=False)
        etl.station("raw", to="end")(lambda item: item + 1)
        etl.station("end")(lambda item: item)
        etl.push(1)
        etl.drain()
        done = etl.backfill("raw", dry_run=True)
        assert (done.enqueued, done.left_out) == (0, {"payload": 1})
        assert "does not have the payload" in done.told[0]

    def test_what_history_has_lost_is_said(self, rides: Pipeline, app: Stanchion, store: Store) -> None:
        rides.push(1)
        rides.drain()
        week = timedelta(days=7)
        done = rides.backfill("raw", dry_run=True)
        assert done.purged_before == done.began_at - week
        assert rides.backfill("raw", since=now(store) - week / 2, dry_run=True).purged_before is None
        app.queue("rides.end").configure(history_ttl=DAY)
        shorter = rides.backfill("raw", since=now(store) - week / 2, dry_run=True)
        assert shorter.purged_before == shorter.began_at - timedelta(days=1)

    def test_copies_may_have_a_priority_of_their_own(self, rides: Pipeline) -> None:
        rides.push(1, priority=20)
        rides.push(2)
        rides.drain()
        rides.backfill("raw", priority=-50)
        assert [job.priority for job in rides.queue("raw").find()] == [-50, -50]
        rides.backfill("raw", name="as they were")
        assert sorted(job.priority for job in rides.queue("raw").find()) == [-50, -50, 0, 20]

    def test_what_is_wrong_is_told(self, rides: Pipeline, store: Store) -> None:
        at = now(store)
        for given, told in (
            ({"station": "nowhere"}, "has no station"),
            ({"since": at, "until": at}, "the window is empty"),
            ({"since": datetime(2030, 1, 1)}, "no time zone"),
            ({"name": "x" * 101}, "1 to 100 printable"),
            ({"max_live": 0}, "max_live"),
            ({"priority": 101}, "priority"),
        ):
            with pytest.raises(InvalidInput, match=told):
                rides.backfill(**cast("Any", {"station": "raw", **given}))
        assert rides.backfills() == []


class TestBackfillsOnce:
    def test_one_that_is_repeated_does_nothing(self, rides: Pipeline) -> None:
        rides.push_many([1, 2, 3, 4])
        rides.drain()
        first = rides.backfill("raw")
        rides.drain()
        again = rides.backfill("raw")
        assert waiting(rides) == []
        assert (first.was_done, again) == (False, first._replace(was_done=True))
        assert rides.backfill("raw", dry_run=True).enqueued == 0
        assert [one.name for one in rides.backfills()] == [first.name]

    def test_another_one_runs_each_input_once_and_no_copies(self, rides: Pipeline) -> None:
        rides.push_many([1, [2, 3]])
        rides.drain()
        rides.replay(state="done", from_="raw")
        rides.drain()
        rides.backfill("raw", name="first")
        rides.drain()
        done = rides.backfill("raw", name="second")
        assert waiting(rides) == [1, [2, 3]]
        assert (done.enqueued, done.left_out) == (2, {"copy": 4})

    def test_a_name_stands_for_one(self, rides: Pipeline, store: Store) -> None:
        rides.push(1)
        rides.drain()
        rides.backfill("raw", name="fix")
        with pytest.raises(InvalidInput, match=r"'fix' is of station 'raw' from .* not of station 'end'"):
            rides.backfill("end", name="fix")
        with pytest.raises(InvalidInput, match="use another name"):
            rides.backfill("raw", name="fix", until=now(store), dry_run=True)

    def test_what_ends_while_it_runs_is_left_alone(self, rides: Pipeline, clock: StoreClock) -> None:
        rides.push_many([1, 2, 3, 4])
        rides.drain()
        clock.advance(1)
        rides.push(5)
        with suppress(Death):
            rides.backfill("raw", name="fix", watch=dying)
        clock.advance(1)
        rides.push(6)
        rides.drain()
        done = rides.backfill("raw", name="fix")
        assert (done.enqueued, done.left_out) == (4, {"live": 1})
        rides.drain()
        assert sorted(results(rides)) == sorted([2, 3, 4, 5] * 2 + [6, 7])

    def test_killed_at_each_step_it_goes_on(self, rides: Pipeline, store: Store) -> None:
        numbers = list(range(14))
        rides.push_many(numbers)
        rides.drain()
        killed = []
        for changes, after in ((n, after) for n in range(4) for after in (False, True)):
            doomed = declared(Stanchion(store=cast("Store", Dying(store, changes, after=after, changing=CHANGING))))
            try:
                doomed.backfill("raw", name="fix")
            except Death:
                killed.append((changes, after))
        assert killed[:6] == [(n, after) for n in range(3) for after in (False, True)]
        rides.backfill("raw", name="fix")
        while store.recover():
            pass
        assert waiting(rides) == numbers
        (done,) = rides.backfills()
        assert (done.enqueued, done.done_at is not None) == (14, True)

    def test_one_that_another_overtakes_between_two_pages(
        self, rides: Pipeline, other_app: Stanchion, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        numbers = list(range(10))
        rides.push_many(numbers)
        rides.drain()
        other, publish = declared(other_app), context_of(rides).store.publish

        def overtaken(publication: Any) -> bool:
            monkeypatch.setattr(context_of(rides).store, "publish", publish)
            done = publish(publication)
            other.backfill("raw", name="fix")
            return done

        monkeypatch.setattr(context_of(rides).store, "publish", overtaken)
        rides.backfill("raw", name="fix")
        assert waiting(rides) == numbers

    def test_two_of_the_same_name_at_once(self, rides: Pipeline, other_app: Stanchion) -> None:
        numbers = list(range(20))
        rides.push_many(numbers)
        rides.drain()
        other = declared(other_app)
        both = [partial(one.backfill, "raw", name="fix") for one in (rides, other)]
        all_at_once(both)
        assert sorted(waiting(rides)) == numbers
        assert rides.backfills()[0].enqueued == 20

    def test_another_of_the_same_name_is_quicker(
        self, rides: Pipeline, other_app: Stanchion, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        numbers = list(range(20))
        rides.push_many(numbers)
        rides.drain()
        other, enqueue = declared(other_app), backfill_run.BackfillRun._enqueue

        def behind_the_other(run: backfill_run.BackfillRun, page: Any, *, last: bool) -> bool:
            monkeypatch.setattr(backfill_run.BackfillRun, "_enqueue", enqueue)
            other.backfill("raw", name="fix")
            return enqueue(run, page, last=last)

        monkeypatch.setattr(backfill_run.BackfillRun, "_enqueue", behind_the_other)
        rides.backfill("raw", name="fix")
        assert sorted(waiting(rides)) == numbers
        assert rides.backfills()[0].enqueued == 20

    def test_it_waits_while_the_stations_hold_enough(self, rides: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
        rides.push_many([1, 2, 3, 4, 5, 6, 7])
        rides.push("bad")  # its letter is no reason to wait
        rides.drain()
        held: list[int] = []
        monkeypatch.setattr(backfill_run, "sleep", lambda _seconds: rides.drain())
        rides.backfill("raw", max_live=3, watch=lambda _done: held.append(len(waiting(rides))))
        assert held == [3, 3, 2]
        rides.drain()
        assert len(results(rides)) == 14


class TestVersionsOfItems:
    def test_a_copy_keeps_when_its_input_came(self, rides: Pipeline, clock: StoreClock) -> None:
        item = rides.push([1, 2])
        rides.drain()
        clock.advance(60)
        done = rides.backfill("raw", name="first")
        came, again = (int(one.timestamp() * SECOND) for one in (item.enqueued_at, done.began_at))
        (copy,) = rides.queue("raw").find(state="ready")
        assert [round(one, -2) for one in copy.headers[INPUT]] == [round(one, -2) for one in (came, again)]
        rides.drain()
        assert {tuple(job.headers[INPUT]) for job in rides.queue("end").find(state="done") if INPUT in job.headers} == {
            tuple(copy.headers[INPUT])
        }
        clock.advance(60)
        (again_copy,) = rides.replay([copy.id])
        assert again_copy.headers[INPUT][0] == copy.headers[INPUT][0]
        assert again_copy.headers[INPUT][1] > copy.headers[INPUT][1]


class TestLongHistory:
    def test_items_of_many_pages(self, rides: Pipeline, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(backfill_run, "PAGE", 200)
        at = store.now() - SECOND
        rows = [
            created(NewJob(one, "rides.end", str(n + 1)), at)._replace(
                state="done",
                finished_at=at,
                entry_payload=str(n),
                trail=f'[["rides.raw",{at},1,1],["rides.end",{at}]]',
            )
            for n, one in enumerate(new_ids(1100))
        ]
        for first in range(0, len(rows), 500):
            assert all(store.adopt(rows[first : first + 500]))
        assert rides.backfill("raw").enqueued == 1100
        copies = [job for page in (rides.queue("raw").find(limit=2000),) for job in page]
        assert [job.origin for job in reversed(copies)] == [row.id for row in rows]
