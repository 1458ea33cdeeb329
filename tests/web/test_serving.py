"""`stanchion web`, as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from typer.testing import CliRunner

from stanchion import Stanchion
from stanchion.ops.cli import cli

COMMAND = [sys.executable, "-c", "from stanchion.ops.cli import main; main()", "web"]


@contextmanager
def running(*args: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    given = {**os.environ, "NO_COLOR": "1", "STANCHION_PAGE_SECONDS": "60", **env}
    process = subprocess.Popen([*COMMAND, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=given)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def url(tmp_path: Path) -> str:
    address = f"sqlite:///{tmp_path}/jobs.db"
    app = Stanchion(address)
    app.queue("mail").push({"n": 1})
    app.close()
    return address


def test_it_serves_until_sigterm(url: str) -> None:
    with running("--url", url, "--listen", "127.0.0.1:0", "--json") as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        with urlopen(f"{said['url']}/queues") as answer:  # noqa: S310
            assert 'href="/queues/mail"' in answer.read().decode()
        process.terminate()
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--listen", "0.0.0.0:0"], "--tokens"),
        (["--proxy", "127.0.0.1"], "--tokens"),
        (["--listen", "a:b:c"], "host:port"),
        (["--tls-cert", "x.pem"], "--tls-key"),
        (["--root-path", "jobs/"], "/jobs"),
        (["--tokens", "nothing.toml"], "nothing.toml"),
    ],
)
def test_what_it_refuses(url: str, args: list[str], said: str) -> None:
    result = CliRunner().invoke(cli, ["web", "--url", url, *args])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert said in result.stderr


def test_without_the_extra_it_names_it(url: str, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n\nsys.modules['starlette'] = sys.modules['uvicorn'] = None\n"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    with running("--url", url, PYTHONPATH=path) as process:
        _, error = process.communicate(timeout=120)
        assert "pip install 'stanchion[web]'" in error
        assert process.returncode == 1
