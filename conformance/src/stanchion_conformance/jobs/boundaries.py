"""A shared store: an app, and a queue, act on their own jobs only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stanchion import JobState, Queue, Stanchion
from stanchion.errors import InvalidInput, JobNotFound

STRAYS: dict[str, Callable[[Stanchion, str], Any]] = {
    "a bare payload": lambda app, queue: app.queue(queue).push({"order": 1}),
    "a call of another program's task": lambda app, queue: app.using("billing.charge", queue=queue).enqueue(1),
}


class TestDrain:
    """It runs the jobs of the app. Concerns only the model."""

    @pytest.mark.parametrize("push", STRAYS.values(), ids=STRAYS)
    def test_leaves_other_queues_alone(
        self, app: Stanchion, other_app: Stanchion, push: Callable[[Stanchion, str], Any]
    ) -> None:
        ran: list[Any] = []
        work = app.task(name="work", queue="mine")(ran.append)
        stray = push(other_app, "theirs")
        work.enqueue(1)
        assert app.drain() == 1
        assert ran == [1]
        assert other_app.queue("theirs").size().ready == 1
        job = other_app.get(stray.id)
        assert job is not None
        assert (job.state, job.attempts, job.errors) == (JobState.READY, 0, [])

    def test_an_app_without_tasks_has_nothing_to_run(self, app: Stanchion) -> None:
        app.queue("theirs").push({})
        assert app.drain() == 0
        assert app.queue("theirs").size().ready == 1

    def test_takes_queues_that_are_named(self, app: Stanchion) -> None:
        ran: list[Any] = []
        work = app.task(name="work", queue="mine")(ran.append)
        work.using(queue="other").enqueue(1)
        work.enqueue(2)
        assert app.drain(["other"]) == 1
        assert app.drain(("mine",)) == 1
        assert ran == [1, 2]

    @pytest.mark.parametrize("queues", ["mine", 5, [5], [""], {"mine": 1}, b"mine"], ids=repr)
    def test_refuses_what_is_no_list_of_names(self, app: Stanchion, queues: Any) -> None:
        with pytest.raises(InvalidInput):
            app.drain(queues)


class TestActingOnAnotherQueue:
    """A queue acts on its own jobs, as `get` shows only those. Concerns only the model."""

    @pytest.mark.parametrize("running", [False, True], ids=["ready", "running"])
    def test_cancel(self, app: Stanchion, q: Queue, *, running: bool) -> None:
        elsewhere = app.queue("elsewhere")
        job = elsewhere.push({})
        if running:
            elsewhere.reserve()
        assert q.get(job.id) is None
        assert q.cancel(job.id) is None
        found = elsewhere.get(job.id)
        assert found is not None
        assert (found.state, found.cancelled) == (JobState.RUNNING if running else JobState.READY, False)

    def test_retry(self, app: Stanchion, q: Queue) -> None:
        elsewhere = app.queue("elsewhere")
        job = elsewhere.push({})
        elsewhere.reserve()[0].bury("bad")
        with pytest.raises(JobNotFound, match="'elsewhere'"):
            q.retry(job.id)
        found = elsewhere.get(job.id)
        assert found is not None
        assert found.state is JobState.DEAD

    def test_replay(self, app: Stanchion, q: Queue) -> None:
        mine, theirs = q.push("mine"), app.queue("elsewhere").push("theirs")
        q.pop()
        app.queue("elsewhere").pop()
        assert [copy.payload for copy in q.replay([theirs.id, mine.id])] == ["mine"]
        assert app.queue("elsewhere").size().total == 0
