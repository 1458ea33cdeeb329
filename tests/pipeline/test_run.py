"""Pipelines run by workers, in threads and in processes."""

import asyncio
import threading
import time
from collections import Counter
from typing import Any

import pytest

from stanchion import Cancel, Retry, Send, Worker
from stanchion.context import context_of
from stanchion.errors import InvalidInput


def chain_of_three(etl, ended):
    etl.station("raw", to="clean")(lambda item: {**item, "raw": True})
    etl.station("clean", to="end", payload="merge")(lambda _item: {"clean": True})
    etl.station("end")(ended.append)


def test_runs_until_all_stations_are_empty(etl):
    ended: list[Any] = []
    chain_of_three(etl, ended)
    etl.push_many([{"n": n} for n in range(500)])
    etl.run(until_empty=True)
    assert sorted(item["n"] for item in ended) == list(range(500))
    assert all(item["raw"] and item["clean"] for item in ended)
    status = etl.status()
    assert status.empty
    assert [(one.came, one.out, one.dropped, one.dead) for one in status.stations] == [(500, 500, 0, 0)] * 3


@pytest.mark.slow
def test_until_empty_waits_for_retries_and_available_now_does_not(etl):
    tries: Counter[int] = Counter()

    @etl.station("raw", to="end", retry=Retry.constant(5, jitter=0))
    def raw(item):
        tries[item] += 1
        if tries[item] < 2:
            raise ValueError("not yet")
        return item

    etl.station("end")(lambda item: item)
    etl.push_many([1, 2, 3])
    etl.run(available_now=True)
    assert etl.queue("raw").size().scheduled == 3
    etl.run(until_empty=True)
    assert etl.status().empty
    assert etl.queue("end").counts().committed == 3


def test_until_empty_waits_for_items_that_others_have(etl):
    etl.station("raw", to="end")(lambda item: item)
    etl.station("end")(lambda item: item)
    etl.push(1)
    (reserved,) = etl.queue("raw").reserve(lease=60)
    runner = threading.Thread(target=lambda: etl.run(2, until_empty=True, poll=0.05))
    runner.start()
    time.sleep(0.6)
    assert runner.is_alive()
    reserved.move("etl.end")
    runner.join(60)
    assert not runner.is_alive()
    assert etl.queue("end").counts().committed == 1


def test_stations_run_beside_tasks(app, etl):
    ended: list[Any] = []
    chain_of_three(etl, ended)
    add = app.task(name="add")(lambda one, two: one + two)
    handle = add.enqueue(1, 2)
    etl.push({"n": 1})
    worker = Worker(app, until_empty=True)
    worker.run()
    assert handle.result(timeout=60) == 3
    assert len(ended) == 1
    assert worker.queues == ["default", "etl.clean", "etl.end", "etl.raw"]


def test_async_stations_run_beside_each_other(etl):
    running = most = 0

    @etl.station("raw", to=["end"])
    async def raw(item):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.05)
        running -= 1
        return item

    @etl.station("end")
    async def end(item):
        return item

    etl.push_many(list(range(40)))
    etl.run(16, until_empty=True)
    assert 1 < most <= 16
    assert etl.queue("end").counts().committed == 40


def test_forks_fan_out_and_drops_at_once(etl):
    @etl.station("raw", to=["even", "odd"])
    def raw(n):
        if n % 5 == 0:
            return None
        if n % 7 == 0:
            return Cancel("seven")
        return Send("odd", n) if n % 2 else [Send("even", n), Send("even", -n)]

    etl.station("even")(lambda n: n)
    etl.station("odd")(lambda n: n)
    items = range(1, 351)
    etl.push_many(list(items))
    etl.run(until_empty=True)
    kept = [n for n in items if n % 5 and n % 7]
    results = {name: sorted(job.result for job in etl.queue(name).history(limit=1000)) for name in ("even", "odd")}
    assert results["odd"] == [n for n in kept if n % 2]
    assert results["even"] == sorted(m for n in kept if n % 2 == 0 for m in (n, -n))
    raw_status = etl.status().stations[0]
    assert (raw_status.out, raw_status.dropped) == (len(kept), len(items) - len(kept))


@pytest.mark.slow
def test_a_timeout_of_a_station(etl):
    @etl.station("raw", timeout=0.2, max_attempts=1)
    def raw(_item):
        time.sleep(5)

    etl.push(1)
    etl.run(until_empty=True)
    (letter,) = etl.dead_letters.find()
    assert "TaskTimeout" in letter.errors[-1]["error"]


def test_a_rate_holds(etl):
    etl.station("raw", max_rate=20)(lambda item: item)
    etl.push_many(list(range(15)))
    began = time.monotonic()
    etl.run(until_empty=True)
    assert time.monotonic() - began > 0.5
    assert etl.queue("raw").counts().committed == 15


def test_several_workers_share_a_pipeline(etl):
    ended: list[Any] = []
    chain_of_three(etl, ended)
    etl.push_many([{"n": n} for n in range(300)])
    runners = [threading.Thread(target=lambda: etl.run(2, until_empty=True, poll=0.05)) for _ in range(3)]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join(60)
    assert sorted(item["n"] for item in ended) == list(range(300))


def test_items_of_an_encrypted_app(app, etl):
    pytest.importorskip("cryptography")
    from cryptography.fernet import Fernet

    from stanchion.core.values.codec import Codec

    context_of(app).codec = Codec([Fernet.generate_key()])
    ended: list[Any] = []
    chain_of_three(etl, ended)
    etl.push({"n": "secret"})
    etl.drain()
    assert ended == [{"n": "secret", "raw": True, "clean": True}]


def test_the_rate_of_a_status(etl):
    etl.station("raw")(lambda item: item)
    etl.push_many([1, 2, 3])
    before = etl.status()
    assert before.stations[0].rate is None
    etl.drain()
    after = etl.status(before)
    assert after.stations[0].rate > 0


def test_pause_and_resume_while_it_runs(etl):
    etl.station("raw", to="end")(lambda item: item)
    etl.station("end")(lambda item: item)
    etl.pause("end")
    etl.push_many(list(range(20)))
    runner = threading.Thread(target=lambda: etl.run(until_empty=True, poll=0.05))
    runner.start()
    deadline = time.monotonic() + 60
    while etl.queue("end").size().ready < 20 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert etl.queue("end").size().ready == 20
    etl.resume("end")
    runner.join(60)
    assert not runner.is_alive()
    assert etl.queue("end").counts().committed == 20


def test_a_worker_without_anything_to_do_says_so(app):
    with pytest.raises(InvalidInput, match="no tasks and no stations"):
        Worker(app).start()


def test_an_item_that_is_dropped_is_the_output_of_its_key(etl):
    etl.station("a", key="id")(lambda _item: None)
    item = etl.push({"id": 1})
    etl.run(available_now=True)
    assert etl.output("a", 1).id == item.id
