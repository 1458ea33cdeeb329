"""The tests of a mutant, in a process forked from one that has imported all libraries and nothing of the repository.

To import them takes longer than most of the tests.
"""

from __future__ import annotations

import importlib
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from pathlib import Path

from tests.mutants.mutant import REPOSITORY, Mutant

TIMEOUT_SECONDS = 900.0
"""Seconds after which tests that hang have noticed the fault."""

COPIED = (
    "src",
    "tests",
    "benchmarks",
    "docs",
    "pyproject.toml",
    "hatch_build.py",
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
)
LIBRARIES = (
    *("pytest", "_pytest.pytester", "hypothesis.stateful", "schemathesis.pytest.plugin", "xdist.plugin", "pydantic"),
    *("typer.testing", "rich.progress", "grpc", "google.protobuf", "pymongo", "psycopg", "pymysql", "redis.cluster"),
    *("sqlalchemy", "starlette.testclient", "uvicorn", "jinja2", "opentelemetry.sdk.trace", "cryptography.x509"),
    *("numpy", "pyarrow"),
)
FAILED, NO_TESTS, BROKEN = 1, 5, 99
"""Exit codes of pytest, and one for anything else that went wrong."""


def import_libraries() -> None:
    """Import what most tests need, before the first trial. Later no thread may run here: forks would lack it."""
    for name in LIBRARIES:
        importlib.import_module(name)


class Copies:
    """Copies of the repository, whose files are links to those of a first one."""

    def __init__(self, folder: Path) -> None:
        self._first = folder / "first"
        self._first.mkdir()
        for name in COPIED:
            source, target = REPOSITORY / name, self._first / name
            if source.is_dir():
                shutil.copytree(source, target)
            else:
                shutil.copy2(source, target)

    def with_fault(self, mutant: Mutant) -> Path:
        """Return a new copy with the fault; ValueError or FileNotFoundError where it does not fit the code."""
        text = mutant.applied_to((self._first / mutant.file).read_text())
        folder = Path(tempfile.mkdtemp(dir=self._first.parent))
        shutil.copytree(self._first, folder, copy_function=os.link, dirs_exist_ok=True)
        (folder / mutant.file).unlink()
        (folder / mutant.file).write_text(text)
        return folder


class Trial:
    """A run of the tests of a mutant in a copy. `tier`: the expression of marks that they must match."""

    def __init__(self, mutant: Mutant, folder: Path, tier: str) -> None:
        self.mutant, self._folder = mutant, folder
        self._output = folder / "output.txt"
        self._deadline = time.monotonic() + TIMEOUT_SECONDS
        self.pid = os.fork()
        if not self.pid:
            _run(folder, self._output, ["-q", "-x", "-p", "no:cacheprovider", "-m", tier, *shlex.split(mutant.tests)])

    def verdict(self) -> str | None:
        """Return "killed", or what is wrong; None while the tests run."""
        ended, status = os.waitpid(self.pid, os.WNOHANG)
        hangs = not ended and time.monotonic() > self._deadline
        if not ended and not hangs:
            return None
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)  # also servers that the tests have left
        if hangs:
            os.waitpid(self.pid, 0)
        output = self._output.read_text(errors="replace")
        shutil.rmtree(self._folder, ignore_errors=True)
        code = FAILED if hangs else os.waitstatus_to_exitcode(status)
        known = {FAILED: "killed", NO_TESTS: "no test of this tier is named", 0: "survived"}
        return known.get(code) or f"pytest ended with {code}: {output[-500:]}"


def _paths(folder: Path) -> list[str]:
    return [str(folder / "src"), str(folder), str(REPOSITORY / "conformance" / "src")]


def _run(folder: Path, output: Path, arguments: list[str]) -> None:
    """Run pytest in a copy, as a command would; in the fork."""
    code = BROKEN
    try:
        os.setsid()
        os.chdir(folder)
        with output.open("wb") as file, Path(os.devnull).open("rb") as nothing:
            os.dup2(nothing.fileno(), 0)
            for each in (1, 2):
                os.dup2(file.fileno(), each)
        paths = _paths(folder)
        os.environ |= {"PYTHONPATH": os.pathsep.join(paths), "CI": "true"}
        ours = ("stanchion", "tests", "stanchion_conformance")
        for name in [name for name in sys.modules if name.partition(".")[0] in ours]:
            del sys.modules[name]
        sys.path[:] = [*paths, *(one for one in sys.path if one and one not in _paths(REPOSITORY))]
        sys.argv = ["pytest", *arguments]
        code = int(importlib.import_module("pytest").main(arguments))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
