"""Tasks: their calls have the types of their parameters and results."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, assert_type

from stanchion import Job, JobHandle, Reservation, Retry, Signature, Stanchion, Task

app = Stanchion("memory://")


@app.task
def add(x: int, y: int = 0) -> int:
    return x + y


@app.task(queue="mail", retry=Retry.exponential(base=2), max_attempts=3, timeout=30)
async def greet(name: str, *, loud: bool = False) -> str:
    return name.upper() if loud else name


@app.task
def counted(job: Job, path: str) -> int:
    return job.attempts + len(path)


@app.task(queue="mail")
async def reserved(job: Reservation, path: str) -> bytes:
    return f"{job.id}{path}".encode()


@app.task
def plain(job: Job | None = None) -> float:
    return 0.5 if job is None else job.pickup_delay or 0.0


@app.task
def stored(order: dict[str, Any], note: Any = None) -> list[str]:
    return [*order, str(note)]


@app.task
def anything(value: Any, times: int = 1) -> str:
    return str(value) * times


@app.task
def untold(number: int) -> Any:
    return number


@app.cron("0 3 * * *", schedule="nightly")
def nightly() -> None:
    return


@app.cron("0 4 * * *", args=(4,))
@app.task
def at_four(hour: int) -> int:
    return hour


def enqueued() -> None:
    assert_type(add.enqueue(1, 2), JobHandle[int])
    assert_type(add.enqueue(x=1).result(timeout=5), int)
    assert_type(greet.enqueue("Ada", loud=True).result(), str)
    assert_type(greet.using(delay=timedelta(hours=1), priority="interactive").enqueue("Ada").result(), str)
    assert_type(counted.enqueue("a").result(), int)
    assert_type(reserved.enqueue(path="a").result(), bytes)
    assert_type(plain.enqueue().result(), float)
    assert_type(stored.enqueue({"id": 1}, 2).result(), list[str])
    assert_type(untold.enqueue(1).result(), Any)
    assert_type(at_four.enqueue(4).result(), int)
    assert_type(nightly.enqueue().result(), None)
    anything.enqueue("x", times=2)
    anything.enqueue(value={"x": 1})
    anything.s()

    add.enqueue("1")  # error: mypy arg-type / pyright reportArgumentType
    add.enqueue(1, 2, 3)  # error: mypy call-arg / pyright reportCallIssue
    add.enqueue()  # error: mypy call-arg / pyright reportCallIssue
    add.enqueue(1, z=2)  # error: mypy call-arg / pyright reportCallIssue
    counted.enqueue(1)  # error: mypy arg-type / pyright reportArgumentType
    counted.using(delay=5).enqueue("a", "b")  # error: mypy call-arg / pyright reportCallIssue
    greet.enqueue("Ada", True)  # error: mypy call-arg / pyright reportCallIssue
    add.using(delay="soon").enqueue(1)  # error: mypy arg-type / pyright reportArgumentType
    add.using(dealy=5)  # error: mypy call-arg / pyright reportCallIssue
    text: str = add.enqueue(1).result()  # error: mypy assignment / pyright reportAssignmentType
    print(text)


def many() -> None:
    assert_type(add.enqueue_many([(1, 2), {"x": 3}]), list[JobHandle[int]])
    assert_type(add.enqueue_many(add.s(n, 1) for n in range(3)), list[JobHandle[int]])
    add.enqueue_many([1, 2])  # error: mypy list-item / pyright reportArgumentType
    add.enqueue_many([add.si("1")])  # error: mypy arg-type / pyright reportArgumentType


async def awaited() -> None:
    handle = await add.aenqueue(1, 2)
    assert_type(handle, JobHandle[int])
    assert_type(await handle, int)
    assert_type(await handle.aresult(timeout=1), int)
    assert_type((await greet.using(delay=1).aenqueue("Ada")), JobHandle[str])
    assert_type(await add.aenqueue_many([(1,)]), list[JobHandle[int]])
    await greet.aenqueue(1)  # error: mypy arg-type / pyright reportArgumentType


async def called_directly(job: Job, reservation: Reservation) -> None:
    assert_type(add(1, 2), int)
    assert_type(await greet("Ada"), str)
    assert_type(counted(job, "a"), int)
    assert_type(await reserved(reservation, path="a"), bytes)
    add("1")  # error: mypy arg-type / pyright reportArgumentType
    counted("a")  # error: mypy call-arg,arg-type / pyright reportCallIssue


def handed(task: Task[[int, int], int], handle: JobHandle[int], call: Signature[int], unknown: JobHandle) -> None:
    assert_type(task.enqueue(1, 2).result(), int)
    assert_type(handle.result(), int)
    assert_type(call.enqueue().result(), int)
    assert_type(unknown.result(), Any)


def by_name() -> None:
    assert_type(app.enqueue("elsewhere", 1, "x", delay=5).result(), Any)
    app.using("elsewhere", delay=5).enqueue(1, x=2)
    app.enqueue("elsewhere", delay="soon")  # error: mypy arg-type / pyright reportArgumentType
