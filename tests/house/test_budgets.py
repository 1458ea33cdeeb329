"""The budgets in `budgets.toml` hold. A commit that lowers a figure lowers its budget; none is raised without a reason.

Counts only, no times: figures are the same on every machine.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from benchmarks.calls import BATCH, LIMITED, PLAIN, WARM_UP, Calls, medians, one_round

from stanchion.stores.registry import open_store
from tests.house.named_fields import folders, naming_jobs, naming_settings

BUDGETS: dict[str, Any] = tomllib.loads((Path(__file__).parent / "budgets.toml").read_text())
ROUNDS = 10
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


def test_calls_and_statements(url: str, store_name: str) -> None:
    found: dict[str, Calls] = {}
    with closing(open_store(url)) as store:
        store.setup()
        store.configure(PLAIN, {})
        store.configure(LIMITED, {"max_running": 10 * BATCH})
        for queue in (PLAIN, LIMITED):
            rounds = [one_round(store, queue, 1) for _ in range(WARM_UP + ROUNDS)][WARM_UP:]
            found |= {f"{verb} {queue}": medians([each[verb] for each in rounds]) for verb in rounds[0]}
    budget = BUDGETS["calls"][store_name]
    compare({verb: calls.own for verb, calls in found.items()}, {verb: each[0] for verb, each in budget.items()})
    compare({verb: calls.statements for verb, calls in found.items()}, {verb: each[1] for verb, each in budget.items()})


def test_a_queue_without_limits_anymore_is_claimed_by_one_statement(pg_store_url: str) -> None:
    with closing(open_store(pg_store_url)) as store:
        store.configure(LIMITED, {"max_running": BATCH})
        one_round(store, LIMITED, 1)
        store.configure(LIMITED, {"max_running": None})
        rounds = [one_round(store, LIMITED, 1) for _ in range(3)]
        assert [each["claim"].statements for each in rounds[1:]] == [1, 1]
