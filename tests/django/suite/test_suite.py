"""Django's own tests of tasks, against this package's backend.

Each run is compared with one against Django's own backends: a test that fails there, too, says nothing about ours. So
it is on Python 3.11, where the package django-tasks takes the place of Django's tasks, and differs in some messages.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.django.suite import environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]

TESTS = 85
"""Number of tests, of which the dummy and the immediate backend, and tasks in general, have all but seven."""

IMMEDIATE = "tasks.test_immediate_backend.ImmediateBackend"
DUMMY = "tasks.test_dummy_backend.DummyBackend"

DIFFERENT = {
    f"{IMMEDIATE}TestCase.test_cannot_get_result": "results can be read",
    f"{IMMEDIATE}TestCase.test_cannot_refresh_result": "results can be refreshed",
    f"{IMMEDIATE}TestCase.test_cannot_pass_run_after": "tasks can be put off",
    f"{IMMEDIATE}TransactionTestCase.test_doesnt_wait_until_transaction_commit_by_default": "the worker waits for it",
    f"{DUMMY}TestCase.test_refresh_result": "it changes a result in the memory of the dummy backend",
    f"{DUMMY}TestCase.test_refresh_result_async": "it changes a result in the memory of the dummy backend",
}
"""The tests that fail by design, with the reason."""


def ran(python: Path, workdir: Path, kind: str) -> tuple[set[str], dict[str, str]]:
    """Run the tests; return all of them, and those that failed with their last lines."""
    workdir.mkdir()
    paths = os.pathsep.join((str(ROOT), str(ROOT / "src")))
    program = ROOT / "tests/django/suite/run.py"
    command: list[str | Path] = [python, program, environment.tests_of_tasks(), workdir, kind]
    given = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=given, cwd=workdir)
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().rpartition("\n")[2])
    return set(found["ran"]), found["failed"]


@pytest.mark.parametrize(
    ("version", "failing"),
    [
        pytest.param(None, 8, id="here", marks=pytest.mark.skipif(sys.version_info >= (3, 12), reason="as the others")),
        pytest.param("3.12", 0, marks=pytest.mark.nightly),
        pytest.param("3.13", 0, marks=pytest.mark.nightly),
    ],
)
def test_djangos_tests_of_tasks(tmp_path: Path, version: str | None, failing: int) -> None:
    """`failing`: how many fail with Django's own backends, too, as the package django-tasks differs."""
    python = Path(sys.executable) if version is None else environment.environment(version)
    all_tests, before = ran(python, tmp_path / "own", "own")
    assert len(all_tests) == TESTS
    assert len(before) == failing, before
    _, failed = ran(python, tmp_path / "stanchion", "stanchion")
    assert {name: line for name, line in failed.items() if name not in before} == {
        name: failed.get(name) for name in DIFFERENT
    }
