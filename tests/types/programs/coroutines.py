"""Async twins, iterators and blocks."""

import asyncio
from typing import assert_type

from stanchion import EventGroup, FlowHandle, FlowState, Job, JobHandle, JobState, Queue, Reservation, Stanchion, group
from stanchion.flows.tree import FlowPart

app = Stanchion("memory://")
orders = app.queue("orders")


@app.task
async def double(number: int) -> int:
    return 2 * number


async def queues() -> None:
    assert_type(await orders.apush(1, priority=3), Job)
    assert_type(await orders.apush_many([1, 2]), list[Job])
    assert_type(await orders.apush_many(iter([1, 2])), int)
    assert_type(await orders.apop(wait=1), Job | None)
    assert_type(await orders.afind(state="dead", limit=3), list[Job])
    assert_type(await orders.auntil_due(0), bool)
    assert_type(await app.aqueues(), list[Queue])
    assert_type(await app.semaphore("smtp", 2).aget_capacity(), int)
    assert_type(await asyncio.create_task(orders.apush(1)), Job)
    await orders.apush(1, nonsense=3)  # error: mypy call-arg / pyright reportCallIssue
    await orders.apush_many(5)  # error: mypy call-overload / pyright reportCallIssue,reportArgumentType
    await orders.acancel(5)  # error: mypy arg-type / pyright reportArgumentType


async def blocks() -> None:
    async with app as entered:
        assert_type(entered, Stanchion)
    async with app.atransaction() as tx:
        await orders.apush(1, tx=tx)
    async with orders.batch(5) as jobs:
        for job in jobs:
            assert_type(job, Reservation)
    for job in await orders.areserve(10, wait=1):
        async with job as held:
            assert_type(held, Reservation)
            await held.areport_progress(0.5)


async def handles() -> None:
    handle = await double.aenqueue(1)
    assert_type(handle, JobHandle[int])
    assert_type(await handle, int)
    assert_type(await handle.aresult(timeout=5), int)
    assert_type(await handle.aget_state(), JobState)
    assert_type(await double.using(delay=5).aenqueue(1), JobHandle[int])
    assert_type(await double.aenqueue_many([(1,), (2,)]), list[JobHandle[int]])
    await double.aenqueue("1")  # error: mypy arg-type / pyright reportArgumentType
    await double.using(delay=5).aenqueue()  # error: mypy call-arg / pyright reportCallIssue


async def flows() -> None:
    flow = await group(double.s(n) for n in range(3)).aenqueue()
    assert_type(flow, FlowHandle[list[int]])
    assert_type(await flow, list[int])
    assert_type(await flow.aget_state(), FlowState)
    assert_type(await flow.agraph(), FlowPart)
    async for member in flow:
        assert_type(await member.aget_state(), JobState)
    async for job in flow.amembers():
        assert_type(job, Job)
    assert_type(await (double.s(1) | double.s()).aenqueue(), FlowHandle[int])
    assert_type(await app.aevent_group("order-17", then=double.si(1)), EventGroup)


async def pipelines() -> None:
    etl = app.pipeline("flights")
    assert_type(await etl.apush({"id": 1}), Job)
    assert_type(await etl.areplay(["1"]), list[Job])
    assert_type(await etl.areplay(state="dead"), int)
    assert_type(await app.schedules()[0].atrigger(), JobHandle)
