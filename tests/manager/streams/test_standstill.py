"""Workers behind managers that stood still for longer than the managers' lease, while others ran their jobs."""

import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from stanchion import JobState, Stanchion
from stanchion.core.ids import new_token
from stanchion.core.urls import Listen
from stanchion.manager.server.settings import ServerSettings
from stanchion.partitions.store import PartitionedStore
from stanchion.stores.grpc.receiving import stream
from stanchion.stores.grpc.receiving.receiver import Link
from stanchion.stores.memory import MemoryStore
from stanchion.stores.ports import BehindManagers
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.outcomes import Commit
from tests.servers.manager import ManagerThread
from tests.servers.process import free_port
from tests.servers.proxy import TcpProxy
from tests.worker.conftest import ended, until, working
from tests.worker.test_standstill import Scene

LEASE = 3.0


class Elsewhere:
    """Another worker, with a connection to the store of a manager."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.app = Stanchion(store=store)

    def run_all(self) -> bool:
        """Run all jobs that can be claimed; return True once none is left."""
        queues = [queue.name for queue in self._store.queues()]
        for name in queues:
            rows = self._store.claim(Claim(name, 1000, new_token(), lease=600.0)).rows
            self._store.settle([Commit(row.lease) for row in rows])
        return not any(one.states.total for one in self._store.stats(queues, ["states"]).values())


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    other = Elsewhere(MemoryStore())
    with closing(other.app):
        yield other


@pytest.mark.parametrize("speaks_first", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_jobs_that_others_have_run_do_not_begin(
    elsewhere: Elsewhere, speaks_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ExitStack() as stack:
        manager = stack.enter_context(ManagerThread(elsewhere.app.store, lease=LEASE))
        app = stack.enter_context(closing(Stanchion(manager.url)))
        app.task(name="first")(lambda: None)
        worker = stack.enter_context(working(app, threads=1))
        app.enqueue("first")
        until(lambda: worker._claimer.due.fed)  # until then it claims by calls
        scene = Scene(app)
        stack.callback(scene.hold.set)
        until(lambda: scene.full(worker))
        (one,) = app.store._receivers._workers.values()  # type: ignore[attr-defined]
        speaks, speak = threading.Event(), stream._Ups.__next__
        stack.callback(speaks.set)

        def wait_to_speak(ups: Any) -> bytes:
            speaks.wait(120)
            return speak(ups)

        monkeypatch.setattr(stream._Ups, "__next__", wait_to_speak)  # no message goes up meanwhile
        until(elsewhere.run_all)
        if not speaks_first:
            scene.hold.set()
            until(lambda: worker._claimer.reserved == 0)
        speaks.set()
        until(lambda: all(each.link.up for each in one.streams.values()))
        scene.hold.set()
        last = app.enqueue("quick", "last")
        assert ended(app, last.id).state is JobState.DONE
        assert scene.later == 0
        assert scene.ran["last"] == 1
        assert {handle.state for handle in scene.buffered} == {JobState.DONE}


class Cut:
    """A worker whose connection to its manager is cut while jobs wait in it, until others have run them."""

    def __init__(self, elsewhere: Elsewhere, stack: ExitStack) -> None:
        port = free_port()
        self.proxy = stack.enter_context(TcpProxy("127.0.0.1", port))
        seen = Listen("127.0.0.1", self.proxy.port)
        settings = ServerSettings(Listen("127.0.0.1", port), advertise=seen)
        stack.enter_context(ManagerThread(elsewhere.app.store, settings, lease=LEASE))
        self.app = stack.enter_context(closing(Stanchion(f"grpc://127.0.0.1:{self.proxy.port}")))
        self.app.task(name="first")(lambda: None)
        self.worker = stack.enter_context(working(self.app, threads=1))
        self.app.enqueue("first")
        until(lambda: self.worker._claimer.due.fed)
        self.scene = Scene(self.app)
        stack.callback(self.scene.hold.set)
        until(lambda: self.scene.full(self.worker))

    @property
    def link(self) -> Link:
        """The link to the manager."""
        (one,) = self.app.store._receivers._workers.values()  # type: ignore[attr-defined]
        (opened,) = one.streams.values()
        found: Link = opened.link
        return found

    def restored(self) -> None:
        """Let the worker's messages through again, and wait for a job that it runs then."""
        self.proxy.pass_through()
        self.scene.hold.set()
        last = self.app.enqueue("quick", "last")
        assert ended(self.app, last.id).state is JobState.DONE


@pytest.mark.parametrize("began", [pytest.param("at once", marks=pytest.mark.nightly), "with the next stream"])
def test_jobs_given_back_after_a_cut_do_not_begin(elsewhere: Elsewhere, began: str) -> None:
    with ExitStack() as stack:
        cut = Cut(elsewhere, stack)
        cut.proxy.drop()
        if began == "at once":
            until(lambda: not cut.link.up)
            cut.scene.hold.set()
            until(lambda: cut.worker._claimer.reserved == 0)
        until(elsewhere.run_all)
        cut.restored()
        assert cut.scene.later == 0
        assert cut.scene.ran["last"] == 1


def test_jobs_given_back_by_a_manager_that_hears_nothing_do_not_begin(elsewhere: Elsewhere) -> None:
    """The connection looks whole to the worker: its messages wait in the kernel or on their way."""
    with ExitStack() as stack:
        cut = Cut(elsewhere, stack)
        cut.proxy.black_hole()
        until(elsewhere.run_all)
        assert cut.link.up
        cut.scene.hold.set()
        until(lambda: cut.worker._claimer.reserved == 0)
        assert cut.scene.later == 0
        cut.restored()
        assert cut.scene.later == 0


class Managed(MemoryStore):
    """A store that is known to be behind managers."""

    def extension(self, port: type[Any]) -> Any:
        return self if port is BehindManagers else super().extension(port)

    def spread(self, physical: Callable[[str], Iterable[str]]) -> None:
        pass


def test_a_store_with_partitions_asks_its_managers() -> None:
    store = Managed()
    found: Any = PartitionedStore(store).extension(BehindManagers)
    assert found is store
    assert PartitionedStore(MemoryStore()).extension(BehindManagers) is None


WORKER = """
    import sys, time
    from pathlib import Path
    from threading import Thread
    from stanchion import Stanchion, Worker

    app = Stanchion(sys.argv[1])

    @app.task(name="quick")
    def quick(name):
        with open("ran", "a") as file:
            file.write(name + "\\n")

    @app.task(name="long")
    def long():
        Path("begun").touch()
        while not Path("go").exists():
            time.sleep(0.001)

    def report():
        for name, reached in (
            ("fed", lambda: worker._started and worker._claimer.due.fed),
            ("full", lambda: Path("begun").exists() and worker._runners._buffer.qsize()),
        ):
            while not reached():
                time.sleep(0.01)
            Path(name).touch()

    worker = Worker(app, ["default"], threads=1)
    Thread(target=report, daemon=True).start()
    worker.run()
"""


@pytest.mark.slow
@pytest.mark.nightly
def test_a_process_that_was_stopped(elsewhere: Elsewhere, tmp_path: Path) -> None:
    """For longer than the lease, and shorter than three heartbeats."""
    (tmp_path / "worker.py").write_text(textwrap.dedent(WORKER))
    with ManagerThread(elsewhere.app.store) as manager:
        queue = elsewhere.app.queue("default")
        quick = elsewhere.app.task(name="quick")(lambda _name: None)
        quick.enqueue("first")
        process = subprocess.Popen([sys.executable, "worker.py", manager.url], cwd=tmp_path)
        try:
            until((tmp_path / "fed").exists)  # until then it claims by calls
            quick.enqueue_many([(f"warm {number}",) for number in range(300)])
            elsewhere.app.enqueue("long")
            quick.enqueue_many([(f"later {number}",) for number in range(300)])
            until((tmp_path / "full").exists)
            process.send_signal(signal.SIGSTOP)
            until(elsewhere.run_all)
            last = elsewhere.app.enqueue("quick", "last")
            (tmp_path / "go").touch()
            process.send_signal(signal.SIGCONT)
            assert ended(elsewhere.app, last.id).state is JobState.DONE
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait(60)
        assert queue.counts().committed == 603
    ran = (tmp_path / "ran").read_text().splitlines()
    assert sorted(ran) == sorted(["first", "last", *(f"warm {number}" for number in range(300))])
