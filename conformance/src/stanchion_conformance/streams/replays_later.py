"""Replays of items whose pipeline, queue, keys or store have changed since they ran."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Pipeline, Push, Stanchion, group
from stanchion.copying.transfer import Transfer
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion_conformance.harness import row_of
from stanchion_conformance.jobs.encryption import new_key


def steps(app: Stanchion, *names: str, **options: Any) -> Pipeline:
    """Return the pipeline `steps` with stations in a row, each of which adds one."""
    etl = app.pipeline("steps", **options)
    for name, to in zip(names, [*names[1:], None], strict=True):
        etl.station(name, to=to)(lambda item: item + 1)
    return etl


def ended(etl: Pipeline, item: int = 0) -> str:
    """Run an item to its end; return its id."""
    pushed = etl.push(item)
    etl.drain()
    return pushed.id


class TestReplayAfterAChange:
    def test_of_the_name_of_the_entry(self, app: Stanchion, store: Store) -> None:
        item = ended(steps(app, "raw", "mid", "end"))
        later = steps(Stanchion(store=store), "intake", "mid", "end")
        with pytest.raises(InvalidInput, match=r"entered at 'steps\.raw', which is no station any more"):
            later.replay([item])
        with pytest.raises(InvalidInput, match="has no station 'raw'"):
            later.replay([item], from_="raw")
        with pytest.raises(InvalidInput, match=r"replay it from steps\.end"):
            later.replay([item], from_="mid")
        (copy,) = later.replay([item], from_="end")
        assert copy.payload == 2

    def test_of_a_station_that_was_removed(self, app: Stanchion, store: Store) -> None:
        item = ended(steps(app, "raw", "mid", "end"))
        later = steps(Stanchion(store=store), "raw", "end")
        assert [found.id for found in later.find("raw")] == [item]
        (copy,) = later.replay([item])
        assert (copy.queue, copy.payload) == ("steps.raw", 0)
        assert later.drain() == 2

    def test_of_limits_and_settings_of_its_station(self, app: Stanchion, store: Store) -> None:
        item = ended(steps(app, "raw", "end"))
        changed = Stanchion(store=store)
        changed.semaphore("slots", capacity=1)
        later = changed.pipeline("steps")
        later.station("raw", to="end", limits=["slots"], lanes=4)(lambda item: item)
        later.station("end")(lambda item: item)
        (copy,) = later.replay([item])
        row = row_of(store, copy.id)
        assert row.limits is not None
        assert "slots" in row.limits
        assert row.lane >= 0
        assert later.drain() == 2

    def test_of_history_that_was_deleted(self, app: Stanchion) -> None:
        etl = steps(app, "raw", "end")
        item = ended(etl)
        etl.queue("end").purge_history(older_than=0)
        assert etl.replay([item]) == []
        assert etl.replay(state="done") == 0

    def test_of_an_item_that_runs_again(self, app: Stanchion) -> None:
        etl = steps(app, "raw", "end")
        item = etl.push(0).id
        (reserved,) = etl.queue("raw").reserve()
        with pytest.raises(InvalidInput, match=r"is still on its way \(running in steps\.raw\)"):
            etl.replay([item])
        reserved.bury("no")
        letter = app.get(item)
        assert letter is not None
        assert letter.queue == "steps.dead"
        assert len(etl.replay([item])) == 1
        etl.dead_letters.retry(item)
        with pytest.raises(InvalidInput, match=r"is still on its way \(ready in steps\.raw\)"):
            etl.replay([item])
        etl.drain()
        assert [stop.queue for stop in etl.find()[-1].trail] == ["steps.raw", "steps.dead", "steps.raw", "steps.end"]
        assert etl.replay([item])[0].payload == 0


class TestReplayOfMovedItems:
    def test_by_hand(self, app: Stanchion, q: Any) -> None:
        etl = steps(app, "raw", "mid", "end")
        pushed = q.push(7)
        q.reserve()[0].move("steps.mid", payload=10, keep_entry=True)
        etl.drain()
        (copy,) = etl.replay([pushed.id], from_="end")
        assert copy.payload == 11
        with pytest.raises(InvalidInput, match=r"replay it from steps\.end"):
            etl.replay([pushed.id])
        assert q.get(pushed.id, passed=True).entry_payload == 7

    def test_out_of_the_pipeline(self, app: Stanchion) -> None:
        etl = steps(app, "raw", "end")
        item = etl.push(0).id
        etl.queue("raw").reserve()[0].move("quarantine")
        assert etl.find("raw") == []
        assert [job.id for job in app.find(passed="steps.raw")] == [item]
        app.queue("quarantine").reserve()[0].commit(payload="looked at")
        (copy,) = etl.replay([item])
        assert (copy.queue, copy.payload) == ("steps.raw", 0)


class TestReplayOfEncryptedItems:
    def test_with_new_keys(self, store: Store) -> None:
        old, new = new_key(), new_key()
        item = ended(steps(Stanchion(store=store, keys=[old]), "raw", "end"), 41)
        row = row_of(store, item)
        assert str(row.entry_payload).startswith("enc:")
        later = steps(Stanchion(store=store, keys=[new, old]), "raw", "end")
        (copy,) = later.replay([item])
        assert copy.payload == 41
        later.drain()
        done = later.find(state="done")[0]
        assert (done.result, done.entry_payload) == (43, 41)


class TestReplayInAnotherStore:
    def test_of_copied_items(self, app: Stanchion, store: Store) -> None:
        etl = steps(app, "raw", "mid", "end")
        item = ended(etl)
        other = Stanchion("memory://")
        Transfer(store, other.store, etl.queues, history=True, settle=0).run()
        there = steps(other, "raw", "mid", "end")
        assert [stop.queue for stop in there.find("raw")[0].trail] == ["steps.raw", "steps.mid", "steps.end"]
        (copy,) = there.replay([item])
        assert (copy.payload, copy.origin) == (0, item)


class TestReplayInAFlow:
    def test_of_an_item_that_was_a_member(self, app: Stanchion) -> None:
        etl = steps(app, "raw", "end")
        flow = app.enqueue_flow(group([Push(1, queue="steps.raw"), Push(2, queue="steps.raw")]))
        etl.drain()
        assert flow.result(timeout=60) == [3, 4]
        copies = etl.replay([member.id for member in etl.find(state="done")])
        assert sorted(copy.payload for copy in copies) == [1, 2]
        assert {copy.flow for copy in copies} == {None}
        etl.drain()
        assert flow.result(timeout=60) == [3, 4]
