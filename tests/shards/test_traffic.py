"""Two shards become four under producers and workers: each job runs once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from stanchion import Stanchion
from stanchion.core.ids import new_id
from stanchion.partitions.store import PartitionedStore
from stanchion.stores.records.claims import Claim
from stanchion.stores.records.outcomes import Commit
from tests.crash.scene import PYTHONPATH
from tests.shards.moves import Shards, new_order
from tests.worker.conftest import until

DOUBLED = ((1, "three"), (3, "four"))
COMMAND = (sys.executable, "-c", "from stanchion.ops.cli import main; main()", "shards")


@contextmanager
def threads(*bodies: Callable[[], None]) -> Iterator[None]:
    """Run these again and again."""
    stopping, failures = threading.Event(), list[BaseException]()

    def run(body: Callable[[], None]) -> None:
        try:
            while not stopping.is_set():
                body()
        except BaseException as error:
            failures.append(error)

    running = [threading.Thread(target=run, args=(body,)) for body in bodies]
    for thread in running:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in running:
            thread.join()
    assert failures == []


def test_threads_push_and_work_while_partitions_move() -> None:
    shards = Shards(0.0)
    programs = [PartitionedStore(shards.opened(lease=0.2)) for _ in range(4)]
    pushed, done = list[str](), list[str]()

    def produce(store: PartitionedStore) -> None:
        jobs = [new_order() for _ in range(3)]
        pushed.extend(one.id for one in store.push(jobs))
        time.sleep(0.002)

    def work(store: PartitionedStore) -> None:
        rows = store.claim(Claim("orders", 5, new_id(), lease=60.0)).rows
        store.settle([Commit(row.lease) for row in rows])
        done.extend(row.id for row in rows)
        time.sleep(0.001)

    first, second, third, fourth = programs
    with threads(lambda: produce(first), lambda: produce(second), lambda: work(third), lambda: work(fourth)):
        for move in (*DOUBLED, (0, "four"), (1, "one")):
            assert [one.note for one in shards.moved(move, settle=0.3, wait=60.0)] == [""]
    shards.work()
    assert Counter(done + shards.done) == Counter(pushed)
    assert Counter(pushed).most_common(1)[0][1] == 1


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def urls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str]]:
    """The URLs of four shards."""
    if request.param == "mariadb":
        server = request.getfixturevalue("mariadb_server")
        names = [f"test_{uuid.uuid4().hex}" for _ in range(4)]
        yield [server.create_database(name) for name in names]
        for name in names:
            server.drop_database(name)
    elif request.param == "postgresql":
        create = request.getfixturevalue("new_pg_database")
        yield [create() for _ in range(4)]
    else:
        yield [f"sqlite:///{tmp_path}/{name}.db?synchronous=off" for name in ("one", "two", "three", "four")]


@contextmanager
def processes(url: str, folder: Path, *roles: str) -> Iterator[dict[str, Path]]:
    """Run programs that push or work; give what each has written down."""
    logs = {f"{role}-{number}": folder / f"{role}-{number}.log" for number, role in enumerate(roles)}
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH, "STANCHION_URL": url}
    with ExitStack() as stack:
        for name, log in logs.items():
            log.touch()
            command = [sys.executable, "-m", "tests.shards.traffic", name.partition("-")[0], str(log)]
            process = stack.enter_context(subprocess.Popen(command, env=environment))
            stack.callback(process.send_signal, signal.SIGTERM)
        yield logs


def lines(logs: dict[str, Path], role: str) -> list[str]:
    return [line for name, log in logs.items() if name.startswith(role) for line in log.read_text().split()]


@pytest.mark.slow
@pytest.mark.nightly
def test_processes_push_and_work_while_the_shards_double(urls: list[str], tmp_path: Path) -> None:
    names = dict(zip(("one", "two", "three", "four"), urls, strict=True))
    file, url = tmp_path / "shards.toml", f"shards:///{tmp_path}/shards.toml"
    text = ['default = "one"', "[partitions.orders]", 'two = "4-7"', "[shards]"]
    text += [f'{name} = "{names[name]}"' for name in ("one", "two")]
    file.write_text("\n".join(text))
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH, "STANCHION_URL": url}
    with closing(Stanchion(url)) as app:
        app.queue("orders", partitions=8)
        app.setup()
        with processes(url, tmp_path, "work", "work") as worked:
            with processes(url, tmp_path, "push", "push") as pushes:
                until(lambda: len(lines(worked, "work")) > 100)
                file.write_text("\n".join([*text, *(f'{name} = "{names[name]}"' for name in ("three", "four"))]))
                with closing(Stanchion(url)) as wider:
                    wider.setup()
                killed = subprocess.Popen([*COMMAND, "split", "one", "three"], env=environment)
                with closing(Stanchion(url)) as look:
                    until(lambda: "leaving" in str(look.store.values("shards", ["map"])[0].text))
                killed.kill()
                killed.wait()
                subprocess.run([*COMMAND, "resume"], env=environment, check=True)
                subprocess.run([*COMMAND, "split", "two", "four"], env=environment, check=True)
                done = len(lines(worked, "work"))
                until(lambda: len(lines(worked, "work")) > done + 100)
            until(lambda: app.queue("orders").size().total == 0)
            assert Counter(lines(worked, "work")) == Counter(lines(pushes, "push"))
        counts = app.queue("orders").counts()
        assert counts.pushed == counts.committed == len(lines(pushes, "push"))
