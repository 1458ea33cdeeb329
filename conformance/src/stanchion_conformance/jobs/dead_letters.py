"""Failed jobs: dead in history, or moved to the queue's dead-letter queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stanchion import FlowState, JobHandle, JobState, Queue, Stanchion, group
from stanchion.copying.transfer import Transfer
from stanchion.core.times import moment
from stanchion.errors import InvalidInput, JobFailed
from stanchion.stores.memory import MemoryStore
from stanchion.stores.protocol import Store
from stanchion.stores.records.outcomes import Rollback
from stanchion.stores.records.query import Condition, Query
from stanchion_conformance.harness import QUEUE, SLACK, StoreClock, claim, new_job, sizes_of


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
        assert [job.queue for job in q.history()] == ["letters"]
        assert q.counts().buried == 1
        (letter,) = letters.reserve()
        assert (letter.id, letter.payload, letter.priority) == (pushed.id, {"id": 1}, 3)
        assert (letter.attempt, letter.failures) == (1, 0)
        assert letter.headers == {"trace": "t"}
        assert letter.dead_from == QUEUE
        assert letter.dead_attempts == 2
        assert letter.dead_at is not None
        assert abs((letter.dead_at - moment(store.now())).total_seconds()) < 60
        assert letter.errors[-1]["error"] == letter.errors[-1]["error"]
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
        assert "2 attempts" in letter.errors[-1]["error"]
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


SEEN = {
    "handle": lambda app, job_id: JobHandle(app, job_id).state,
    "get": lambda app, job_id: app.get(job_id).state,
    "queue": lambda app, job_id: app.queue("letters").get(job_id).state,
    "find": lambda app, _: app.find()[0].state,
}


class TestDeadToThoseWhoLook:
    """A job in a dead-letter queue counts as dead everywhere else; that queue hands it out."""

    @pytest.fixture
    def letter(self, q: Queue, letters: Queue, store: Store) -> str:  # noqa: ARG002 - `letters` is set there
        """The id of a job that has been moved to `letters`, beside jobs that are not dead."""
        job = new_job(max_attempts=1)
        store.push([job])
        (row,) = claim(store)
        store.settle([Rollback(row.lease, 0.0, "ValueError: no money")])
        return job.id

    @pytest.mark.parametrize("state", SEEN.values(), ids=SEEN)
    def test_its_state(self, app: Stanchion, letter: str, state: Callable[[Stanchion, str], JobState]) -> None:
        assert state(app, letter) is JobState.DEAD

    def test_its_result(self, app: Stanchion, letter: str) -> None:
        with pytest.raises(
            JobFailed, match=r"after 1 attempts, in the dead-letter queue 'letters': ValueError: no money"
        ):
            JobHandle(app, letter).result(timeout=0)
        job = JobHandle(app, letter).job()
        assert job.finished_at is not None
        assert abs((job.finished_at - job.enqueued_at).total_seconds()) < SLACK

    def test_a_search(self, app: Stanchion, q: Queue, letters: Queue, letter: str) -> None:
        plain = letters.push({})
        later = letters.push({}, delay=60)
        there_dead = q.push({}, priority=5)
        q.configure(dead_letter=None)
        q.reserve()[0].bury("bad")
        there = q.push({})

        def found(state: Any, **where: Any) -> list[str]:
            return [job.id for job in app.find(state=state, **where)]

        assert found("dead") == [there_dead.id, letter]
        assert found("dead", queue="letters") == [letter]
        assert found("dead", queue=QUEUE) == [there_dead.id, letter], "wherever it lies"
        assert found("dead", text="no money") == [letter]
        assert found("dead", limit=1, after=there_dead.id) == [letter]
        assert found("ready") == [there.id, plain.id]
        assert found("scheduled") == [later.id]
        assert found(["ready", "dead"], queue="letters") == [plain.id, letter]
        assert found(["waiting", "running", "done", "cancelled"]) == []
        assert len(app.find()) == 5
        assert [job.id for job in letters.history()] == [letter]

    def test_a_search_among_many(self, app: Stanchion, q: Queue, letters: Queue, letter: str) -> None:
        letters.push_many([{}] * 30)
        q.push_many([{}] * 30)
        assert [job.id for job in app.find(state="dead", limit=1)] == [letter]
        assert len(app.find(state="ready", limit=100)) == 60
        assert letter not in {job.id for job in app.find(state="ready", limit=100)}

    def test_a_scan(self, store: Store, letters: Queue, letter: str) -> None:
        plain = letters.push({})
        for state, wanted in (("dead", {letter}), ("ready", {plain.id}), ("scheduled", set())):
            for op, value in (("=", state), ("in", (state,))):
                page = store.select(Query("live", (Condition("state", op, value),)))  # type: ignore[arg-type]
                assert {row.id for row in page.rows} == wanted

    def test_the_queue_itself_has_it(self, letters: Queue, letter: str) -> None:
        assert (letters.size().ready, letters.size().total) == (1, 1)
        assert letters.next_due() is not None
        assert [job.id for job in letters.reserve()] == [letter]

    @pytest.mark.parametrize("how", ["commit", "rollback", "error", "snooze", "move", "retry", "cancel", "bury", "pop"])
    def test_what_is_done_with_it(self, app: Stanchion, letters: Queue, letter: str, how: str) -> None:
        if how in ("retry", "cancel", "pop"):
            act: dict[str, Callable[[str], Any]]
            act = {"retry": letters.retry, "cancel": letters.cancel, "pop": lambda _: letters.pop()}
            act[how](letter)
            after = {"retry": JobState.READY, "cancel": JobState.CANCELLED, "pop": JobState.DONE}[how]
        else:
            (job,) = letters.reserve()
            assert app.find(state="running")[0].id == letter
            assert app.find(state="dead") == []
            {
                "commit": lambda: job.commit("seen to"),
                "rollback": lambda: job.rollback(delay=0),
                "error": lambda: job.rollback(delay=60, error="again"),
                "snooze": lambda: job.release(60),
                "move": lambda: job.move("elsewhere"),
                "bury": lambda: job.bury("hopeless"),
            }[how]()
            after = {"commit": JobState.DONE, "move": JobState.READY}.get(how, JobState.DEAD)
        assert app.get(letter).state is after  # type: ignore[union-attr]
        for state in ("ready", "scheduled", "dead", "done", "cancelled"):
            assert [job.id for job in app.find(state=state)] == ([letter] if state == after else [])
        if how == "move":
            (moved,) = app.queue("elsewhere").reserve()
            assert (moved.dead_from, moved.dead_at, moved.dead_attempts) == (None, None, None)
            assert [stop.queue for stop in moved.trail] == [QUEUE, "letters", "elsewhere"]

    @pytest.mark.parametrize("how", ["rollback", "error", "snooze"])
    def test_to_whom_it_is_given_it_goes_back_alive(self, store: Store, letter: str, how: str) -> None:
        (row,) = claim(store, queue="letters")
        assert row.id == letter
        outcome = {
            "rollback": Rollback(row.lease, 0.0),
            "error": Rollback(row.lease, 60.0, "again"),
            "snooze": Rollback(row.lease, 60.0, refund=True),
        }[how]
        # max_attempts is 1, as it was: only what is given back without an attempt stays.
        expected = JobState.SCHEDULED if how == "snooze" else JobState.DEAD
        assert store.settle([outcome]) == [expected]

    @pytest.mark.usefixtures("letters")
    def test_a_lost_answer_to_the_last_failure(self, store: Store) -> None:
        job = new_job(max_attempts=1)
        store.push([job])
        (row,) = claim(store)
        outcome = Rollback(row.lease, 0.0, "bad")
        assert store.settle([outcome]) == [JobState.DEAD]
        assert store.settle([outcome], repeat=True) == [JobState.DEAD]

    def test_copies_of_its_headers_are_no_letters(self, app: Stanchion, letters: Queue, letter: str) -> None:
        headers = app.get(letter).headers  # type: ignore[union-attr]
        copy = letters.push({}, headers=headers)
        assert app.get(copy.id).state is JobState.READY  # type: ignore[union-attr]
        assert [job.id for job in app.find(state="dead")] == [letter]
        letters.pop()
        (again,) = letters.replay([letter])
        assert again.state is JobState.READY
        assert app.find(state="dead") == []

    def test_one_whose_queue_has_no_dead_letter_queue_any_more(self, app: Stanchion, q: Queue, letter: str) -> None:
        q.configure(dead_letter=None)
        assert [job.id for job in app.find(state="dead")] == [letter]

    @pytest.mark.usefixtures("letters")
    def test_a_lost_lease_is_one_too(self, app: Stanchion, q: Queue, clock: StoreClock) -> None:
        pushed = q.push({}, max_attempts=1)
        q.reserve(lease=10)
        clock.advance(11)
        app.store.recover()
        assert [job.id for job in app.find(state="dead")] == [pushed.id]

    def test_a_copy_takes_it_along_alive(self, store: Store, letter: str) -> None:
        there = MemoryStore()
        (copied,) = Transfer(store, there, ["letters"], settle=0).run()
        assert (copied.live, copied.history) == (1, 0)
        assert store.fetch([letter]) == {}
        assert sizes_of(there, "letters").ready == 1
        assert [job.id for job in Stanchion(store=there).find(state="dead")] == [letter]

    @pytest.mark.usefixtures("letters")
    def test_to_flows(self, app: Stanchion) -> None:
        bad = app.task(name="bad", queue=QUEUE, max_attempts=1)(lambda: 1 / 0)
        flow = group(bad.s(), bad.s()).enqueue()
        app.drain()
        assert flow.state is FlowState.FAILED
        assert {job.state for job in flow.members()} == {JobState.DEAD}
        assert {part.state for part in flow.graph().members} == {"dead"}


class TestCirclesOfDeadLetters:
    """Concerns only the model."""

    def test_are_refused(self, app: Stanchion) -> None:
        app.queue("a").configure(dead_letter="b")
        with pytest.raises(InvalidInput, match="b -> a -> b"):
            app.queue("b").configure(dead_letter="a")
        app.queue("b").configure(dead_letter="c")
        with pytest.raises(InvalidInput, match="c -> a -> b -> c"):
            app.queue("c", dead_letter="a").push({})
        assert app.queue("d").configure(dead_letter="a").dead_letter == "a"
        assert app.queue("c").configure(dead_letter="c").dead_letter == "c"
        assert app.store.configure("b", {}).dead_letter == "c"

    def test_of_queues_that_nobody_has_used_yet(self, app: Stanchion) -> None:
        app.queue("a", dead_letter="b")
        app.queue("b", dead_letter="a")
        app.queue("a").push({})
        with pytest.raises(InvalidInput, match="circle"):
            app.queue("b").push({})
