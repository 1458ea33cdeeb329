"""The budgets in `budgets.toml` hold. A commit that lowers a figure lowers its budget; none is raised without a reason.

Counts only, no times: figures are the same on every machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.house.named_fields import folders, naming_jobs, naming_settings
from tests.house.types import constructors, unchecked

REPOSITORY = Path(__file__).parents[2]
BUDGETS: dict[str, Any] = tomllib.loads((Path(__file__).parent / "budgets.toml").read_text())
FOLDER_FILES = 15
COUNTED_ON = (3, 11)
"""The Python of the figures; later ones make fewer calls, as they run comprehensions in place."""
URLS = {"postgresql": "pg_store_url", "mariadb": "mariadb_url", "redis": "redis_url", "mongodb": "mongo_url"}


def compare(found: Mapping[str, int], budget: Mapping[str, int]) -> None:
    """Check that no figure is above its budget, and that no budget has become too large."""
    above = {name: (number, budget.get(name)) for name, number in found.items() if number > budget.get(name, 0)}
    assert not above, f"above the budget: {above}"
    low = {name: found.get(name, 0) for name, number in budget.items() if found.get(name, 0) < number}
    assert not low or sys.version_info[:2] > COUNTED_ON, f"lower these budgets to the figures found: {low}"


def test_few_files_write_the_shape_of_a_job_or_of_settings() -> None:
    found = {"jobs": len(naming_jobs()), "settings": len(naming_settings())}
    compare(found, BUDGETS["named_fields"])


def test_no_folder_is_full() -> None:
    compare({name: number for name, number in folders().items() if number > FOLDER_FILES}, BUDGETS["folders"])


def test_types_are_checked() -> None:
    compare(unchecked(), BUDGETS["unchecked"])


def test_constructors_have_few_parameters() -> None:
    compare(constructors(), BUDGETS["constructors"])


@pytest.fixture(params=["sqlite", *URLS])
def store_name(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def url(request: pytest.FixtureRequest, store_name: str, tmp_path: Path) -> str:
    if store_name == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    found: str = request.getfixturevalue(URLS[store_name])
    return found


def counts(url: str, steps: str) -> list[dict[str, list[int]]]:
    """Return the calls and statements of each step of `hot_path`, counted in a process of its own.

    In this one, CPython 3.11 may hang under `sys.setprofile`: once the interrupt of a task came too late for its
    thread, it handles that interrupt again and again.
    """
    run = subprocess.run(
        [sys.executable, "-m", "tests.house.hot_path", url, *steps.split()],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found: list[dict[str, list[int]]] = json.loads(run.stdout)
    return found


def test_calls_and_statements(url: str, store_name: str) -> None:
    plain, limited = counts(url, "plain limited")
    # The lowest of several: the collector of garbage may call a function, too.
    first = min(counts(url, "semaphore")[0]["claim"] for _ in range(3))
    found = {
        f"{verb} {queue}": each
        for queue, verbs in (("plain", plain), ("limited", limited))
        for verb, each in verbs.items()
    }
    found["first claim at a semaphore"] = first
    budget = BUDGETS["calls"][store_name]
    for figure in (0, 1):
        compare(
            {verb: each[figure] for verb, each in found.items()}, {verb: each[figure] for verb, each in budget.items()}
        )


def test_a_queue_without_limits_anymore_is_claimed_by_one_statement(pg_store_url: str) -> None:
    *_, again = counts(pg_store_url, "limited unlimited")
    assert again["claim"][1] == 1
