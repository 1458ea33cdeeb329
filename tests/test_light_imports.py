"""A program loads only what it uses: modules are counted, as time depends on the machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPORT = "import json, sys; print(json.dumps(sorted(sys.modules)))"

DECLARES = """
from stanchion import Stanchion

app = Stanchion("sqlite:///jobs.db")


@app.task
def add(one: int, two: int) -> int:
    return one + two
"""

HEAVY = {
    *("asyncio", "ssl", "email", "http", "concurrent.futures", "difflib", "html", "importlib.metadata", "subprocess"),
    *("sqlalchemy", "typer", "rich", "jinja2", "pydantic"),
}
"""Modules that a program does not load to declare tasks."""

LATER = {"alerts", "copying", "feed", "manager", "ops", "pipelines", "reporting", "spark", "topics", "worker", "waits"}
"""Packages of Stanchion that a program does not load to push a job."""


def loaded(program: str, folder: Path) -> set[str]:
    """Return the names of the modules that a program has loaded at its end."""
    ran = subprocess.run(
        [sys.executable, "-c", f"{program}\n{REPORT}"], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    return set(json.loads(ran.stdout.splitlines()[-1]))


@pytest.mark.parametrize(("program", "most"), [("import stanchion", 80), (DECLARES, 200)])
def test_a_declaration_loads_few_modules(tmp_path: Path, program: str, most: int) -> None:
    found = loaded(program, tmp_path)
    assert not found & HEAVY
    assert len(found) <= most


def test_a_first_push_loads_what_it_needs(tmp_path: Path) -> None:
    found = loaded(f"{DECLARES}\nadd.enqueue(1, 2)", tmp_path)
    assert not {name for name in found if name.startswith("stanchion.") and name.split(".")[1] in LATER}
    assert not found & {"typer", "rich", "jinja2", "pydantic", "http"}
