"""The command line, run in this process and as a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from typer.testing import CliRunner

from stanchion import Stanchion
from stanchion.ops.cli import cli

SHOP = """
from stanchion import Job, Stanchion

app = Stanchion()
empty = Stanchion()


@app.task(name="welcome", queue="mail")
def welcome(user: int, lang: str = "en") -> str:
    return f"{lang} {user}"


@app.task(name="charge", queue="orders", max_attempts=1)
def charge(order: int) -> None:
    raise ValueError(f"no money for {order}")
"""


class Answer:
    """What a command said."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        """The output as JSON."""
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The error, which is one line without a traceback."""
        lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, self.err
        assert "Traceback" not in self.err
        return lines[0]


class Run(Protocol):
    """Runs a command."""

    def __call__(self, *args: str, input: str | None = None, **env: str) -> Answer: ...


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def app(url: str) -> Iterator[Stanchion]:
    """The store that the commands work on, seen from the API."""
    app = Stanchion(url)
    yield app
    app.close()


@pytest.fixture
def run(url: str) -> Run:
    """Run a command in this process."""

    def invoke(*args: str, input: str | None = None, **env: str) -> Answer:
        result = CliRunner().invoke(cli, list(args), input=input, env={"STANCHION_URL": url, **env})
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Answer(result.exit_code, result.stdout, result.stderr)

    return invoke


@pytest.fixture
def command() -> list[str]:
    """The console script."""
    return [sys.executable, "-c", "from stanchion.ops.cli import main; main()"]


@pytest.fixture
def start(url: str, tmp_path: Path, command: list[str]) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start the console script as a process, ended with the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(*args: str, **options: Any) -> subprocess.Popen[str]:
        source = Path(__file__).parents[2] / "src"
        process = subprocess.Popen(
            [*command, *args],
            stdin=options.get("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "STANCHION_URL": url, "PYTHONPATH": str(source), **options.get("env", {})},
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def process(start: Callable[..., subprocess.Popen[str]]) -> Run:
    """Run the console script to its end."""

    def run(*args: str, input: str | None = None, **env: str) -> Answer:
        started = start(*args, stdin=subprocess.PIPE, env=env)
        out, err = started.communicate(input, timeout=60)
        return Answer(started.returncode, out, err)

    return run


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An importable app with the tasks `welcome` and `charge`; and `shop:empty`, without tasks."""
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "shop:app"
    sys.modules.pop("shop", None)
