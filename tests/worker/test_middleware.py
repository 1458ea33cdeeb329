"""Middleware around attempts, on each route by which they can run."""

from __future__ import annotations

import contextvars
import pickle
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from stanchion import Attempt, Bury, Cancel, InvalidInput, Job, JobState, Retry, Snooze, Stanchion
from stanchion.context import context_of
from tests.worker.conftest import ended, working

KINDS = ["sync", "async"]
ROUTES = ["drain", "worker", "worker timeout"]

current: contextvars.ContextVar[str] = contextvars.ContextVar("current", default="nothing")


@pytest.fixture
def app() -> Iterator[Stanchion]:
    app = Stanchion("memory://")
    yield app
    app.close()


def run(app: Stanchion, route: str, *args: Any, name: str = "add") -> Job:
    options = {"timeout": 600} if route.endswith("timeout") else {}
    job_id = app.using(name, **options).enqueue(*args).id  # type: ignore[arg-type]
    if route == "drain":
        app.drain()
        return ended(app, job_id)
    with working(app):
        return ended(app, job_id)


Around = Callable[[Attempt], Any]
"""Makes a block around the rest, which gets and may change the result."""


class Result:
    value: Any = None


def register(app: Stanchion, kind: str, block: Callable[[Attempt, Result], Any]) -> None:
    """Register middleware of a kind that runs the rest in a block."""
    if kind == "sync":

        @app.middleware
        def around(attempt: Attempt, call_next: Callable[[], Any]) -> Any:
            with block(attempt, result := Result()):
                result.value = call_next()
            return result.value

    else:

        @app.middleware
        async def around_async(attempt: Attempt, call_next: Callable[[], Awaitable[Any]]) -> Any:
            with block(attempt, result := Result()):
                result.value = await call_next()
            return result.value


def declare(app: Stanchion, kind: str, **options: Any) -> None:
    """Declare a task that adds, and says in which variable of the context it ran."""
    if kind == "sync":

        @app.task(name="add", **options)
        def add(first: int, second: int) -> Any:
            return [first + second, current.get()]

    else:

        @app.task(name="add", **options)
        async def add_async(first: int, second: int) -> Any:
            return [first + second, current.get()]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("kind", KINDS)
class TestAround:
    def test_in_the_order_of_registration(self, app: Stanchion, kind: str, route: str) -> None:
        seen: list[str] = []

        def noting(name: str) -> Any:
            @contextmanager
            def block(_attempt: Attempt, _result: Result) -> Iterator[None]:
                seen.append(f"{name} begins")
                yield
                seen.append(f"{name} ends")

            return block

        register(app, kind, noting("outer"))
        register(app, kind, noting("inner"))
        declare(app, kind)
        assert run(app, route, 1, 2).result == [3, "nothing"]
        assert seen == ["outer begins", "inner begins", "inner ends", "outer ends"]

    def test_changes_arguments_and_the_result(self, app: Stanchion, kind: str, route: str) -> None:
        @contextmanager
        def block(attempt: Attempt, result: Result) -> Iterator[None]:
            attempt.args = [attempt.args[0] * 10]
            attempt.kwargs["second"] = 5
            yield
            result.value = {"sum": result.value[0]}

        register(app, kind, block)
        declare(app, kind)
        assert run(app, route, 1, 2).result == {"sum": 15}

    def test_shares_the_context_of_the_task(self, app: Stanchion, kind: str, route: str) -> None:
        @contextmanager
        def block(attempt: Attempt, _result: Result) -> Iterator[None]:
            current.set(f"{attempt.task} {attempt.job.attempt} {attempt.job.queue}")
            yield

        register(app, kind, block)
        declare(app, kind)
        assert run(app, route, 1, 2).result == [3, "add 1 default"]
        assert current.get() == "nothing"

    def test_an_error_in_it_is_a_failure_of_the_attempt(self, app: Stanchion, kind: str, route: str) -> None:
        @contextmanager
        def block(_attempt: Attempt, _result: Result) -> Iterator[None]:
            yield
            raise ConnectionError("no commit")

        register(app, kind, block)
        declare(app, kind, max_attempts=1)
        job = run(app, route, 1, 2)
        assert (job.state, job.errors[-1]["error"]) == (JobState.DEAD, "ConnectionError: no commit")

    @pytest.mark.parametrize("outcome", [Bury("no"), Cancel("no")])
    def test_stops_a_run_by_raising_an_outcome(self, app: Stanchion, kind: str, route: str, outcome: Exception) -> None:
        @contextmanager
        def block(_attempt: Attempt, _result: Result) -> Iterator[None]:
            raise outcome
            yield

        register(app, kind, block)
        declare(app, kind)
        state = JobState.DEAD if isinstance(outcome, Bury) else JobState.CANCELLED
        assert run(app, route, 1, 2).state is state

    def test_sees_the_error_of_the_task_and_may_replace_it(self, app: Stanchion, kind: str, route: str) -> None:
        @contextmanager
        def block(_attempt: Attempt, result: Result) -> Iterator[None]:
            try:
                yield
            except TypeError:
                result.value = "no sum"

        register(app, kind, block)
        declare(app, kind)
        assert run(app, route, 1, "x").result == "no sum"

    def test_is_no_frame_of_the_stored_traceback(self, app: Stanchion, kind: str, route: str) -> None:
        @contextmanager
        def block(_attempt: Attempt, _result: Result) -> Iterator[None]:
            yield

        register(app, kind, block)
        register(app, kind, block)
        declare(app, kind, retry=Retry.constant(0, max_attempts=5))
        job = run(app, route, 1, "x")
        assert job.attempts == 3, "a programming error of the task is one within middleware, too"
        first = job.errors[-1]["traceback"].splitlines()[1]
        assert first.endswith("in add" if kind == "sync" else "in add_async")

    def test_the_traceback_of_its_own_error_begins_in_it(self, app: Stanchion, kind: str, route: str) -> None:
        @contextmanager
        def block(_attempt: Attempt, _result: Result) -> Iterator[None]:
            try:
                yield
            except TypeError as error:
                raise ValueError("wrapped") from error

        register(app, kind, block)
        declare(app, kind, max_attempts=1)
        cause, _, own = run(app, route, 1, "x").errors[-1]["traceback"].partition("direct cause")
        assert cause.splitlines()[1].endswith("in add" if kind == "sync" else "in add_async")
        assert own.splitlines()[3].endswith("in around" if kind == "sync" else "in around_async")

    def test_may_end_the_job_itself(self, app: Stanchion, kind: str, route: str) -> None:
        @contextmanager
        def block(attempt: Attempt, result: Result) -> Iterator[None]:
            yield
            attempt.job.commit({"by": "middleware", "sum": result.value[0]})

        register(app, kind, block)
        declare(app, kind)
        assert run(app, route, 1, 2).result == {"by": "middleware", "sum": 3}

    def test_does_nothing_for_tasks_of_the_other_kind(self, app: Stanchion, kind: str, route: str) -> None:
        def block(_attempt: Attempt, _result: Result) -> Any:
            raise AssertionError

        register(app, "async" if kind == "sync" else "sync", block)
        declare(app, kind)
        assert run(app, route, 1, 2).result == [3, "nothing"]

    def test_of_both_kinds(self, app: Stanchion, kind: str, route: str) -> None:
        class Both:
            def run(self, _attempt: Attempt, call_next: Callable[[], Any]) -> Any:
                return ["sync", call_next()]

            async def arun(self, _attempt: Attempt, call_next: Callable[[], Awaitable[Any]]) -> Any:
                return ["async", await call_next()]

        app.middleware(Both())
        declare(app, kind)
        assert run(app, route, 1, 2).result == [kind, [3, "nothing"]]


class TestStopping:
    def test_by_returning_without_a_call_of_the_rest(self, app: Stanchion) -> None:
        @app.middleware
        def cached(attempt: Attempt, call_next: Callable[[], Any]) -> Any:
            return "cached" if attempt.args == [1, 2] else call_next()

        declare(app, "sync")
        assert run(app, "drain", 1, 2).result == "cached"
        assert run(app, "drain", 1, 3).result == [4, "nothing"]

    def test_by_returning_an_outcome(self, app: Stanchion) -> None:
        @app.middleware
        def at_night(_attempt: Attempt, _call_next: Callable[[], Any]) -> Any:
            return Snooze(3600)

        declare(app, "sync")
        with app.testing():
            handle = app.enqueue("add", 1, 2)
            app.drain()
            job = handle.job()
        assert (job.state, job.attempts) == (JobState.SCHEDULED, 0)

    def test_calls_the_rest_again(self, app: Stanchion) -> None:
        calls: list[int] = []

        @app.middleware
        def again(_attempt: Attempt, call_next: Callable[[], Any]) -> Any:
            try:
                return call_next()
            except ConnectionError:
                return call_next()

        @app.task(name="add", retry=Retry(max_attempts=1))
        def add(first: int) -> int:
            calls.append(first)
            if len(calls) == 1:
                raise ConnectionError
            return first

        assert run(app, "drain", 7).result == 7
        assert calls == [7, 7]


class TestElsewhere:
    def test_around_the_items_of_a_station(self, app: Stanchion) -> None:
        seen: list[str] = []

        @app.middleware
        def noted(attempt: Attempt, call_next: Callable[[], Any]) -> Any:
            seen.append(f"{attempt.task} {attempt.args}")
            return call_next()

        etl = app.pipeline("etl")

        @etl.station("raw", to="clean")
        def raw(item: Any) -> Any:
            return item * 2

        @etl.station("clean")
        def clean(item: Any) -> Any:
            return item + 1

        etl.push(5, station="raw")
        app.drain()
        assert seen == ["etl.raw [5]", "etl.clean [10]"]

    def test_gets_the_job_among_the_arguments(self, app: Stanchion) -> None:
        seen: list[Any] = []

        @app.middleware
        def noted(attempt: Attempt, call_next: Callable[[], Any]) -> Any:
            seen.append([type(one).__name__ for one in attempt.args])
            return call_next()

        @app.task(name="add")
        def add(_job: Job, number: int) -> int:
            return number

        assert run(app, "drain", 3).result == 3
        assert seen == [["Reservation", "int"]]

    def test_around_jobs_that_run_at_once(self, app: Stanchion) -> None:
        app.middleware(lambda _attempt, call_next: ["within", call_next()])
        declare(app, "sync")
        with app.testing(run="at_once"):
            assert app.enqueue("add", 1, 2).result(timeout=10) == ["within", [3, "nothing"]]

    def test_goes_along_with_a_pickled_app(self, app: Stanchion) -> None:
        app.middleware(unchanged)
        again = pickle.loads(pickle.dumps(app))  # noqa: S301 - made here
        assert context_of(again).middleware.sync == (unchanged,)

    def test_a_later_one_is_around_later_attempts(self, app: Stanchion) -> None:
        declare(app, "sync")
        assert run(app, "drain", 1, 2).result == [3, "nothing"]
        app.middleware(unchanged)
        app.middleware(lambda _attempt, call_next: call_next()[0])
        assert run(app, "drain", 1, 2).result == 3


def unchanged(_attempt: Attempt, call_next: Callable[[], Any]) -> Any:
    return call_next()


class Swapped:
    async def run(self, _attempt: Attempt, _call_next: Any) -> Any:
        pass

    def arun(self, _attempt: Attempt, _call_next: Any) -> Any:
        pass


def generator(_attempt: Attempt, call_next: Callable[[], Any]) -> Any:
    yield call_next()


@pytest.mark.parametrize("wrong", [5, None, Swapped(), Swapped, generator])
def test_anything_else_is_refused(app: Stanchion, wrong: Any) -> None:
    with pytest.raises(InvalidInput):
        app.middleware(wrong)


def test_it_runs_once_around_the_call_of_a_batch(app: Stanchion) -> None:
    seen: list[Any] = []

    @app.middleware
    def around(attempt: Attempt, call_next: Any) -> object:
        assert attempt.is_batch
        with pytest.raises(InvalidInput, match=r"use attempt\.jobs"):
            _ = attempt.job
        seen.append([job.id for job in attempt.jobs])
        attempt.args = [[number + 1 for number in attempt.args[0]]]
        results: list[int] = call_next()
        return [Cancel("even") if result % 2 == 0 else result for result in results]

    @app.task(batch=10)
    def note(numbers: list[int]) -> list[int]:
        return numbers

    handles = note.enqueue_many([(n,) for n in range(3)])
    with working(app, threads=1):
        states = [ended(app, handle.id).state for handle in handles]
    assert states == [JobState.DONE, JobState.CANCELLED, JobState.DONE]
    assert handles[2].result(timeout=60) == 3
    assert seen == [[handle.id for handle in handles]]


def test_it_sees_a_single_job_as_one_of_several(app: Stanchion) -> None:
    seen: list[Any] = []

    @app.middleware
    def around(attempt: Attempt, call_next: Any) -> object:
        seen.append((attempt.is_batch, [job.id for job in attempt.jobs], attempt.job.id))
        return call_next()

    @app.task
    def note(number: int) -> int:
        return number

    handle = note.enqueue(1)
    app.drain()
    assert seen == [(False, [handle.id], handle.id)]
