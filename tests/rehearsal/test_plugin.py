"""The plug-in of pytest: fixtures for an app, which cost nothing until a test asks for them."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]

JOBS = """
from stanchion import Stanchion

app = Stanchion("sqlite:///never-touched.db")


@app.task(name="mail", queue="mail")
def mail(user: int) -> int:
    return user


def create_app():
    return app
"""

TESTS = """
from datetime import UTC, datetime

import pytest

from jobs import app, mail

pytestmark = pytest.mark.stanchion(at=datetime(2031, 5, 1, tzinfo=UTC))


def test_app(stanchion_app, stanchion_clock, assert_enqueued):
    assert stanchion_app is app
    mail.using(delay=60).enqueue(7)
    assert_enqueued(mail, args=(7,), times=1)
    assert app.drain() == 0
    stanchion_clock.advance(60)
    assert app.drain() == 1
    assert stanchion_clock.now() == datetime(2031, 5, 1, 0, 1, tzinfo=UTC)


def test_each_test_has_its_own_store(stanchion_app):
    stanchion_app.assert_enqueued(mail, times=0)


@pytest.mark.stanchion(run="at_once")
def test_marks(stanchion_app, stanchion_clock):
    assert mail.enqueue(7).result(timeout=0) == 7
    assert stanchion_clock.now().year == 2031


def test_a_failure(assert_enqueued):
    mail.enqueue(8)
    assert_enqueued(mail, args=(7,))
"""


def run(folder: Path, *options: str, **files: str) -> str:
    """Run pytest with the plug-in in a folder of these files; return what it prints."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "pytest_stanchion", "-p", "no:cacheprovider", "-p", "no:asyncio"]
    ran = subprocess.run([*command, *options], cwd=folder, capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr


def test_the_fixtures(tmp_path: Path) -> None:
    ini = "[pytest]\nstanchion_app = jobs:app\npythonpath = .\naddopts = --strict-markers\n"
    (tmp_path / "pytest.ini").write_text(ini)
    printed = run(tmp_path, jobs=JOBS, test_jobs=TESTS)
    assert "3 passed" in printed, printed
    assert "1 failed" in printed, printed
    assert "expected at least one job that calls mail(7), found none. Enqueued were:" in printed
    assert "1 times mail(8), ready" in printed
    assert not (tmp_path / "never-touched.db").exists()


def test_another_app_by_a_fixture_and_no_app(tmp_path: Path) -> None:
    override = (
        "import pytest\nimport jobs\n\n\n@pytest.fixture(scope='session')\ndef stanchion_project():\n"
        "    return jobs.create_app()\n\n\ndef test_it(stanchion_app):\n    assert stanchion_app is jobs.app\n"
    )
    missing = "def test_it(stanchion_app): ...\n"
    printed = run(tmp_path, "-o", "pythonpath=.", jobs=JOBS, test_override=override, test_missing=missing)
    assert "1 passed, 1 error" in printed, printed
    assert "set stanchion_app = shop.jobs:app in the configuration of pytest" in printed


def test_it_imports_nothing_that_is_not_used(tmp_path: Path) -> None:
    test = "import sys\n\n\ndef test_it():\n    assert 'stanchion' not in sys.modules\n"
    printed = run(tmp_path, test_light=test)
    assert "1 passed" in printed, printed


def test_the_distribution_names_it(tmp_path: Path) -> None:
    """The wheel holds the plug-in, and pytest finds it there."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as files:
        names = files.namelist()
        (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
        text = files.read(entry_points).decode()
    assert "pytest_stanchion/__init__.py" in names
    assert "pytest_stanchion/py.typed" in names
    assert "[pytest11]\npytest_stanchion = pytest_stanchion" in text
    assert EntryPoint("pytest_stanchion", "pytest_stanchion", "pytest11").load() is pytest.importorskip(
        "pytest_stanchion"
    )
