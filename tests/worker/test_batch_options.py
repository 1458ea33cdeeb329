"""What a batch task may be: refused with a sentence when it is declared."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from stanchion import FlowFailure, Job, Reservation, Snooze, Stanchion, Tasks
from stanchion.context import context_of
from stanchion.core.ids import new_id
from stanchion.errors import InvalidInput
from stanchion.stores.records.jobs import NewJob


@pytest.fixture
def app() -> Stanchion:
    return Stanchion("memory://")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"batch": 1}, "batch must be a whole number from 2 to 2,000, not 1"),
        ({"batch": 2001}, "batch must be a whole number from 2 to 2,000"),
        ({"batch": 2.5}, "batch must be a whole number"),
        ({"batch": True}, "batch must be a whole number"),
        ({"batch": 10, "wait": -1}, "wait must be from 0 seconds"),
        ({"batch": 10, "wait": "soon"}, "wait must be a number of seconds"),
        ({"wait": 1}, "pass batch=, the most jobs of one, too"),
        ({"batch": 10, "dealy": 1}, "dealy"),
    ],
)
def test_options(app: Stanchion, options: dict[str, Any], reason: str) -> None:
    def task(numbers: list[int]) -> None:
        raise AssertionError(numbers)

    with pytest.raises(InvalidInput, match=reason):
        app.task(**options)(task)


def one_item(doc: dict[str, int]) -> None: ...
def no_items() -> None: ...
def by_name(*, docs: list[int]) -> None: ...
def any_number(*docs: int) -> None: ...
def two(docs: list[int], more: str) -> None: ...
def one_job(docs: list[int], job: Job) -> None: ...
def maybe_job(docs: list[int], job: Reservation | None = None) -> None: ...
def a_failure(docs: list[int], failure: FlowFailure) -> None: ...
def one_result(docs: list[int]) -> int: ...  # type: ignore[empty-body]
def results_by_name(docs: list[int]) -> dict[str, int]: ...  # type: ignore[empty-body]
def only_jobs(jobs: list[Job]) -> None: ...


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (one_item, r"annotate 'doc' as list\[dict\[str, int\]\]"),
        (no_items, "must take the items of the jobs first"),
        (by_name, "must take the items of the jobs first"),
        (any_number, "must take the items of the jobs first"),
        (only_jobs, "must take the items of the jobs first"),
        (two, "the function needs 'more' as well"),
        (one_job, r"annotate 'job' as list\[Job\]"),
        (maybe_job, r"annotate 'job' as list\[Job\]"),
        (a_failure, r"annotate 'failure' as list\[Job\]"),
        (one_result, "return a list with a result for each job, or None, not int"),
        (results_by_name, "return a list with a result for each job, or None, not dict"),
    ],
)
def test_functions(app: Stanchion, function: Any, reason: str) -> None:
    with pytest.raises(InvalidInput, match=f"can't take batches: .*{reason}"):
        app.task(batch=10, name="task")(function)


def untyped(docs): ...
def bare(docs: list) -> list: ...  # type: ignore[type-arg,empty-body]
def anything(docs: Any) -> Any: ...
def optional(docs: list[int]) -> list[int] | None: ...
def outcomes(docs: list[int]) -> list[int | Exception] | Snooze: ...  # type: ignore[empty-body]
def more(docs: list[int], db: object = None) -> None: ...
def jobs_last(docs: list[int], jobs: list[Job]) -> None: ...
def jobs_by_name(docs: list[int], *, jobs: list[Reservation]) -> None: ...


@pytest.mark.parametrize("function", [untyped, bare, anything, optional, outcomes, more, jobs_last, jobs_by_name])
def test_functions_that_will_do(app: Stanchion, function: Any) -> None:
    task = app.task(batch=10, wait=timedelta(seconds=1), name="task")(function)
    task.enqueue(1)
    with pytest.raises(InvalidInput, match="don't fit task"):
        task.enqueue(1, 2)
    with pytest.raises(InvalidInput, match="don't fit task"):
        task.enqueue(docs=1)


@pytest.mark.parametrize("place", ["first", "last", "by name"])
def test_the_jobs_come_where_the_function_wants_them(app: Stanchion, place: str) -> None:
    seen: list[Any] = []

    def first(jobs: list[Job], docs: list[int]) -> None:
        seen.extend((jobs, docs))

    def last(docs: list[int], jobs: list[Job]) -> None:
        seen.extend((jobs, docs))

    def by_name(docs: list[int], *, jobs: list[Job]) -> None:
        seen.extend((jobs, docs))

    functions: dict[str, Any] = {"first": first, "last": last, "by name": by_name}
    handle = app.task(batch=10, name="task")(functions[place]).enqueue(7)
    app.drain()
    ((job,), docs) = seen
    assert (job.id, docs) == (handle.id, [7])


def test_items_have_the_type_of_the_annotation(app: Stanchion) -> None:
    seen: list[timedelta] = []

    @app.task(batch=10, name="task")
    def task(pauses: list[timedelta]) -> list[timedelta | Exception]:
        seen.extend(pauses)
        return [2 * pause for pause in pauses]

    handle = task.enqueue(timedelta(minutes=1))
    assert handle.job().payload == {"args": [60.0]}
    app.drain()
    assert seen == [timedelta(minutes=1)]
    assert handle.result(timeout=60) == timedelta(minutes=2)
    with pytest.raises(InvalidInput, match="pauses"):
        task.enqueue("soon")  # type: ignore[arg-type]


def test_a_direct_call_takes_the_list(app: Stanchion) -> None:
    @app.task(batch=10)
    def double(numbers: list[int]) -> list[int]:
        return [2 * number for number in numbers]

    assert double([1, 2]) == [2, 4]


def test_tasks_of_an_area_and_of_a_schedule(app: Stanchion) -> None:
    area, seen = Tasks(), list[list[str]]()

    @area.cron("* * * * *", args=("tick",))
    @area.task(batch=10, name="note")
    def note(words: list[str]) -> None:
        seen.append(words)

    with app.testing() as clock:
        app.register(area)
        note.enqueue("call")
        clock.advance(60, ticking=True)
        app.drain()
    assert seen == [["call", "tick"]]


def test_a_task_of_a_module_that_is_not_imported_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "late_batches.py").write_text(_LATE)
    monkeypatch.syspath_prepend(tmp_path)
    app = Stanchion("memory://")
    monkeypatch.setattr("builtins.late_app", app, raising=False)
    app.include("late_batches")
    store, jobs = context_of(app).store, [NewJob(new_id(), "late", '{"args": [1]}', "many") for _ in range(2)]
    store.push(jobs)  # as another process does
    app.drain(["late"])
    assert [row.result for row in store.fetch([job.id for job in jobs]).values()] == ["2", "2"]


_LATE = """
import builtins


@builtins.late_app.task(name="many", queue="late", batch=10)
def many(numbers: list[int]) -> list[int]:
    return [len(numbers) for _ in numbers]
"""
