"""Jobs that did not work out: dead in history, or moved to the queue's dead-letter queue."""

from __future__ import annotations

import pytest

from stanchion import JobState, Queue, Stanchion
from stanchion.stores.protocol import Store
from stanchion.testing.conformance.harness import QUEUE, StoreClock


@pytest.fixture
def letters(app: Stanchion, q: Queue) -> Queue:
    """The dead-letter queue of `q`."""
    q.configure(dead_letter="letters")
    return app.queue("letters")


class TestDeadLetters:
    def test_by_default_the_job_is_dead_in_its_own_queue(self, q: Queue) -> None:
        pushed = q.push({"id": 1}, headers={"trace": "t"})
        q.reserve()[0].bury("poison")
        dead = q.get(pushed.id)
        assert dead is not None
        assert (dead.queue, dead.state, dead.headers) == (QUEUE, JobState.DEAD, {"trace": "t"})

    def test_rollbacks_without_an_error_say_why(self, q: Queue) -> None:
        pushed = q.push({}, max_attempts=2)
        q.reserve()[0].rollback(delay=0, error="first")
        q.reserve()[0].rollback(delay=0)
        dead = q.get(pushed.id)
        assert dead is not None
        assert (dead.state, dead.attempts, dead.failures) == (JobState.DEAD, 2, 1)
        assert [entry["attempt"] for entry in dead.errors] == [1, 2]
        assert "without an error" in dead.errors[-1]["error"]

    @pytest.mark.parametrize("how", ["bury", "last failure", "lease lost"])
    def test_is_moved_with_its_story(self, q: Queue, letters: Queue, store: Store, clock: StoreClock, how: str) -> None:
        pushed = q.push({"id": 1}, headers={"trace": "t"}, max_attempts=2, priority=3)
        q.reserve()[0].rollback(delay=0, error="first")
        (job,) = q.reserve(lease=10)
        match how:
            case "bury":
                job.bury("second")
            case "last failure":
                job.rollback(delay=0, error="second")
            case "lease lost":
                clock.advance(11)
                store.recover()
        if how != "lease lost":
            assert job.state is JobState.DEAD
        assert q.size().total == 0
        assert q.history() == []
        assert q.counts().buried == 1
        (letter,) = letters.reserve()
        assert (letter.id, letter.payload, letter.priority) == (pushed.id, {"id": 1}, 3)
        assert (letter.attempt, letter.failures) == (1, 0)
        assert letter.headers["trace"] == "t"
        assert letter.headers["x-dead-from"] == QUEUE
        assert letter.headers["x-dead-attempts"] == 2
        assert letter.headers["x-dead-at"] * 1e6 == pytest.approx(store.now(), abs=60e6)
        assert letter.headers["x-dead-error"] == letter.errors[-1]["error"]
        assert [entry["error"].split(":")[0] for entry in letter.errors] == [
            "first",
            "LeaseLost" if how == "lease lost" else "second",
        ]

    def test_the_queue_is_made(self, q: Queue, letters: Queue, store: Store) -> None:
        q.push({})
        q.reserve()[0].bury("bad")
        assert [settings.name for settings in store.queues()] == [letters.name, QUEUE]

    def test_drops_the_key(self, q: Queue, letters: Queue) -> None:
        letters.push("other", key="k")
        pushed = q.push({}, key="k")
        q.reserve()[0].bury("bad")
        letter = letters.get(pushed.id)
        assert letter is not None
        assert letter.key is None
        assert letters.size().total == 2
        assert not q.push({}, key="k").duplicate

    def test_dies_in_the_dead_letter_queue_at_last(self, q: Queue, letters: Queue) -> None:
        letters.configure(dead_letter="letters")
        pushed = q.push({})
        q.reserve()[0].bury("once")
        letters.reserve()[0].bury("twice")
        dead = letters.get(pushed.id)
        assert dead is not None
        assert dead.state is JobState.DEAD
        assert [entry["error"] for entry in dead.errors] == ["once", "twice"]

    def test_rollbacks_without_an_error_say_why_too(self, q: Queue, letters: Queue) -> None:
        q.push({}, max_attempts=2)
        q.reserve()[0].rollback(delay=0)
        q.reserve()[0].rollback(delay=0)
        (letter,) = letters.reserve()
        assert "2 attempts" in letter.headers["x-dead-error"]
        assert [entry["attempt"] for entry in letter.errors] == [2]

    def test_retry_takes_it_back_to_where_it_died(self, q: Queue, letters: Queue) -> None:
        pushed = q.push({"id": 1}, headers={"trace": "t"}, max_attempts=1)
        q.reserve()[0].bury("bad")
        letters.retry(pushed.id)
        assert letters.size().total == 0
        (again,) = q.reserve()
        assert (again.id, again.payload, again.attempt) == (pushed.id, {"id": 1}, 1)
        assert again.headers == {"trace": "t"}
        assert [entry["error"] for entry in again.errors] == ["bad"]

    def test_the_setting_can_be_taken_back(self, q: Queue, letters: Queue) -> None:
        q.configure(dead_letter=None)
        pushed = q.push({})
        q.reserve()[0].bury("bad")
        assert letters.size().total == 0
        dead = q.get(pushed.id)
        assert dead is not None
        assert dead.state is JobState.DEAD
