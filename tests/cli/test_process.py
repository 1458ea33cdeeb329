"""The console script as a process of its own."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stanchion import Stanchion
from tests.cli.conftest import Run

Start = Callable[..., subprocess.Popen[str]]


def test_help_and_version(process: Run) -> None:
    answer = process("--help")
    assert answer.code == 0
    for name in ("worker", "queues", "jobs", "show", "push", "retry", "cancel", "replay", "top", "bench", "demo"):
        assert name in answer.out
    assert re.fullmatch(r"stanchion \d+\.\d+\.\d+\S*\n", process("--version").out)


def test_help_imports_no_database() -> None:
    code = (
        "import sys; from stanchion.ops.cli import cli; "
        "sys.exit(' '.join(name for name in ('sqlalchemy', 'psycopg', 'pandas') if name in sys.modules) or None)"
    )
    source = Path(__file__).parents[2] / "src"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(source)}, check=False)
    assert done.returncode == 0


def test_a_pipe_from_stdin(process: Run, app: Stanchion) -> None:
    answer = process("push", "q", "--file", "-", input="".join(f"{n}\n" for n in range(3_000)))
    assert answer.code == 0
    assert answer.err == ""
    assert app.queue("q").size().ready == 3_000


def test_a_reader_that_has_seen_enough(start: Start, app: Stanchion) -> None:
    app.queue("q").push_many([{"n": n, "text": "x" * 500} for n in range(2_000)])
    jobs = start("jobs", "--json", "--limit", "2000")
    assert jobs.stdout is not None
    jobs.stdout.readline()
    jobs.stdout.close()
    assert jobs.wait(60) == 0
    assert jobs.stderr is not None
    assert jobs.stderr.read() == ""


def test_ctrl_c(start: Start, app: Stanchion) -> None:
    app.queue("q").push(1)
    top = start("top", "--json", "--interval", "0.1")
    assert top.stdout is not None
    top.stdout.readline()
    top.send_signal(signal.SIGINT)
    _, err = top.communicate(timeout=60)
    assert top.returncode == 130
    assert "Traceback" not in err


@pytest.mark.parametrize("key", ["q", "\x03"])
def test_top_in_a_terminal(command: list[str], app: Stanchion, key: str) -> None:
    app.queue("mail").push(1)
    child, terminal = pty.fork()
    if child == 0:
        source = Path(__file__).parents[2] / "src"
        env = {**os.environ, "STANCHION_URL": app.url, "PYTHONPATH": str(source), "TERM": "xterm-256color"}
        os.execve(command[0], [*command, "top", "--interval", "0.2"], env)  # noqa: S606
    seen, deadline = b"", time.monotonic() + 60
    sent = False
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            seen += os.read(terminal, 65_536)
        except OSError:  # the terminal's other end is closed
            break
        if not sent and b"mail" in seen:
            os.write(terminal, key.encode())
            sent = True
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) in ({0} if key == "q" else {0, 130})
    assert b"mail" in seen
    assert seen.rstrip().endswith(b"\x1b[?25h") or b"\x1b[?1049l" in seen  # the screen is given back
    assert b"Traceback" not in seen
