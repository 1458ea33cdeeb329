"""Programs of users, checked by mypy --strict and by pyright: the errors that the lines expect, and no others.

    add.enqueue("1")  # error: mypy arg-type / pyright reportArgumentType

The programs are checked, not run. Several rules may be named, with commas between them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
SOURCE = Path(__file__).parents[2] / "src"

Errors = dict[tuple[str, int], set[str]]
"""The rules that lines break, by file and line."""

_EXPECTED = re.compile(r"# error: mypy (?P<mypy>\S+) / pyright (?P<pyright>\S+)")


def expected(checker: str) -> Errors:
    """Return the errors that the programs expect of a type checker."""
    return {
        (path.name, number): set(found[checker].split(","))
        for path in PROGRAMS.glob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (found := _EXPECTED.search(line))
    }


def errors_of_mypy(tmp_path: Path) -> Errors:
    """Return the errors that mypy finds in strict mode."""
    config = tmp_path / "mypy.ini"
    config.write_text(f"[mypy]\nstrict = True\nmypy_path = {SOURCE}\n")
    options = ["--config-file", str(config), "--cache-dir", ".mypy_cache/programs", "--output=json"]
    command = [sys.executable, "-m", "mypy", *options, str(PROGRAMS)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    errors: Errors = {}
    for found in map(json.loads, run.stdout.splitlines()):
        if found["severity"] == "error":
            errors.setdefault((Path(found["file"]).name, found["line"]), set()).add(found["code"])
    return errors


def errors_of_pyright(tmp_path: Path) -> Errors:
    """Return the errors that pyright finds in strict mode."""
    config = tmp_path / "pyrightconfig.json"
    options = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "extraPaths": [str(SOURCE)]}
    config.write_text(json.dumps({"include": [str(PROGRAMS)], **options}))
    command = ["-m", "basedpyright", "--project", str(config), "--pythonpath", sys.executable, "--outputjson"]
    run = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    report = json.loads(run.stdout)
    assert report["summary"]["filesAnalyzed"] == len(list(PROGRAMS.glob("*.py")))
    errors: Errors = {}
    for found in report["generalDiagnostics"]:
        place = (Path(found["file"]).name, found["range"]["start"]["line"] + 1)
        errors.setdefault(place, set()).add(found.get("rule", found["message"]))
    return errors


@pytest.mark.parametrize(("checker", "check"), [("mypy", errors_of_mypy), ("pyright", errors_of_pyright)])
def test_programs_have_the_expected_errors(checker: str, check: Callable[[Path], Errors], tmp_path: Path) -> None:
    assert check(tmp_path) == expected(checker)
