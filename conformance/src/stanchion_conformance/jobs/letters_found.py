"""Dead letters are found in, and counted for, the queue where they died."""

from __future__ import annotations

from typing import Any

import pytest

from stanchion import Queue, Stanchion
from stanchion.core.times import moment
from stanchion.stores.protocol import Store
from stanchion.stores.records.jobs import SECOND
from stanchion.telemetry import rollups
from stanchion_conformance.harness import QUEUE, StoreClock, find_jobs


class TestFoundByTheQueueWhereTheyDied:
    """A search in a queue finds its dead letters, wherever they lie."""

    @pytest.fixture
    def other(self, app: Stanchion) -> Queue:
        """A queue with the same dead-letter queue."""
        app.queue("other").configure(dead_letter="letters")
        return app.queue("other")

    @staticmethod
    def bury(queue: Queue, count: int, **options: Any) -> list[str]:
        """Bury jobs, and return their ids, newest first."""
        pushed = [queue.push({"n": n}, **options).id for n in range(count)]
        for job in queue.reserve(count):
            job.bury("ValueError: no money")
        return pushed[::-1]

    @pytest.mark.usefixtures("letters")
    def test_each_by_its_own(self, app: Stanchion, q: Queue, other: Queue) -> None:
        mine, theirs = self.bury(q, 2), self.bury(other, 3)
        ready = q.push({})
        assert [job.id for job in q.find(state="dead")] == mine
        assert [job.id for job in q.find()] == [ready.id, *mine]
        assert [job.id for job in q.history()] == mine
        assert [job.id for job in other.find(state=["ready", "dead"])] == theirs
        assert [job.id for job in q.find(state="ready")] == [ready.id]
        assert len(app.queue("letters").find(state="dead")) == 5
        q.pop()
        passed = q.push({})
        q.reserve()[0].move("other")
        other.reserve()[0].bury("later")
        assert [job.id for job in q.find(state="dead")] == mine
        assert [job.id for job in other.find(state="dead")] == [passed.id, *theirs]
        assert {(job.queue, job.died_in, job.attempts) for job in q.find(state="dead")} == {("letters", QUEUE, 1)}

    @pytest.mark.usefixtures("letters")
    def test_in_pages(self, q: Queue, other: Queue) -> None:
        q.configure(dead_letter=None)
        mine = self.bury(q, 2)
        q.configure(dead_letter="letters")
        for _ in range(4):
            mine = [*self.bury(q, 2), *mine]
            self.bury(other, 5)
        found: list[str] = []
        while page := q.find(state="dead", limit=3, after=found[-1] if found else None):
            found += [job.id for job in page]
        assert found == mine

    @pytest.mark.usefixtures("letters")
    def test_by_further_conditions(self, q: Queue) -> None:
        (eu, us), (late,) = self.bury(q, 2, tenant="eu"), self.bury(q, 1, tenant="us")
        assert [job.id for job in q.find(tenant="eu")] == [eu, us]
        assert [job.id for job in q.find(payload={"n": 1})] == [eu]
        assert [job.id for job in q.find(text="no money", limit=1)] == [late]
        assert q.find(text="no such text") == []

    @pytest.mark.usefixtures("letters")
    def test_by_the_time_of_their_death(self, app: Stanchion, q: Queue, clock: StoreClock) -> None:
        (early,) = self.bury(q, 1)
        clock.advance(1000)
        (late,) = self.bury(q, 1)
        between = moment(app.store.now() - 500 * SECOND)
        for place in (q, app.queue("letters")):
            assert [job.id for job in place.find(state="dead", finished_since=between)] == [late]
            assert [job.id for job in place.find(state="dead", finished_until=between)] == [early]
        assert [job.id for job in app.find(state="dead", finished_since=between)] == [late]
        assert {job.id for job in app.find(finished_since=moment(0))} == {early, late}

    def test_until_someone_deals_with_them(self, q: Queue, letters: Queue) -> None:
        again, gone, handled, dead = self.bury(q, 4)
        letters.retry(again)
        letters.cancel(gone)
        jobs = {job.id: job for job in letters.reserve(2)}
        assert q.find(state="dead") == []
        jobs[handled].commit()
        jobs[dead].bury("hopeless")
        assert [job.id for job in q.find(state="dead")] == [dead]
        assert q.find(state="ready")[0].id == again
        assert {job.id for job in letters.find()} == {gone, handled, dead}

    def test_while_no_one_holds_them(self, app: Stanchion, q: Queue, letters: Queue) -> None:
        """A claim of a letter, and what follows, one after the other: found and counted alike."""
        (letter,) = self.bury(q, 1, headers={"x-dead-from": "nowhere"})

        def dead() -> list[list[str]]:
            found = [[job.id for job in place.find(state="dead")] for place in (q, letters)]
            return [*found, [letter] * {one.queue: one for one in app.monitor().queues}["letters"].dead_letters]

        assert dead() == [[letter]] * 3
        (job,) = letters.reserve()
        assert (job.dead_from, job.dead_attempts, job.attempt) == (QUEUE, 1, 1)
        assert dead() == [[], [], []]
        job.rollback(delay=0)
        assert dead() == [[letter]] * 3
        letters.reserve()[0].move("elsewhere")
        assert dead() == [[], [], []]
        app.queue("elsewhere").reserve()[0].move("letters")
        assert dead() == [[], [], []], "nor is it one when it comes back by a move"
        letters.pop()

    def test_one_after_the_other(self, store: Store, q: Queue, letters: Queue) -> None:
        for _ in range(2):
            again, gone, kept = self.bury(q, 3)
            letters.retry(again)
            letters.cancel(gone)
            assert [job.id for job in q.find(state="dead")] == [kept]
            assert [job.id for job in letters.find(state=["dead", "cancelled"])] == [gone, kept]
            assert [job.id for job in q.find(state="ready")] == [again]
            letters.pop()
            store.delete([row.ref for row in find_jobs(store, queue="letters")])
            assert q.find(state="dead") == letters.find() == []
            q.pop()

    def test_wherever_they_lie(self, app: Stanchion, q: Queue, letters: Queue) -> None:
        (letter,) = self.bury(q, 1)
        q.configure(dead_letter=None)
        (later,) = self.bury(q, 1)
        assert [job.id for job in q.find(state="dead")] == [later, letter]
        assert [job.id for job in letters.find(state="dead")] == [letter]
        assert {one.queue: one for one in app.monitor().queues}["letters"].dead_letters == 1

    def test_copies_of_their_headers_are_not_found(self, q: Queue, letters: Queue) -> None:
        (letter,) = self.bury(q, 1)
        (found,) = letters.find()
        copy = letters.push({}, headers={**found.headers, "x-dead-from": QUEUE, "x-dead-id": letter})
        assert [job.id for job in q.find()] == [letter]
        assert (copy.state, letters.find()[0].dead_from) == ("ready", None)

    def test_of_partitions(self, app: Stanchion) -> None:
        wide = app.queue("wide", partitions=3, dead_letter="letters")
        mine = sorted(wide.push({}, tenant=f"t{n}").id for n in range(6))
        for job in wide.reserve(6):
            job.bury("bad")
        assert sorted(job.id for job in wide.find(state="dead")) == mine
        assert {job.died_in for job in wide.find(state="dead")} == {"wide"}


class TestAreNoWork:
    """Where letters lie, they count as dead letters, and not as jobs to be worked on."""

    @pytest.mark.usefixtures("letters")
    def test_in_the_figures_of_alerts(self, app: Stanchion, q: Queue, letters: Queue) -> None:
        TestFoundByTheQueueWhereTheyDied.bury(q, 3, priority=80)
        monitor = app.monitor()
        lying = {one.queue: one for one in monitor.queues}
        assert [(one.ready, one.max_age, one.max_attempts) for one in monitor.bands] == [(0, 0.0, 0)] * 4
        assert (lying["letters"].dead_letters, lying["letters"].size.total) == (3, 0)
        assert (lying[QUEUE].dead_letters, lying[QUEUE].size.total) == (0, 0)
        letters.push({}, priority=80)
        letters.pop()
        letters.push({}, delay=600)
        figures = {one.queue: one for one in app.monitor().queues}["letters"]
        assert (figures.dead_letters, figures.size.ready + figures.size.scheduled) == (2, 2)

    @pytest.mark.usefixtures("letters")
    def test_in_the_past_of_plots(self, app: Stanchion, q: Queue) -> None:
        TestFoundByTheQueueWhereTheyDied.bury(q, 3)
        q.push({})
        assert rollups.take(app.store)
        ((point,), *_) = rollups.past(app.store, [rollups.ALL], 1, app.store.now()).values()
        assert (point.ready, point.dead) == (1, 3)
