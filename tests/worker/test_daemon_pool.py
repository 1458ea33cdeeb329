"""The threads for calls that would block an event loop."""

import threading

import pytest

from stanchion.core.concurrency.threads import DaemonPool


class NoThread:
    """A thread as Python 3.12 makes it once the main thread has ended."""

    def __init__(self, **_given: object) -> None:
        pass

    def start(self) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")


def test_a_call_without_a_thread_is_refused_and_later_ones_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = DaemonPool("pool", 1)
    with monkeypatch.context() as patch:
        patch.setattr(threading, "Thread", NoThread)
        with pytest.raises(RuntimeError, match="interpreter shutdown"):
            pool.submit(lambda: 1)
    assert pool.submit(lambda: 2).result(timeout=60) == 2
    pool.close()


def test_a_call_waits_for_the_threads_that_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, goes_on = DaemonPool("pool", 2), threading.Event()
    first = pool.submit(goes_on.wait)
    with monkeypatch.context() as patch:
        patch.setattr(threading, "Thread", NoThread)
        second = pool.submit(lambda: 2)
    goes_on.set()
    assert first.result(timeout=60)
    assert second.result(timeout=60) == 2
    pool.close()
