"""The commands of a deployment run: setup, probes, secrets, a graceful stop."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stanchion import Stanchion
from stanchion.ops.deployment import programs
from stanchion.ops.deployment.rendering import systemd
from stanchion.ops.deployment.settings import MANAGER_PORT, PAGE_PORT, Deployment
from tests.telemetry.scrape import get
from tests.worker.conftest import until

SHOP = """
import pathlib
import time
from stanchion import Stanchion

app = Stanchion()


@app.task(name="slow", queue="mail")
def slow() -> str:
    pathlib.Path("began").touch()
    time.sleep(1)
    return "done"
"""


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _answers(port: int, path: str) -> Callable[[], bool]:
    def asked() -> bool:
        try:
            return get(port, path)[0] == 200
        except OSError:
            return False

    return asked


CONSOLE = [sys.executable, "-c", "from stanchion.ops.cli import main; main()"]


@pytest.mark.nightly
@pytest.mark.parametrize("part", ["page", "manager"])
def test_a_process_for_others_starts_with_its_secrets(part: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    deployment, listen, health = Deployment(url=f"sqlite:///{tmp_path}/jobs.db"), _free_port(), _free_port()
    (secrets,) = systemd(deployment, ["secrets"])
    environment = {**os.environ, **dict(re.findall(r"^(\w+)='(.*)'$", secrets.text, re.MULTILINE))}
    _, *setup = programs.setup(deployment)
    subprocess.run([*CONSOLE, *setup], cwd=tmp_path, env=environment, check=True, timeout=60)
    made = programs.page if part == "page" else programs.manager
    args = [re.sub(f"{PAGE_PORT}|{MANAGER_PORT}", str(listen), arg) for arg in made(deployment, "0.0.0.0")]
    if "--health-port" in args:
        args[args.index("--health-port") + 1] = str(health)
    with subprocess.Popen([*CONSOLE, *args[1:]], cwd=tmp_path, env=environment) as process:
        try:
            until(_answers(health if part == "manager" else listen, "/readyz"))
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()


@pytest.mark.nightly
def test_setup_and_a_worker_that_stops_gracefully(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    url, port = f"sqlite:///{tmp_path}/jobs.db", _free_port()
    environment = {**os.environ, "STANCHION_URL": url}
    deployment = Deployment(app="shop:app", queues=("mail",), threads=2, grace=60)
    _, *setup = programs.setup(deployment)
    subprocess.run([*CONSOLE, *setup], cwd=tmp_path, env=environment, check=True, timeout=60)
    _, *worker = programs.worker(deployment, "127.0.0.1")
    worker[worker.index("--health-port") + 1] = str(port)
    app = Stanchion(url)
    job = app.using("slow", queue="mail").enqueue()
    with subprocess.Popen([*CONSOLE, *worker], cwd=tmp_path, env=environment) as process:
        try:
            until(_answers(port, "/livez"))
            until(_answers(port, "/readyz"))
            assert "stanchion_worker_healthy 1" in get(port, "/metrics")[1]
            until((tmp_path / "began").exists)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 0
        finally:
            process.kill()
    assert job.job().state == "done"
    app.close()
