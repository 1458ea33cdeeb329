"""Django's own tests of tasks, from its source distribution, and environments with other Pythons to run them in.

All are kept in a cache folder for later runs: `/var/cache/stanchion/django` for root, else `~/.cache/stanchion/django`.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SERIES = "6.1"
"""The series of Django whose tests are run."""

PACKAGES = (
    *(f"django~={SERIES}.0", "sqlalchemy>=2.0.36,<3", "typer>=0.20", "rich>=13.9", "cronsim>=2.8", "jinja2>=3.1"),
    *("starlette>=0.46,<2", "jsonschema>=4.23"),
)
"""Django and the dependencies of this package, which is run from its folder; the last two are for the page."""


def folder() -> Path:
    """Return the cache folder."""
    if os.getuid() == 0:
        return Path("/var/cache/stanchion/django")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stanchion" / "django"


@contextmanager
def alone() -> Iterator[Path]:
    """Lend the cache folder to one process at a time."""
    place = folder()
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield place


def tests_of_tasks() -> Path:
    """Return the folder with the tests, downloaded at first use."""
    with alone() as place:
        found = place / f"tests-{SERIES}"
        if not found.exists():
            download = place / "download"
            options = ("--no-deps", "--no-binary", ":all:", "--ignore-requires-python")
            run("-m", "pip", "download", "-q", *options, "-d", str(download), PACKAGES[0])
            (archive,) = download.glob("*.tar.gz")
            _unpack(archive, place / "unpacked")
            (place / "unpacked").rename(found)
            shutil.rmtree(download)
        return found / "tasks"


def _unpack(archive: Path, to: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            if re.fullmatch(r"[^/]+/tests/tasks/\w+\.py", member.name):
                member.name = f"tasks/{member.name.rpartition('/')[2]}"
                tar.extract(member, to, filter="data")


def environment(version: str) -> Path:
    """Return the interpreter of an environment with Django and this Python, such as "3.13", made at first use."""
    python = _python(version)
    with alone() as place:
        found = place / f"python-{version}-django-{SERIES}"
        complete, packages = found / "complete", "\n".join(PACKAGES)
        if not complete.exists() or complete.read_text() != packages:
            run("-m", "venv", "--clear", str(found), python=python)
            run("-m", "pip", "install", "-q", *PACKAGES, python=found / "bin" / "python")
            complete.write_text(packages)
        return found / "bin" / "python"


def _python(version: str) -> Path:
    """Return an interpreter of this version, on the path or of pyenv."""
    if (found := shutil.which(f"python{version}")) and _is_version(Path(found), version):
        return Path(found)
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for place in sorted(versions.glob(f"{version}.*")):
        if _is_version(place / "bin" / "python", version):
            return place / "bin" / "python"
    pytest.skip(f"no Python {version} is installed, on the path or by pyenv")


def _is_version(python: Path, version: str) -> bool:
    """Return whether an interpreter runs: pyenv puts programs on the path that only say that it lacks a version."""
    try:
        said = subprocess.run([python, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        return False
    return said.startswith(f"Python {version}.")


def run(*command: str, python: Path = Path(sys.executable)) -> None:
    """Run an interpreter that downloads. Skips the test if that fails, as without a network."""
    done = subprocess.run([python, *command], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{' '.join(command[:3])} failed: {done.stderr[-500:]}")
