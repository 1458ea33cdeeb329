"""Flows: a chain has the value of its last part, a group the list of the values of its members."""

from __future__ import annotations

from typing import Any, assert_type

from stanchion import FlowHandle, Job, JobHandle, Push, Signature, Stanchion, barrier, chain, group

app = Stanchion("memory://")


@app.task
def extract(day: int) -> list[str]:
    return [str(day)]


@app.task
async def load(rows: list[str], table: str) -> int:
    return len([*rows, table])


@app.task
def told(job: Job, count: int, *, to: str = "") -> str:
    return f"{job.id} {count} {to}"


@app.task
def clean_up(table: str) -> None:
    print(table)


def calls() -> None:
    assert_type(extract.s(1), Signature[list[str]])
    assert_type(load.s("sales"), Signature[int])
    assert_type(load.s(["a"], "sales"), Signature[int])
    assert_type(load.si(["a"], table="sales"), Signature[int])
    assert_type(load.using(delay=5).s(table="sales"), Signature[int])
    assert_type(told.s(to="ops"), Signature[str])
    assert_type(told.s(1), Signature[str])

    load.s()  # error: mypy call-overload / pyright reportCallIssue
    load.s("sales", "more", 3)  # error: mypy call-overload / pyright reportCallIssue
    load.s(5)  # error: mypy call-overload / pyright reportArgumentType
    load.si("sales")  # error: mypy call-arg,arg-type / pyright reportCallIssue
    told.using(delay=5).s("x")  # error: mypy call-overload / pyright reportArgumentType


def flows() -> None:
    etl = chain(extract.s(1), load.s("sales"))
    assert_type(etl.enqueue(), FlowHandle[int])
    assert_type(etl.on_failure(clean_up.s("sales")).enqueue().result(), int)
    assert_type((extract.s(1) | load.s("sales") | told.s()).enqueue().result(timeout=1), str)
    assert_type(extract.s(1).then(load.s("sales")).enqueue().result(), int)
    assert_type(group(extract.s(n) for n in range(3)).enqueue().result(), list[list[str]])
    assert_type(group(load.s([], "a"), load.s([], "b")).enqueue().result(), list[int])
    assert_type(barrier(load.s([], "a"), clean_up.s("b")).enqueue().result(), None)
    assert_type((group(load.s([], "a")) | told.s()).enqueue().result(), str)
    assert_type(chain(extract.s(1), Push("row", queue="orders")).enqueue().result(), Any)
    assert_type(chain(Push("row", queue="orders"), told.s()).enqueue().result(), str)
    assert_type(app.enqueue_flow(etl), FlowHandle[int])
    for job in etl.enqueue():
        assert_type(job, JobHandle[Any])
    chain(extract.s(1), load)  # error: mypy call-overload / pyright reportCallIssue,reportArgumentType


async def awaited() -> None:
    handle = await chain(extract.s(1), load.s("sales")).aenqueue()
    assert_type(await handle.aresult(), int)
    assert_type(await handle, int)
