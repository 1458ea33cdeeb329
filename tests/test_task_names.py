"""The default names of tasks, in programs that are started in different ways."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from stanchion import Stanchion

app = Stanchion("memory://")


@app.task
def resize() -> None: ...


if __name__ == "__main__":
    print(resize.name)
"""

CHILD = """
def show():
    print("child", resize.name)


if __name__ == "__main__":
    import multiprocessing

    one = multiprocessing.get_context("spawn").Process(target=show)
    one.start()
    one.join()
"""


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (["hello.py"], "hello.resize"),
        (["shop/tasks.py"], "tasks.resize"),
        (["-m", "shop.tasks"], "shop.tasks.resize"),
        (["-m", "shop"], "shop.resize"),
        (["-c", PROGRAM], "__main__.resize"),
    ],
)
def test_a_script_names_its_tasks_as_workers_import_them(tmp_path: Path, given: list[str], name: str) -> None:
    for file in ("hello.py", "shop/__init__.py", "shop/__main__.py", "shop/tasks.py"):
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.write_text("" if file.endswith("__init__.py") else PROGRAM)
    ran = subprocess.run([sys.executable, *given], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ran.stdout.strip() == name, ran.stderr


def test_a_process_of_multiprocessing_names_them_so_too(tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text(PROGRAM + CHILD)
    ran = subprocess.run([sys.executable, "hello.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ran.stdout.split() == ["hello.resize", "child", "hello.resize"], ran.stderr
