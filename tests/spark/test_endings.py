"""How runs of queries have ended, and what is told of their errors."""

import os
import time
from pathlib import Path

import pytest

from stanchion.spark.datasource.endings import how_ended, record_ending, user_error
from stanchion.streams.poison import Ended

PYTHON = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
  File "etl.py", line 7, in price
    raise ValueError(f"no fare for {zone}")
ValueError: no fare for 7

\tat org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)
=== Streaming Query ==="""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_the_next_run_is_told() -> None:
    record_ending("one", "[DIVIDE_BY_ZERO] Division by zero.\n\tat x\nCaused by: y\n\tat z")
    record_ending("two", None)
    assert how_ended("one:3") == Ended("[DIVIDE_BY_ZERO] Division by zero.\nCaused by: y")
    assert how_ended("two:7") == Ended(None)
    assert how_ended("three:1") is None


def test_nobody_else_can_read_it(folder: Path) -> None:
    record_ending("one", "secret")
    (file,) = folder.glob("*/endings/*.json")
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_those_of_long_ago_are_forgotten(folder: Path) -> None:
    record_ending("one", None)
    (file,) = folder.glob("*/endings/*.json")
    long_ago = time.time() - 2 * 86_400
    os.utime(file, (long_ago, long_ago))
    record_ending("two", None)
    assert (how_ended("one:0"), how_ended("two:0")) == (None, Ended(None))


def test_half_a_file_tells_nothing(folder: Path) -> None:
    record_ending("one", None)
    (file,) = folder.glob("*/endings/*.json")
    file.write_text('{"err')
    assert how_ended("one:0") is None


def test_of_a_python_error_its_own_line_comes_first() -> None:
    assert user_error(PYTHON).splitlines()[0] == "ValueError: no fare for 7"


def test_of_others_the_first_lines_are_told() -> None:
    assert user_error("\n[CAST_INVALID_INPUT] The value 'x'\n  cannot be cast\n  to INT\n  more") == (
        "[CAST_INVALID_INPUT] The value 'x'\ncannot be cast\nto INT"
    )
    assert user_error("") == ""
