"""Processes of a SQLite file share their looks for due jobs: a heartbeat costs one, however many there are."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.worker.conftest import until

from stanchion import Stanchion, Worker
from stanchion.stores.protocol import Store
from stanchion.stores.records.workers import WorkerRow
from stanchion.stores.registry import open_store
from stanchion.stores.sqlite.processes import looks
from stanchion.stores.sqlite.processes.file_locks import locked
from stanchion.stores.sqlite.processes.looks import (
    GRACE_SECONDS,
    IGNORED_SECONDS,
    NEVER,
    PATIENCE_SECONDS,
    Board,
    Look,
    SharedLooks,
)
from stanchion.stores.wakeup.listeners import EventListener
from stanchion_conformance.harness import new_job

LATE = 2 * GRACE_SECONDS
DUE = "SELECT min(run_at) FROM due WHERE :queues <> ''"


class Process:
    """The part of a process that looks, its counter of looks, and the time of its last reading of the counter."""

    def __init__(self, path: Path, clock: SimpleNamespace) -> None:
        self._path, self._clock = path, clock
        self.board = Board(str(path))
        self.shared = SharedLooks(self.board, DUE, (1, 2))
        self.looks = 0
        self._read_at = clock.now

    def execute(self, statement: str, given: dict[str, str]) -> Any:
        """Run a look, as a connection does."""
        self.looks += 1
        with closing(sqlite3.connect(self._path)) as connection:
            rows = connection.execute(statement, given).fetchall()
        return SimpleNamespace(fetchall=lambda: rows)

    def reads(self, *, changed: bool, queues: frozenset[str] = frozenset({"mail"})) -> bool:
        """Read the counter; return whether waiting claimers are woken."""
        self._clock.now += 0.0001
        previous, self._read_at = self._read_at, self._clock.now
        connection: Any = self
        if changed:
            return self.shared.changed(queues, connection, previous, self._clock.now)
        self.shared.unchanged(self._read_at)
        return self.shared.concerned(connection)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(looks, "time", SimpleNamespace(monotonic=lambda: clock.now, time=time.time, thread_time=float))
    return clock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as connection:
        connection.execute("CREATE TABLE due (run_at INTEGER)")
    return tmp_path / "jobs.db"


@pytest.fixture
def fleet(path: Path, clock: SimpleNamespace) -> Iterator[list[Process]]:
    processes = [Process(path, clock) for _ in range(16)]
    yield processes
    for one in processes:
        one.board.close()


def push(path: Path, run_at: float) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO due VALUES (?)", [int(run_at * 1e6)])


def read_all(fleet: list[Process], *, changed: bool) -> set[bool]:
    return {one.reads(changed=changed) for one in fleet}


def looked(fleet: list[Process]) -> int:
    return sum(one.looks for one in fleet)


def test_one_process_looks_after_a_change_for_all(fleet: list[Process]) -> None:
    for _ in range(3):
        assert read_all(fleet, changed=True) == {False}
        for _ in range(2):
            assert read_all(fleet, changed=False) == {False}
    assert looked(fleet) == 3


def test_all_are_woken_by_a_job_that_is_due(fleet: list[Process], path: Path) -> None:
    push(path, time.time() - 1)
    assert read_all(fleet, changed=True) == {True}
    assert looked(fleet) == 1


def test_all_learn_once_of_a_job_that_is_due_later(fleet: list[Process], path: Path) -> None:
    push(path, time.time() + 3600)
    assert read_all(fleet, changed=True) == {True}
    for one in fleet:
        one.reads(changed=False)
    assert read_all(fleet, changed=True) == {False}
    push(path, time.time() + 1800)
    assert read_all(fleet, changed=False) == {False}
    assert read_all(fleet, changed=True) == {True}


def test_a_look_from_before_delays_no_push(fleet: list[Process], path: Path, clock: SimpleNamespace) -> None:
    """A process that has seen the counter unchanged since that look knows that a change is a later one."""
    first, second = fleet[:2]
    read_all([first, second], changed=True)
    for _ in range(2):
        read_all([first, second], changed=False)
        clock.now += 60
    push(path, time.time() - 1)
    assert second.reads(changed=True)
    assert (first.looks, second.looks) == (1, 1)


def test_a_push_after_the_look_of_another_is_not_missed(fleet: list[Process], path: Path) -> None:
    first, *others = fleet
    assert not first.reads(changed=True)
    push(path, time.time() - 1)
    assert read_all(others, changed=True) == {False}  # which of both changes have they noticed?
    assert first.reads(changed=True)
    assert read_all(others, changed=False) == {True}
    assert first.looks == 2
    assert looked(fleet) == 2


def test_a_push_is_not_missed_if_the_one_that_looked_dies(
    fleet: list[Process], path: Path, clock: SimpleNamespace
) -> None:
    first, second, *others = fleet
    assert not first.reads(changed=True)
    push(path, time.time() - 1)
    assert not second.reads(changed=True)
    assert read_all(others, changed=True) == {False}
    clock.now += LATE
    assert second.reads(changed=False)
    assert read_all(others, changed=False) == {True}
    assert looked(fleet) == 2


def test_a_look_that_its_process_does_not_survive_is_repeated(
    fleet: list[Process], path: Path, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(path, time.time() - 1)
    first, second, *_ = fleet

    def killed(*_given: object) -> None:
        raise sqlite3.OperationalError

    monkeypatch.setattr(first, "execute", killed)
    with pytest.raises(sqlite3.OperationalError):
        first.reads(changed=True)
    assert not second.reads(changed=True)
    clock.now += LATE
    assert second.reads(changed=False)


def test_processes_that_begin_to_look_one_after_the_other_and_die_delay_a_push_by_little(
    fleet: list[Process], path: Path, clock: SimpleNamespace
) -> None:
    first, *others, last = fleet
    first.reads(changed=True)
    push(path, time.time() - 1)
    assert not last.reads(changed=True)
    waited = []
    for one in others:
        clock.now += GRACE_SECONDS / 2
        one.board.write(last.shared._key, Look(one.board.me, clock.now, 0.0, NEVER))
        waited.append(last.reads(changed=False))
    assert waited[0] is False  # while another one may still answer
    assert (waited.count(True), last.looks) == (1, 1)


def test_of_two_that_decide_at_once_one_looks(fleet: list[Process], monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, *_ = fleet
    read, raced = second.board.read, list[bool]()

    def late(key: bytes) -> Look | None:
        found = read(key)
        if not raced:
            raced.append(first.reads(changed=True))
        return found

    monkeypatch.setattr(second.board, "read", late)
    assert not second.reads(changed=True)
    assert (first.looks, second.looks) == (1, 0)
    first.reads(changed=False)
    assert not second.reads(changed=False)
    assert (first.looks, second.looks) == (1, 0)
    assert second.shared._noticed is None  # it has its answer


def test_a_process_that_stands_still_as_it_begins_to_look_delays_a_push_by_little(
    fleet: list[Process], path: Path, clock: SimpleNamespace
) -> None:
    first, second, *_ = fleet
    assert first.board._open()
    assert first.board._file is not None
    assert locked(first.board._file)
    assert not second.reads(changed=True)
    clock.now += PATIENCE_SECONDS
    second.reads(changed=False)
    push(path, time.time() - 1)
    assert second.reads(changed=True)  # once is enough
    clock.now += IGNORED_SECONDS
    assert not second.reads(changed=True)


def test_an_old_answer_is_not_published_after_a_change(fleet: list[Process], path: Path) -> None:
    first, second, *_ = fleet
    second.reads(changed=False)
    assert not first.reads(changed=True)
    push(path, time.time() - 1)
    assert not second.reads(changed=True)
    first.reads(changed=True, queues=frozenset())  # its own claimers are busy
    assert not first.reads(changed=False)
    assert not second.reads(changed=False)
    assert second.shared._noticed is not None  # it still waits for an answer, or for the end of its patience


@pytest.mark.parametrize("other", ["queues", "file"])
def test_looks_for_other_queues_or_another_file_do_not_count(
    fleet: list[Process], other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "_ENTRIES", 1)  # all have the same place in the file
    first, second, *_ = fleet
    if other == "file":
        second.shared = SharedLooks(second.board, DUE, (1, 3))
    first.reads(changed=True)
    second.reads(changed=True, queues=frozenset({"mail" if other == "file" else "orders"}))
    assert second.looks == 1


def test_each_looks_by_itself_where_no_file_can_be_made(tmp_path: Path, path: Path, clock: SimpleNamespace) -> None:
    fleet = [Process(path, clock) for _ in range(3)]
    for one in fleet:
        one.board = one.shared._board = Board(str(tmp_path / "no folder" / "jobs.db"))
    push(path, time.time() - 1)
    assert read_all(fleet, changed=True) == {True}
    assert looked(fleet) == 3


def test_an_entry_that_is_being_written_is_no_answer(fleet: list[Process], path: Path) -> None:
    first, second, *_ = fleet
    first.reads(changed=True)
    file = Path(f"{path}-looks")
    entry = bytearray(file.read_bytes())
    start = len(entry) - looks._SUM.size - 8  # the time at which the next job is due
    entry[start : start + 8] = bytes(8)
    file.write_bytes(entry)
    assert not second.reads(changed=True)
    assert second.looks == 1


# -- whole workers


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as store:
        store.setup()
        yield store


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts the shared looks of this process."""
    monkeypatch.setattr(looks, "GRACE_SECONDS", 120.0)  # so that a slow machine makes no difference
    counted, look = Counter[str](), SharedLooks._look

    def counted_look(self: SharedLooks, connection: sqlite3.Connection) -> bool:
        counted["looks"] += 1
        return look(self, connection)

    monkeypatch.setattr(SharedLooks, "_look", counted_look)
    return counted


@pytest.fixture
def start(url: str, counted: Counter[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Worker]]:
    """Starts a worker of the queue "mail" in a process of its own, as far as the store can tell; counts its calls."""
    with ExitStack() as stack:

        def begin(**options: Any) -> Worker:
            app = stack.enter_context(closing(Stanchion(url)))
            app.task(name="nothing", queue="mail")(print)
            for verb in ("claim", "stats"):
                call = getattr(app.store, verb)

                def counted_call(*given: Any, _verb: str = verb, _call: Any = call) -> Any:
                    counted[_verb] += 1
                    return _call(*given)

                monkeypatch.setattr(app.store, verb, counted_call)
            worker = Worker(app, threads=1, heartbeat=1000.0, poll=1000.0, **options)
            worker.start()
            stack.callback(worker.stop, 0)
            return worker

        yield begin


@pytest.mark.parametrize("paused", [False, True])
def test_idle_workers_do_not_claim_after_heartbeats(
    store: Store, start: Callable[..., Worker], counted: Counter[str], paused: bool
) -> None:
    queue = Stanchion(store=store).queue("mail")
    if paused:
        queue.push({"task": "?"})
        queue.pause()
    workers = [start() for _ in range(6)]
    until(lambda: all(map(asleep, workers)))
    counted.clear()
    for number in range(20):
        before = counted["looks"]
        store.beat([WorkerRow(f"w{number}", "host", 1, ("mail",), 4, 1000.0)])
        until(partial(more, counted, "looks", before))
    assert (counted["claim"], counted["looks"] <= 3 * 20) == (0, True)  # two may notice a change at once
    queue.resume() if paused else queue.push({"task": "?"})
    until(partial(more, counted, "claim", 0))


def test_a_worker_of_some_lanes_looks_before_it_claims(
    store: Store, start: Callable[..., Worker], counted: Counter[str]
) -> None:
    """A commit does not name its lane; a look is one read, and a claim may write."""
    queue = Stanchion(store=store).queue("mail")
    queue.configure(lanes=4)
    worker = start(lanes={"mail": range(2)})
    until(lambda: asleep(worker))
    counted.clear()
    for number in range(20):
        before = counted["stats"]
        store.push([new_job(queue="mail", lane=3), new_job(queue=f"other {number}")])
        until(partial(more, counted, "stats", before))
    assert counted["claim"] == 0
    store.push([new_job(queue="mail", lane=1)])
    until(partial(more, counted, "claim", 0))


def more(counted: Counter[str], what: str, than: int) -> bool:
    return counted[what] > than


def asleep(worker: Worker) -> bool:
    listener = worker._claimer._listener
    return isinstance(listener, EventListener) and listener.waits_since is not None
