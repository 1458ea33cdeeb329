"""A client that forks while its other threads call managers.

In processes of their own, as the manager of these tests shares this one, and a server must not fork. An alarm ends the
process, and each child, that hangs in the gRPC library.
"""

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import grpc
import pytest

from stanchion.stores.grpc.client.channels import Channels
from stanchion.stores.grpc.client.forking import LIBRARY, Library
from stanchion.stores.grpc.pushing.buffer import Buffer, Push
from stanchion.stores.grpc.pushing.stream import _Requests
from stanchion.stores.memory import MemoryStore
from stanchion.stores.registry import open_store
from stanchion_conformance.harness import in_threads, new_job
from tests.servers.manager import ManagerThread
from tests.worker.conftest import until

SCRIPT = """
import os, signal, sys, threading
from stanchion.stores.registry import open_store
from stanchion_conformance.harness import new_job

signal.alarm(60)
store = open_store(sys.argv[1])
listener, ending, pushed = store.listen(["orders"]), threading.Event(), [0, 0, 0]

def work(number):
    while not ending.is_set():
        store.push([new_job()])
        pushed[number] += 1

threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(3)]
for thread in threads:
    thread.start()
codes = []
for _ in range(5):
    before = sum(pushed)
    while sum(pushed) < before + 10:
        assert listener.wait(10)
    child = os.fork()
    if child == 0:
        signal.alarm(15)
        try:
            store.push([new_job()])
            own = store.listen(["orders"])
            store.push([new_job()])
            os._exit(0 if own.wait(10) else 2)
        finally:
            os._exit(1)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
ending.set()
for thread in threads:
    thread.join(10)
print(codes, not any(thread.is_alive() for thread in threads), sum(pushed))
"""


def test_while_other_threads_call() -> None:
    backing = MemoryStore()
    with ManagerThread(backing) as manager:
        done = subprocess.run([sys.executable, "-c", SCRIPT, manager.url], capture_output=True, text=True, timeout=90)
    stored = backing.stats(["orders"], ["states"])["orders"].states.total
    assert done.stdout.strip() == f"{[0] * 5} True {stored - 10}", (done.returncode, done.stderr)


def test_a_fork_waits_for_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    call_of, inside = Channels.call, list[bool]()

    def noted(channels: Channels, *names: Any) -> Callable[..., Any]:
        call = call_of(channels, *names)

        def made(*args: Any, **options: Any) -> Any:
            inside.append(threading.get_ident() in LIBRARY._inside)
            return call(*args, **options)

        return made

    monkeypatch.setattr(Channels, "call", noted)
    with ManagerThread(MemoryStore()) as manager, closing(open_store(manager.url)) as store:
        assert store.now()
    assert inside
    assert all(inside)


class TestLibrary:
    def test_a_fork_waits_for_calls_of_other_threads(self) -> None:
        library, inside, end, log = Library(), threading.Event(), threading.Event(), []

        def call() -> None:
            with library.used():
                inside.set()
                assert end.wait(60)
                log.append("returned")

        def fork() -> None:
            assert inside.wait(60)
            library.before_fork()
            log.append("forks")
            library.in_parent()

        def late_call() -> None:
            until(lambda: library._forks == 1)
            end.set()
            with library.used():
                log.append("late call")

        with in_threads([call, fork, late_call]):
            pass
        assert log == ["returned", "forks", "late call"]

    def test_a_fork_ends_streams(self) -> None:
        library, opened, ended = Library(), threading.Event(), threading.Event()

        def stream() -> None:
            with library.streaming(ended.set):
                opened.set()
                assert ended.wait(60)
                raise grpc.RpcError

        def fork() -> None:
            assert opened.wait(60)
            library.before_fork()
            library.in_parent()

        with in_threads([stream, fork]):
            pass
        with pytest.raises(grpc.RpcError), library.streaming(ended.set):
            raise grpc.RpcError

    def test_a_fork_waits_for_the_thread_that_sends_pushes(self) -> None:
        requests, taken = _Requests(buffer := Buffer()), list[bytes]()
        assert buffer.add(Push([new_job()], 60))
        sender = threading.Thread(target=lambda: taken.extend(requests))
        sender.start()
        until(lambda: len(taken) == 1)
        requests.end()
        assert not sender.is_alive()

    def test_a_fork_in_a_signal_handler_does_not_wait_for_the_call_that_it_interrupts(self) -> None:
        library = Library()
        with library.used():
            library.before_fork()
            with library.used():
                pass
            library.in_parent()

    def test_a_child_waits_for_no_thread_of_its_parent(self) -> None:
        library, inside, end = Library(), threading.Event(), threading.Event()

        def call() -> None:
            with library.used():
                inside.set()
                assert end.wait(60)

        with in_threads([call]):
            assert inside.wait(60)
            library.in_child()
            library.before_fork()
            end.set()
