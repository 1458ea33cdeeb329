"""Retention by outcome, and a maximum number of finished jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from stanchion import InvalidInput, JobState, Queue, Stanchion
from stanchion.core.ids import new_ids
from stanchion.stores.protocol import Store
from stanchion.stores.records.queues import QueueSettings
from stanchion_conformance.harness import QUEUE, StoreClock, all_at_once, new_job
from stanchion_conformance.jobs.history import finish, finished

DAY = 86_400.0
EACH = ("done", "dead", "cancelled")


def end_each(q: Queue) -> dict[str, str]:
    """End a job in each way; return their ids by state."""
    (done,) = finish(q)
    dead = q.push({}).id
    q.reserve()[0].bury("broken")
    cancelled = q.push({}).id
    q.cancel(cancelled)
    return {"done": done, "dead": dead, "cancelled": cancelled}


def left(store: Store, ended: dict[str, str]) -> set[str]:
    """Maintain the store; return the states of those of these jobs that are still there."""
    store.maintain()
    return {state for state, job in ended.items() if job in store.fetch([job])}


def adopt(store: Store, state: str, count: int, at: int, queue: str = QUEUE) -> list[str]:
    """Store finished jobs that ended at a time; return their ids."""
    ids = new_ids(count)
    ended = finished(new_job(queue=queue), at)._replace(state=state)
    store.adopt([ended._replace(id=one) for one in ids])
    return ids


class TestHistoryByOutcome:
    def test_done_goes_and_dead_stays(self, q: Queue, store: Store, clock: StoreClock) -> None:
        q.configure(history_ttl={"done": 100, "default": timedelta(seconds=200), "dead": "5m"})
        ended = end_each(q)
        assert left(store, ended) == {*EACH}
        clock.advance(101)
        assert left(store, ended) == {"dead", "cancelled"}
        clock.advance(100)
        assert left(store, ended) == {"dead"}
        clock.advance(100)
        assert left(store, ended) == set()

    def test_dead_goes_and_done_stays(self, q: Queue, store: Store, clock: StoreClock) -> None:
        q.configure(history_ttl={"dead": 100})
        ended = end_each(q)
        clock.advance(101)
        assert left(store, ended) == {"done", "cancelled"}
        again = end_each(q)
        clock.advance(101)
        assert (left(store, ended), left(store, again)) == ({"done", "cancelled"}, {"done", "cancelled"})

    @pytest.mark.parametrize(
        ("given", "longest", "shorter"),
        [
            ({"done": 60}, 7 * DAY, {"done": 60.0}),
            ({"done": "1d", "dead": "30d"}, 30 * DAY, {"done": DAY, "cancelled": 7 * DAY}),
            ({"dead": "30d", "default": "1d"}, 30 * DAY, {"done": DAY, "cancelled": DAY}),
            ({"done": 60, "dead": 60, "cancelled": 60}, 60.0, {}),
            ({"done": None, "default": 60}, 60.0, {}),
            ({}, 7 * DAY, {}),
        ],
        ids=["one", "two", "default", "all", "none", "empty"],
    )
    def test_an_outcome_that_is_not_named_has_the_default(
        self, q: Queue, store: Store, given: Any, longest: float, shorter: dict[str, float]
    ) -> None:
        q.configure(history_ttl=9, history_ttl_dead=5)
        q.configure(history_ttl=given)
        (settings,) = store.queues([QUEUE])
        assert (settings.history_ttl, settings.shorter_ttls) == (longest, shorter)

    def test_a_single_duration_is_that_of_all_outcomes_again(self, q: Queue, store: Store, clock: StoreClock) -> None:
        q.configure(history_ttl={"done": 100})
        q.configure(history_ttl=300)
        assert store.queues([QUEUE]) == [QueueSettings(QUEUE, history_ttl=300.0)]
        ended = end_each(q)
        clock.advance(101)
        assert left(store, ended) == {*EACH}

    def test_a_change_holds_for_jobs_that_have_ended(self, q: Queue, store: Store, clock: StoreClock) -> None:
        q.configure(history_ttl={"done": 1000})
        ended = end_each(q)
        clock.advance(101)
        assert left(store, ended) == {*EACH}
        q.configure(history_ttl_dead=100)
        assert left(store, ended) == {"done", "cancelled"}
        q.configure(history_ttl_done=100)
        assert left(store, ended) == {"cancelled"}
        q.configure(history_ttl_cancelled=None)
        clock.advance(6 * DAY)
        assert left(store, ended) == {"cancelled"}

    def test_a_purge_by_hand_keeps_to_it(self, q: Queue, clock: StoreClock) -> None:
        q.configure(history_ttl={"done": 100, "dead": 300, "default": 200})
        end_each(q)
        clock.advance(101)
        assert q.purge_history() == 1
        clock.advance(100)
        assert q.purge_history() == 1
        assert [job.state for job in q.history()] == [JobState.DEAD]
        assert q.purge_history(older_than=0) == 1

    def test_jobs_that_stay_hide_none(self, q: Queue, store: Store, clock: StoreClock) -> None:
        q.configure(history_ttl={"done": 100})
        now = store.now()
        dead = adopt(store, "dead", 6000, now)
        done = adopt(store, "done", 20, now)
        later = adopt(store, "done", 20, now + 1)
        clock.advance(101)
        assert store.maintain(seconds=60) == []
        assert store.fetch([*done, *later]) == {}
        assert len(store.fetch(dead[:500])) == 500
        last = finish(q)
        clock.advance(101)
        assert store.maintain(seconds=60) == []
        assert store.fetch(last) == {}

    def test_in_portions(self, q: Queue, store: Store, clock: StoreClock) -> None:
        q.configure(history_ttl={"done": 100})
        dead, _ = adopt(store, "dead", 10, store.now()), adopt(store, "done", 6000, store.now())
        clock.advance(101)
        behind = store.maintain(seconds=0)
        assert behind == ([QUEUE] if len(q.history(limit=11)) > 10 else [])
        assert store.maintain(seconds=60) == []
        assert {job.id for job in q.history(limit=100)} == {*dead}

    def test_a_key_holds_for_no_longer(self, q: Queue) -> None:
        q.configure(history_ttl={"done": 60})
        assert not q.push(1, key="a", key_ttl=60).duplicate
        with pytest.raises(InvalidInput, match="keep more history"):
            q.push(1, key="b", key_ttl=61)
        q.configure(history_ttl=600, history_max=1000)
        with pytest.raises(InvalidInput, match="keep more history"):
            q.push(1, key="c", key_ttl=60)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"history_ttl": {"failed": 60}}, "unknown outcome"),
            ({"history_ttl": {"done": -1}}, "history_ttl\\['done'\\] must be from 0"),
            ({"history_ttl": {"done": 0}}, "must be more than 0"),
            ({"history_ttl": {"default": 0}}, "must be more than 0"),
            ({"history_ttl": {"done": True}}, "must be a number of seconds"),
            ({"history_ttl": {"done": "soon"}}, "must be a duration"),
            ({"history_ttl": ["done"]}, "must be a number of seconds"),
            ({"history_ttl_done": 0}, "must be more than 0"),
            ({"history_ttl_failed": 1}, "unknown queue setting"),
            *(({"history_max": value}, "must be a whole number from 1") for value in (0, -1, True, 1.5, "9")),
        ],
        ids=str,
    )
    def test_nonsense_is_refused(self, q: Queue, store: Store, given: Any, message: str) -> None:
        with pytest.raises(InvalidInput, match=message):
            q.configure(**given)
        assert store.queues([QUEUE]) in ([], [QueueSettings(QUEUE)])


class TestHistoryMax:
    def test_keeps_the_newest_of_its_queue(self, app: Stanchion, store: Store, clock: StoreClock) -> None:
        small, other = app.queue("small", history_max=3), app.queue("other")
        ids, others = [], finish(other, 5)
        for _ in range(5):
            ids += finish(small)
            clock.advance(1)
        live = small.push({})
        store.maintain()
        assert {job.id for job in small.history()} == {*ids[2:]}
        assert {job.id for job in other.history()} == {*others}
        assert store.fetch([live.id])
        store.maintain()
        assert len(small.history()) == 3

    def test_counts_each_outcome(self, q: Queue, store: Store, clock: StoreClock) -> None:
        q.configure(history_max=2)
        ended = [end_each(q)]
        clock.advance(1)
        ended.append({"done": finish(q)[0]})
        store.maintain()
        assert len(q.history()) == 2
        assert left(store, ended[1]) == {"done"}

    def test_keeps_so_many_of_those_that_ended_together(self, q: Queue, store: Store) -> None:
        q.configure(history_max=7)
        adopt(store, "done", 20, store.now())
        store.maintain()
        assert len(q.history()) == 7

    def test_goes_with_a_retention(self, q: Queue, store: Store, clock: StoreClock) -> None:
        q.configure(history_max=4, history_ttl={"done": 100})
        old = finish(q, 2)
        clock.advance(60)
        young = end_each(q)
        clock.advance(41)
        store.maintain()
        assert {job.id for job in q.history()} == {*young.values()}
        assert store.fetch(old) == {}

    def test_is_unset_by_none(self, q: Queue, store: Store) -> None:
        q.configure(history_max=1)
        q.configure(history_max=None)
        assert store.queues([QUEUE]) == [QueueSettings(QUEUE)]
        finish(q, 3)
        store.maintain()
        assert len(q.history()) == 3

    def test_in_portions(self, q: Queue, store: Store) -> None:
        q.configure(history_max=5)
        adopt(store, "done", 6000, store.now() - 1)
        last = adopt(store, "dead", 5, store.now())
        behind = store.maintain(seconds=0)
        assert behind == ([QUEUE] if len(q.history(limit=10)) > 5 else [])
        assert store.maintain(seconds=60) == []
        assert {job.id for job in q.history(limit=100)} == {*last}

    def test_two_that_trim_together_delete_no_more(self, q: Queue, store: Store, other_store: Store) -> None:
        q.configure(history_max=7)
        for _ in range(3):
            adopt(store, "done", 1500, store.now())
            all_at_once([lambda: store.maintain(seconds=60), lambda: other_store.maintain(seconds=60)])
            assert len(q.history(limit=100)) == 7
