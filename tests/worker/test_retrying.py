"""Retries by the kind of the error, and programming errors, on each route by which an attempt can run."""

from __future__ import annotations

import asyncio
import functools
import importlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from stanchion import Bury, Job, JobState, Retry, Stanchion
from stanchion.context import context_of
from tests.worker.conftest import ended, working

ROUTES = ["drain", "drain async", "worker", "worker async", "worker timeout", "station"]

Function = Callable[[Any], Any]


@pytest.fixture
def app() -> Iterator[Stanchion]:
    app = Stanchion("memory://")
    yield app
    app.close()


def run(app: Stanchion, route: str, function: Function, retry: Retry, argument: Any = 1, **options: Any) -> Job:
    """Run a function as a task, or as a station, until its job has ended."""
    how, _, kind = route.partition(" ")
    if how == "station":
        pipeline = app.pipeline("etl")
        pipeline.station("raw", retry=retry)(function)
        job_id = pipeline.push(argument, station="raw").id
        app.drain()
        return ended(app, job_id)
    if kind == "timeout":
        options["timeout"] = 600
    job_id = app.task(name="fails", retry=retry, **options)(function).enqueue(argument).id
    if how == "drain":
        app.drain()
    else:
        with working(app):
            return ended(app, job_id)
    return ended(app, job_id)


def of_route(route: str, function: Function) -> Function:
    if not route.endswith("async"):
        return function

    # Async functions with the same lines: an error must come from their own frames.
    asynchronous: dict[Function, Function] = {
        missing: missing_async,
        misspelt: misspelt_async,
        wrong_kind: wrong_kind_async,
        in_a_comprehension: in_a_comprehension_async,
        deeper: deeper_async,
        on_purpose: on_purpose_async,
        refused: refused_async,
    }
    return asynchronous[function]


class Refused(Exception):
    pass


class OnPurpose(TypeError):
    pass


def missing(item: Any) -> Any:
    return item.nothing


async def missing_async(item: Any) -> Any:
    return item.nothing


def misspelt(item: Any) -> Any:  # noqa: ARG001
    return itm  # type: ignore[name-defined]  # noqa: F821


async def misspelt_async(item: Any) -> Any:  # noqa: ARG001
    return itm  # type: ignore[name-defined]  # noqa: F821


def wrong_kind(item: Any) -> Any:
    return item + "x"


async def wrong_kind_async(item: Any) -> Any:
    return item + "x"


def in_a_comprehension(item: Any) -> Any:
    return [one + "x" for one in [item]]


async def in_a_comprehension_async(item: Any) -> Any:
    return [one + "x" for one in [item]]


def deeper(item: Any) -> Any:
    return missing(item)


async def deeper_async(item: Any) -> Any:
    return missing(item)


def on_purpose(item: Any) -> Any:
    raise OnPurpose(item)


async def on_purpose_async(item: Any) -> Any:
    raise OnPurpose(item)


def refused(item: Any) -> Any:
    raise Refused(item)


async def refused_async(item: Any) -> Any:
    raise Refused(item)


NOW = functools.partial(Retry.constant, 0, jitter=0, max_attempts=6)


@pytest.mark.parametrize("route", ROUTES)
class TestProgrammingErrors:
    @pytest.mark.parametrize("mistake", [missing, misspelt, wrong_kind, in_a_comprehension])
    def test_three_end_a_job(self, app: Stanchion, route: str, mistake: Function) -> None:
        job = run(app, route, of_route(route, mistake), NOW())
        assert (job.state, job.attempts) == (JobState.DEAD, 3)
        assert "Not retried: 3 programming errors in a row" in job.errors[-1]["traceback"]
        assert len({entry["group"] for entry in job.errors}) == 1

    @pytest.mark.parametrize("other", [deeper, on_purpose])
    def test_others_are_retried(self, app: Stanchion, route: str, other: Function) -> None:
        assert run(app, route, of_route(route, other), NOW()).attempts == 6

    def test_a_setting_changes_the_number(self, app: Stanchion, route: str) -> None:
        assert run(app, route, of_route(route, missing), NOW(programming_errors=1)).attempts == 1

    def test_none_retries_them(self, app: Stanchion, route: str) -> None:
        assert run(app, route, of_route(route, missing), NOW(programming_errors=None)).attempts == 6

    def test_named_ones_are_retried(self, app: Stanchion, route: str) -> None:
        assert run(app, route, of_route(route, missing), NOW(retry_on=AttributeError)).attempts == 6


class TestWhichErrorsCount:
    def test_only_those_in_a_row(self, app: Stanchion) -> None:
        @app.task(name="mixed", retry=Retry.constant(0, jitter=0, max_attempts=8))
        def mixed(job: Job) -> Any:
            if job.attempts in (1, 2, 4):
                return job.nothing  # type: ignore[attr-defined]
            if job.attempts == 3:
                raise Refused
            return wrong_kind(1) if job.attempts == 5 else job.nothing  # type: ignore[attr-defined]

        handle = app.enqueue("mixed")
        app.drain()
        # The fifth is a TypeError of a function that the task calls: it doesn't end the job, but it counts.
        assert handle.job().attempts == 6

    def test_a_wrapper_hides_no_mistake(self, app: Stanchion) -> None:
        def logged(function: Function) -> Function:
            @functools.wraps(function)
            def wrapper(item: Any) -> Any:
                return function(item)

            return wrapper

        assert run(app, "drain", logged(missing), NOW()).attempts == 3

    @pytest.mark.parametrize("kind", ["method", "object", "partial"])
    def test_of_other_callables(self, app: Stanchion, kind: str) -> None:
        class Shop:
            def sell(self, item: Any) -> Any:
                return item.nothing

            def __call__(self, item: Any) -> Any:
                return item.nothing

        shop = Shop()
        function: Function = {"method": shop.sell, "object": shop, "partial": functools.partial(missing)}[kind]  # type: ignore[assignment]
        assert run(app, "drain", function, NOW()).attempts == 3

    def test_max_attempts_ends_a_job_before(self, app: Stanchion) -> None:
        job = run(app, "drain", missing, replace(NOW(), max_attempts=2))
        assert job.attempts == 2
        assert "Not retried" not in job.errors[-1]["traceback"]

    def test_odd_entries_of_errors_stop_the_count(self, app: Stanchion) -> None:
        from stanchion.stores.rules.lifecycle import error_entries

        assert error_entries.entries_of(app_row(app, "[1, {}]")) == [{}]


def app_row(app: Stanchion, errors: str) -> Any:
    handle = app.enqueue("nothing")
    row = app.store.fetch([handle.id])[handle.id]
    return row._replace(errors=errors)


@pytest.mark.parametrize("route", ROUTES)
class TestByError:
    def test_give_up_on(self, app: Stanchion, route: str) -> None:
        job = run(app, route, of_route(route, refused), NOW(give_up_on=Refused))
        assert (job.state, job.attempts) == (JobState.DEAD, 1)
        assert job.errors[-1]["error"] == "Refused: 1"
        assert job.errors[-1]["traceback"].endswith("Not retried: the retry policy gives up on Refused\n")

    def test_retry_on(self, app: Stanchion, route: str) -> None:
        assert run(app, route, of_route(route, refused), NOW(retry_on=KeyError)).attempts == 1

    def test_those_in_retry_on_are_retried(self, app: Stanchion, route: str) -> None:
        assert run(app, route, of_route(route, refused), NOW(retry_on=Refused)).attempts == 6

    def test_a_policy_that_returns_none(self, app: Stanchion, route: str) -> None:
        policy = Retry.custom(lambda failures, _error: 0 if failures < 2 else None)
        assert run(app, route, of_route(route, refused), policy).attempts == 2

    def test_a_policy_that_raises_bury(self, app: Stanchion, route: str) -> None:
        def policy(failures: int, error: BaseException | None) -> float:
            if isinstance(error, Refused) and failures == 2:
                raise Bury("refused twice")
            return 0

        job = run(app, route, of_route(route, refused), Retry.custom(policy))
        assert (job.state, job.attempts, job.errors[-1]["error"]) == (JobState.DEAD, 2, "refused twice")
        assert job.errors[-1]["type"].endswith("Refused")
        assert "raise Refused(item)" in job.errors[-1]["traceback"]


def test_a_policy_that_fails_is_replaced_by_the_default(app: Stanchion, caplog: pytest.LogCaptureFixture) -> None:
    def policy(_failures: int, _error: BaseException | None) -> float | None:
        raise RuntimeError("no policy")

    with app.testing():
        handle = app.task(name="fails", retry=Retry.custom(policy))(refused).enqueue(1)
        app.drain()
        assert handle.job().state is JobState.SCHEDULED
    assert "the retry policy of fails failed" in caplog.text


class TestOptionsOfTasks:
    def test_a_task_takes_them_itself(self, app: Stanchion) -> None:
        policy = Retry.constant(0, max_attempts=4)
        assert run(app, "drain", refused, policy, give_up_on=Refused).attempts == 1

    def test_and_the_number_of_programming_errors(self, app: Stanchion) -> None:
        assert run(app, "drain", missing, NOW(), programming_errors=2).attempts == 2


class TestRetryAfter:
    @pytest.mark.parametrize("route", ["drain", "station"])
    def test_sets_the_delay(self, app: Stanchion, route: str) -> None:
        class Busy(Exception):
            retry_after = 500

        def busy(_item: Any) -> None:
            raise Busy

        with app.testing() as clock:
            pipeline = app.pipeline("etl")
            retry = Retry.constant(5, jitter=0)
            if route == "station":
                pipeline.station("raw", retry=retry)(busy)
                pipeline.push(1, station="raw")
            else:
                app.task(name="busy", retry=retry)(busy).enqueue(1)
            app.drain()
            clock.advance(499)
            assert app.drain() == 0
            clock.advance(2)
            assert app.drain() == 1


class TestReservations:
    def test_give_up_as_their_app_says(self, app: Stanchion) -> None:
        queue = app.queue("q")
        queue.push_many([1, 2, 3])
        context_of(app).retry = Retry.constant(5, retry_on=OSError)
        first, second, third = queue.reserve(3)
        first.rollback(error=ValueError("no"))
        second.rollback(error=OSError("no"))
        with pytest.raises(ValueError, match="again"), third:
            raise ValueError("again")
        states = [job.state for one in (first, second, third) if (job := queue.get(one.id)) is not None]
        assert states == [JobState.DEAD, JobState.SCHEDULED, JobState.DEAD]

    def test_a_policy_may_bury_them(self, app: Stanchion) -> None:
        def policy(_failures: int, _error: BaseException | None) -> float:
            raise Bury("enough")

        queue = app.queue("q")
        queue.push_many([1, 2])
        context_of(app).retry = Retry.custom(policy)
        first, second = queue.reserve(2)
        first.rollback()
        second.rollback(error=ValueError("no"))
        texts = [job.errors[-1]["error"] for one in (first, second) if (job := queue.get(one.id)) is not None]
        assert texts == ["enough", "ValueError: no"]

    def test_a_lost_lease_is_no_error_of_the_task(self, app: Stanchion) -> None:
        @app.task(name="t", retry=Retry.constant(7, jitter=0, retry_on=ValueError))
        def task() -> None:
            pass

        handle = task.enqueue()
        row = app.store.fetch([handle.id])[handle.id]
        assert context_of(app)._lost_lease_delay(row, 2) == 7


@pytest.mark.parametrize("route", ROUTES)
def test_tracebacks_begin_in_the_code_of_the_task(app: Stanchion, route: str) -> None:
    job = run(app, route, of_route(route, deeper), replace(NOW(), max_attempts=1))
    first, place, *_, last = job.errors[-1]["traceback"].splitlines()
    assert first == "Traceback (most recent call last):"
    assert place.endswith(f", in {of_route(route, deeper).__name__}")
    assert place.strip().startswith(f'File "{__file__}"')
    assert last.startswith("AttributeError")


def test_tracebacks_of_async_tasks_begin_there_where_django_is_loaded(app: Stanchion) -> None:
    importlib.import_module("django.db")
    job = run(app, "drain async", missing_async, replace(NOW(), max_attempts=1))
    _, place, *_ = job.errors[-1]["traceback"].splitlines()
    assert place.endswith(", in missing_async")


def test_tracebacks_of_causes_begin_there_too(app: Stanchion) -> None:
    @app.task(name="caused", max_attempts=1)
    async def caused() -> None:
        try:
            await asyncio.gather(asyncio.to_thread(missing, 1))
        except AttributeError as error:
            raise Refused("x") from error

    handle = caused.enqueue()
    app.drain()
    trace = handle.job().errors[-1]["traceback"]
    assert trace.count("Traceback") == 2
    assert "execution.py" not in trace
    assert "stanchion/" not in json.dumps(trace.split("direct cause")[1])


def test_a_plain_function_around_an_async_one_hides_our_frames(app: Stanchion) -> None:
    @app.task(name="around", max_attempts=1)
    def around() -> Any:
        return missing_async(1)

    handle = around.enqueue()
    app.drain()
    trace = handle.job().errors[-1]["traceback"]
    assert trace.splitlines()[1].endswith("in missing_async")
