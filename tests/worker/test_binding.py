"""Calls are bound to the function's parameters at the enqueue: a wrong call raises there, and stores nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from stanchion import InvalidInput, Job, JobState, Stanchion, Task, chain, group
from stanchion.flows.parts import Part

app = Stanchion("memory://")


@app.task(name="add")
def add(x: int, y: int = 0) -> int:
    return x + y


@app.task(name="named")
def named(first: Any, /, second: Any, *, third: Any, fourth: Any = 4) -> Any:
    return [first, second, third, fourth]


@app.task(name="any")
def open_to_all(first: Any, *others: Any, **named: Any) -> Any:
    return [first, others, named]


@app.task(name="between")
def between(before: Any, job: Job, behind: Any = 2) -> Any:
    return [before, job.attempt, behind]


@app.task(name="first")
async def job_first(job: Job | None, value: int) -> Any:
    return [value, job is not None]


def fitting(task: Any, *args: Any, **kwargs: Any) -> Any:
    return pytest.param(task, args, kwargs)


@pytest.mark.parametrize(
    ("task", "args", "kwargs"),
    [
        *(fitting(add, 1), fitting(add, 1, 2), fitting(add, x=1), fitting(add, 1, y=2), fitting(add, y=2, x=1)),
        *(fitting(named, 1, 2, third=3), fitting(named, 1, second=2, third=3, fourth=5)),
        *(fitting(open_to_all, 1), fitting(open_to_all, 1, 2, 3, more=4), fitting(open_to_all, first=1, others=2)),
        *(fitting(between, 1), fitting(between, 1, 3), fitting(between, 1, behind=3), fitting(between, before=1)),
        *(fitting(job_first, 1), fitting(job_first, value=1)),
    ],
)
def test_a_call_that_fits_runs(task: Task[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    with app.testing():
        handle = task.enqueue(*args, **kwargs)
        app.drain()
        assert handle.job().state is JobState.DONE, handle.job().errors


def wrong(task: Any, message: str, *args: Any, **kwargs: Any) -> Any:
    return pytest.param(task, args, kwargs, message)


@pytest.mark.parametrize(
    ("task", "args", "kwargs", "message"),
    [
        wrong(add, r"don't fit add\(x: .*int.*, y: .*int.* = 0\): too many positional arguments", 1, 2, 3),
        wrong(add, "missing a required argument: 'x'"),
        wrong(add, "missing a required argument: 'x'", y=2),
        wrong(add, "multiple values for argument 'x'", 1, x=2),
        wrong(add, "unexpected keyword argument 'z'", 1, z=2),
        wrong(named, "'third'", 1, 2),
        wrong(named, "'second'", 1, third=3),
        wrong(named, "'first'", first=1, second=2, third=3),
        wrong(open_to_all, "'first'", more=1),
        wrong(between, "too many positional arguments", 1, 2, 3),
        wrong(between, "unexpected keyword argument 'job'", 1, job=2),
        wrong(job_first, r"first\(value: .*int.*\): missing a required argument: 'value'"),
    ],
)
def test_a_call_that_does_not_fit_names_the_parameter(
    task: Task[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: task.enqueue(*args, **kwargs),
        lambda: task.using(delay=5).enqueue(*args, **kwargs),
        lambda: asyncio.run(task.aenqueue(*args, **kwargs)),
        lambda: app.using(task.name).enqueue(*args, **kwargs),
        lambda: task.si(*args, **kwargs).enqueue(),
        lambda: group(task.s(*args, **kwargs)).enqueue(),
        lambda: task.enqueue_many([task.si(*args, **kwargs)]),
    ]
    with app.testing():
        for call in calls:
            with pytest.raises(InvalidInput, match=message):
                call()
        assert app.find() == []


def test_a_wrong_call_among_many_stores_none() -> None:
    with app.testing():
        with pytest.raises(InvalidInput, match="too many positional arguments"):
            add.enqueue_many([(1,), (2, 3), (4, 5, 6)])
        assert app.find() == []


@pytest.mark.parametrize(
    ("flow", "value"),
    [
        (chain(add.s(1), add.s(2)), 3),
        (chain(add.s(1), add.s(y=2)), 3),
        (chain(add.s(1), add.si(5, 6)), 11),
        (chain(add.s(1), job_first.s()), [1, True]),
        (chain(add.s(1), between.s(7)), [1, 1, 7]),
    ],
)
def test_a_call_in_a_chain_leaves_out_its_first_argument(flow: Part[Any], value: Any) -> None:
    with app.testing():
        handle = flow.enqueue()
        app.drain()
        assert handle.result(timeout=60) == value


@pytest.mark.parametrize("behind", [add.s(1, 2), add.s(x=1), add.using(delay=5).s(1, 2), add.s(1).on_failure(add.s())])
def test_a_call_in_a_chain_that_does_not_fit_is_refused(behind: Part[Any]) -> None:
    with app.testing():
        with pytest.raises(InvalidInput, match=r"the arguments.* don't fit add"):
            chain(add.s(1), behind).enqueue()
        assert app.find() == []


def test_tasks_that_this_process_does_not_know_go_unchecked() -> None:
    with app.testing():
        handle = app.using("elsewhere").enqueue(1, 2, 3, four=4)
        assert handle.job().payload == {"args": [1, 2, 3], "kwargs": {"four": 4}}
