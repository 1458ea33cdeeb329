"""Retries by the kind of the error, programming errors, and the delay that an error asks for."""

from __future__ import annotations

from typing import Any

from stanchion import Bury, JobState, Retry, Stanchion
from stanchion_conformance.harness import QUEUE, StoreClock


class Refused(Exception):
    """An error that no retry cures."""


class Busy(Exception):
    """An error of a server that says when to come back."""

    retry_after = "500"


class TestRetryByError:
    def test_an_error_that_is_given_up_ends_the_job_at_once(self, app: Stanchion) -> None:
        @app.task(name="charge", queue=QUEUE, give_up_on=Refused)
        def charge() -> None:
            raise Refused("card")

        handle = charge.enqueue()
        app.drain([QUEUE])
        job = handle.job()
        assert (job.state, job.attempts, job.errors[-1]["error"]) == (JobState.DEAD, 1, "Refused: card")
        assert job.errors[-1]["traceback"].endswith("Not retried: the retry policy gives up on Refused\n")

    def test_three_programming_errors_in_a_row_end_the_job(self, app: Stanchion) -> None:
        @app.task(name="parse", queue=QUEUE, retry=Retry.constant(0, jitter=0))
        def parse(order: Any) -> Any:
            return order["lines"]

        handle = parse.enqueue(None)
        app.drain([QUEUE])
        job = handle.job()
        assert (job.state, job.attempts, job.failures) == (JobState.DEAD, 3, 3)
        assert len({entry["group"] for entry in job.errors}) == 1
        again = app.retry_job(job.id)
        assert (again.state, again.attempts) == (JobState.READY, 0)

    def test_a_policy_may_bury(self, app: Stanchion) -> None:
        def policy(failures: int, _error: BaseException | None) -> float:
            if failures == 2:
                raise Bury("twice")
            return 0

        @app.task(name="charge", queue=QUEUE, retry=Retry.custom(policy))
        def charge() -> None:
            raise Refused("card")

        handle = charge.enqueue()
        app.drain([QUEUE])
        job = handle.job()
        assert (job.state, job.attempts, job.errors[-1]["error"]) == (JobState.DEAD, 2, "twice")

    def test_an_error_sets_the_delay(self, app: Stanchion, clock: StoreClock) -> None:
        @app.task(name="charge", queue=QUEUE, retry=Retry.constant(5, jitter=0))
        def charge() -> None:
            raise Busy

        charge.enqueue()
        assert app.drain([QUEUE]) == 1
        clock.advance(400)
        assert app.drain([QUEUE]) == 0
        clock.advance(200)
        assert app.drain([QUEUE]) == 1
