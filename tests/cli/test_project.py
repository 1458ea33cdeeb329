"""A project's modules on the command line: further imports, factories, restarts when code changes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stanchion import Stanchion
from stanchion.service.reloading import command_again, python_files
from tests.cli.conftest import Run
from tests.cli.test_worker import Start, ended, wait_until

APP = """
from stanchion import Stanchion


def create_app():
    return Stanchion()


app = Stanchion()
"""

TASKS = """
from shop.app import app


@app.task(name="welcome")
def welcome():
    return "{answer}"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A package with an app, and tasks that nothing imports."""
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "app.py").write_text(APP)
    (folder / "tasks.py").write_text(TASKS.format(answer="first"))
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_worker_imports_further_modules(process: Run, app: Stanchion, processes: str) -> None:
    handle = app.enqueue("welcome")
    options = "--until-empty", "--processes", processes
    assert process("worker", "shop.app:app", "--import", "shop.tasks", *options).code == 0
    assert handle.result(timeout=10) == "first"


@pytest.mark.slow
def test_a_worker_of_a_factory(process: Run, app: Stanchion, project: Path) -> None:
    tasks = """
def create_app():
    from stanchion import Stanchion

    print("made", flush=True)
    app = Stanchion()
    app.task(name="welcome")(lambda: "made")
    return app
"""
    (project / "app.py").write_text(tasks)
    handle = app.enqueue("welcome")
    answer = process("worker", "shop.app:create_app()", "--until-empty")
    assert (answer.code, handle.result(timeout=10)) == (0, "made")
    assert answer.out.count("made") == 1
    assert process("queues", "--app", "shop.app:create_app()", "--json").code == 0


@pytest.mark.usefixtures("project")
def test_without_tasks_the_error_names_the_ways_to_import_them(process: Run) -> None:
    assert "--import shop.tasks" in process("worker", "shop.app:app", "--until-empty").error
    assert "create_app()" in process("worker", "shop.app:create_app", "--until-empty").error
    assert "shop.taks" in process("worker", "shop.app:app", "--import", "shop.taks", "--until-empty").error


@pytest.mark.slow
def test_a_worker_restarts_when_code_changes(start: Start, app: Stanchion, project: Path) -> None:
    worker = start("worker", "shop.app:app", "--import", "shop.tasks", "--reload", "--grace", "5s")

    def answers(expected: str) -> bool:
        return bool(app.enqueue("welcome").result(timeout=60) == expected)

    assert answers("first")
    first = {one.pid for one in app.workers()}
    (project / "tasks.py").write_text("a syntax error")
    wait_until(lambda: not app.workers())
    (project / "tasks.py").write_text(TASKS.format(answer="the second"))
    wait_until(lambda: bool(app.workers()))
    assert answers("the second")
    assert not first & {one.pid for one in app.workers()}
    worker.send_signal(signal.SIGTERM)
    assert ended(worker).code == 0
    assert app.workers() == []


@pytest.mark.slow
@pytest.mark.usefixtures("project")
def test_a_reloading_worker_ends_when_its_queues_are_empty(process: Run, app: Stanchion) -> None:
    handle = app.enqueue("welcome")
    options = "--import", "shop.tasks", "--reload", "--until-empty"
    assert process("worker", "shop.app:app", *options).code == 0
    assert handle.result(timeout=10) == "first"


def test_a_module_of_python() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "stanchion", "--help"], capture_output=True, text=True, timeout=120, check=True
    )
    assert "worker" in answer.stdout
    command = command_again(["worker", "shop:app", "--reload"], "--reload")
    assert command == [sys.executable, "-m", "stanchion", "worker", "shop:app"]


def test_the_files_that_are_watched(tmp_path: Path) -> None:
    for name in ("a.py", "b/c.py", "b/d.txt", ".git/e.py", "b/__pycache__/f.py", "env/lib/g.py", "node_modules/h.py"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    (tmp_path / "env" / "pyvenv.cfg").touch()
    before = python_files(tmp_path)
    assert sorted(before) == [str(tmp_path / "a.py"), str(tmp_path / "b" / "c.py")]
    (tmp_path / "a.py").write_text("changed")
    assert python_files(tmp_path) != before
    (tmp_path / "b" / "c.py").unlink()
    assert list(python_files(tmp_path)) == [str(tmp_path / "a.py")]
