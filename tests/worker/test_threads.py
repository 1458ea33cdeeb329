"""The pool of threads for calls that block."""

import threading
from functools import partial
from queue import SimpleQueue

import pytest

from stanchion.core.concurrency.threads import DaemonPool
from tests.worker.conftest import until

NAME = "a-pool-of-this-test"


@pytest.fixture
def pool():
    pool = DaemonPool(NAME, 3)
    yield pool
    pool.close()
    until(lambda: not threads())


def threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == NAME]


def test_idle_threads_end_and_others_start_for_later_calls(pool, monkeypatch):
    monkeypatch.setattr("stanchion.core.concurrency.threads._IDLE_SECONDS", 0.01)
    for _ in range(3):
        assert sorted(one.result() for one in [pool.submit(lambda n=n: n) for n in range(100)]) == list(range(100))
        until(lambda: not threads())


def test_no_more_threads_than_asked_for_and_each_call_runs_once(pool):
    ran: SimpleQueue[int] = SimpleQueue()
    go = threading.Event()

    def work(number: int) -> None:
        go.wait(60)
        ran.put(number)

    for number in range(20):
        pool.put(partial(work, number))
    assert len(threads()) == 3
    go.set()
    assert sorted(ran.get(timeout=60) for _ in range(20)) == list(range(20))
    assert ran.empty()


def test_one_thread_takes_all_calls_that_come_one_by_one(pool):
    first = pool.submit(threading.get_ident).result()
    for _ in range(50):
        until(lambda: pool._group.idle)
        assert pool.submit(threading.get_ident).result() == first
    assert len(threads()) == 1


def test_what_waits_when_the_pool_is_closed_is_done_and_later_calls_have_new_threads(pool):
    go = threading.Event()
    before = [pool.submit(lambda: go.wait(60)) for _ in range(10)]
    of_before = set(threads())
    pool.close()
    after = pool.submit(threading.current_thread)
    assert after.result(timeout=60) not in of_before
    go.set()
    assert all(one.result(timeout=60) for one in before)
    until(lambda: not of_before & set(threads()))


def test_a_call_that_is_cancelled_before_it_starts_does_not_run(pool):
    go, ran = threading.Event(), []
    held = [pool.submit(lambda: go.wait(60)) for _ in range(3)]
    late = pool.submit(lambda: ran.append(1))
    assert late.cancel()
    go.set()
    assert all(one.result(timeout=60) for one in held)
    pool.submit(lambda: None).result(timeout=60)
    assert ran == []
