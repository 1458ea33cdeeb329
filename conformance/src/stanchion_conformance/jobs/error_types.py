"""The type of a stored error: the module and class of its exception; and outcomes raised from an error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import pytest

from stanchion import Bury, Job, JobState, Queue, Retry, RetryAfter, Stanchion
from stanchion_conformance.harness import QUEUE


class Declined(Exception):
    """A type of a module."""

    class Card(Exception):
        """A type within a type."""


Fails = Callable[[], Any]


def last_error(app: Stanchion, fails: Fails, *, hide: tuple[str, ...] = ()) -> tuple[Job, dict[str, Any]]:
    """Return the job of a task that does this, after its attempt, and its last error."""

    @app.task(name="fails", queue=QUEUE, retry=Retry.constant(0, max_attempts=1), hide=hide)
    def task(secret: str) -> None:  # noqa: ARG001 - it hides it
        fails()

    handle = task.enqueue("geheim")
    app.drain([QUEUE])
    job = handle.job()
    return job, job.errors[-1]


def raised(error: BaseException) -> Fails:
    def fails() -> None:
        raise error

    return fails


class TestErrorTypes:
    @pytest.mark.parametrize(
        ("error", "kind"),
        [
            (ValueError("x"), "ValueError"),
            (InvalidOperation(), "decimal.InvalidOperation"),
            (Declined(), f"{__name__}.Declined"),
            (Declined.Card("x"), f"{__name__}.Declined.Card"),
            (asyncio.InvalidStateError(), "asyncio.exceptions.InvalidStateError"),
        ],
    )
    def test_has_the_module_and_the_class(self, app: Stanchion, error: Exception, kind: str) -> None:
        job, found = last_error(app, raised(error))
        assert job.state is JobState.DEAD
        assert found["type"] == kind
        assert found["error"].startswith(kind.rpartition(".")[2])

    def test_of_reservations(self, q: Queue) -> None:
        q.push_many([1, 2, 3])
        first, second, third = q.reserve(3)
        first.rollback(error=InvalidOperation("x"))
        second.bury(Declined())
        third.bury("a text has none")
        types = [job.errors[-1].get("type") for one in (first, second, third) if (job := q.get(one.id)) is not None]
        assert types == ["decimal.InvalidOperation", f"{__name__}.Declined", None]

    def test_is_bounded(self, app: Stanchion) -> None:
        long = type("X" * 5000, (Exception,), {"__module__": "m\0"})
        _, found = last_error(app, raised(long()))
        assert len(found["type"]) == 200


class TestOutcomesFromErrors:
    @pytest.mark.parametrize("kind", [Bury, RetryAfter])
    @pytest.mark.parametrize("is_explicit", [True, False])
    def test_have_its_traceback_and_type(self, app: Stanchion, kind: Any, is_explicit: bool) -> None:
        given: Any = "no such card" if kind is Bury else 0

        def fails() -> None:
            try:
                Decimal("geheim")
            except InvalidOperation as error:
                if is_explicit:
                    raise kind(given) from error
                raise kind(given)  # noqa: B904 - tasks do so

        job, found = last_error(app, fails)
        assert job.state is JobState.DEAD
        assert found["type"] == "decimal.InvalidOperation"
        assert found["error"] == ("no such card" if kind is Bury else "RetryAfter: 0 s")
        assert 'Decimal("geheim")' in found["traceback"]
        assert kind.__name__ in found["traceback"]

    def test_from_none(self, app: Stanchion) -> None:
        def fails() -> None:
            try:
                raise Declined("card 17")
            except Declined:
                raise Bury("no such card") from None

        _, found = last_error(app, fails)
        assert not found.keys() & {"type", "traceback"}

    def test_show_nothing_that_the_task_hides(self, app: Stanchion) -> None:
        def fails() -> None:
            try:
                raise Declined("geheim")
            except Declined as error:
                raise Bury("it was geheim") from error

        _, found = last_error(app, fails, hide=("secret",))
        assert "geheim" not in str(found)
        assert "Declined" in found["traceback"]
