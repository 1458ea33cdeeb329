"""Notes for the next on call: who paused a queue and why, and who looks after an alert."""

from __future__ import annotations

import pytest

from stanchion import Queue, Stanchion
from stanchion.alerts.owners import LASTS, owners_of_alerts, set_owner
from stanchion.context.queues.pauses import CODE, past_pauses_of, pauses_of
from stanchion.errors import InvalidInput
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion_conformance.harness import QUEUE, StoreClock


class TestNotes:
    def test_a_pause_has_one_until_it_ends(self, q: Queue, store: Store) -> None:
        before = store.now()
        q.pause("the provider is down", "ana")
        found = pauses_of(store, [QUEUE, "other"])
        assert list(found) == [QUEUE]
        assert (found[QUEUE].who, found[QUEUE].note) == ("ana", "the provider is down")
        assert before <= found[QUEUE].at <= store.now()
        q.pause()
        assert pauses_of(store, [QUEUE])[QUEUE].note == ""
        q.resume()
        assert pauses_of(store, [QUEUE]) == {}
        q.pause("again")
        q.configure(paused=False)
        assert pauses_of(store, [QUEUE]) == {}

    def test_what_the_code_declares_has_a_time_too(self, store: Store, clock: StoreClock) -> None:
        before = store.now()
        declared(store, paused=True)
        (pause,) = pauses_of(store, [QUEUE]).values()
        assert (pause.who, pause.note) == (CODE, "")
        assert before <= pause.at <= store.now()
        clock.advance(60)
        declared(store, paused=True)
        assert pauses_of(store, [QUEUE]) == {QUEUE: pause}
        declared(store, paused=False)
        (past,) = past_pauses_of(store, [QUEUE])[QUEUE]
        assert (past.who, past.since) == (CODE, pause.at)
        assert 60 <= (past.until - past.since) / SECOND < 120
        assert pauses_of(store, [QUEUE]) == {}

    def test_what_a_person_does_comes_before_the_code(self, store: Store) -> None:
        queue = declared(store, paused=True)
        queue.pause("the provider is down", "ana")
        declared(store, paused=True)
        assert pauses_of(store, [QUEUE])[QUEUE].who == "ana"
        queue.resume()
        declared(store, paused=True)
        assert pauses_of(store, [QUEUE]) == {}
        queue.reset()
        assert pauses_of(store, [QUEUE])[QUEUE].who == CODE

    def test_a_long_one_is_refused_and_pauses_nothing(self, q: Queue) -> None:
        with pytest.raises(InvalidInput):
            q.pause("x" * 301)
        assert not q.settings.paused

    def test_one_who_is_on_an_alert_is_so_for_some_hours(self, store: Store, clock: StoreClock) -> None:
        set_owner(store, "queue:mail", "ana", store.now())
        clock.advance(LASTS / SECOND - 60)
        set_owner(store, "queue:other", "ben", store.now())
        assert {key: one.who for key, one in owners_of_alerts(store, store.now()).items()} == {
            "queue:mail": "ana",
            "queue:other": "ben",
        }
        clock.advance(120)
        assert list(owners_of_alerts(store, store.now())) == ["queue:other"]
        set_owner(store, "queue:other", "eva", store.now())
        assert [value.name for value in store.values("on-it")] == ["queue:other"]
        assert owners_of_alerts(store, store.now())["queue:other"].who == "eva"


def declared(store: Store, *, paused: bool) -> Queue:
    """Let a process start that declares the queue."""
    app = Stanchion(store=store)
    queue = app.queue(QUEUE, paused=paused)
    queue.push({})
    return queue
