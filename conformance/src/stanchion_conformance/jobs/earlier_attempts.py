"""The attempts before the last ten errors of a job: their workers, and the start of the first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from stanchion import Job, JobState, Queue


def fail(q: Queue, holder: str) -> Job:
    """Fail one attempt at the only job, by a holder of this name; return the job as it was reserved."""
    (job,) = q.reserve(1, holder=holder)
    job.rollback(0, f"by {holder}")
    return job


def earlier(q: Queue, job_id: str) -> Any:
    """Return the attempts before the errors that are kept, which only the oldest of them has."""
    job = q.get(job_id)
    assert job is not None
    oldest, *rest = job.errors
    assert not [entry for entry in rest if "earlier" in entry]
    return oldest.get("earlier")


class TestEarlierAttempts:
    def test_keep_their_workers_and_the_first_start(self, q: Queue) -> None:
        job_id = q.push(1, max_attempts=100).id
        first = fail(q, "w1")
        for number in range(2, 11):
            fail(q, f"w{number}")
        assert earlier(q, job_id) is None
        for number in range(11, 14):
            fail(q, f"w{number}")
        found = earlier(q, job_id)
        assert first.started_at is not None
        assert datetime.fromtimestamp(found["started"], UTC) == first.started_at
        assert found["workers"] == ["w1", "w2", "w3"]

    def test_are_bounded(self, q: Queue) -> None:
        job_id = q.push(1, max_attempts=100).id
        for number in range(1, 71):
            fail(q, f"w{number}")
        found = earlier(q, job_id)
        assert found["workers"] == [f"w{number}" for number in range(11, 61)]
        assert found["started"] is not None

    def test_without_an_error_are_unknown(self, q: Queue) -> None:
        job_id = q.push(1, max_attempts=100).id
        for number in range(1, 13):
            if number == 2:
                (job,) = q.reserve(1, holder="w2")
                job.rollback(0)
            else:
                fail(q, f"w{number}")
        assert earlier(q, job_id)["workers"] == ["w1", None]

    def test_begin_anew_with_a_retry_by_hand(self, q: Queue) -> None:
        job_id = q.push(1, max_attempts=4).id
        for number in range(1, 5):
            fail(q, f"w{number}")
        job = q.get(job_id)
        assert job is not None
        assert job.state is JobState.DEAD
        for again in range(3):
            q.retry(job_id)
            for number in range(1, 5 - (again == 2)):
                fail(q, f"w{number}")
        assert earlier(q, job_id)["workers"] == ["w1"]
