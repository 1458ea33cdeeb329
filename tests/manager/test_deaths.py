"""Managers killed and stopped while producers and consumers work through them: nothing is lost or done twice."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

from stanchion import LeaseLost, Queue, Stanchion, StoreUnavailable
from stanchion.worker.worker import Worker
from tests.manager.test_client import free_port
from tests.worker.conftest import until

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

JOBS, PRODUCERS, CONSUMERS = 400, 3, 3


class Manager:
    """A manager in a process of its own, on a port that stays the same."""

    def __init__(self, url: str) -> None:
        self._url, self.port = url, free_port()
        self.process = self._started()

    def _started(self) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", "from stanchion.ops.cli import main; main()", "manager", "--json"]
        options = ["--url", self._url, "--listen", f"127.0.0.1:{self.port}"]
        process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["listening"]
        return process

    def kill(self) -> None:
        """Kill it, and start another one."""
        self.process.kill()
        self.process.wait()
        self.process = self._started()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def produce(url: str, numbers: range, random_: random.Random) -> None:
    app = Stanchion(url)
    queue = app.queue("orders")
    for number in numbers:
        while True:
            try:
                queue.push(number, key=f"order {number}", key_ttl=3600)
            except StoreUnavailable:
                continue  # the key makes it safe
            break
        time.sleep(random_.uniform(0, 0.02))
    app.close()


def consume(url: str, committed: Counter[int], ending: threading.Event) -> None:
    app = Stanchion(url)
    queue: Queue = app.queue("orders")
    while not ending.is_set():
        try:
            jobs = queue.reserve(5, wait=1, lease=10)
            for job in jobs:
                try:
                    job.commit(result=job.payload)
                except LeaseLost:
                    continue
                committed[job.payload] += 1
        except StoreUnavailable:
            continue
    app.close()


def test_kills_and_stops(pg_store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from stanchion.stores.records import calls

    monkeypatch.setattr(calls, "CALL_SECONDS", 5.0)
    managers = [Manager(pg_store_url), Manager(pg_store_url)]
    url = "grpc://" + ",".join(f"127.0.0.1:{one.port}" for one in managers)
    choose, ending, committed = random.Random(7), threading.Event(), Counter[int]()
    share = JOBS // PRODUCERS
    producers = [
        threading.Thread(target=produce, args=(url, range(n * share, (n + 1) * share), random.Random(n)), daemon=True)
        for n in range(PRODUCERS)
    ]
    consumers = [threading.Thread(target=consume, args=(url, committed, ending)) for _ in range(CONSUMERS)]
    try:
        for thread in (*producers, *consumers):
            thread.start()
        while any(thread.is_alive() for thread in producers):
            manager = choose.choice(managers)
            if choose.random() < 0.5:
                manager.kill()
            else:
                manager.process.send_signal(signal.SIGSTOP)
                time.sleep(choose.uniform(0.1, 2))
                manager.process.send_signal(signal.SIGCONT)
            time.sleep(choose.uniform(0, 0.5))
        app = Stanchion(pg_store_url)
        deadline = time.monotonic() + 120
        while app.queue("orders").size().total:
            assert time.monotonic() < deadline, app.queue("orders").size()
            app.maintain()
            time.sleep(0.2)
        counts = app.queue("orders").counts()
        done = [job.result for job in app.queue("orders").find(state="done", limit=2 * JOBS)]
        app.close()
    finally:
        ending.set()
        for one in managers:
            one.process.send_signal(signal.SIGCONT)
        for thread in consumers:
            thread.join(60)
        for one in managers:
            one.end()
    assert sorted(done) == list(range(share * PRODUCERS))
    assert counts.pushed == counts.committed == share * PRODUCERS
    assert set(committed) <= set(done)
    assert not [number for number, times in committed.items() if times > 1]


def test_workers_fed_by_streams(pg_store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Managers are killed and stopped while they send jobs: each job is done, and none is run twice."""
    from stanchion.stores.records import calls

    monkeypatch.setattr(calls, "CALL_SECONDS", 10.0)
    managers = [Manager(pg_store_url), Manager(pg_store_url)]
    app = Stanchion("grpc://" + ",".join(f"127.0.0.1:{one.port}" for one in managers))
    app.queue("orders", lanes=16)
    choose, ran = random.Random(11), Counter[int]()

    @app.task(queue="orders", name="t")
    def task(number: int) -> None:
        ran[number] += 1
        time.sleep(0.005)

    worker = Worker(app, ["orders"], threads=4)
    try:
        worker.start()
        for number in range(JOBS):
            task.using(key=f"order {number}", key_ttl=3600).enqueue(number)
            if number % 50 == 25:
                manager = choose.choice(managers)
                if choose.random() < 0.5:
                    manager.kill()
                else:
                    manager.process.send_signal(signal.SIGSTOP)
                    time.sleep(choose.uniform(0.1, 7))
                    manager.process.send_signal(signal.SIGCONT)
        until(lambda: app.queue("orders").counts().committed == JOBS)
    finally:
        for one in managers:
            one.process.send_signal(signal.SIGCONT)
        worker.stop(0)
        app.close()
        for one in managers:
            one.end()
    assert dict(ran) == dict.fromkeys(range(JOBS), 1)
