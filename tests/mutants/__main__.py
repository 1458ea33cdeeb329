"""Try the mutants: `python -m tests.mutants [--tier test|all] [--processes N] [NAME ...]`.

Each gets a copy of the repository of its own, in which the tests that it names must fail. Exit code 1: some did not, or
a mutant no longer fits the code.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from rich.progress import Progress

from tests.mutants.mutant import REPOSITORY, Mutant, mutants

TIMEOUT_SECONDS = 900.0
"""Seconds after which tests that hang have noticed the fault."""

COPIED = ("src", "tests", "benchmarks", "docs", "pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
TIERS = {"test": "not nightly", "all": ""}
"""The expressions of marks. One with "not nightly" in it also keeps cases of the night from being made."""
FAILED, NO_TESTS = 1, 5


@contextmanager
def copy_with(mutant: Mutant) -> Iterator[Path]:
    """Give a copy of the repository with the fault."""
    with tempfile.TemporaryDirectory(prefix="stanchion-mutant-") as folder:
        for name in COPIED:
            source, target = REPOSITORY / name, Path(folder) / name
            if source.is_dir():
                shutil.copytree(source, target)
            else:
                shutil.copy(source, target)
        file = Path(folder) / mutant.file
        file.write_text(mutant.applied_to(file.read_text()))
        yield Path(folder)


def verdict(mutant: Mutant, tier: str) -> str:
    """Return "killed", or what is wrong."""
    try:
        with copy_with(mutant) as folder:
            paths = folder / "src", folder, REPOSITORY / "conformance" / "src"
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "CI": "true"}
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", TIERS[tier]]
            try:
                done = subprocess.run(
                    [*command, *shlex.split(mutant.tests)],
                    cwd=folder,
                    env=environment,
                    timeout=TIMEOUT_SECONDS,
                    capture_output=True,
                    text=True,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return "killed"  # they hang
    except (ValueError, FileNotFoundError) as error:
        return str(error)
    if done.returncode == FAILED:
        return "killed"
    if done.returncode == NO_TESTS:
        return "no test of this tier is named"
    return "survived" if done.returncode == 0 else f"pytest ended with {done.returncode}: {done.stdout[-500:]}"


def main() -> int:
    """Try the mutants that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--tier", choices=TIERS, default="all", help="the tests that may notice")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("names", nargs="*", help="parts of names")
    given = parser.parse_args()
    chosen = [one for one in mutants() if not given.names or any(name in one.name for name in given.names)]
    wrong = 0
    with ThreadPoolExecutor(given.processes) as pool, Progress(transient=True) as progress:
        bar = progress.add_task("mutants", total=len(chosen))
        for mutant, told in zip(chosen, pool.map(lambda one: verdict(one, given.tier), chosen), strict=True):
            progress.advance(bar)
            if told != "killed":
                wrong += 1
                progress.console.print(f"{mutant.name} ({mutant.file}): {told}", markup=False)
    print(f"{len(chosen) - wrong} of {len(chosen)} mutants killed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
